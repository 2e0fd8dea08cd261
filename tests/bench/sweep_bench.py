"""Cost of a point of a sweep: ResNet-18 int8 on tile32, 1,000 points of 4 axes, on this machine.

usage: sweep_bench.py MODEL.onnx [--effort N] [--fidelity WORD] [--points N] [--workers N]

Prints seconds for all, and of a point by phase: the program (imported once, compiled for each device), the
simulation, bookkeeping (everything else, of all workers' time), and the memory of the largest worker, as it
goes. tests/networks/models.py makes the model.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import kpusim
from kpusim.sweeps.running import Status
from kpusim.sweeps.workers import pool

AXES: dict[str, Any] = {
    "engine.array.rows": [16, 24, 32, 48, 64],
    "l2.size_bytes": "512KiB..8MiB*2",
    "ddr.channels": "1..4",
    "clock.core_mhz": "200..1100+100",
}
STEP = 1 << 20


def resident_mib(pid: int) -> float:
    """Memory of a process."""
    text = Path(f"/proc/{pid}/statm").read_text().split()
    return int(text[1]) * resource.getpagesize() / STEP


def main() -> None:
    """Run the sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--fidelity", default="simulate")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    axes = dict(AXES)
    if given.points > 1000:  # more clocks: each is another device
        axes["clock.core_mhz"] = f"200..{200 + given.points // 10 - 1}"
    memory: dict[int, float] = {}
    workers: list[pool.LocalWorkers] = []
    original = pool.LocalWorkers.__init__

    def noted(self: pool.LocalWorkers, count: int, timeout: float | None = None) -> None:
        original(self, count, timeout)
        workers.append(self)

    pool.LocalWorkers.__init__ = noted  # type: ignore[method-assign]

    def progress(status: Status) -> None:
        if status.done and status.done % max(1, given.points // 10) < given.workers:
            memory[status.done] = max(map(resident_mib, workers[0].pids()))

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        results = kpusim.sweep(
            folder=folder, programs=[given.model], platforms=["tile32"], axes=axes, workers=given.workers,
            options={"precision": "int8", "calibrate": "random:1", "effort": given.effort},
            sample="grid" if given.points == 1000 else {"random": given.points},
            fidelity=given.fidelity, progress=progress,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
        phases = results.host_times()
        rows = len(results.rows)
    failed = sum(bool(row["error"]) for row in results.rows)
    what = f"{rows} points, {failed} failed, effort {given.effort}, {given.fidelity}"
    print(f"{what}: {seconds:.1f} s with {given.workers} workers")
    other = seconds * given.workers - sum(phases.values())
    for name, value in [*phases.items(), ("bookkeeping", other)]:
        share = value / (seconds * given.workers)
        print(f"  {name.removesuffix('_s'):12} {1e3 * value / rows:8.2f} ms a point, {share:6.1%}")
    told = ", ".join(f"{at}: {mib:.0f} MiB" for at, mib in sorted(memory.items()))
    print("  memory of the largest worker:", told)


if __name__ == "__main__":
    main()
