"""Files of measurements: what ran, and how long it took. Every mistake is told with its line and its fix."""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kpusim import _core
from kpusim.calibrate.operations import Operation
from kpusim.errors import UserError, split_fix
from kpusim.sweeps.axes import unknown
from kpusim.sweeps.quantity import quantity_of
from kpusim.sweeps.spec import digest_of

LARGEST = 16 << 20  #: bytes of a file
#: Columns that hold what was measured, with the microseconds of one of their unit; cycles have none.
MEASURES: dict[str, float | None] = {
    "cycles": None, "time_ns": 1e-3, "time_us": 1.0, "time_ms": 1e3, "time_s": 1e6,
}  # fmt: skip
COLUMNS = ("name", "program", "operation", "shape", "type", "class", "flag")
SPANS = ("cycles.compute", "cycles.memory_stall", "cycles.other", "causes.")
NOT_QUANTIZED = ("f32", "fp16", "bf16")
TYPES = (*NOT_QUANTIZED, "int8", "int4", "fp8", "posit8", "posit16")


@dataclass(frozen=True)
class Layer:
    """A row of a file of ``kpusim validate``: the schedule that was measured follows from it.

    Attributes
    ----------
    path : Path
        The file.
    line : int
        Of it.
    """

    path: Path
    line: int


@dataclass(frozen=True)
class Row:
    """A measurement.

    Attributes
    ----------
    line : int
        Of the file.
    name : str
        What reports call it.
    work : Operation, Path or Layer
        What ran: an operation by its shape, the file of a program or of a model, or a measured schedule.
    type : str
        Precision that it is compiled to; empty: that of the program.
    group : str
        Its class.
    measured : float
        Cycles, or microseconds.
    spans : dict
        Measured parts of it by the name of a statistic, in cycles.
    not_counted : str
        Why it is left out; empty: it is not.
    """

    line: int
    name: str
    work: Operation | Path | Layer
    type: str
    group: str
    measured: float
    spans: dict[str, float] = field(default_factory=dict)
    not_counted: str = ""


@dataclass(frozen=True)
class Measurements:
    """A file of them.

    Attributes
    ----------
    path : Path
        The file.
    digest : str
        SHA-256 of it.
    unit : str
        ``cycle`` or ``us``: of what was measured.
    rows : tuple of Row
        Those that count.
    """

    path: Path
    digest: str
    unit: str
    rows: tuple[Row, ...]

    @property
    def statistic(self) -> str:
        """The statistic that the rows measure."""
        return "cycles.total" if self.unit == "cycle" else "time.total_us"


def read_measured(path: Path) -> Measurements:
    """Read a file of measurements.

    Raises
    ------
    UserError
        With every mistake in it: the line, why, and the fix.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Fix: give a file of measurements (.csv).") from None
    if len(content) > LARGEST:
        raise UserError(f"{path}: has over {LARGEST >> 20} MiB. Fix: give a file of measurements (.csv).")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text. Fix: give a file of measurements (.csv).") from None
    if is_of_validate(text):
        return layers_of(path, digest_of(content))
    return _Reader(path).read(text, digest_of(content))


def is_of_validate(text: str) -> bool:
    """Return whether a file has the columns of ``kpusim validate``."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {"net", "kind", "index", "median"} <= set(next(lines, "").split(","))


