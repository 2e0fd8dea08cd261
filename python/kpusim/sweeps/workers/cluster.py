"""Workers of a Dask cluster: they come and die, and programs travel once to each."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kpusim._core import version as __version__
from kpusim.errors import MissingPackageError, UserError
from kpusim.platform import Platform
from kpusim.sweeps.spec import Spec, file_digest, files_of
from kpusim.sweeps.workers.evaluate import Evaluator, Outcome, Task
from kpusim.sweeps.workers.pool import DEATHS, Workers

PLUGIN = "kpusim-programs"
AHEAD = 2  #: tasks that are with the scheduler, for each thread of its workers
WAIT_S = 60.0  #: for the first worker
_own = threading.local()


class WrongVersionError(Exception):
    """A worker has another kpusim than who began the sweep."""


def dask_workers(address: str, spec: Spec) -> Callable[[], Workers]:
    """Workers of the scheduler at an address."""
    return lambda: DaskWorkers(address, spec)


class DaskWorkers:
    """Evaluates tasks on a cluster. Dask gives the tasks of a worker that dies to others."""

    def __init__(self, address: str, spec: Spec) -> None:
        distributed = _distributed()
        try:
            self._client = distributed.Client(address, timeout=10)
        except (OSError, ValueError) as error:
            raise UserError(
                f"no Dask scheduler answers at {address} ({error}). Fix: start one with `dask scheduler`."
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=WAIT_S)
        except TimeoutError:
            self._client.close()
            raise UserError(
                f"the scheduler at {address} has no workers. Fix: start some with `dask worker {address}`."
            ) from None
        self._distributed = distributed
        files = {
            program.digest: {path.name: path.read_bytes() for path in files_of(Path(program.path))}
            for program in spec.programs
        }
        self._digests = {program.path: program.digest for program in spec.programs}
        for source in spec.platform_sources.values():
            if source not in Platform.names():
                self._digests[source] = file_digest(Path(source))
                files[self._digests[source]] = {p.name: p.read_bytes() for p in files_of(Path(source))}
        self._client.register_plugin(_plugin(distributed, files), name=PLUGIN)

    def evaluate(self, tasks: Iterable[Task]) -> Iterator[list[Outcome]]:
        """Implement Workers."""
        waiting = iter(tasks)
        pending: dict[Any, Task] = {}
        deaths: dict[int, int] = {}
        while True:
            threads = max(1, sum(self._client.nthreads().values()))
            while len(pending) < AHEAD * threads and (task := next(waiting, None)) is not None:
                self._submit(task, pending)
            if not pending:
                return
            done = self._distributed.wait(list(pending), return_when="FIRST_COMPLETED").done
            outcomes: list[Outcome] = []
            for future in done:
                task = pending.pop(future)
                if (outcome := self._outcome(future, task, pending, deaths)) is not None:
                    outcomes.append(outcome)
            if outcomes:
                yield outcomes

    def close(self) -> None:
        """Implement Workers."""
        self._client.close()

    def _submit(self, task: Task, pending: dict[Any, Task]) -> None:
        future = self._client.submit(
            evaluate_on_worker,
            task,
            self._digests,
            __version__,
            pure=False,
            priority=-task.number,
        )
        pending[future] = task

    def _outcome(
        self, future: Any, task: Task, pending: dict[Any, Task], deaths: dict[int, int]
    ) -> Outcome | None:
        """Return what came of a task; None where it is tried again."""
        try:
            outcome: Outcome = future.result()
            return outcome
        except WrongVersionError as error:
            raise UserError(str(error)) from None
        except self._distributed.KilledWorker:
            deaths[task.number] = deaths.get(task.number, 0) + 1
            if deaths[task.number] >= DEATHS:
                why = f"workers ended on it, {DEATHS} times. Fix: run it alone with `kpusim sweep show`."
                return Outcome(task.number, task.how, error=why)
        except self._distributed.client.FutureCancelledError:
            pass  # its worker is gone
        self._submit(task, pending)
        return None


def evaluate_on_worker(task: Task, digests: dict[str, str], version: str) -> Outcome:
    """Evaluate a task with the files of program and platform that the plugin has brought."""
    from distributed import get_worker

    worker = get_worker()
    if version != __version__:
        raise WrongVersionError(
            f"worker {worker.address} has kpusim {__version__}, the sweep was begun with {version}. "
            "Fix: install that version there."
        )
    plugin: Any = worker.plugins[PLUGIN]
    here = {path: plugin.folder_of(digest) / Path(path).name for path, digest in digests.items()}
    if not hasattr(_own, "evaluator"):
        _own.evaluator = Evaluator()  # one for each thread
    program, platform = (os.fspath(here.get(path, path)) for path in (task.program, task.platform))
    outcome: Outcome = _own.evaluator(replace(task, program=program, platform=platform))
    return outcome


def _plugin(distributed: Any, files: dict[str, dict[str, bytes]]) -> Any:
    class Programs(distributed.WorkerPlugin):  # type: ignore[misc]
        """Files of the sweep's programs, on a worker's disk."""

        def __init__(self) -> None:
            self.files = files
            self.lock: Any = None
            self.folder: Any = None

        def setup(self, worker: Any) -> None:
            self.lock = threading.Lock()
            self.folder = tempfile.TemporaryDirectory(prefix="kpusim_sweep_")

        def teardown(self, worker: Any) -> None:
            self.folder.cleanup()

        def folder_of(self, digest: str) -> Path:
            folder = Path(self.folder.name) / digest
            with self.lock:
                if not folder.is_dir():
                    folder.mkdir()
                    for name, content in self.files[digest].items():
                        (folder / name).write_bytes(content)
            return folder

    return Programs()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingPackageError("clusters need Dask. Fix: pip install 'kpusim[cluster]'.") from None
    return distributed
