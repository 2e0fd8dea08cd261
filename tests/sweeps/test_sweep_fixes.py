"""Each fix that errors of kpusim.sweeps advise works: a case makes a mistake, and follows the fix.

Here are those of what a sweep states; test_sweep_running_fixes.py has those of folders, workers and results.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import kpusim
import pytest
from fixes import Case, Step, check_complete, manual, play
from kpusim.sweeps.command import main
from kpusim.sweeps.reading import LARGEST, read_spec
from kpusim.sweeps.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
GEMM = str(ROOT / "examples" / "gemm_relu" / "gemm_relu.nem")
KPUSIM = os.path.abspath(os.environ["KPUSIM"])
ROWS = "engine.array.rows"
CORE, SRAM, L2 = "clock.core_mhz", "clock.sram_mhz", "l2.size_bytes"
BANKS, PORTS = "l2.banks", "l2.ports"
POWER = "power.average_w"


def spec(**stated: Any) -> Spec:  # noqa: ANN401
    """Return a sweep, stated by a call."""
    return read_spec(None, {"programs": [GEMM], "platforms": ["npm_lite"], **stated})


def axis(name: str, values: object, **stated: Any) -> Spec:  # noqa: ANN401
    """Return one with an axis."""
    return spec(axes={name: values}, **stated)


def keeps(*constraints: str, **stated: Any) -> Spec:  # noqa: ANN401
    """Return one with constraints."""
    return spec(constraints=list(constraints), **stated)


def program(**fields: object) -> Spec:
    """Return one with a program that has these fields."""
    return spec(programs=[{"file": GEMM, **fields}])


def written(place: str, content: bytes) -> Path:
    """Return a file."""
    Path(place).write_bytes(content)
    return Path(place)


def file(text: str, place: str = "s.yaml") -> Spec:
    """Return one, stated by a file with this text."""
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_text(text)
    return read_spec(Path(place))


def stated(text: str) -> Spec:
    """Return the same with a program and more lines."""
    return file(f"programs: [{GEMM}]\nplatforms: [npm_lite]\n{text}\n")


def beside(name: str) -> Spec:
    """Return a sweep's file in a folder of its own, with the program beside it."""
    Path("sub").mkdir(exist_ok=True)
    Path("sub/g.nem").write_text(Path(GEMM).read_text())
    return file(f"programs: [{name}]\nplatforms: [npm_lite]\n", "sub/s.yaml")


def sweep(folder: str = "out", **stated: Any) -> kpusim.SweepResults:  # noqa: ANN401
    """Return a sweep that is run; each of its points must be."""
    results = started(folder, **stated)
    assert results.rows and not any(row["error"] for row in results.rows)
    return results


def started(folder: str = "out", **stated: Any) -> kpusim.SweepResults:  # noqa: ANN401
    """Return the same, whatever comes of it."""
    given = {"programs": [GEMM], "platforms": ["npm_lite"], "workers": 1, **stated}
    return kpusim.sweep(folder=folder, **given)


def failed(folder: str = "out", **stated: Any) -> str:  # noqa: ANN401
    """Return the errors of its points."""
    return "\n".join(row["error"] for row in started(folder, **stated).rows)


def command(*words: object, code: int = 0) -> str:
    """Return what `kpusim sweep` prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        assert main([str(word) for word in words]) == code, said.getvalue()
    return said.getvalue()


def refused(*words: object) -> str:
    """Return what it says of a mistake."""
    return command(*words, code=1)


def names(name: str, *words: str) -> str:
    """Check that `kpusim` prints a name."""
    said = subprocess.run([KPUSIM, *words], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)
    return said


def without(package: str, step: Step) -> object:
    """Return a step where a package is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
            patch.setitem(sys.modules, name, None)
        return step()


def installed(extra: str, package: str, step: Step) -> object:
    """Return a step where an extra is installed, which brings the package."""
    wanted = [text for text in metadata.requires("kpusim") or () if text.endswith(f'extra == "{extra}"')]
    assert any(re.match(rf"{package}\b", text, re.IGNORECASE) for text in wanted), wanted
    return step()


