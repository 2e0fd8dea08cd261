"""The call that runs a sweep."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kpusim.errors import ArgumentError
from kpusim.platform import Platform
from kpusim.program.program import Program
from kpusim.sweeps.reading import read_spec
from kpusim.sweeps.results import StrPath, SweepResults
from kpusim.sweeps.running import PROGRAMS, Progress, Running, local_workers, prepare_folder
from kpusim.sweeps.spec import Spec
from kpusim.sweeps.workers.pool import Workers


def sweep(
    spec: StrPath | None = None,
    folder: StrPath | None = None,
    *,
    workers: int | None = None,
    time_limit: float | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    **stated: Any,
) -> SweepResults:
    """Run programs on many machines: every combination of axes, a sample of them, or a search.

    Parameters
    ----------
    spec : path, optional
        A YAML file that states the sweep.
    folder : path
        Where journal and table go. One that holds the same sweep is gone on with; nothing is run twice.
    workers : int, optional
        Processes; as many as there are cores.
    time_limit : float, optional
        Seconds after which no further point begins.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers evaluate the points.
    progress : callable, optional
        Called with a ``Status`` after every few points.
    **stated
        Keys of a sweep's file: ``programs``, ``platforms``, ``axes``, ``options``, ``constraints``,
        ``objectives``, ``sample``, ...; they replace those of the file. Programs may be paths,
        :class:`kpusim.Program`, and, in a mapping of names, modules of PyTorch: ``(module, (x,))``.

    Returns
    -------
    SweepResults
        The table, the same bytes whatever the number of workers.

    Raises
    ------
    UserError
        For a mistake in the sweep, with its place and the fix; for a folder that cannot be used.
    """
    if folder is None:
        raise ArgumentError("a sweep needs a folder for its results. Fix: give folder.")
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or not 0 < workers <= 1024
    ):
        raise ArgumentError(f"workers={workers!r} must be 1 to 1024. Fix: give a whole number, 1 to 1024.")
    target = Path(folder)
    if "programs" in stated:
        stated["programs"] = _programs(stated["programs"], target)
    read = read_spec(None if spec is None else Path(spec), stated)
    running = Running(read, target, stated_of(read), time_limit, progress)
    with _interrupted_by_term():
        result = running.run(_workers(scheduler, workers, read))
    results = SweepResults(target, complete=result.complete, notes=tuple(result.notes))
    if result.interrupted:
        raise KeyboardInterrupt
    return results


def _workers(scheduler: str | None, count: int | None, spec: Spec) -> Callable[[], Workers]:
    if scheduler is None:
        return local_workers(count or len(os.sched_getaffinity(0)), spec.timeout)
    from kpusim.sweeps.workers.cluster import dask_workers

    return dask_workers(scheduler, spec)


def stated_of(spec: Spec) -> dict[str, Any]:
    """Return where programs, platforms and files of options are, for later runs of single points."""
    names = Platform.names()
    return {
        "programs": {program.name: os.path.abspath(program.path) for program in spec.programs},
        "platforms": {
            name: source if source in names else os.path.abspath(source)
            for name, source in spec.platform_sources.items()
        },
        "files": dict(spec.files),
    }


def _programs(given: Any, folder: Path) -> list[Any]:
    """Programs of a call as entries of a sweep; what is no file becomes one of the sweep's folder."""
    if isinstance(given, Mapping) and "file" not in given:
        return [_entry(item, str(name), folder) for name, item in given.items()]
    items = given if isinstance(given, Sequence) and not isinstance(given, (str, tuple)) else [given]
    return [_entry(item, None, folder) for item in items]


def _entry(item: Any, name: str | None, folder: Path) -> Any:
    if isinstance(item, Mapping):
        path = item.get("file")
        entry = dict(item)
        if isinstance(path, (str, os.PathLike)):
            entry["file"] = os.path.abspath(path)
        return entry if name is None else {"name": name, **entry}
    if isinstance(item, (str, os.PathLike)):
        entry = {"file": os.path.abspath(item)}
        return entry if name is None else {"name": name, **entry}
    if name is None and isinstance(item, Program):
        name = item.name
    if name is None:
        raise ArgumentError(
            f"a program that is a {type(item).__name__} needs a name. Fix: give programs={{'name': ...}}."
        )
    prepare_folder(folder)
    place = folder / PROGRAMS
    place.mkdir(exist_ok=True)
    if isinstance(item, Program):
        path = place / f"{name}.kpu"
        path.write_bytes(item.to_bytes())
        return {"file": os.path.abspath(path), "name": name}
    return {"file": os.path.abspath(_exported(item, name, place)), "name": name}


def _exported(item: Any, name: str, place: Path) -> Path:
    """Return a module of PyTorch as an ONNX file, exported once: a file that is there stays."""
    from kpusim.torch.models import exported_file

    module, inputs = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
    target = place / f"{name}.onnx"
    if not target.exists():
        work = place / f".{name}"
        work.mkdir(exist_ok=True)
        made = exported_file(module, work, inputs, trust=False)
        made.rename(target)
        for other in work.iterdir():
            other.rename(place / other.name)
        work.rmdir()
    return target


@contextmanager
def _interrupted_by_term() -> Iterator[None]:
    """SIGTERM ends a sweep as Ctrl-C does: the table is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
