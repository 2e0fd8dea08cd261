"""The table of a sweep: a row for each point, a column for each axis and statistic."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform, text_of
from kpusim.sweeps.constraints import Constraint
from kpusim.sweeps.designs import Design
from kpusim.sweeps.front import Vector, combined, front_of, keeps
from kpusim.sweeps.machines import Machines
from kpusim.sweeps.spec import Spec
from kpusim.sweeps.workers.evaluate import Outcome

TABLE, COLUMNS = "table.csv", "columns.csv"
#: Columns before those of axes, and what they mean.
FIRST = {
    "point": "number of the row, as `kpusim sweep show` takes it",
    "design": "number of the machine and how is compiled for it: one for all programs",
    "program": "name of the program",
    "platform": "platform that the axes change",
}
#: Columns that are no statistics of a run: (unit, meaning).
MADE = {
    "predicted.cycles": ("cycle", "what the compiler predicted of cycles.total"),
    "energy.low_uj": ("uJ", "energy.total_uj at the low corner of the energy table"),
    "energy.high_uj": ("uJ", "energy.total_uj at the high corner of the energy table"),
    "power.low_w": ("W", "power.average_w at the low corner of the energy table"),
    "power.high_w": ("W", "power.average_w at the high corner of the energy table"),
}
STATE = {
    "fidelity": "simulate: a run; estimate: the compiler's prediction",
    "error": "why the point failed; empty: it did not",
    "feasible": "1: all constraints are kept, 0: not; empty: not known",
    "front": "1: a feasible design that no other one beats in every objective, over all programs",
}


@dataclass
class Row:
    """A point and what came of it."""

    point: int
    design: Design
    program: str
    outcome: Outcome
    feasible: bool | None = None
    front: bool = False


@dataclass
class Table:
    """Rows in order of their points; columns with units and meanings."""

    spec: Spec
    rows: list[Row]
    axes: list[str] = field(init=False)
    stats: list[str] = field(init=False)
    vectors: dict[int, Vector] = field(init=False)  #: objectives of feasible designs, by design

    def __post_init__(self) -> None:
        """Judge the rows."""
        self.axes = [axis.name for axis in self.spec.axes] + [item.kind.name for item in self.spec.derived]
        # an axis may be a statistic as well: clock.core_mhz
        self.stats = sorted({name for row in self.rows for name in row.outcome.values} - set(self.axes))
        judge = Judge(self.spec)
        by_design: dict[int, list[Row]] = {}
        for row in self.rows:
            row.feasible = judge.feasible(row.design, row.outcome)
            by_design.setdefault(row.design.number, []).append(row)
        self.vectors = {}
        for number, rows in by_design.items():
            vector = judge.vector([row.outcome for row in rows])
            if (
                vector is not None
                and len(rows) == len(self.spec.programs)
                and all(row.feasible for row in rows)
            ):
                self.vectors[number] = vector
        front = set(front_of(self.vectors))
        for row in self.rows:
            row.front = row.design.number in front

    def header(self) -> list[str]:
        """Return the names of the columns."""
        return [*FIRST, *self.axes, *STATE, *self.stats]

    def cells(self, row: Row) -> list[object]:
        """Return a row's cells."""
        outcome = row.outcome
        return [
            row.point, row.design.number, row.program, row.design.platform,
            *(row.design.values[name] for name in self.axes),
            outcome.how, outcome.error, "" if row.feasible is None else int(row.feasible), int(row.front),
            *(outcome.values.get(name, "") for name in self.stats),
        ]  # fmt: skip

    def columns(self) -> list[tuple[str, str, str]]:
        """(name, unit, meaning) of each column."""
        parameters = {row.path: (row.unit, row.meaning) for row in Platform.parameters()}
        known: dict[str, tuple[str, str]] = {}
        for text in self.spec.platform_texts.values():
            for key, unit, meaning, _ in Platform.parse(text)._core.stats():
                known[key] = (unit, meaning)
        found: list[tuple[str, str, str]] = []
        for name in self.header():
            if name in FIRST or name in STATE:
                found.append((name, "", FIRST.get(name) or STATE[name]))
            elif name in self.axes:
                found.append((name, *parameters.get(name, ("", "as the sweep states it"))))
            elif name.startswith("causes."):
                _, kind, rest = name.split(".", 2)
                found.append((name, "cycle", f"of all units {kind} together in {rest}, in core cycles"))
            elif name in MADE:
                found.append((name, *MADE[name]))
            else:
                found.append((name, *known.get(name, ("", ""))))
        return found

    def csv_text(self) -> str:
        """Return the table as comma-separated values."""
        return _csv([self.header(), *(self.cells(row) for row in self.rows)])

    def write(self, folder: Path) -> None:
        """Write table and columns; readers see the old files or the new ones."""
        _replace(folder / TABLE, self.csv_text())
        _replace(folder / COLUMNS, _csv([["name", "unit", "meaning"], *self.columns()]))


class Judge:
    """Constraints and objectives of a sweep, for its points."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._machines = Machines(spec)
        self._rules = [rule for rule in spec.constraints if not rule.of_design]
        self._names = frozenset[str]().union(*(rule.formula.names for rule in self._rules))

    def feasible(self, design: Design, outcome: Outcome) -> bool | None:
        """Return whether all constraints are kept; None where that is not known."""
        if outcome.error:
            return None
        return self._keeps(self._rules, design, outcome)

    def ruled_out(self, design: Design, predicted: Outcome) -> bool:
        """Return whether a prediction suffices to know that a constraint, as of area, is not kept."""
        exact = [rule for rule in self._rules if rule.exact]
        return not predicted.error and self._keeps(exact, design, predicted) is False

    def vector(self, outcomes: Sequence[Outcome]) -> Vector | None:
        """Return the objectives of a design; None where one is not known."""
        if any(outcome.error for outcome in outcomes):
            return None
        return combined(self._spec, [outcome.values for outcome in outcomes])

    def _keeps(self, rules: Sequence[Constraint], design: Design, outcome: Outcome) -> bool | None:
        if not rules:
            return True
        parameters = self._machines.parameters(design.platform, design.values, self._names)
        return keeps(rules, self._spec.stats, outcome.values, parameters)


def _csv(rows: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([text_of(cell) for cell in row] for row in rows)
    return stream.getvalue()


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{path}: {error.strerror}. Fix: make room; the journal has all points, the same command "
            f"writes the table."
        ) from None


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table on disk, as text."""
    try:
        with (folder / TABLE).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise UserError(
            f"{folder / TABLE}: {error.strerror}. Fix: give the folder of a finished sweep."
        ) from None


def value_of(text: str) -> OverrideValue:
    """Return a cell as a value."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text == "true" if text in ("true", "false") else text
