"""Each fix that errors of kpusim.sweeps advise works: folders, workers, clusters, tables, pages."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kpusim
import pytest
from fixes import Case, play
from kpusim.sweeps import journal, running
from kpusim.sweeps.knobs import knobs_of
from kpusim.sweeps.workers import cluster, pool
from test_sweep_cluster import PATCH
from test_sweep_faults import COPIES, Killer
from test_sweep_fixes import (
    BANKS,
    CORE,
    GEMM,
    L2,
    ROOT,
    ROWS,
    command,
    failed,
    installed,
    patched,
    refused,
    started,
    sweep,
    without,
    written,
)

CHANNELS = "ddr.channels"
TIME = "time.total_us"
TWO = {BANKS: [4, 8]}
#: Machines whose L2 is too small for the program.
SMALL = {L2: ["1KiB", "2KiB"]}
LARGE = {L2: ["1MiB", "2MiB"]}
JOURNAL = "out/journal.jsonl"


def done(folder: str = "out") -> kpusim.SweepResults:
    """Return a sweep of two points that has ended."""
    return sweep(folder, axes=TWO)


def copies(folder: str, **more: Any) -> str:  # noqa: ANN401
    """Errors of a sweep that takes half a second."""
    written("copies.nem", COPIES.encode())
    return failed(folder, programs=[{"file": "copies.nem", "params": {"n": 60000}}], **more)


def show(*numbers: int) -> None:
    """Points run alone."""
    for number in numbers:
        assert "critical path" in command("show", "out", number)


# ---- folders and journals


@contextlib.contextmanager
def full(size: int) -> Iterator[None]:
    """A disk that takes files of this size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def cramped(size: int) -> kpusim.SweepResults:
    """Return a sweep on it."""
    with full(size):
        return done()


def only_journal() -> int:
    """Return a size that the journal of the sweep has, and its list of columns has not."""
    done("sized")
    return sum((Path("sized") / name).stat().st_size for name in ("journal.jsonl", "columns.csv")) // 2


def complete() -> None:
    """The table has all points."""
    assert [row["point"] for row in kpusim.SweepResults("out").rows] == [0, 1]


def held(folder: str) -> kpusim.SweepResults:
    """Return a sweep in a folder that another one writes into."""
    Path(folder).mkdir()
    with (Path(folder) / "journal.jsonl").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return done(folder)


def of_version(version: str, folder: str = "out") -> kpusim.SweepResults:
    """Return a sweep by a version of kpusim."""
    with patched(journal, __version__=version):
        return done(folder)


def damaged(line: int) -> kpusim.SweepResults:
    """Return a sweep that goes on, where a line of the journal was damaged."""
    done("whole")
    done()
    lines = Path(JOURNAL).read_text().splitlines(keepends=True)
    lines[line] = "{" + lines[line]
    Path(JOURNAL).write_text("".join(lines))
    return done()


def deleted() -> None:
    """Damaged lines are deleted, until no one says so any more; their points are run again."""
    while True:
        try:
            done()
            break
        except kpusim.UserError as error:
            found = re.search(r"jsonl:(\d+): error: this line is damaged", str(error))
            assert found
            lines = Path(JOURNAL).read_text().splitlines(keepends=True)
            Path(JOURNAL).write_text("".join(lines[: int(found[1]) - 1] + lines[int(found[1]) :]))
    assert Path(JOURNAL).read_text().count('{"n":') == 2
    assert Path("out/table.csv").read_text() == Path("whole/table.csv").read_text()


def no_file(name: str) -> kpusim.SweepResults:
    """Return a sweep with a folder where a file should be."""
    (Path("out") / name).mkdir(parents=True)
    return done()


def removed(name: str) -> str:
    """Return a folder without one of its files."""
    (Path("out") / name).unlink()
    return "out"


def stopped() -> kpusim.SweepResults:
    """Return one whose time was over before it ran anything."""
    results = started(axes=TWO, time_limit=1e-9)
    assert not results.rows
    return results


