"""The results of a sweep: its table, its front, and any of its points run again."""

from __future__ import annotations

import csv
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpusim.errors import MissingPackageError, UserError
from kpusim.platform import OverrideValue, Platform, text_of
from kpusim.run import Difference, Run, diff
from kpusim.sweeps.journal import Journal
from kpusim.sweeps.options import Options, content_digest, with_files
from kpusim.sweeps.spec import digest_of, file_digest
from kpusim.sweeps.table import COLUMNS, FIRST, STATE, TABLE, read_rows, value_of
from kpusim.sweeps.workers.evaluate import Task

if TYPE_CHECKING:
    from pandas import DataFrame

StrPath = str | os.PathLike[str]


class SweepResults:
    """A sweep's folder.

    Attributes
    ----------
    folder : Path
        Of the sweep.
    complete : bool
        False where it was stopped; a call with the same sweep goes on. Known after `kpusim.sweep`.
    notes : tuple of str
        What it decided on its own.

    Examples
    --------
    >>> import kpusim
    >>> results = kpusim.sweep("memory.yaml", "out")  # doctest: +SKIP
    >>> results.to_pandas().sort_values("time.total_us")  # doctest: +SKIP
    """

    def __init__(self, folder: StrPath, *, complete: bool = True, notes: tuple[str, ...] = ()) -> None:
        self.folder = Path(folder)
        self.complete = complete
        self.notes = notes
        journal = Journal(self.folder)
        journal.read()
        if not journal.header:
            raise UserError(f"{self.folder}: the journal is empty. Fix: run the sweep.")
        self.header = journal.header
        self._journal = journal

    @cached_property
    def columns(self) -> dict[str, tuple[str, str]]:
        """(unit, meaning) of each column of the table, in order."""
        try:
            with (self.folder / COLUMNS).open(encoding="utf-8", newline="") as file:
                return {row["name"]: (row["unit"], row["meaning"]) for row in csv.DictReader(file)}
        except OSError as error:
            raise UserError(
                f"{self.folder / COLUMNS}: {error.strerror}. Fix: give the folder of a finished sweep."
            ) from None

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The table; cells that are not known are None."""
        texts = ("error", "program", "platform")

        def value(name: str, cell: str) -> OverrideValue | None:
            return cell if name in texts else None if cell == "" else value_of(cell)

        return [{name: value(name, cell) for name, cell in row.items()} for row in read_rows(self.folder)]

    @property
    def axes(self) -> list[str]:
        """Names of the columns that the sweep turned, followed by those that follow from others."""
        names = list(self.columns)
        return names[len(FIRST) : names.index(next(iter(STATE)))]

    @property
    def objectives(self) -> list[str]:
        """Statistics that were to be small, or, with a minus sign, large."""
        return [str(name) for name in self.header["sweep"]["objectives"]]

    def front(self) -> list[dict[str, Any]]:
        """Return the rows of feasible designs that no other one beats in every objective."""
        return [row for row in self.rows if row["front"]]

    def best(self, count: int = 5) -> list[dict[str, Any]]:
        """Rows of the front, the smallest product of the objectives first: what is good in all of them."""

        def product(row: dict[str, Any]) -> float:
            value = 1.0
            for name in self.objectives:
                number = max(abs(float(row[name.removeprefix("-")])), 1e-300)
                value = value / number if name.startswith("-") else value * number
            return value

        return sorted(self.front(), key=lambda row: (product(row), row["point"]))[:count]

    def to_pandas(self) -> DataFrame:
        """Return the table as a ``pandas.DataFrame``; ``attrs["units"]`` has the units of its columns.

        Raises
        ------
        MissingPackageError
            Without pandas.
        """
        try:
            import pandas
        except ImportError:
            raise MissingPackageError("frames need pandas. Fix: pip install 'kpusim[sweep]'.") from None
        frame = pandas.DataFrame(self.rows, columns=list(self.columns))
        frame.attrs["units"] = {name: unit for name, (unit, _) in self.columns.items()}
        return frame

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows that a query in SQL gives, of tables ``points`` and ``columns``; names with dots are quoted.

        Examples
        --------
        >>> results.sql('select point, "time.total_us" from points where front = 1')  # doctest: +SKIP
        """
        connection = self._database()
        try:
            return list(connection.execute(query).fetchall())
        except _duckdb().Error as error:
            raise UserError(
                f"sql: {str(error).splitlines()[0]}. Fix: the tables are points and columns."
            ) from None

    def write_parquet(self, path: StrPath, *, force: bool = False) -> None:
        """Write the table as a Parquet file; an existing one is kept unless `force`."""
        target = Path(path)
        check_free(target, force)
        try:
            self._database().execute("copy points to ? (format parquet)", [os.fspath(target)])
        except _duckdb().Error as error:
            raise UserError(
                f"{target}: {str(error).splitlines()[0]}. Fix: give a name that can be written."
            ) from None

    def _database(self) -> Any:
        self.columns  # noqa: B018  # an error where there is no table
        connection = _duckdb().connect()
        connection.execute(
            "create table points as select * from read_csv(?, header=true, sample_size=-1)",
            [os.fspath(self.folder / TABLE)],
        )
        connection.execute(
            "create table columns as select * from read_csv(?, header=true, all_varchar=true)",
            [os.fspath(self.folder / COLUMNS)],
        )
        return connection

    def point(self, number: int) -> Task:
        """Return what a row stands for.

        Raises
        ------
        UserError
            For a number without a row, and a program or platform that has changed since.
        """
        rows = self.rows
        if not rows:
            raise UserError(f"{self.folder}: no point was run yet. Fix: go on with the sweep.")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(rows):
            raise UserError(f"there is no point {number}. Fix: 0 to {len(rows) - 1}.")
        row, stated, sweep = rows[number], self.header["stated"], self.header["sweep"]
        known = next(item for item in sweep["programs"] if item["name"] == row["program"])
        path = Path(stated["programs"][row["program"]])
        if not path.is_file() or file_digest(path) != known["content"]:
            raise UserError(f"{path}: is not the program that was swept. Fix: put it back.")
        name = row["platform"]
        source = stated["platforms"][name]
        if digest_of(Platform.load(source).text().encode()) != sweep["platforms"][name]:
            raise UserError(f"{source}: is not the platform that was swept. Fix: put it back.")
        values = {axis: _value_on(sweep["axes"][axis], row[axis]) for axis in self.axes}
        options = {**sweep["options"], **known["options"]}
        options |= {
            axis.removeprefix("option."): value
            for axis, value in values.items()
            if axis.startswith("option.")
        }
        params = dict(known["params"])
        params |= {
            axis.removeprefix("param."): value for axis, value in values.items() if axis.startswith("param.")
        }
        sets = {axis: value for axis, value in values.items() if not axis.startswith(("option.", "param."))}
        return Task(
            number, "simulate", os.fspath(path), source, sets, self._with_files(options), params,
            sweep["mode"], sweep["inputs"],
        )  # fmt: skip

    def _with_files(self, options: Options) -> Options:
        """Return the options with the files that they name, which must be as they were."""
        files: dict[str, str] = self.header["stated"]["files"]
        for stated, path in files.items():
            known = self.header["sweep"]["files"][stated]
            if stated in options.values() and (
                not Path(path).exists() or content_digest(Path(path)) != known
            ):
                raise UserError(f"{path}: is not what was swept with. Fix: put it back.")
        return with_files(options, files)

    def run(self, number: int, *, events: bool = False) -> Run:
        """Run a point again, alone: the same statistics; with events, ``explain`` of the run tells why."""
        return self.point(number).run(events=events)

    def diff(self, a: int, b: int) -> Difference:
        """Compare two points, schedules and critical paths too (:func:`kpusim.diff`)."""
        return diff(self.run(a, events=True), self.run(b, events=True))

    def host_times(self) -> dict[str, float]:
        """Seconds of all points by phase, as the journal has them."""
        total: dict[str, float] = {}
        for outcome in self._journal.outcomes.values():
            for name, value in outcome.host.items():
                total[name] = total.get(name, 0.0) + value
        return total

    def __repr__(self) -> str:
        """Folder and size."""
        front = len(self.front())
        return f"SweepResults({os.fspath(self.folder)!r}, {len(self.rows)} points, {front} on the front)"


def check_free(path: Path, force: bool) -> None:
    """A UserError for a file that exists, unless it is to be replaced."""
    if path.exists() and not force:
        raise UserError(f"{path}: exists. Fix: give another name, or force to replace it.")


def check_some(results: SweepResults) -> None:
    """A UserError for a sweep whose points have failed, every one."""
    if all(row["error"] for row in results.rows):
        raise UserError(f"{results.folder}: no point has results. Fix: see the errors in table.csv.")


def _value_on(axis: object, cell: Any) -> OverrideValue:
    """Return the value of an axis that a cell stands for: a text that looks like a number is still a text."""
    stated: list[OverrideValue] = axis if isinstance(axis, list) else []
    return next((value for value in stated if value_of(text_of(value)) == cell), cell)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingPackageError("SQL and Parquet need DuckDB. Fix: pip install 'kpusim[sweep]'.") from None
    return duckdb
