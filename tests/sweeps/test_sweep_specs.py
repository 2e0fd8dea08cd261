"""Statements of a sweep: numbers with units, formulas, ranges; and what is said of a mistake."""

from __future__ import annotations

import math
import random
from pathlib import Path

import kpusim
import pytest
from conftest import GEMM
from kpusim.sweeps.axes import axis_of
from kpusim.sweeps.command import main
from kpusim.sweeps.formula import Formula
from kpusim.sweeps.quantity import Quantity, quantity_of

# ---- numbers and formulas


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("512KiB", 512, "KiB"), ("2 W", 2, "W"), ("1.5e3", 1500, ""), ("-4", -4, ""), ("5ms", 5, "ms"),
        ("1_000", 1000, ""), (".5 %", 0.5, "%"), ("3200MT/s", 3200, "MT/s"),
    ],
)  # fmt: skip
def test_quantities(text: str, value: float, unit: str) -> None:
    """Numbers with units, as they are written."""
    assert quantity_of(text) == Quantity(value, unit)


@pytest.mark.parametrize("text", ["", "KiB", "5 parsecs", "1..2", "--3", "1e999", "3 W W", "0x10", "nan"])
def test_no_quantities(text: str) -> None:
    """Texts that are no quantity give none."""
    assert quantity_of(text) is None


def test_formulas_against_python() -> None:
    """Random formulas give what Python gives."""
    draw = random.Random(5)
    names = {"a.b": 3.0, "l2.size": 7.0, "c": 2.0}

    def made(depth: int) -> tuple[str, float]:
        if depth == 0 or draw.random() < 0.2:
            name = draw.choice(list(names))
            return (
                (name, names[name]) if draw.random() < 0.6 else (text := str(draw.randint(1, 9)), float(text))
            )
        (a, x), (b, y) = made(depth - 1), made(depth - 1)
        signs = {"+": x + y, "-": x - y, "*": x * y}
        signs |= {"/": x / y, "//": x // y, "%": x % y} if y else {}
        sign = draw.choice(list(signs))
        return f"({a} {sign} {b})", signs[sign]

    for _ in range(300):
        text, value = made(4)
        found = Formula.parse(text).value({name: Quantity(v) for name, v in names.items()}).value
        assert math.isclose(found, value, rel_tol=1e-12, abs_tol=1e-12), text


def test_units_in_formulas() -> None:
    """Units are converted where they meet, and refused where they do not fit."""
    known = {"time.total_us": Quantity(4000, "us"), "power.average_w": Quantity(3, "W"), "n": Quantity(4)}
    assert Formula.parse("time.total_us < 5ms").holds(known)
    assert not Formula.parse("time.total_us < 5us").holds(known)
    assert Formula.parse("0.5 <= power.average_w <= 3000mW").holds(known)
    assert Formula.parse("64KiB * n").value(known) == Quantity(256, "KiB")
    assert Formula.parse("1MiB / 64KiB").value(known) == Quantity(16)
    assert Formula.parse("max(1MiB, 64KiB)").value(known).in_unit("byte").value == 1 << 20
    with pytest.raises(kpusim.UserError, match="is needed in W"):
        Formula.parse("power.average_w < 5ms").holds(known)


def test_percent_and_remainder() -> None:
    """`%` between two operands is a remainder, after a number alone a unit."""
    known = {"n": Quantity(7), "share": Quantity(60, "%")}
    assert Formula.parse("9 % 4 + n % 4 - 9%(2 + 3)").value(known) == Quantity(0)
    assert Formula.parse("share + 10 %").value(known) == Quantity(70, "%")
    assert Formula.parse("50% < share").holds(known) and Formula.parse("share <= 60 %").holds(known)


def test_constraints_without_a_value(tmp_path: Path) -> None:
    """Where a constraint divides by zero, it is not known whether a design keeps it; the others go on."""
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[GEMM], platforms=["npm_lite"], axes={"ddr.channels": [1, 2]},
        constraints=["time.total_us / (ddr.channels - 1) < 1e9"],
    )  # fmt: skip
    assert [row["feasible"] for row in results.rows] == [None, 1]
    with pytest.raises(kpusim.UserError, match=r"division by zero.* Fix: "):
        kpusim.sweep(
            folder=tmp_path / "other", programs=[GEMM], axes={"ddr.channels": [1, 2]},
            constraints=["l2.banks / (ddr.channels - 1) < 1e9"],
        )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "__import__('os')", "a[0]", "(lambda: 1)()", "a if b else c", "f(x)", "'text'", "a = 1",
     "1 < (2 < 3)", "x.y.z(1)", "[1, 2]", "a and b", "{}", "10**10**10", "(" * 500 + ")" * 500, "1" * 2000],
)  # fmt: skip
def test_no_formulas(text: str) -> None:
    """Texts with more than arithmetic are refused, and never run."""
    with pytest.raises(kpusim.UserError, match="Fix: "):
        Formula.parse(text)


