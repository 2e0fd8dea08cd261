"""Killed workers and parents, full disks, changed sweeps: nothing is lost, and nothing is run twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import kpusim
import pytest
from conftest import GEMM
from kpusim.sweeps.workers.evaluate import Outcome, Task
from kpusim.sweeps.workers.pool import DEATHS, LocalWorkers

Command = Callable[..., subprocess.CompletedProcess[str]]
SEED = 20261130
#: Copies n tiles, one after the other: 10 us of a processor each.
COPIES = """#! param n = 10000 in [1..100000000]
program copies:
buffer x : DDR (size = 4096)
buffer y : DDR (size = 4096)
buffer m : L2 (size = 4096)
loop i in [0..n - 1]:
    a = transfer.async(dst=region(m, 0, 4096), src=region(x, 0, 4096))
    b = transfer.async(dst=region(y, 0, 4096), src=region(m, 0, 4096), deps=[a])
    wait(b)
endloop
"""
#: 48 points that take long enough to be killed in between.
LONG = """\
programs: [copies.nem]
platforms: [npm_lite]
axes:
  param.n: [10000, 11000, 12000, 13000]
  l2.write_latency_cycles: [1, 2, 3]
  ddr.channels: 1..4
"""


#: The same, three times as long.
LONGER = LONG.replace("[10000, 11000, 12000, 13000]", "[30000, 31000, 32000, 33000]")


@pytest.fixture(autouse=True)
def _program(tmp_path: Path) -> None:
    """The program of the sweeps."""
    (tmp_path / "copies.nem").write_text(COPIES)


def started(spec: Path, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Return the command, in a process of its own."""
    words = [sys.executable, "-m", "kpusim.sweeps.command", str(spec), "-o", str(folder), "--quiet", *more]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def workers_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def points_in(folder: Path) -> list[int]:
    """Points of a journal, in its order."""
    path = folder / "journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return [row["n"] for row in rows if "n" in row]