@contextlib.contextmanager
def patched(target: object, **values: object) -> Iterator[None]:
    """Attributes of a module have other values."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(target, name, value)
        yield


AXES = [
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: axis("engine.aray.rows", [8]),
         [lambda: axis(ROWS, [8])]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: axis("zzzzzz", [8]),
         [lambda: names(BANKS, "list", "params"), lambda: axis(BANKS, [8])]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: axis("option." + 40 * "q", [1]),
         [lambda: names("--effort", "run", "--help"), lambda: axis("option.effort", [1])]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: spec(options={"efort": 1}),
         [lambda: spec(options={"effort": 1})]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: spec(objectives=["zzzzzz"]),
         [lambda: names(POWER, "list", "stats", "--platform", "npm_lite"),
          lambda: spec(objectives=[POWER])]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: spec(zzzzzz=1), [lambda: spec(seed=1)]),
    Case("sweeps/axes.py", "there is no {} `{}`. Fix: {}", lambda: axis(ROWS, "2 * engine.aray.cols"),
         [lambda: axis(ROWS, "2 * engine.array.cols")]),
    Case("sweeps/axes.py", "Fix: give at least one, or leave the axis out.", lambda: axis(ROWS, []),
         [lambda: axis(ROWS, [8]), spec]),
    Case("sweeps/axes.py", "is none of its values. Fix: give {}.", lambda: axis(ROWS, [None]),
         [lambda: axis(ROWS, [8])]),
    Case("sweeps/axes.py", "is none of its values. Fix: give {}.", lambda: axis(CORE, [True]),
         [lambda: axis(CORE, [800.5])]),
    Case("sweeps/axes.py", "is none of its values. Fix: give {}.",
         lambda: axis("energy.clock_gating", [[True]]),
         [lambda: axis("energy.clock_gating", [True, False])]),
    Case("sweeps/axes.py", "is none of its values. Fix: give {}.", lambda: axis("name", [None]),
         [lambda: axis("name", ["mine"])]),
    Case("sweeps/axes.py", "is none of its values. Fix: give {}.", lambda: axis("option.precision", [None]),
         [lambda: axis("option.effort", [1]), lambda: axis("option.precision", ["int8"])]),
    Case("sweeps/axes.py", "is not a number. Fix: give {}.", lambda: axis(ROWS, ["wide"]),
         [lambda: axis(ROWS, [8])]),
    Case("sweeps/axes.py", "{}: there is no `{}`. Fix: give {}.",
         lambda: axis("engine.array.dataflow", ["up"]),
         [lambda: axis("engine.array.dataflow", ["os", "ws", "is"])]),
    Case("sweeps/axes.py", "Fix: give true or false.", lambda: axis("energy.clock_gating", ["maybe"]),
         [lambda: axis("energy.clock_gating", ["true", "false"])]),
    Case("sweeps/axes.py",
         "Fix: write first..last, first..last+step or first..last*factor, such as 512KiB..4MiB*2.",
         lambda: axis(L2, "512KiB..4MiB..1"),
         [lambda: axis(ROWS, "8..12"), lambda: axis(ROWS, "8..64+8"), lambda: axis(L2, "512KiB..4MiB*2")]),
    Case("sweeps/axes.py", "Fix: a factor above 1 of a positive number, or a step above 0.",
         lambda: axis(ROWS, "8..64*1"),
         [lambda: axis(ROWS, "8..64*2"), lambda: axis(ROWS, "8..64+1")]),
    Case("sweeps/axes.py", "Fix: a factor above 1 of a positive number, or a step above 0.",
         lambda: axis(ROWS, "0..64*2"),
         [lambda: axis(ROWS, "1..64*2")]),
    Case("sweeps/axes.py", "Fix: put the smaller end first.", lambda: axis(ROWS, "64..8"),
         [lambda: axis(ROWS, "8..64")]),
    Case("sweeps/axes.py", "Fix: give a whole one; a formula has floor, ceil and round.",
         lambda: axis(ROWS, [8.5]),
         [lambda: axis(ROWS, [8])]),
    Case("sweeps/axes.py", "Fix: give a whole one; a formula has floor, ceil and round.",
         lambda: axis(ROWS, "engine.array.cols / 3"),
         [lambda: all(axis(ROWS, f"{name}(engine.array.cols / 3)") for name in ("floor", "ceil", "round"))]),
    Case("sweeps/axes.py", "Fix: give it once.", lambda: axis(L2, ["1MiB", 1048576]),
         [lambda: axis(L2, ["1MiB"])]),
    Case("sweeps/axes.py", "Fix: take larger steps.", lambda: axis(L2, "1048576..2097152"),
         [lambda: axis(L2, "1048576..2097152+65536"), lambda: axis(L2, "1048576..2097152*2")]),
    Case("sweeps/axes.py", "Fix: give one of them a list.",
         lambda: spec(axes={BANKS: "l2.ports", PORTS: "l2.banks"}),
         [lambda: spec(axes={BANKS: "l2.ports", PORTS: [1, 2]}),
          lambda: spec(axes={BANKS: [4, 8], PORTS: "l2.banks"})]),
]  # fmt: skip

FORMULAS = [
    Case("sweeps/formula.py", "has a dot after no name. Fix: write names such as engine.count.",
         lambda: axis(ROWS, "(1 + 2).count"),
         [lambda: axis(ROWS, "8 * engine.count")]),
    Case("sweeps/formula.py", "Fix: at most {}.", lambda: axis(ROWS, "8" + " + 0" * 300),
         [lambda: axis(ROWS, "8" + " + 0" * 200)]),
    Case("sweeps/formula.py", "` is {}. Fix: change it, or the values it is for.",
         lambda: spec(axes={CORE: "1e306 * engine.array.rows / 1e304", ROWS: [512]}),
         [lambda: spec(axes={CORE: "1e2 * engine.array.rows", ROWS: [512]}),
          lambda: spec(axes={CORE: "1e306 * engine.array.rows / 1e304", ROWS: [8]})]),
    Case("sweeps/formula.py", "`{}`: {}. Fix: change it, or the values it is for.",
         lambda: spec(axes={ROWS: "8 / engine.dma.priority", "engine.dma.priority": [0]}),
         [lambda: spec(axes={ROWS: "8 * engine.dma.priority + 8", "engine.dma.priority": [0]}),
          lambda: spec(axes={ROWS: "8 / engine.dma.priority", "engine.dma.priority": [1]})]),
    Case("sweeps/formula.py", "`{}`: {}. Fix: change it, or the values it is for.",
         lambda: keeps("sqrt(engine.array.rows - 9) < 9", axes={ROWS: [8]}),
         [lambda: keeps("engine.array.rows - 9 < 9", axes={ROWS: [8]}),
          lambda: keeps("sqrt(engine.array.rows - 9) < 9", axes={ROWS: [16]})]),
    Case("sweeps/formula.py",
         "Fix: write such as 64KiB * engine.count, with + - * / // %, min, max, floor, ceil, sqrt, log2.",
         lambda: axis(L2, "64KiB * (engine.count"),
         [lambda: axis(L2, "64KiB * engine.count"),
          lambda: axis(L2, "64KiB * (1 + 9 - 2 * 6 / 3 // 1 % 4)"),
          lambda: axis(L2, "64KiB * max(min(2, 4), floor(sqrt(4)), ceil(log2(4)))")]),
    Case("sweeps/formula.py", "Fix: write two formulas.", lambda: keeps(f"(1 < {POWER}) < 2"),
         [lambda: keeps(f"1 < {POWER}", f"{POWER} < 2")]),
    Case("sweeps/formula.py", "Fix: use + - * / // %, < <= > >=, and names such as engine.count.",
         lambda: axis(ROWS, "8 if 1 else 9"),
         [lambda: axis(ROWS, "8 * engine.count + 9 - 1 * 4 / 2 // 1 % 3"),
          lambda: all(keeps(f"{POWER} {sign} 2") for sign in ("<", "<=", ">", ">="))]),
    Case("sweeps/formula.py", "Fix: {}.", lambda: axis(ROWS, "abs(8)"),
         [lambda: axis(ROWS, "min(8, 9)"), lambda: axis(ROWS, "max(8, 9)"),
          lambda: all(axis(ROWS, f"{name}(256)") for name in ("floor", "ceil", "round", "sqrt", "log2"))]),
    Case("sweeps/quantity.py", "Fix: give {}.", lambda: axis(CORE, ["3 W"]),
         [lambda: all(axis(CORE, [f"5 {unit}"]) for unit in ("MHz", "GHz")),
          lambda: all(axis(CORE, [f"5000000 {unit}"]) for unit in ("Hz", "kHz"))]),
    Case("sweeps/quantity.py", "Fix: give {}.", lambda: axis("l2.bytes_per_cycle", ["64 W"]),
         [lambda: axis("l2.bytes_per_cycle", ["64"])]),
    Case("sweeps/quantity.py", "Fix: leave the unit out.", lambda: axis(ROWS, ["8 W"]),
         [lambda: axis(ROWS, ["8"])]),
    Case("sweeps/constraints.py", "compares nothing. Fix: write such as power.average_w < 2.",
         lambda: keeps(POWER),
         [lambda: keeps("power.average_w < 2")]),
    Case("sweeps/constraints.py", "names no statistic. Fix: write such as power.average_w < 2.",
         lambda: keeps("1 < 2"),
         [lambda: keeps("power.average_w < 2")]),
    Case("sweeps/constraints.py", "Fix: give a bound above 0.", lambda: keeps(f"{POWER} < 0"),
         [lambda: keeps(f"{POWER} < 0.001")]),
    Case("sweeps/constraints.py", "Fix: give a bound above 0.", lambda: keeps(f"-1 >= {POWER}"),
         [lambda: keeps(f"1 >= {POWER}")]),
    Case("sweeps/constraints.py", "Fix: change one of them.", lambda: keeps(f"{POWER} > 3", f"{POWER} < 2"),
         [lambda: keeps(f"{POWER} > 1", f"{POWER} < 2"), lambda: keeps(f"{POWER} > 3", f"{POWER} < 4")]),
    Case("sweeps/designs.py", "Fix: widen them, or the axes.",
         lambda: keeps("engine.array.rows > 16", axes={ROWS: [8]}),
         [lambda: keeps("engine.array.rows > 4", axes={ROWS: [8]}),
          lambda: keeps("engine.array.rows > 16", axes={ROWS: [8, 32]})]),
    Case("sweeps/designs.py",
         "Fix: take a sample of them, `sample: {lhs: 1000}`, or let a search choose, "
         "`sample: {search: 1000}`.",
         lambda: spec(axes={CORE: "1..2000", SRAM: "1..2000"}),
         [lambda: spec(axes={CORE: "1..2000", SRAM: "1..2000"}, sample={"lhs": 1000}),
          lambda: spec(axes={CORE: "1..2000", SRAM: "1..2000"}, sample={"search": 1000})]),
    Case("sweeps/designs.py", "Fix: pip install 'kpusim[sweep]'.",
         lambda: without("scipy", lambda: sweep(axes={BANKS: [4, 8]}, sample={"lhs": 2})),
         [lambda: installed("sweep", "scipy", lambda: sweep(axes={BANKS: [4, 8]}, sample={"lhs": 2}))]),
]  # fmt: skip

FILES = [
    Case("sweeps/reading.py", "Fix: write keys such as programs:, platforms:, axes:.", lambda: file("- 1"),
         [lambda: file(f"programs: [{GEMM}]\nplatforms: [npm_lite]\naxes: {{{BANKS}: [4]}}")]),
    Case("sweeps/reading.py", "this is nested too deeply. Fix: write keys with values.",
         lambda: stated("axes: " + "[" * 30 + "]" * 30),
         [lambda: stated(f"axes: {{{BANKS}: [4]}}")]),
    Case("sweeps/reading.py", "Fix: pip install 'kpusim[sweep]'.",
         lambda: without("yaml", lambda: stated("seed: 2")),
         [lambda: installed("sweep", "PyYAML", lambda: stated("seed: 2"))]),
    Case("sweeps/reading.py", "Fix: use ranges instead of lists.",
         lambda: stated(f"axes: {{{CORE}: [{', '.join(map(str, range(1, LARGEST // 6)))}]}}"),
         [lambda: stated(f"axes: {{{CORE}: 1..20000}}")]),
    Case("sweeps/reading.py", "{}: {}. Fix: give the file of a sweep.",
         lambda: read_spec(Path("absent.yaml")),
         [lambda: stated("seed: 2")]),
    Case("sweeps/reading.py", "is not text. Fix: give the file of a sweep.",
         lambda: read_spec(written("s.yaml", b"\xff")),
         [lambda: stated("seed: 2")]),
    Case("sweeps/reading.py", "Fix: write YAML: keys with values, lists in [ ].",
         lambda: stated("axes: {"),
         [lambda: stated(f"axes:\n  {BANKS}: [4, 8]")]),
    Case("sweeps/reading.py", "{}: {}. Fix: write keys with values.", lambda: stated("seed: 2001-13-45"),
         [lambda: stated("seed: 2001")]),
    Case("sweeps/reading.py", "{}: {}. Fix: write keys with values.", lambda: stated("seed: " + 5000 * "["),
         [lambda: stated("seed: 2")]),
    Case("sweeps/reading.py", "Fix: state it once.", lambda: stated("seed: 1\nseed: 2"),
         [lambda: stated("seed: 1")]),
]  # fmt: skip

MANUAL = functools.partial(manual, main, "--axis NAME=VALUES")
SPECS = [
    Case("sweeps/options.py", "Fix: leave it out; run a point with it afterwards.",
         lambda: spec(options={"dot": "net.dot"}), [spec]),
    Case("sweeps/options.py", "Fix: check the path, which begins at the sweep's.",
         lambda: spec(options={"calibrate": "nowhere"}), [lambda: spec(options={"calibrate": "."})]),
    Case("sweeps/spec.py", "Fix: give grid, or one of {} with a number: {lhs: 100}.",
         lambda: spec(sample="lhs"),
         [lambda: spec(sample="grid"),
          lambda: all(spec(sample={kind: 100}) for kind in ("random", "lhs", "sobol", "search"))]),
    Case("sweeps/spec.py", "Fix: give grid, or one of {} with a number: {lhs: 100}.",
         lambda: spec(sample={"sobl": 100}),
         [lambda: spec(sample={"sobol": 100})]),
    Case("sweeps/spec.py", "Fix: write `- file: model.onnx`.", lambda: file("programs: [name: x]"),
         [lambda: file(f"programs:\n- file: {GEMM}")]),
    Case("sweeps/spec.py", "Fix: check the path, which begins at the sweep's file.",
         lambda: beside("sub/g.nem"),
         [lambda: beside("g.nem")]),
    Case("sweeps/spec.py", "Fix: check the path, which begins at the sweep's file.",
         lambda: beside("g.nem") and refused("sub/s.yaml", "--program", "absent.nem", "--dry-run"),
         [lambda: command("sub/s.yaml", "--program", "sub/g.nem", "--dry-run")]),
    Case("sweeps/spec.py", "Fix: write `l2.size_bytes: [1MiB, 2MiB]`.", lambda: stated("axes: [1, 2]"),
         [lambda: stated("axes:\n  l2.size_bytes: [1MiB, 2MiB]")]),
    Case("sweeps/spec.py", "Fix: write `precision: int8`.", lambda: stated("options: [int8]"),
         [lambda: stated("options:\n  precision: int8")]),
    Case("sweeps/spec.py", "Fix: write `n: 4`.", lambda: program(params=[4]),
         [lambda: program(params={"n": 4})]),
    Case("sweeps/spec.py", "Fix: give a whole number.", lambda: program(params={"n": 1.5}),
         [lambda: program(params={"n": 2})]),
    Case("sweeps/spec.py", "Fix: give a whole one, 1 or more.", lambda: spec(sample={"lhs": 0}),
         [lambda: spec(sample={"lhs": 1})]),
    Case("sweeps/spec.py", "Fix: give one of them.", lambda: spec(inputs="ones"),
         [lambda: spec(inputs="zeros"), lambda: spec(inputs="random:3")]),
    Case("sweeps/spec.py", "Fix: give seconds of one point, above 0.", lambda: spec(timeout=0),
         [lambda: spec(timeout=0.5)]),
    Case("sweeps/spec.py", "Fix: add them.", lambda: file("platforms: [npm_lite]"),
         [lambda: file(f"platforms: [npm_lite]\nprograms: [{GEMM}]")]),
    Case("sweeps/spec.py", "Fix: give at least one.", lambda: spec(objectives=[]),
         [lambda: spec(objectives=["time.total_us"])]),
    Case("sweeps/spec.py", "Fix: give one of {}.", lambda: spec(fidelity="exact"),
         [lambda: all(spec(fidelity=word) for word in ("simulate", "estimate", "auto"))]),
    Case("sweeps/spec.py", "Fix: give one of {}.", lambda: spec(sampler="best"),
         [lambda: all(spec(sampler=word) for word in ("nsga2", "tpe", "random"))]),
    Case("sweeps/spec.py", "is needed. Fix: give one.", lambda: spec(generation=0),
         [lambda: spec(generation=1)]),
    Case("sweeps/spec.py", "Fix: give a name or a file.", lambda: spec(platforms=[5]),
         [lambda: spec(platforms=["tile32"]),
          lambda: spec(platforms=[written("p.textproto", kpusim.Platform.load("tile32").text().encode())])]),
    Case("sweeps/spec.py", "platform `{}` stands twice. Fix: give it once.",
         lambda: spec(platforms=["tile32", "tile32"]),
         [lambda: spec(platforms=["tile32"])]),
    Case("sweeps/spec.py", "Fix: give one of them another `name`.", lambda: spec(programs=[GEMM, GEMM]),
         [lambda: spec(programs=[GEMM, {"file": GEMM, "name": "other"}])]),
    Case("sweeps/spec.py", "Fix: state it once.",
         lambda: axis("option.effort", [1, 2], options={"effort": 1}),
         [lambda: axis("option.effort", [1, 2]), lambda: spec(options={"effort": 1})]),
    Case("sweeps/spec.py", "Fix: give a number.", lambda: axis(ROWS, "l2.banks < 2"),
         [lambda: axis(ROWS, "2"), lambda: axis(ROWS, "2 * l2.banks")]),
    Case("sweeps/spec.py", "Fix: put it under axes, as `{}`.",
         lambda: spec(options={"precision": ["int8", "fp16"]}),
         [lambda: axis("option.precision", ["int8", "fp16"])]),
    Case("sweeps/spec.py", "objective `{}` stands twice. Fix: give it once.",
         lambda: spec(objectives=[POWER, f"-{POWER}"]),
         [lambda: spec(objectives=[POWER])]),
    Case("sweeps/command.py", "{}. Fix: see `kpusim sweep --help`.", lambda: refused("--wide"), [MANUAL]),
    Case("sweeps/command.py", "{}. Fix: see `kpusim sweep --help`.", lambda: refused("show"), [MANUAL]),
    Case("sweeps/command.py", "Fix: give a SPEC, or --program and --axis; see `kpusim sweep --help`.",
         lambda: refused("--dry-run"),
         [lambda: stated("seed: 2") and command("s.yaml", "--dry-run"),
          lambda: command("--program", GEMM, "--axis", "l2.banks=4,8", "--dry-run"), MANUAL]),
    Case("sweeps/command.py", "Fix: give -o DIR.", lambda: refused("--program", GEMM),
         [lambda: command("--program", GEMM, "-o", "out")]),
    Case("sweeps/command.py", "Fix: write such as engine.array.rows=8,16,32.",
         lambda: refused("--program", GEMM, "--axis", "engine.array.rows"),
         [lambda: command("--program", GEMM, "--axis", "engine.array.rows=8,16,32", "--dry-run")]),
]  # fmt: skip


@pytest.mark.parametrize("case", [*AXES, *FORMULAS, *FILES, *SPECS], ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """All can be."""
    from test_sweep_running_fixes import CASES

    check_complete("sweeps/", [*AXES, *FORMULAS, *FILES, *SPECS, *CASES], {})
