"""Tables of a run as pandas frames; pandas is an extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kpusim.base.extras import extra
from kpusim.errors import UserError
from kpusim.run.view import RunView

if TYPE_CHECKING:
    from pandas import DataFrame

Table = Literal["ops", "stalls", "power", "events", "traffic", "banks"]


def frame_of(run: RunView, table: str) -> DataFrame:
    """Return one table of the run as a ``pandas.DataFrame``."""
    makers: dict[str, Callable[[], DataFrame]] = {
        "ops": lambda: framed(ops_rows(run)),
        "stalls": lambda: framed(stall_columns(run)),
        "power": lambda: run.power.to_pandas(),
        "events": lambda: framed(event_columns(run)),
        "traffic": lambda: run.traffic.to_pandas(),
        "banks": lambda: run.traffic.banks.to_pandas(),
    }
    if not isinstance(table, str) or table not in makers:
        raise UserError(f"there is no table {table!r}. Fix: give one of {', '.join(makers)}.")
    return makers[table]()


def framed(rows: Any) -> DataFrame:  # noqa: ANN401
    """Return the rows or columns as a frame of their own."""
    return extra("pandas", "to_pandas").DataFrame(rows, copy=True)


def ops_rows(run: RunView) -> list[dict[str, Any]]:
    """Operations, their causes as columns of their own, 0 where an operation has none."""
    causes = sorted({cause for row in run.ops for cause in row.causes})
    rows = []
    for op in run.ops:
        row = asdict(op)
        own = row.pop("causes")
        rows.append(row | {cause: own.get(cause, 0) for cause in causes})
    return rows


def stall_columns(run: RunView) -> dict[str, Any]:
    """Return the columns of the stall trace: the states of every unit, and their causes."""
    return dict(vars(run.events.intervals))


def event_columns(run: RunView) -> dict[str, Any]:
    """Return the records, with units and operations by name beside their numbers."""
    events = run.events
    columns: dict[str, Any] = {name: events.records[name] for name in events.records.dtype.names or ()}
    for name, numbers, names in (
        ("unit_name", columns["unit"], events.units),
        ("op_name", columns["op"], events.operations),
    ):
        known = np.array([*names, ""], dtype=object)
        columns[name] = known[np.minimum(numbers, len(names))]
    return columns