FOLDERS = [
    Case("sweeps/journal.py", "Fix: go on with that version, or use another folder.",
         lambda: of_version("0.0.1") and done(),
         [lambda: of_version("0.0.1"), lambda: done("other")]),
    Case("sweeps/journal.py", "holds another sweep ({}). Fix: use another folder.",
         lambda: done() and sweep(axes={BANKS: [16]}),
         [lambda: sweep("other", axes={BANKS: [16]})]),
    Case("sweeps/journal.py", "Fix: give the folder of a sweep.", lambda: kpusim.SweepResults("absent"),
         [lambda: done() and kpusim.SweepResults("out")]),
    Case("sweeps/journal.py", "Fix: give a folder that can be written.", lambda: no_file("journal.jsonl"),
         [lambda: done("other")]),
    Case("sweeps/journal.py", "Fix: wait for it, or use another one.", lambda: held("out"),
         [lambda: done("out"), lambda: done("other")]),
    Case("sweeps/journal.py", "Fix: make room, and give the same command again: it goes on.",
         lambda: cramped(8000),
         [lambda: done() and complete()]),
    Case("sweeps/journal.py", "Fix: delete it; its point is run again.", lambda: damaged(-1), [deleted]),
    Case("sweeps/journal.py", "Fix: delete it; its point is run again.", lambda: damaged(1), [deleted]),
    Case("sweeps/journal.py", "Fix: sweep into another folder.", lambda: damaged(0),
         [lambda: done("other")]),
    Case("sweeps/table.py",
         "Fix: make room; the journal has all points, the same command writes the table.",
         lambda: cramped(only_journal()),
         [lambda: done() and complete()]),
    Case("sweeps/table.py", "Fix: give the folder of a finished sweep.",
         lambda: done() and refused("front", removed("table.csv")),
         [lambda: done("other") and command("front", "other"), lambda: done() and command("front", "out")]),
    Case("sweeps/running.py", "Fix: give an empty folder, or a new one.",
         lambda: written("thesis.txt", b"mine") and done("."),
         [lambda: Path("empty").mkdir() or done("empty"), lambda: done("new")]),
    Case("sweeps/running.py", "Fix: give a folder that can be written.",
         lambda: written("thesis.txt", b"mine") and done("thesis.txt"),
         [lambda: done("folder")]),
]  # fmt: skip


# ---- calls and workers


def linear() -> tuple[Any, Any]:
    """Return a module of PyTorch with its input."""
    import torch

    return torch.nn.Linear(8, 4), (torch.zeros(2, 8),)


def deadly(what: str, **more: Any) -> str:  # noqa: ANN401
    """Return a sweep whose point ends its worker, and has one chance; its errors."""
    with patched(pool, DEATHS=1), patched(cluster, DEATHS=1):
        if what == "local":
            with patched(running, task_of=lambda spec, design, number, how: Killer(number)):
                return failed(**more)
        with patched(cluster, evaluate_on_worker=ends):
            return failed(**more)


def ends(*_: object) -> None:
    """A task that ends its worker."""
    os.kill(os.getpid(), 9)


ends.__module__ = "__main__"  # pickled as a whole: workers have no file of it


CALLS = [
    Case("sweeps/workers/evaluate.py", "Fix: use fidelity: simulate.", lambda: failed(fidelity="estimate"),
         [lambda: failed("other", fidelity="simulate")]),
    Case("sweeps/search.py", "Fix: pip install 'kpusim[sweep]'.",
         lambda: without("optuna", lambda: sweep(axes=TWO, sample={"search": 2})),
         [lambda: installed("sweep", "optuna", lambda: sweep(axes=TWO, sample={"search": 2}))]),
    Case("sweeps/sweeping.py", "Fix: give folder.", lambda: kpusim.sweep(programs=[GEMM]),
         [lambda: kpusim.sweep(programs=[GEMM], folder="out")]),
    Case("sweeps/sweeping.py", "Fix: give a whole number, 1 to 1024.", lambda: sweep(workers=0),
         [lambda: sweep(workers=1), lambda: sweep(workers=2)]),
    Case("sweeps/sweeping.py", "Fix: give programs={'name': ...}.", lambda: sweep(programs=[linear()]),
         [lambda: sweep(programs={"net": linear()})]),
    Case("sweeps/workers/pool.py", "Fix: raise `timeout`, or leave it out.",
         lambda: copies("out", timeout=0.01),
         [lambda: copies("raised", timeout=60), lambda: copies("without")]),
    Case("sweeps/workers/pool.py", "Fix: run it alone with `kpusim sweep show`.", lambda: deadly("local"),
         [lambda: show(0)]),
]  # fmt: skip


# ---- clusters