def test_killed_at_random_moments(tmp_path: Path, command: Command) -> None:
    """Workers and parent are killed ten times; the table is that of a run without interruption."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONGER)
    begun = time.monotonic()
    command(spec, "-o", tmp_path / "whole")
    whole = time.monotonic() - begun
    draw = random.Random(SEED)
    folder = tmp_path / "killed"
    parent = started(spec, folder, "--workers", "2")
    for kill in range(10):
        time.sleep(whole * draw.uniform(0.01, 0.08))  # ten of them are shorter than the sweep, on any machine
        assert parent.poll() is None, f"seed {SEED}: the sweep ended after {kill} kills"
        victim = draw.choice([parent.pid, *workers_of(parent.pid)])
        os.kill(victim, signal.SIGKILL)
        if victim == parent.pid:
            parent.wait()
            parent = started(spec, folder, "--workers", "2")
    assert parent.wait(timeout=200) == 0
    assert (folder / "table.csv").read_bytes() == (tmp_path / "whole/table.csv").read_bytes(), f"seed {SEED}"
    points = points_in(folder)
    assert sorted(points) == list(range(48)), "a point is lost, or was run twice"


def test_resume_runs_nothing_twice(tmp_path: Path, command: Command) -> None:
    """A second run of a finished sweep adds nothing; one of a journal cut short adds what is missing."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONG)
    folder = tmp_path / "out"
    command(spec, "-o", folder)
    table, journal = (folder / "table.csv").read_bytes(), (folder / "journal.jsonl").read_bytes()
    command(spec, "-o", folder)
    assert (folder / "journal.jsonl").read_bytes() == journal
    cut = journal[: len(journal) * 2 // 3]
    (folder / "journal.jsonl").write_bytes(cut)
    (folder / "table.csv").unlink()
    command(spec, "-o", folder)
    assert (folder / "table.csv").read_bytes() == table
    again = (folder / "journal.jsonl").read_bytes()
    assert again.startswith(cut[: cut.rindex(b"\n") + 1]) and sorted(points_in(folder)) == list(range(48))


def test_interrupted_and_limited(tmp_path: Path) -> None:
    """Ctrl-C and a time limit leave a table that is a prefix by point."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONGER)
    for name, more in (("interrupted", ()), ("limited", ("--time-limit", "1"))):
        folder = tmp_path / name
        parent = started(spec, folder, "--workers", "2", *more)
        if name == "interrupted":
            while len(points_in(folder)) < 5:
                time.sleep(0.02)
            parent.send_signal(signal.SIGINT)
        assert parent.wait(timeout=60) == (130 if name == "interrupted" else 0)
        rows = kpusim.SweepResults(folder).rows
        assert [row["point"] for row in rows] == list(range(len(rows))) and len(rows) < 48


def test_changed_sweep(tmp_path: Path, command: Command) -> None:
    """Another sweep in the same folder is refused by what changed, and changes nothing."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONG.replace("1..4", "1..1"))
    folder = tmp_path / "out"
    command(spec, "-o", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for text in (LONG, LONG.replace("1..4", "1..1") + "seed: 9\n"):
        spec.write_text(text)
        error = command(spec, "-o", folder, code=1).stderr
        assert "holds another sweep" in error and ("axes" in error or "seed" in error) and "Fix: " in error
    journal = folder / "journal.jsonl"
    journal.write_text(
        journal.read_text().replace(f'"version": "{kpusim.__version__}"', '"version": "0.0.1"', 1)
    )
    spec.write_text(LONG.replace("1..4", "1..1"))
    assert "begun with kpusim 0.0.1" in command(spec, "-o", folder, code=1).stderr
    assert (folder / "table.csv").read_bytes() == before["table.csv"]


def test_folders_that_cannot_be_used(tmp_path: Path, command: Command) -> None:
    """Two at once, other content, a file, a full disk, a damaged journal: one error, and nothing is lost."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONG)
    folder = tmp_path / "out"
    parent = started(spec, folder, "--workers", "1")
    while not points_in(folder):
        time.sleep(0.02)
    assert "another sweep writes" in command(spec, "-o", folder, code=1).stderr
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(timeout=60) == 130
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    assert "not a sweep" in command(spec, "-o", other, code=1).stderr
    assert "Fix: " in command(spec, "-o", spec, code=1).stderr
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines[:2], "{damaged\n", *lines[2:]]))
    error = command(spec, "-o", folder, code=1).stderr
    assert f"{journal}:3: error: this line is damaged" in error
    journal.write_text("".join(lines))
    command(spec, "-o", folder)
    assert sorted(points_in(folder)) == list(range(48))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tmp_path: Path, command: Command) -> None:
    """A journal that cannot be written is an error that says so; the same command goes on later."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(LONG.replace("1..4", "1..1"))
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); import signal; \
signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from kpusim.sweeps.command import main; \
raise SystemExit(main([{str(spec)!r}, '-o', {str(tmp_path / 'out')!r}]))"
    result = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "Fix: make room" in result.stderr and "Traceback" not in result.stderr
    command(spec, "-o", tmp_path / "out")
    assert sorted(points_in(tmp_path / "out")) == list(range(12))


def task(number: int) -> Task:
    """Return a point of an example."""
    return Task(number, "simulate", str(GEMM), "npm_lite", {}, {}, {}, "timing", "zeros")


def endless(number: int, tmp_path: Path) -> Task:
    """Return one that takes minutes."""
    return replace(task(number), program=str(tmp_path / "copies.nem"), params={"n": 100_000_000})


def test_a_point_that_kills_its_worker() -> None:
    """It fails after some attempts, and the others are evaluated."""
    workers = LocalWorkers(2)
    found: dict[int, Outcome] = {}
    try:
        for outcomes in workers.evaluate([Killer(3) if n == 3 else task(n) for n in range(8)]):  # type: ignore[misc]
            found |= {outcome.number: outcome for outcome in outcomes}
    finally:
        workers.close()
    assert sorted(found) == list(range(8))
    assert "its process ended (signal 9), 5 times" in found[3].error
    assert all(not outcome.error for number, outcome in found.items() if number != 3)


class Killer:
    """A task that ends the process which unpickles it."""

    how = "simulate"

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        """Return what the worker does with it."""
        return os.system, ("kill -9 $PPID",)


def test_workers_die_one_after_the_other() -> None:
    """Each death gives the tasks of that worker to another one; too many on one point make it fail."""
    workers = LocalWorkers(1)
    found: list[Outcome] = []
    try:
        source = iter([task(number) for number in range(6)])
        for outcomes in workers.evaluate(source):
            found += outcomes
            if len(found) in (1, 3):
                os.kill(workers.pids()[0], signal.SIGKILL)
    finally:
        workers.close()
    assert sorted(outcome.number for outcome in found) == list(range(6))
    assert not any(outcome.error for outcome in found) and DEATHS > 2


def test_timeout(tmp_path: Path) -> None:
    """A point that takes too long fails by itself; the others are evaluated."""
    workers = LocalWorkers(1, timeout=2)
    try:
        given = [task(0), endless(1, tmp_path), task(2)]
        found = {o.number: o for outcomes in workers.evaluate(given) for o in outcomes}
    finally:
        workers.close()
    assert "longer than 2 s" in found[1].error and not found[0].error and not found[2].error
