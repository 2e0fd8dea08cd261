"""Each fix that errors of kpusim.calibrate advise works: each case makes a mistake, and follows the fix."""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
from pathlib import Path

import planted
import pytest
from conftest import TWO
from fixes import Case, check_complete, manual, play
from kpusim.calibrate import calibrate, check
from kpusim.calibrate.command import main
from kpusim.calibrate.holding import plan_of
from kpusim.calibrate.measured import Row, read_measured
from kpusim.calibrate.operations import Operation
from kpusim.calibrate.parameters import bound_of, parameters_of
from kpusim.errors import UserError
from kpusim.platform import Platform

HEAD = "operation,shape,type,cycles\n"
GOOD = "matmul,16x16x16,fp16,900\n"
LATENCY, PIPELINE = TWO
SMALL = Platform.load(planted.BASE).with_(**planted.SETS)


def rows(text: str, name: str = "rows.csv") -> Path:
    """Return a file of measurements."""
    Path("chain.nem").write_text(planted.program("vector", 64, 4, 1))
    path = Path(name)
    path.write_text(text)
    return path


def read(text: str) -> object:
    """Read a file of measurements."""
    return read_measured(rows(text))


def times() -> Path:
    """Times of the folder that the tests share."""
    return Path("times/measured.csv")


def changed(*lines: tuple[int, str]) -> Path:
    """Return the same with some lines in place of others; an empty one is left out."""
    text = times().read_text().splitlines()
    for number, line in lines:
        text[number - 1] = line
    path = Path("times/changed.csv")
    path.write_text("\n".join(line for line in text if line) + "\n")
    return path


def fitted(path: Path, *names: str, **more: object) -> object:
    """A quick fit."""
    return calibrate(path, planted.BASE, names or [PIPELINE], workers=1, **more)  # type: ignore[arg-type]


def slow_row() -> str:
    """Return a row that takes twenty times too long."""
    name, kind, time = times().read_text().splitlines()[3].split(",")
    return f"{name},{kind},{20 * float(time)}"


def flagged() -> Path:
    """Return the slow row, said not to count."""
    lines = [f"{line}," for line in times().read_text().splitlines()]
    lines[0] += "flag"
    lines[3] = f"{slow_row()},interrupted"
    path = Path("times/flagged.csv")
    path.write_text("\n".join(lines))
    return path