def layers_of(path: Path, digest: str) -> Measurements:
    """Return the rows of such a file that have a shape and count."""
    rows = tuple(
        Row(line, name, Layer(path, line), "", group, cycles)
        for line, name, group, cycles, why in _core.measured_layers(os.fspath(path))
        if not why
    )
    return Measurements(path, digest, "cycle", rows)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._errors: list[str] = []
        self._measure = ""
        self._spans: tuple[str, ...] = ()

    def read(self, text: str, digest: str) -> Measurements:
        numbered = [
            (number, line)
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.startswith("#")
        ]
        if not numbered:
            raise UserError(f"{self._path}:1: error: no line of columns. Fix: see docs/calibration.md.")
        lines = [number for number, _ in numbered]
        try:
            table = list(csv.reader([line for _, line in numbered], strict=True))
        except csv.Error as error:
            raise UserError(f"{self._path}: error: {error}. Fix: write one row a line, as CSV.") from None
        if len(table) != len(lines):
            raise UserError(
                f"{self._path}: error: a quoted cell goes over several lines. Fix: write one row a line."
            )
        columns = [cell.strip() for cell in table[0]]
        self._check_columns(lines[0], columns)
        self._stop()
        rows: list[Row] = []
        for number, cells in zip(lines[1:], table[1:], strict=True):
            if len(cells) != len(columns):
                self._wrong(number, f"{len(cells)} cells for {len(columns)} columns", "give one each")
                continue
            found = self._row(number, dict(zip(columns, map(str.strip, cells), strict=True)))
            if found is not None:
                rows.append(found)
        for name, count in Counter(row.name for row in rows).items():
            if count > 1:
                line = [row.line for row in rows if row.name == name][1]
                self._wrong(line, f"`{name}` stands twice", "give its median once, or other names")
        self._stop()
        kept = tuple(row for row in rows if not row.not_counted)
        return Measurements(self._path, digest, "cycle" if self._measure == "cycles" else "us", kept)

    def _check_columns(self, line: int, columns: list[str]) -> None:
        known = (*COLUMNS, *MEASURES, *SPANS[:-1])
        for column in columns:
            if column not in known and not re.fullmatch(r"causes\.[\w.]+", column):
                self._wrong(line, *_parts(unknown("column", column, known, f"there are {', '.join(known)}.")))
        for column, count in Counter(columns).items():
            if count > 1:
                self._wrong(line, f"column `{column}` stands twice", "leave one out")
        measures = [column for column in columns if column in MEASURES]
        if len(measures) != 1:
            has = f"columns {' and '.join(measures)} both" if measures else "no column"
            self._wrong(
                line, f"{has} say how long rows took", f"have one of {', '.join(MEASURES)}, for all rows"
            )
        else:
            self._measure = measures[0]
        if "program" not in columns and not {"operation", "shape"} <= set(columns):
            self._wrong(line, "no column says what ran", "have `program`, or `operation` and `shape`")
        self._spans = tuple(column for column in columns if column.startswith(SPANS))
        if self._spans and self._measure != "cycles":
            self._wrong(line, f"`{self._spans[0]}` is in cycles, and the rows are not", "measure `cycles`")

    def _row(self, line: int, cells: dict[str, str]) -> Row | None:
        before = len(self._errors)
        measured = self._number(line, self._measure, cells[self._measure], least=0.0)
        spans = {}
        for column in self._spans:
            if cells[column]:
                spans[column] = self._number(line, column, cells[column], least=None)
        work = self._work(line, cells)
        kind = cells.get("type", "")
        if kind and kind not in TYPES:
            self._wrong(line, *_parts(unknown("type", kind, TYPES, f"there are {', '.join(TYPES)}.")))
        if isinstance(work, Operation) and not kind:
            self._wrong(line, "a shape has no type", f"give one of {', '.join(TYPES)} in the column `type`")
        if len(self._errors) > before or work is None:
            return None
        stated = f"{cells.get('operation', '')} {cells.get('shape', '')} {kind}"
        if not isinstance(work, Operation):
            stated = f"{work.stem} {kind}"
        name = cells.get("name") or stated.strip()

        group = cells.get("class") or (work.kind if isinstance(work, Operation) else work.stem)
        return Row(line, name, work, kind, group, measured, spans, cells.get("flag", ""))

    def _work(self, line: int, cells: dict[str, str]) -> Operation | Path | None:
        program, operation = cells.get("program", ""), cells.get("operation", "")
        if bool(program) == bool(operation):
            both = (
                "both `program` and `operation` say" if program else "neither `program` nor `operation` says"
            )
            self._wrong(line, f"{both} what ran", "give one of them")
            return None
        if operation:
            try:
                return Operation.parse(operation, cells.get("shape", ""))
            except UserError as error:
                self._wrong(line, error.message.rstrip("."), error.fix)
                return None
        path = self._path.parent / program
        if not path.is_file():
            self._wrong(line, f"there is no file `{path}`", "give a path from the folder of the measurements")
            return None
        return path

    def _number(self, line: int, column: str, text: str, least: float | None) -> float:
        if not text:
            self._wrong(line, f"`{column}` is empty", "give the measured number, or leave the row out")
            return math.nan
        quantity = quantity_of(text)
        if quantity is None:
            self._wrong(line, f"`{column}` is `{text}`, which is not a number", "give a number")
            return math.nan
        if quantity.unit:
            self._wrong(
                line, f"`{column}` is `{text}`, a number with a unit of its own",
                f"give a plain number: all rows are in the unit of the column ({', '.join(MEASURES)})",
            )  # fmt: skip
            return math.nan
        if quantity.value < 0 or quantity.value == least:
            self._wrong(
                line, f"`{column}` is {text}, which is not a time", "measure it again, or leave the row out"
            )
            return math.nan
        factor = MEASURES.get(column)
        return float(quantity.value) * (1.0 if factor is None else factor)

    def _wrong(self, line: int, what: str, fix: str) -> None:
        self._errors.append(f"{self._path}:{line}: error: {what}. Fix: {fix.rstrip('.')}.")

    def _stop(self) -> None:
        if self._errors:
            raise UserError("\n".join(self._errors))


def _parts(message: str) -> tuple[str, str]:
    what, fix = split_fix(message)
    return what.removesuffix("."), fix