def test_ranges() -> None:
    """Lists, factors, steps; sizes in bytes whatever their unit."""
    values = {
        "512KiB..4MiB*2": (524288, 1048576, 2097152, 4194304),
        "1..4": (1, 2, 3, 4),
        "64KiB..256KiB+64KiB": (65536, 131072, 196608, 262144),
        "3": (3,),
    }
    for text, expected in values.items():
        assert axis_of("l2.size_bytes", text).values == expected  # type: ignore[union-attr]
    assert axis_of("clock.core_mhz", "0.5GHz..1GHz+250MHz").values == (500, 750, 1000)  # type: ignore[union-attr]
    assert axis_of("engine.array.dataflow", ["os", "ws"]).values == ("os", "ws")  # type: ignore[union-attr]


# ---- mistakes: one error, with its place and the fix

WRONG = [
    ("axes: {engine.aray.rows: [8]}", ":3:8", "did you mean `engine.array.rows`?"),
    ("axes: {l2.size_bytes: []}", ":3:8", "has no values"),
    ("axes: {l2.size_bytes: 4MiB..1MiB}", ":3:8", "is empty"),
    ("axes: {l2.size_bytes: 1MiB..4MiB*1}", ":3:8", "does not grow"),
    ("axes: {l2.size_bytes: 1MiB..8GHz*2}", ":3:8", "is needed in MiB"),
    ("axes: {l2.size_bytes: [3 W]}", ":3:8", "is needed in byte"),
    ("axes: {engine.array.rows: [8.5]}", ":3:8", "is a whole number"),
    ("axes: {engine.array.rows: [8, 8]}", ":3:8", "twice"),
    ("axes: {engine.array.rows: [100000]}", ":3:8", "from 1 to 4096"),
    ("axes: {l2.banks: [3]}", ":3:8", "power of two"),
    ("axes: {engine.array.dataflow: [up]}", ":3:8", "one of os, ws, is"),
    ("axes: {l2.banks: l2.ports, l2.ports: l2.banks}", ":3:", "follow from each other"),
    ("axes: {engine.array.rows: 2 * engine.aray.cols}", ":3:8", "engine.array.cols"),
    ("axes: {engine.array.rows: 2 * (}", ":3:8", "is not a formula"),
    ("axes: {option.efort: [1, 2]}", ":3:8", "option.effort"),
    ("axes: [1, 2]", ":3:1", "names with values"),
    ("constraints: [power.average_w < 0]", ":3:15", "never holds"),
    ("constraints: [power.average_w > 3, power.average_w < 2]", ":3:36", "exclude each other"),
    ("constraints: [power.averag_w < 2]", ":3:15", "power.average_w"),
    ("constraints: [power.average_w < 5ms]", ":3:15", "is needed in W"),
    ("constraints: [power.average_w]", ":3:15", "compares nothing"),
    ("constraints: [engine.array.rows > 5000]", ":3:1", "no design keeps"),
    ("objectives: [time.totl_us]", ":3:14", "time.total_us"),
    ("sample: {lhs: 0}", ":3:10", "whole one, 1 or more"),
    ("sample: {sobl: 10}", ":3:1", "there is no sample `sobl`"),
    ("fidelity: exact", ":3:1", "simulate, estimate, auto"),
    ("seed: -1", ":3:1", "0 or more"),
    ("generations: 3", ":3:1", "did you mean `generation`?"),
    ("options: {precison: int8}", ":3:11", "option.precision"),
    ("options: {precision: [int8, fp16]}", ":3:11", "under axes"),
    ("axes: {clock.core_mhz: 1..50000, clock.sram_mhz: 1..50000}", ":3:1", "2,500,000,000 points"),
    ("platform: [npm_lite]", ":3:1", "did you mean `platforms`?"),
    ("inputs: ones", ":3:1", "zeros nor random"),
    ("timeout: 0", ":3:1", "above 0"),
    ("axes: {a: &x [*x]}", ":", "Fix: "),
    ("axes: {", ":4:1", "Fix: write YAML"),
    ("seed: 1\nseed: 2", ":4:1", "stands twice"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "words"), WRONG)
