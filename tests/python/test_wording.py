"""Errors of the core name arguments of Python, not options of the command; and what they advise works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import pytest
from conftest import RELU, ROOT
from fixes import told
from kpusim.errors.wording import FLAGS, PAIRS, VALUED, argument, in_python
from test_fixes import keywords

MODEL = ROOT / "examples" / "networks" / "digits_cnn.onnx"


def run(program: str = RELU, platform: str | None = "swkpu-v1", **options: Any) -> kpusim.Run:  # noqa: ANN401
    """A run with inputs."""
    return kpusim.simulate(program, platform, fill=1, **options)


def compiled(*given: Any, **options: Any) -> list[str]:  # noqa: ANN401
    """Return what a compilation finds."""
    return [str(found) for found in kpusim.compile(MODEL, "swkpu-v1", *given, **options).diagnostics]


def saved(**options: Any) -> None:  # noqa: ANN401
    """A run in the folder of another one."""
    run().save("run", force=True)
    run().save("run", **options)


def traced(events: Any, name: str = "memory-trace", **options: Any) -> None:  # noqa: ANN401
    """A trace of the events of a run."""
    run(events=events).events.write_trace(name, "trace", **options)


def included(folder: str | None) -> kpusim.Program:
    """Return a program that names a file of kernels."""
    Path("kernels").mkdir(exist_ok=True)
    Path("kernels/one.kern").write_text("kernel k workgroup(1) (o: output u32[]): o[gid.x] = 1 endkernel")
    text = "program p:\n#! kernels one.kern\nbuffer x : DDR (size = 4)\n"
    return kpusim.Program.parse(text, search_paths=[] if folder is None else [folder])


#: The mistake, what is said, and what follows it.
CASES: list[tuple[Callable[[], object], str, list[Callable[[], object]]]] = [
    (lambda: run(platform=None), "a device directive, or mode='functional'.",
     [lambda: run(platform="tile32"), lambda: run(platform=None, mode="functional")]),
    (lambda: run(platform=None), "give platform=NAME (see `kpusim list platforms`)",
     [lambda: run(platform="tile32")]),
    (lambda: compiled("int8"), "give calibrate=FOLDER (.npy, .png or .jpg files), or calibrate='random:1'",
     [lambda: compiled("int8", calibrate=MODEL.parent / "calibration"),
      lambda: compiled("int8", calibrate="random:1")]),
    (lambda: compiled("int8", "random:1"), "give calibrate a folder of real inputs.",
     [lambda: compiled("int8", calibrate=MODEL.parent / "calibration")]),
    (lambda: compiled("fp16"), "give dim={'batch': N} for another size.",
     [lambda: compiled("fp16", dim={"batch": 2}), lambda: compiled("fp16", dims={"batch": 2})]),
    (lambda: compiled(keep={"zz": "fp16"}), "keep: the network has no operation `zz`.", []),
    (lambda: compiled(bind={"zz": 3}), "bind['zz']: the model has no such input.", []),
    (lambda: run(params={"V": 5}), "leave params['V'] out.", [run]),
    (lambda: saved(), "or force=True to replace", [lambda: saved(force=True)]),
    (lambda: traced(True), "run again with events='accesses'.", [lambda: traced("accesses")]),
    (lambda: traced(True, "vcd", units=["zz"]), "units zz: no unit has such a name.",
     [lambda: traced(True, "vcd", units=["e0_vpu0"])]),
    (lambda: traced(True, "vcd", causes=["zz"]), "causes zz: no cause has such a name.",
     [lambda: traced(True, "vcd", causes=["busy.*"])]),
    (lambda: traced(True, "vcd", every="1"), "every: `1` is not a time of a trace.",
     [lambda: traced(True, "vcd", every="1us")]),
    (lambda: traced(True, "konata", every="1us"), "not states over time. Fix: leave out every",
     [lambda: traced(True, "konata")]),
    (lambda: traced(True, "power", ops=["__background"]), "add power_by='op', or leave out ops.",
     [lambda: traced(True, "power", ops=["__background"], power_by="op"), lambda: traced(True, "power")]),
    (lambda: traced(True, "stalls", viewer_files=True), "stalls is not a waveform. Fix: write vcd or fst.",
     [lambda: traced(True, "fst", viewer_files=True)]),
    (lambda: included(None), "or give its folder in search_paths", [lambda: included("kernels")]),
    (lambda: kpusim.Platform.load("tile32").with_(**{"zz.q": 3}),
     "zz.q=3: there is no parameter `zz.q`.", []),
    (lambda: kpusim.Program.parse(RELU, header="x"), "header is for: tile schedule", []),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_arguments_are_named(case: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In errors and in warnings; none is said of what follows them."""
    monkeypatch.chdir(tmp_path)
    mistake, text, followed = CASES[case]
    said = told(mistake, may_raise=True)
    assert text in said
    assert "--" not in said
    for step in followed:
        assert text not in told(step, may_raise=False)


def test_arguments_exist() -> None:
    """Every option becomes a keyword of the package."""
    assert {argument(option) for option in [*VALUED, *PAIRS, *FLAGS]} <= keywords()


#: Options that advice of the core may name, though Python has no such argument, and why.
COMMAND_ONLY = {
    "--bounds-only": "of `kpusim what-if`",
}


def test_fixes_of_the_core_name_no_options() -> None:
    """No source but those of the command itself names its options."""
    found, left = [], []
    folders = "analysis base compiler execution explain isa model runtime traces values".split()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.[ch]pp")):
        if "cli" in path.parts:
            continue
        source = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
        for text in re.findall(r'Fix: [^"\n]*--[a-z][^"\n]*', source):
            options = re.findall(r"--[a-z][a-z-]*", re.sub(r"`kpusim [^`]*`", "", in_python(text)))
            found += options or [text]
            left += [f"{path.relative_to(ROOT)}: {text}" for name in options if name not in COMMAND_ONLY]
    assert not left, "\n".join(left)
    assert len(found) > 20
    assert set(COMMAND_ONLY) <= set(found)
