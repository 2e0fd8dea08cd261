"""States of units over time, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.base.arguments import whole_number
from kpusim.base.extras import extra
from kpusim.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame


class Intervals:
    """Every stretch of time in which the state of a unit did not change: the stall trace, as columns.

    Over a unit the cycles sum to ``cycles.total``, and those of a cause to ``units.<unit>.<cause>``.

    Attributes
    ----------
    unit, cause : list of str
        Which unit, and ``group.cause``.
    start_ps, end_ps, cycles : ndarray of uint64, shape (n,)
        Picoseconds from the start of the run, and core cycles.
    task, iteration, operation, blamed : list of str
        What it executes or waits for, and the unit or task that is waited for.
    """

    def __init__(self, recording: _core.Recording) -> None:
        columns = recording.intervals()
        units, causes = recording.units(), _core.cause_names()
        self.unit = [units[index] for index in columns["unit"]]
        self.cause = [causes[index] for index in columns["cause"]]
        self.start_ps: npt.NDArray[np.uint64] = columns["start_ps"]
        self.end_ps: npt.NDArray[np.uint64] = columns["end_ps"]
        self.cycles: npt.NDArray[np.uint64] = columns["cycles"]
        self.task: list[str] = columns["task"]
        self.iteration: list[str] = columns["iteration"]
        self.operation: list[str] = columns["operation"]
        self.blamed: list[str] = columns["blamed"]

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.unit)

    def __repr__(self) -> str:
        """Number of rows."""
        return f"Intervals({len(self)} rows)"


class Timeline:
    """Stretches of time in which the state of a unit did not change, by unit and time, without gaps.

    Attributes
    ----------
    units, causes : list of str
        Names: of units, and of causes, ``busy.useful`` and the like.
    unit, cause : ndarray of uint16, each with shape (n,)
        Indices into them.
    start, end : ndarray of float64, each (n,)
        Core cycles from the start of the run.
    cycles : ndarray of uint64, shape (n,)
        Core edges in it: over a unit they sum to ``cycles.total``.
    task, operation : ndarray of object, each (n,)
        What the unit executes or waits for; empty without one.
    """

    def __init__(self, intervals: Intervals, units: list[str], core_ps: float) -> None:
        self.units = units
        self.causes = _core.cause_names()
        place = {name: index for index, name in enumerate(units)}
        number = {name: index for index, name in enumerate(self.causes)}
        self.unit: npt.NDArray[np.uint16] = np.array([place[name] for name in intervals.unit], np.uint16)
        self.cause: npt.NDArray[np.uint16] = np.array([number[name] for name in intervals.cause], np.uint16)
        self.start: npt.NDArray[np.float64] = intervals.start_ps / core_ps
        self.end: npt.NDArray[np.float64] = intervals.end_ps / core_ps
        self.cycles = intervals.cycles
        self.task = np.array(intervals.task, dtype=object)
        self.operation = np.array(intervals.operation, dtype=object)
        self.operation[self.task == ""] = ""

    def of(self, unit: str) -> npt.NDArray[np.bool_]:
        """Return which intervals are a unit's, shape (n,).

        Raises
        ------
        UserError
            For a unit that the device does not have.
        """
        if unit not in self.units:
            raise UserError(f"there is no unit {unit!r}. Fix: give one of {', '.join(self.units)}.")
        chosen: npt.NDArray[np.bool_] = self.unit == self.units.index(unit)
        return chosen

    def shares(self, unit: str, bins: int = 100) -> npt.NDArray[np.float64]:
        """Return how a unit's time divides among the causes in each of so many equal bins of the run.

        Returns
        -------
        ndarray of float64, shape (bins, causes)
            Each row sums to 1; 0 in a run without time.

        Raises
        ------
        UserError
            As of :meth:`of`, and for no bins.
        """
        chosen = self.of(unit)
        edges = np.linspace(0, self.end.max(initial=0.0), whole_number(bins, "bins", 1) + 1)
        found = np.zeros((bins, len(self.causes)))
        if not edges[-1]:
            return found
        for cause in np.unique(self.cause[chosen]):
            mine = chosen & (self.cause == cause)
            start, end = self.start[mine], self.end[mine]
            # time in the cause up to an edge: whole intervals before it, and a part of the one it lies in
            before = np.concatenate([[0.0], np.cumsum(end - start)])
            index = np.searchsorted(start, edges, side="right")
            last = np.maximum(index - 1, 0)
            over = np.where(index > 0, np.maximum(end[last] - edges, 0), 0)
            found[:, cause] = np.diff(before[index] - over) / np.diff(edges)
        return found

    def to_pandas(self) -> DataFrame:
        """Return a row for each interval, with names for numbers.

        Raises
        ------
        MissingPackageError
            Without pandas.
        """
        return extra("pandas", "to_pandas").DataFrame(
            {
                "unit": np.array(self.units, dtype=object)[self.unit],
                "cause": np.array(self.causes, dtype=object)[self.cause],
                "start": self.start,
                "end": self.end,
                "cycles": self.cycles,
                "task": self.task,
                "operation": self.operation,
            }
        )

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.unit)

    def __repr__(self) -> str:
        """Number of intervals and units."""
        return f"Timeline({len(self):,} intervals, {len(self.units)} units)"