def test_wrong_specs(
    text: str, place: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One error: place, what is wrong, the fix. Nothing is written."""
    path = tmp_path / "wrong.yaml"
    path.write_text(
        f"programs: [{GEMM}]\nplatforms: [npm_lite]\n{text}\n".replace(
            "platforms: [npm_lite]\nplatform:", "seed: 1\nplatform:"
        )
    )
    assert main([str(path), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and error.startswith(f"{path}{place}"), error
    assert words in error and "Fix: " in error, error
    assert not (tmp_path / "out/table.csv").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a sweep"), ("- 1", "not a sweep"), ("axes: {l2.size_bytes: [1MiB]}", "no `programs`"),
        ("programs: [nothing.onnx]", "there is no file"), ("programs: [{name: x}]", "needs a file"),
        (f"programs: [{GEMM}, {GEMM}]", "two programs"),
        (f"programs: [{GEMM}]\nplatforms: [npm_lit]", "npm_lite"),
        (f"programs: [{GEMM}]\nplatforms: []", "is empty"),
    ],
)  # fmt: skip
def test_wrong_files(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs and platforms that are not there."""
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    assert main([str(path), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert words in error and "Fix: " in error and "Traceback" not in error, error


def test_wrong_calls(tmp_path: Path) -> None:
    """The same from Python, where the place is the argument."""
    with pytest.raises(kpusim.UserError, match=r"axes\['engine.aray.rows'\].*did you mean"):
        kpusim.sweep(folder=tmp_path / "o", programs=[GEMM], axes={"engine.aray.rows": [8]})
    with pytest.raises(kpusim.ArgumentError, match="needs a folder"):
        kpusim.sweep(programs=[GEMM])
    with pytest.raises(kpusim.ArgumentError, match="workers=0"):
        kpusim.sweep(folder=tmp_path / "o", programs=[GEMM], workers=0)


def test_factors_of_groups_are_axes(tmp_path: Path) -> None:
    """One axis scales what belongs together; a factor is no number of a platform that others can follow."""
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[GEMM], platforms=["edge16"],
        axes={"scale.width": [1, 2], "engine.l1.size_bytes": "128KiB * engine.array.rows // 16"},
    )  # fmt: skip
    one, two = results.rows
    assert two["time.total_us"] < one["time.total_us"]
    assert two["engine.l1.size_bytes"] == 2 * one["engine.l1.size_bytes"]
    with pytest.raises(kpusim.UserError, match="parameter of platforms `scale"):
        kpusim.sweep(
            folder=tmp_path / "bad", programs=[GEMM], platforms=["edge16"],
            axes={"engine.l1.size_bytes": "64KiB * scale.array"},
        )  # fmt: skip
    wide = kpusim.Platform.load("edge16").with_(**{"scale.width": 2})
    assert "rows: 32" in wide.text() and "lanes: 32" in wide.text()
    with pytest.raises(kpusim.UserError, match="sets it too"):
        wide.with_(**{"engine.vector.lanes": 8})
    square = kpusim.Platform.load("edge16").with_(**{"engine.array.cols": "2 * engine.array.rows"})
    assert "cols: 32" in square.text()
