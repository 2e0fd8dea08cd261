"""Processes that evaluate points. One that dies is replaced, and its point is evaluated again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Protocol

from kpusim.sweeps.workers.evaluate import Outcome, Task

DEATHS = 5  #: of workers on one point, before the point counts as failed
AHEAD = 1  #: tasks that wait in a worker, so that it need not wait for the parent


class Workers(Protocol):
    """Evaluates tasks, somewhere."""

    def evaluate(self, tasks: Iterable[Task]) -> Iterator[list[Outcome]]:
        """Outcomes, several at once, in the order in which they come. Tasks begin in theirs."""

    def close(self) -> None:
        """End; what has not come is lost."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    tasks: deque[Task]
    since: float = 0.0  # when its first task began


class LocalWorkers:
    """Processes of this machine.

    Parameters
    ----------
    count : int
        How many.
    timeout : float, optional
        Seconds after which a point's worker is ended, and the point has failed.
    """

    def __init__(self, count: int, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._workers = [_started() for _ in range(count)]
        self._deaths: dict[int, int] = {}

    def evaluate(self, tasks: Iterable[Task]) -> Iterator[list[Outcome]]:
        """Implement Workers."""
        waiting = iter(tasks)
        again: deque[Task] = deque()
        while True:
            for depth in range(AHEAD + 1):
                for worker in self._workers:
                    if len(worker.tasks) == depth:
                        task = again.popleft() if again else next(waiting, None)
                        if task is not None:
                            self._give(worker, task)
            if not any(worker.tasks for worker in self._workers):
                return
            if outcomes := self._received(again):
                yield outcomes

    def close(self) -> None:
        """Implement Workers."""
        for worker in self._workers:
            worker.process.kill()
            worker.connection.close()
        for worker in self._workers:
            worker.process.wait()
        self._workers = []

    def pids(self) -> list[int]:
        """Process ids."""
        return [worker.process.pid for worker in self._workers]

    def _give(self, worker: _Worker, task: Task) -> None:
        worker.since = worker.since if worker.tasks else time.monotonic()
        worker.tasks.append(task)
        try:
            worker.connection.send(task)
        except ConnectionError:
            pass  # it is dead: _received() finds out

    def _received(self, again: deque[Task]) -> list[Outcome]:
        """Return what has come, after a wait for anything. Tasks of workers that died go to `again`."""
        busy = {worker.connection: worker for worker in self._workers if worker.tasks}
        ready = wait(list(busy), timeout=None if self._timeout is None else 0.2)
        outcomes: list[Outcome] = []
        for connection in ready:
            worker = busy[connection]  # type: ignore[index]
            try:
                outcomes.append(worker.connection.recv())
                worker.tasks.popleft()
                worker.since = time.monotonic()
            except (EOFError, ConnectionError):
                outcomes += self._replaced(worker, again, f"its process ended ({_ending(worker.process)})")
        for worker in busy.values():
            if self._timeout and worker.tasks and time.monotonic() - worker.since > self._timeout:
                task = worker.tasks.popleft()
                error = f"it took longer than {self._timeout:g} s. Fix: raise `timeout`, or leave it out."
                outcomes.append(Outcome(task.number, task.how, error=error))
                outcomes += self._replaced(worker, again, "")
        return outcomes

    def _replaced(self, worker: _Worker, again: deque[Task], why: str) -> list[Outcome]:
        """Return a new process in place of one; its tasks come again, but for one that has ended too many."""
        worker.process.kill()
        worker.process.wait()
        worker.connection.close()
        failed: list[Outcome] = []
        if worker.tasks and why:
            first = worker.tasks[0]
            self._deaths[first.number] = self._deaths.get(first.number, 0) + 1
            if self._deaths[first.number] >= DEATHS:
                worker.tasks.popleft()
                error = f"{why}, {DEATHS} times. Fix: run it alone with `kpusim sweep show`."
                failed.append(Outcome(first.number, first.how, error=error))
        again.extend(worker.tasks)
        worker.tasks.clear()  # they are no longer this one's, also for a timeout that is looked for next
        self._workers[self._workers.index(worker)] = _started()
        return failed


def _started() -> _Worker:
    """Return a new process. It is no fork: nothing of the caller's main module runs in it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "kpusim.sweeps.workers.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    return _Worker(process, Connection(ours.detach()), deque())


def _ending(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    return f"signal {-code}" if code < 0 else f"exit code {code}"
