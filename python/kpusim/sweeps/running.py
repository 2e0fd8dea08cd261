"""Runs a sweep: what is done in which order, the journal, the table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpusim.errors import UserError
from kpusim.sweeps.auto import simulate_what_may_be_best
from kpusim.sweeps.designs import Design, Space, designs_of
from kpusim.sweeps.journal import NAME, Journal, header_of
from kpusim.sweeps.options import with_files
from kpusim.sweeps.search import search
from kpusim.sweeps.spec import Spec
from kpusim.sweeps.table import Row, Table
from kpusim.sweeps.workers.evaluate import How, Outcome, Task
from kpusim.sweeps.workers.pool import LocalWorkers, Workers


class StopError(Exception):
    """The time limit is reached, or the user has stopped the sweep."""


@dataclass
class Status:
    """Progress of a sweep.

    Attributes
    ----------
    done, total : int
        Points, of all that are known so far.
    failed : int
        Among those done.
    left_s : float or None
        Seconds that the others will take, by those of this run.
    words : str
        What is being done.
    """

    done: int
    total: int
    failed: int
    left_s: float | None
    words: str


Progress = Callable[[Status], object]


@dataclass
class Result:
    """A sweep that has ended.

    Attributes
    ----------
    table : Table
        Its rows.
    complete : bool
        False: it was stopped; the same call goes on.
    notes : list of str
        What it decided on its own.
    """

    table: Table
    complete: bool
    interrupted: bool
    notes: list[str]


class Running:
    """An execution of a sweep. Points that its journal has are not run again."""

    def __init__(
        self,
        spec: Spec,
        folder: Path,
        stated: Mapping[str, Any],
        time_limit: float | None,
        progress: Progress | None,
    ) -> None:
        self.spec = spec
        self.space = Space(spec)
        self.designs: dict[int, Design] = {}
        self.notes: list[str] = []
        self._folder = folder
        self._ends = None if time_limit is None else time.monotonic() + time_limit
        self._progress = progress
        self._stated = stated
        self._shown: dict[int, How] = {}  # points of the table
        self._journal = Journal(folder)
        self._workers: Workers | None = None
        self._begun, self._fresh = time.monotonic(), 0

    def run(self, workers: Callable[[], Workers]) -> Result:
        """Run it to its end, its time limit, or Ctrl-C."""
        complete, interrupted = True, False
        prepare_folder(self._folder)
        self._journal.open(header_of(self.spec.canonical(), self._stated))
        try:
            self._workers = workers()
            for _ in self._strategy():
                pass
        except StopError:
            complete = False
        except KeyboardInterrupt:
            complete, interrupted = False, True
        finally:
            if self._workers is not None:
                self._workers.close()
            self._journal.close()
        table = self.table()
        table.write(self._folder)
        return Result(table, complete, interrupted, self.notes)

    def table(self) -> Table:
        """Return the rows of all points that count so far, up to the first that is missing."""
        programs = self.spec.programs
        rows: list[Row] = []
        for number in sorted(self._shown):
            if number != len(rows):
                break
            design = self.designs[number // len(programs)]
            name = programs[number % len(programs)].name
            rows.append(Row(number, design, name, self._journal.outcomes[number, self._shown[number]]))
        return Table(self.spec, rows)

    # ---- what strategies use

    def outcomes(self, design: Design, how: How) -> list[Outcome]:
        """Return the outcomes of all programs on a design that was evaluated."""
        count = len(self.spec.programs)
        return [self._journal.outcomes[design.number * count + index, how] for index in range(count)]

    def evaluate(self, designs: Iterable[Design], how: How, words: str, *, whole: bool) -> None:
        """Evaluate designs for all programs.

        `whole`: they count for the table only all together, as what follows depends on them.
        """
        designs = list(designs)
        for design in designs:
            self.designs[design.number] = design
        count = len(self.spec.programs)
        numbers = [design.number * count + index for design in designs for index in range(count)]
        missing = [number for number in numbers if (number, how) not in self._journal.outcomes]
        if not whole:
            self._show(set(numbers) - set(missing), how)
        done = len(numbers) - len(missing)
        self._tell(done, len(numbers), words)
        assert self._workers is not None
        for outcomes in self._workers.evaluate(self._tasks(missing, how)):
            self._journal.add(outcomes)
            self._fresh += len(outcomes)
            done += len(outcomes)
            if not whole:
                self._show((outcome.number for outcome in outcomes), how)
            self._tell(done, len(numbers), words)
        if done < len(numbers):
            raise StopError
        if whole:
            self._show(numbers, how)

    def _show(self, numbers: Iterable[int], how: How) -> None:
        self._shown.update(dict.fromkeys(numbers, how))

    def _tasks(self, numbers: Iterable[int], how: How) -> Iterator[Task]:
        for number in numbers:
            if self._ends is not None and time.monotonic() >= self._ends:
                return
            yield task_of(self.spec, self.designs[number // len(self.spec.programs)], number, how)

    def _tell(self, done: int, total: int, words: str) -> None:
        if self._progress is None:
            return
        spent = time.monotonic() - self._begun
        left = spent / self._fresh * (total - done) if self._fresh else None
        self._progress(Status(done, total, self._journal.failed, left, words))

    def _strategy(self) -> Iterator[None]:
        if self.spec.sample == "search":
            return search(self)
        if self.spec.fidelity == "auto":
            return simulate_what_may_be_best(self)
        return self._everything()

    def _everything(self) -> Iterator[None]:
        how: How = "estimate" if self.spec.fidelity == "estimate" else "simulate"
        self.evaluate(designs_of(self.spec, self.space), how, f"{how}d", whole=False)
        yield


def task_of(spec: Spec, design: Design, number: int, how: How) -> Task:
    """Make what a worker needs for a point."""
    program = spec.programs[number % len(spec.programs)]
    return Task(
        number,
        how,
        program.path,
        spec.platform_sources[design.platform],
        design.sets(),
        with_files({**spec.options, **program.options, **design.options()}, spec.files),
        {**program.params, **design.params()},
        spec.mode,
        spec.inputs,
    )


PROGRAMS = "programs"  #: folder of programs that came as objects


def prepare_folder(folder: Path) -> None:
    """Make the folder; one that holds anything but a sweep is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = os.listdir(folder)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}. Fix: give a folder that can be written.") from None
    if set(entries) - {PROGRAMS} and NAME not in entries:
        raise UserError(
            f"{folder}: has content that is not a sweep. Fix: give an empty folder, or a new one."
        )


def local_workers(count: int, timeout: float | None) -> Callable[[], Workers]:
    """Workers of this machine, started when they are needed."""
    return lambda: LocalWorkers(count, timeout)
