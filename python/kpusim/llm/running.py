"""Pieces, each simulated in a process of its own, several at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from kpusim.errors import InternalError, SimulationError, UserError
from kpusim.llm.worker import BUG, FAILED, Measured, Operations, Task

#: Bytes of weights, as they lie in DRAM, beyond which a model is compiled while no other is: the compiler
#: needs a few times as much.
ALONE = 64 << 20


class Processes:
    """Runs tasks; those that are under way end with it.

    Parameters
    ----------
    count : int
        Processes at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(
        self, tasks: Sequence[tuple[Task, float]], done: Callable[[int], None] | None = None
    ) -> list[Measured]:
        """Return what each task took; of each, the bytes of its weights.

        Raises
        ------
        UserError, SimulationError, InternalError
            The first that one of them ends with.
        """
        results: dict[int, Measured] = {}
        small = [index for index, (_, size) in enumerate(tasks) if size <= ALONE]
        large = [index for index, (_, size) in enumerate(tasks) if size > ALONE]
        try:
            for width, chosen in ((self._count, small), (1, large)):
                with ThreadPoolExecutor(width) as threads:
                    found = threads.map(lambda index: (index, self._measured(tasks[index][0])), chosen)
                    try:
                        for index, measured in found:
                            results[index] = measured
                            if done is not None:
                                done(len(results))
                    except BaseException:
                        self.close()
                        threads.shutdown(wait=False, cancel_futures=True)
                        raise
        finally:
            self.close()
        return [results[index] for index in range(len(tasks))]

    def close(self) -> None:
        """End what runs."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.kill()

    def _measured(self, task: Task) -> Measured:
        with self._lock:
            if self._ended:
                raise UserError(f"{task.name}: it was not begun, as another one failed.")
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from kpusim.llm.worker import main; main()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            self._running.add(process)
        try:
            text, _ = process.communicate(json.dumps(asdict(task)).encode())
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            raise SimulationError(
                f"{task.name}: its process ended with {process.returncode}. Fix: have one worker."
            )
        return _read(json.loads(text))


def _read(result: dict[str, object]) -> Measured:
    found = result.get("measured")
    if isinstance(found, dict):
        operations = [Operations(**row) for row in found["operations"]]
        return Measured(found["stats"], operations, found["notes"])
    kind = {FAILED: SimulationError, BUG: InternalError}.get(int(str(result["code"])), UserError)
    raise kind(str(result["error"]))