def command(*words: object, code: int = 0) -> str:
    """Return what `kpusim calibrate` prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        assert main([str(times()), "--platform", planted.BASE, *map(str, words)]) == code, said.getvalue()
    return said.getvalue()


def folder() -> object:
    """Return the one that is missing."""
    return Path("none").mkdir()


def named(*names: str, base: Platform = SMALL, **bounds: tuple[float, float]) -> object:
    """Parameters to fit."""
    return parameters_of(base, names, {name.replace("__", "."): range_ for name, range_ in bounds.items()})


def row(name: str) -> Row:
    """Return one of one type and class."""
    return Row(2, name, Operation.parse("relu", "16x16"), "fp16", "relu", 1.0)


def beheaded() -> Path:
    """Return a calibrated platform whose head was changed."""
    path = Path("cut.textproto")
    path.write_text('# written by kpusim calibrate; docs/calibration.md\nname: "cut"\nextends: "npm_lite"\n')
    return path


def fit(target: str, *more: str, code: int = 0) -> str:
    """Fit one parameter into a file."""
    return command("--fit", PIPELINE, "-o", target, *more, code=code)


def theirs() -> str:
    """Return a platform that somebody has written."""
    Path("theirs.textproto").write_text('name: "theirs"\nextends: "npm_lite"\n')
    return "theirs.textproto"


MANUAL = functools.partial(manual, main, "--hold-out size|type|class|SHARE")
CASES = [
    # files of measurements
    Case("calibrate/measured.py", "{}: {}. Fix: give a file of measurements (.csv).",
         lambda: read_measured(Path("none.csv")), [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "{}: has over {} MiB. Fix: give a file of measurements (.csv).",
         lambda: read(" " * (17 << 20)), [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "{}: is not text. Fix: give a file of measurements (.csv).",
         lambda: rows("").write_bytes(b"\xff\xfe") and read_measured(Path("rows.csv")),
         [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "Fix: see docs/calibration.md.", lambda: read("# nothing\n"),
         [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "{}: error: {}. Fix: write one row a line, as CSV.",
         lambda: read(HEAD + 'matmul,"16"x16x16,fp16,1\n'), [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "goes over several lines. Fix: write one row a line.",
         lambda: read(HEAD + 'matmul,"16x16\nx16",fp16,1\n'), [lambda: read(HEAD + GOOD)]),
    Case("calibrate/measured.py", "{}:{}: error: {}. Fix: {}.", lambda: read(HEAD + GOOD + GOOD),
         [lambda: read(HEAD + GOOD)]),
    # shapes
    Case("calibrate/operations.py", "there is no operation `{}`. Fix: give one of {}.",
         lambda: Operation.parse("gemm", "1x1x1"), [lambda: Operation.parse("matmul", "1x1x1")]),
    Case("calibrate/operations.py", "`{}` is not a shape of `{}`. Fix: write {}.",
         lambda: Operation.parse("conv", "3x8x8"),
         [lambda: Operation.parse("conv", "64x56x56 128x3x3 stride=2 pad=1")]),
    Case("calibrate/operations.py", "Fix: give a model's file in the column `program`.",
         lambda: Operation.parse("matmul", "1x99999x99999"),
         [lambda: read("program,type,cycles\nchain.nem,,5\n")]),
    # parameters
    Case("calibrate/parameters.py", "Fix: name some: --fit ddr.controller_latency_ns.",
         lambda: command(code=1), [lambda: command("--fit", "ddr.controller_latency_ns")]),
    Case("calibrate/parameters.py", "Fix: add it to --fit.",
         lambda: command("--fit", LATENCY, "--bound", f"{PIPELINE}=4:50", code=1),
         [lambda: command("--fit", f"{LATENCY},{PIPELINE}", "--bound", f"{PIPELINE}=4:50")]),
    Case("calibrate/parameters.py", "is to be fitted twice. Fix: name it once.",
         lambda: named(LATENCY, LATENCY), [lambda: named(LATENCY)]),
    Case("calibrate/parameters.py", "`{}` is not a number. Fix: sweep it (`kpusim sweep`).",
         lambda: named("engine.array.dataflow"), [lambda: named(LATENCY)]),
    Case("calibrate/parameters.py", "Fix: begin with one: `kpusim calibrate --set {}=...`.",
         lambda: command("--fit", "clock.array_mhz", code=1),
         [lambda: command("--fit", "clock.array_mhz", "--set", "clock.array_mhz=900")]),
    Case("calibrate/parameters.py", "Fix: write such as ddr.controller_latency_ns=20:200.",
         lambda: bound_of("ddr=20"), [lambda: bound_of("ddr.controller_latency_ns=20:200")]),
    Case("calibrate/parameters.py", "is not a range. Fix: give LO:HI, LO below HI.",
         lambda: named(LATENCY, ddr__controller_latency_ns=(30.0, 10.0)),
         [lambda: named(LATENCY, ddr__controller_latency_ns=(10.0, 30.0))]),
    Case("calibrate/parameters.py", "Fix: widen them, or begin elsewhere: `kpusim calibrate --set {}={}`.",
         lambda: command("--fit", PIPELINE, "--bound", f"{PIPELINE}=30:50", code=1),
         [lambda: command("--fit", PIPELINE, "--bound", f"{PIPELINE}=8:50"),
          lambda: command("--fit", PIPELINE, "--bound", f"{PIPELINE}=30:50", "--set", f"{PIPELINE}=30")]),
    Case("calibrate/parameters.py", "is a whole number, and its bound {} is not. Fix: round it.",
         lambda: named(LATENCY, ddr__controller_latency_ns=(10.5, 30.0)),
         [lambda: named(LATENCY, ddr__controller_latency_ns=(10.0, 30.0))]),
    Case("calibrate/parameters.py", "Fix: sweep it (`kpusim sweep`), and fit the others at its best value.",
         lambda: named("l2.banks"), [lambda: named(LATENCY, base=SMALL.with_(**{"l2.banks": 8}))]),
    # what the data says
    Case("calibrate/fitting.py", "Fix: leave it out of --fit, or measure what it slows down.",
         lambda: fitted(times(), "sequencer.max_active_tokens"), [lambda: fitted(times())]),
    Case("calibrate/fitting.py", "Fix: fit one of them, or measure rows in which they differ.",
         lambda: fitted(times(), LATENCY, "system_dma.descriptor_cycles"),
         [lambda: fitted(times(), LATENCY)]),
    Case("calibrate/fitting.py", "Fix: measure {} or more, or fit fewer parameters.",
         lambda: fitted(changed(*((line, "") for line in range(5, 18))), *TWO),
         [lambda: fitted(changed(*((line, "") for line in range(6, 18))), *TWO, keep_outliers=True),
          lambda: fitted(changed(*((line, "") for line in range(5, 18))), keep_outliers=True)]),
    Case("calibrate/fitting.py",
         "Fix: measure it again, say in `flag` why it does not count, or give --keep-outliers.",
         lambda: fitted(changed((4, slow_row())), *TWO),
         [lambda: fitted(times(), *TWO), lambda: fitted(flagged(), *TWO),
          lambda: fitted(changed((4, slow_row())), *TWO, keep_outliers=True)]),
    Case("calibrate/holding.py", "all rows are of one {}, `{}`. Fix: hold out size, or a fraction.",
         lambda: plan_of("class", [row("a"), row("b")], 0),
         [lambda: plan_of("size", [row("a"), row("b")], 0), lambda: plan_of("0.5", [row("a"), row("b")], 0)]),
    Case("calibrate/holding.py", "Fix: give size, type, class, or 0.25.",
         lambda: plan_of("all", [row("a")], 0),
         [lambda: plan_of("size", [row("a")], 0), lambda: plan_of("0.25", [row("a")], 0)]),
    # the command, and its files
    Case("calibrate/command.py", "{}. Fix: see `kpusim calibrate --help`.", lambda: command("--wide", code=1),
         [MANUAL]),
    Case("calibrate/command.py", "Fix: leave out --fit and -o.",
         lambda: command("--check", "--fit", "a", code=1),
         [lambda: command("--check", "--max-error", "90%")]),
    Case("calibrate/command.py", "Fix: add --check, or leave it out.",
         lambda: command("--fit", PIPELINE, "--max-error", "90%", code=1),
         [lambda: command("--check", "--max-error", "90%"), lambda: command("--fit", PIPELINE)]),
    Case("calibrate/command.py", "{}: a platform's file ends in .textproto. Fix: give such a name.",
         lambda: fit("out.txt", code=1), [lambda: fit("out.textproto")]),
    Case("calibrate/command.py", "{}: there is no such folder. Fix: make it.",
         lambda: fit("none/out.textproto", code=1), [folder, lambda: fit("none/out.textproto")]),
    Case("calibrate/command.py", "and not of this command. Fix: give another name.",
         lambda: fit(theirs(), code=1), [lambda: fit("ours.textproto")]),
    Case("calibrate/command.py", "{}: is there. Fix: `kpusim calibrate --force`, or give another name.",
         lambda: [fit("one.textproto"), fit("one.textproto", code=1)][1],
         [lambda: fit("one.textproto", "--force"), lambda: fit("two.textproto")]),
    Case("calibrate/command.py", "{}: {}. Fix: give a name that can be written.",
         lambda: fit(f"{'a' * 249}.textproto", code=1), [lambda: fit("b.textproto")]),
    Case("calibrate/calibrating.py", "Fix: give --max-error.", lambda: command("--check", code=1),
         [lambda: command("--check", "--max-error", "90%")]),
    Case("calibrate/written.py", "{}: its head lacks what was fitted. Fix: calibrate it again.",
         lambda: check(times(), beheaded(), workers=1), [lambda: fit("c.textproto")]),
]  # fmt: skip
REASONS = {
    ("calibrate/simulating.py", "Fix: {}"): "its fix is that of the run which failed, or to bound the fit: "
    "test_places_that_fail",
    ("calibrate/written.py", "without -o prints them."): "test_values_that_are_no_fields",
    ("calibrate/parameters.py", "Fix: leave it out of --fit."): "no parameter of a shipped platform has one "
    "value only: its rules leave some room to each",
}


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(times.parent, tmp_path / "times")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    play(case)


def test_every_fix_is_played() -> None:
    """All can be, but for some."""
    check_complete("calibrate/", CASES, REASONS)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("operation,shape,type,cycles,time_us\n", 1, "columns cycles and time_us both say how long"),
        ("operation,shape,type\n", 1, "no column say how long rows took"),
        ("operation,shape,type,time\n", 1, "there is no column `time`"),
        ("operation,shape,typ,cycles\n", 1, "there is no column `typ`. Fix: did you mean `type`?"),
        ("operation,shape,type,cycles,cycles\n", 1, "column `cycles` stands twice"),
        ("type,cycles\n", 1, "no column says what ran"),
        ("operation,shape,type,time_us,cycles.compute\n", 1, "`cycles.compute` is in cycles, and the rows"),
        (f"{HEAD}matmul,16x16x16,fp16,12 us\n", 2, "`cycles` is `12 us`, a number with a unit of its own"),
        (f"{HEAD}matmul,16x16x16,fp16,-5\n", 2, "`cycles` is -5, which is not a time"),
        (f"{HEAD}matmul,16x16x16,fp16,0\n", 2, "`cycles` is 0, which is not a time"),
        (f"{HEAD}matmul,16x16x16,fp16,many\n", 2, "`cycles` is `many`, which is not a number"),
        (f"{HEAD}matmul,16x16x16,fp16,\n", 2, "`cycles` is empty"),
        (f"{HEAD}matmul,16x16x16,,5\n", 2, "a shape has no type"),
        (f"{HEAD}matmul,16x16x16,f17,5\n", 2, "there is no type `f17`"),
        (f"{HEAD}matmul,16x16,fp16,5\n", 2, "`16x16` is not a shape of `matmul`"),
        (f"{HEAD},,fp16,5\n", 2, "neither `program` nor `operation` says what ran"),
        (f"{HEAD}{GOOD}matmul,16x16x16,fp16\n", 3, "3 cells for 4 columns"),
        (f"{HEAD}{GOOD}{GOOD}", 3, "`matmul 16x16x16 fp16` stands twice"),
        ("program,cycles\nnone.nem,5\n", 2, "there is no file `none.nem`"),
        ("program,operation,shape,type,cycles\nchain.nem,matmul,1x1x1,fp16,5\n", 2,
         "both `program` and `operation` say what ran"),
        ("# a remark\n\nprogram,cycles\nchain.nem,-1\n", 4, "`cycles` is -1, which is not a time"),
    ],
)  # fmt: skip
def test_bad_rows(text: str, line: int, said: str) -> None:
    """Each mistake is told with its line, why, and a fix."""
    with pytest.raises(UserError) as caught:
        read(text)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"rows.csv:{line}: error: ") and said in first and "Fix: " in first


def test_all_mistakes_are_told() -> None:
    """Mistakes of several rows come together."""
    with pytest.raises(UserError) as caught:
        read(f"{HEAD}{GOOD}matmul,16,fp16,1\nmatmul,16x16x16,fp16,-1\n")
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["3", "4"]


def test_places_that_fail() -> None:
    """A point that the platform refuses names the row, the values, and the bound to set."""
    path = rows("program,cycles\nchain.nem,100\n")
    from kpusim.calibrate.simulating import simulations

    data = read_measured(path)
    with (
        simulations(data, planted.BASE, Platform.load(planted.BASE), workers=1) as simulated,
        pytest.raises(UserError, match=r"`chain` \(line 2\) at l2\.banks=7: .* Fix: keep the fit away"),
    ):
        simulated.at([{"l2.banks": 7}])


def test_programs_that_do_not_compile() -> None:
    """A row whose program is none is told with its line."""
    path = rows("program,cycles\nnone.onnx,100\n")
    Path("none.onnx").write_bytes(b"\x00\x01")
    with pytest.raises(UserError, match=r"rows\.csv:2: error: `none`: "):
        check(path, planted.BASE, max_error=1.0, workers=1)


def test_values_that_are_no_fields(times: Path) -> None:
    """A value in rows of a table cannot be written as one field, which is said, and nothing is left."""
    found = calibrate(times, planted.BASE, [PIPELINE], sets={"engine.array.rate.relative": 0.5}, workers=1)
    from kpusim.calibrate.written import platform_text

    with pytest.raises(UserError, match="Fix: fit others, or write the changes by hand"):
        platform_text(found, Path("out.textproto"), "kpusim calibrate", "today")
    assert not list(Path().glob("*.textproto")) and not list(Path().glob(".*"))
