"""Simulates the rows of a file of measurements on platforms that differ in some parameters.

Programs are compiled once, for the platform as it is given: what was measured was one program, whatever the
fit thinks of its platform.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kpusim import _core
from kpusim.base.tables import OptionValue
from kpusim.calibrate.measured import NOT_QUANTIZED, Layer, Measurements, Row
from kpusim.calibrate.operations import Operation
from kpusim.errors import SimulationError, UserError, split_fix
from kpusim.platform import OverrideValue, Platform
from kpusim.program.program import Program
from kpusim.sweeps.workers.evaluate import Evaluator, Outcome, Task
from kpusim.sweeps.workers.pool import LocalWorkers

Point = Mapping[str, OverrideValue]  #: parameters of the platform
Values = Mapping[str, float]  #: statistics of a run by key
Progress = Callable[[int], object]  #: is given the runs so far
FEW = 400  #: runs of small programs that one process has done before another one has begun


class Simulations:
    """The rows of a file, ready to be simulated."""

    def __init__(
        self, data: Measurements, platform: str, made_for: Platform, sets: Point, folder: Path, workers: int,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.runs = 0
        self._rows, self._platform, self._sets, self._where = data.rows, platform, sets, data.path
        self._progress = progress
        self._known: dict[tuple[tuple[str, OverrideValue], ...], list[Values]] = {}
        self._evaluate = Evaluator()
        self._count = workers
        self._workers: LocalWorkers | None = None
        made: dict[object, str] = {}
        self._programs = [self._program(row, made_for, folder, made) for row in self._rows]

    def _program(self, row: Row, platform: Platform, folder: Path, made: dict[object, str]) -> str:
        key = (row.work, row.type)
        if key in made:
            return made[key]
        options: dict[str, OptionValue] = {"precision": row.type} if row.type else {}
        if row.type and row.type not in NOT_QUANTIZED:
            options["calibrate"] = "random:1"
        try:
            if isinstance(row.work, Layer):
                source = folder / f"{len(made)}.kpu"
                Program(_core.measured_program(os.fspath(row.work.path), row.line, platform._core)).save(
                    source
                )
                made[key] = os.fspath(source)
                return made[key]
            if isinstance(row.work, Operation):
                source = folder / f"{len(made)}.onnx"
                row.work.write(source)
            else:
                source = row.work
            program = Program.load(source, (), platform=platform, **options)
            if program.for_device:
                source = folder / f"{len(made)}.kpu"
                program.save(source)
        except UserError as error:
            raise UserError(f"{self._where}:{row.line}: error: `{row.name}`: {error}") from None
        made[key] = os.fspath(source)
        return made[key]

    def at(self, points: Sequence[Point]) -> list[list[Values]]:
        """Statistics of every row at each of the points.

        Raises
        ------
        UserError, SimulationError
            For a point that the platform's rules refuse, and a program that fails there.
        """
        keys = [tuple(sorted(point.items())) for point in points]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        tasks = [
            Task(row * len(new) + at, "simulate", program, self._platform, {**self._sets, **dict(key)},
                 options={}, params={}, mode="timing", inputs="zeros", retarget=True)
            for row, program in enumerate(self._programs)
            for at, key in enumerate(new)
        ]  # fmt: skip
        found: dict[int, Outcome] = {}
        for outcome in self._outcomes(tasks):
            found[outcome.number] = outcome
            if outcome.error:
                self._fail(outcome, new)
            self.runs += 1
            if self._progress is not None:
                self._progress(self.runs)
        for at, key in enumerate(new):
            self._known[key] = [found[row * len(new) + at].values for row in range(len(self._rows))]
        return [self._known[key] for key in keys]

    def _outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        if self._workers is None and self._count > 1 and self.runs + len(tasks) > FEW:
            self._workers = LocalWorkers(self._count)
        if self._workers is None:
            yield from map(self._evaluate, tasks)
        else:
            for some in self._workers.evaluate(tasks):
                yield from some

    def _fail(self, outcome: Outcome, points: Sequence[tuple[tuple[str, OverrideValue], ...]]) -> None:
        row, at = divmod(outcome.number, len(points))
        where = ", ".join(f"{name}={value}" for name, value in points[at])
        what, fix = split_fix(outcome.error)
        if where:
            where, fix = f" at {where}", "keep the fit away from there with --bound NAME=LO:HI."
        text = f"`{self._rows[row].name}` (line {self._rows[row].line}){where}: {what} Fix: {fix}"
        raise (SimulationError if "deadlock" in what else UserError)(text)

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()


@contextmanager
def simulations(
    data: Measurements, platform: str, made_for: Platform, *, sets: Point | None = None,
    workers: int | None = None, progress: Progress | None = None,
) -> Iterator[Simulations]:  # fmt: skip
    """The rows' programs on a platform, by its name or file, as long as the context lasts."""
    with TemporaryDirectory(prefix="kpusim-calibrate-") as folder:
        count = workers or len(os.sched_getaffinity(0))
        made = Simulations(data, platform, made_for, sets or {}, Path(folder), count, progress)
        try:
            yield made
        finally:
            made.close()
