"""Sweeps on a Dask cluster: the same bytes, workers that come and die, and ones of another version."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import kpusim
import pytest
from test_sweep_faults import COPIES, LONG, LONGER

PATCH = "import kpusim; kpusim._core.version = '0.0.1'; from distributed.cli.dask_worker import main; main()"


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A scheduler; its address."""
    place = tmp_path / "scheduler.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard", "--scheduler-file", str(place)],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not place.exists() or not place.read_text().strip():
            assert process.poll() is None
            time.sleep(0.05)
        yield str(json.loads(place.read_text())["address"])
    finally:
        process.kill()
        process.wait()


def worker(address: str, tmp_path: Path, code: str | None = None) -> subprocess.Popen[bytes]:
    """Return a worker with one thread, which no nanny starts again."""
    head = ["-c", code] if code else ["-m", "distributed.cli.dask_worker"]
    words = [
        address,
        "--no-nanny",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--local-directory",
        str(tmp_path / "dask"),
    ]
    return subprocess.Popen([sys.executable, *head, *words], stderr=subprocess.DEVNULL)


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """End them."""
    for process in processes:
        process.kill()
        process.wait()


def test_same_bytes_with_workers_that_die(scheduler: str, tmp_path: Path) -> None:
    """Two workers, one killed twice: the table of local workers; new workers get the program themselves."""
    (tmp_path / "copies.nem").write_text(COPIES)
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONGER)
    kpusim.sweep(spec, tmp_path / "local")
    processes = [worker(scheduler, tmp_path) for _ in range(2)]
    command = [sys.executable, "-m", "kpusim.sweeps.command", spec, "-o", tmp_path / "cluster", "--quiet"]
    sweep = subprocess.Popen([*command, "--scheduler", scheduler])
    try:
        for _ in range(2):
            done = points(tmp_path / "cluster")
            while points(tmp_path / "cluster") < done + 4:
                assert sweep.poll() is None
                time.sleep(0.05)
            os.kill(processes[-1].pid, signal.SIGKILL)
            processes.append(worker(scheduler, tmp_path))
        assert sweep.wait(timeout=120) == 0
    finally:
        sweep.kill()
        stop(processes)
    assert (tmp_path / "cluster/table.csv").read_bytes() == (tmp_path / "local/table.csv").read_bytes()
    assert points(tmp_path / "cluster") == 48


def points(folder: Path) -> int:
    """Count how many outcomes a journal has."""
    path = folder / "journal.jsonl"
    return path.read_text().count('{"n":') if path.exists() else 0


def test_worker_of_another_version(scheduler: str, tmp_path: Path) -> None:
    """It is refused by its name; the journal can be gone on with."""
    (tmp_path / "copies.nem").write_text(COPIES)
    (tmp_path / "spec.yaml").write_text(LONG)
    processes = [worker(scheduler, tmp_path, PATCH)]
    try:
        with pytest.raises(kpusim.UserError, match=r"worker tcp://.* has kpusim 0.0.1, .* Fix: "):
            kpusim.sweep(tmp_path / "spec.yaml", tmp_path / "out", scheduler=scheduler)
    finally:
        stop(processes)
    assert len(kpusim.sweep(tmp_path / "spec.yaml", tmp_path / "out").rows) == 48


def test_no_scheduler(tmp_path: Path) -> None:
    """An address where nobody answers."""
    (tmp_path / "copies.nem").write_text(COPIES)
    (tmp_path / "spec.yaml").write_text(LONG)
    with pytest.raises(kpusim.UserError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        kpusim.sweep(tmp_path / "spec.yaml", tmp_path / "out", scheduler="tcp://127.0.0.1:9")