class Cluster:
    """A scheduler of Dask, begun when somebody asks for its address."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self) -> str:
        """Start it by the command that the message says; return its address."""
        if not self.address:
            place = self.folder / "scheduler.json"
            words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(place)]
            self._begin("scheduler", *words)
            while not place.exists() or not place.read_text().strip():
                assert self.processes[0].poll() is None
                time.sleep(0.05)
            self.address = str(json.loads(place.read_text())["address"])
        return self.address

    @contextlib.contextmanager
    def worker(self, code: str = "") -> Iterator[str]:
        """A worker by the command that the message says, or of a program; the scheduler's address."""
        words = [self.start(), "--no-nanny", "--nthreads", "1", "--no-dashboard",
                 "--local-directory", str(self.folder / "dask")]  # fmt: skip
        process = self._begin(*words, code=code) if code else self._begin("worker", *words)
        try:
            yield self.address
        finally:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End it."""
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def _begin(self, *words: str, code: str = "") -> subprocess.Popen[bytes]:
        head = [sys.executable, "-c", code] if code else [str(Path(sys.executable).parent / "dask")]
        process = subprocess.Popen(
            [*head, *words],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"},
        )
        self.processes.append(process)
        return process


DASK = Cluster()


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """The cluster ends with the tests."""
    yield
    DASK.close()


def impatient(address: str) -> kpusim.SweepResults:
    """Return a sweep that waits for schedulers and workers for a moment alone."""
    import distributed

    short = partial(distributed.Client, timeout=0.5)
    with patched(cluster, WAIT_S=0.3), patched(distributed, Client=lambda at, **_: short(at)):
        return sweep(scheduler=address)


def on_cluster(folder: str = "out", code: str = "") -> kpusim.SweepResults:
    """Return a sweep with a worker."""
    with DASK.worker(code) as address:
        return sweep(folder, scheduler=address)


def deadly_on_cluster() -> str:
    """Return a point that ends its worker there."""
    with DASK.worker() as address:
        return deadly("cluster", scheduler=address)


CLUSTERS = [
    Case("sweeps/workers/cluster.py", "Fix: pip install 'kpusim[cluster]'.",
         lambda: without("distributed", lambda: sweep(scheduler="tcp://127.0.0.1:9")),
         [lambda: installed("cluster", "distributed", on_cluster)]),
    Case("sweeps/workers/cluster.py", "Fix: start one with `dask scheduler`.",
         lambda: impatient("tcp://127.0.0.1:9"),
         [lambda: on_cluster() and None]),
    Case("sweeps/workers/cluster.py", "Fix: start some with `dask worker {}`.",
         lambda: impatient(DASK.start()),
         [lambda: on_cluster() and None]),
    Case("sweeps/workers/cluster.py", "Fix: install that version there.", lambda: on_cluster(code=PATCH),
         [lambda: on_cluster() and None]),
    Case("sweeps/workers/cluster.py", "Fix: run it alone with `kpusim sweep show`.", deadly_on_cluster,
         [lambda: show(0)]),
]  # fmt: skip


# ---- results


def of_file(name: str, text: str) -> kpusim.SweepResults:
    """Return a sweep of files in the working folder: a program, or a platform."""
    written("mine.nem", Path(GEMM).read_bytes())
    written("mine.textproto", kpusim.Platform.load("npm_lite").text().encode())
    results = sweep(programs=["mine.nem"], platforms=["mine.textproto"])
    Path(name).rename(f"{name}.kept")
    written(name, text.encode())
    return results


def of_samples() -> kpusim.SweepResults:
    """Return a sweep of a network, calibrated with a folder to which a sample was added since."""
    networks = ROOT / "examples" / "networks"
    shutil.copytree(networks / "calibration", "images", dirs_exist_ok=True)
    options = {"precision": "int8", "calibrate": "images", "effort": 1}
    results = sweep(programs=[networks / "digits_cnn.onnx"], platforms=["tile32"], options=options)
    assert not results.rows[0]["error"] and "--calibrate" in results.point(0).command()
    shutil.copy("images/00.npy", "images/more.npy")
    return results


def put_back(name: str) -> None:
    """The file comes back."""
    Path(f"{name}.kept").replace(name)
    show(0)


def seen(*points: int) -> None:
    """These have errors in the table, which say what to do."""
    with Path("out/table.csv").open(newline="") as table:
        errors = [row["error"] for row in csv.DictReader(table)]
    assert [point for point, error in enumerate(errors) if "Fix: " in error] == list(points)


def listed() -> None:
    """Every number of columns.csv is a statistic."""
    results = kpusim.SweepResults("out")
    names = [name for name, (unit, _) in results.columns.items() if unit and results.rows[0][name]]
    assert TIME in names
    for name in names:
        knobs_of(results, name)


def sample(folder: str = "out") -> str:
    """Knobs of a sample."""
    axes = {CORE: "100..2000+100", ROWS: "8..64*2"}
    return command("knobs", sweep(folder, axes=axes, sample={"random": 30}).folder)


def page(name: str, *more: str, folder: str = "out") -> None:
    """A page of a sweep."""
    command("report", folder, "-o", name, *more)
    assert Path(name).stat().st_size > 1 << 20


def empty_journal() -> str:
    """Return a folder with a journal that has nothing."""
    Path("out").mkdir()
    written(JOURNAL, b"")
    return "out"


RESULTS = [
    Case("sweeps/knobs.py", "Fix: sweep more, or see the errors in the table.",
         lambda: sweep() and refused("knobs", "out"),
         [lambda: done("more") and command("knobs", "more")]),
    Case("sweeps/knobs.py", "Fix: sweep more, or see the errors in the table.",
         lambda: failed(axes={L2: ["1KiB", "1MiB"]}) and refused("knobs", "out"),
         [lambda: seen(0), lambda: sweep("more", axes=LARGE) and command("knobs", "more")]),
    Case("sweeps/knobs.py", "Fix: columns.csv lists them.",
         lambda: done() and refused("knobs", "out", "--of", "cycles"),
         [listed, lambda: command("knobs", "out", "--of", "cycles.total")]),
    Case("sweeps/knobs.py", "Fix: pip install 'kpusim[sweep]'.", lambda: without("SALib", sample),
         [lambda: installed("sweep", "SALib", sample)]),
    Case("sweeps/results.py", "Fix: see the errors in table.csv.",
         lambda: failed(axes=SMALL) and refused("report", "out", "-o", "p.html"),
         [lambda: seen(0, 1), lambda: sweep("more", axes=LARGE) and page("p.html", folder="more")]),
    Case("sweeps/results.py", "Fix: see the errors in table.csv.",
         lambda: failed(axes=SMALL) and refused("knobs", "out"),
         [lambda: seen(0, 1), lambda: sweep("more", axes=LARGE) and command("knobs", "more")]),
    Case("sweeps/report.py", "Fix: give a name that can be written.",
         lambda: done() and refused("report", "out", "-o", "absent/p.html"),
         [lambda: page("p.html")]),
    Case("sweeps/report.py", "Fix: pip install 'kpusim[sweep]'.",
         lambda: done() and without("plotly", lambda: refused("report", "out", "-o", "p.html")),
         [lambda: installed("sweep", "plotly", lambda: page("p.html"))]),
    Case("sweeps/results.py", "Fix: run the sweep.",
         lambda: kpusim.SweepResults(empty_journal()),
         [lambda: done() and kpusim.SweepResults("out").rows[0]["point"]]),
    Case("sweeps/results.py", "Fix: go on with the sweep.", lambda: stopped() and refused("show", "out", "0"),
         [lambda: done() and show(0)]),
    Case("sweeps/results.py", "Fix: 0 to {}.", lambda: done() and refused("show", "out", "2"),
         [lambda: show(0, 1)]),
    Case("sweeps/results.py", "is not the program that was swept. Fix: put it back.",
         lambda: of_file("mine.nem", "# other") and refused("show", "out", "0"),
         [lambda: put_back("mine.nem")]),
    Case("sweeps/results.py", "is not what was swept with. Fix: put it back.",
         lambda: of_samples() and refused("show", "out", "0"),
         [lambda: Path("images/more.npy").unlink(), lambda: show(0)]),
    Case("sweeps/results.py", "is not the platform that was swept. Fix: put it back.",
         lambda: of_file("mine.textproto", kpusim.Platform.load("tile32").text()) and
         refused("show", "out", "0"),
         [lambda: put_back("mine.textproto")]),
    Case("sweeps/results.py", "Fix: give another name, or force to replace it.",
         lambda: written("p.html", b"") and done() and refused("report", "out", "-o", "p.html"),
         [lambda: page("q.html"), lambda: page("p.html", "--force")]),
    Case("sweeps/results.py", "Fix: give another name, or force to replace it.",
         lambda: written("p.parquet", b"") and done().write_parquet("p.parquet"),
         [lambda: done().write_parquet("q.parquet"), lambda: done().write_parquet("p.parquet", force=True),
          lambda: command("parquet", "out", "-o", "p.parquet", "--force")]),
    Case("sweeps/results.py", "SQL and Parquet need DuckDB. Fix: pip install 'kpusim[sweep]'.",
         lambda: without("duckdb", lambda: done().sql("select 1")),
         [lambda: installed("sweep", "duckdb", lambda: done().sql("select 1")[0])]),
    Case("sweeps/results.py", "frames need pandas. Fix: pip install 'kpusim[sweep]'.",
         lambda: without("pandas", lambda: done().to_pandas()),
         [lambda: installed("sweep", "pandas", lambda: done().to_pandas())]),
    Case("sweeps/results.py", "Fix: give the folder of a finished sweep.",
         lambda: done() and refused("front", removed("columns.csv")),
         [lambda: done("other") and command("front", "other"), lambda: done() and command("front", "out")]),
    Case("sweeps/results.py", "Fix: the tables are points and columns.",
         lambda: done() and refused("sql", "out", "select * from rows"),
         [lambda: command("sql", "out", "select * from points"),
          lambda: command("sql", "out", "select * from columns")]),
    Case("sweeps/results.py", "{}: {}. Fix: give a name that can be written.",
         lambda: done() and refused("parquet", "out", "-o", "absent/p.parquet"),
         [lambda: command("parquet", "out", "-o", "p.parquet")]),
]  # fmt: skip

CASES = [*FOLDERS, *CALLS, *CLUSTERS, *RESULTS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)
