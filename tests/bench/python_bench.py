"""Simulations of a small program per second from Python, and the memory that they leave in use.

usage: .venv/bin/python tests/bench/python_bench.py [RUNS]

The program is y = relu(x) on 4 tiles through DDR, L2 and L1: 20 tasks, with values and time. Rates are of
processor time: `parsed` reads text and platform each time, `prepared` reads them once, `again` keeps one
simulation.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import kpusim
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "python"))
from conftest import RELU

WARM_UP = 50


def resident_bytes() -> int:
    """Memory of the process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str, runs: int, run: Callable[[], kpusim.Run]) -> None:
    """Print runs per second and the growth of memory."""
    for _ in range(WARM_UP):
        run()
    before, start = resident_bytes(), time.process_time()
    for _ in range(runs):
        run()
    seconds = time.process_time() - start
    grown = (resident_bytes() - before) / 1024
    print(f"{name:10} {runs / seconds:8.0f} runs/s   {seconds / runs * 1e3:6.3f} ms   RSS +{grown:.0f} KiB")


def main() -> None:
    """Measure the three ways."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    inputs = {"x": np.linspace(-1, 1, 256).astype(np.float16)}
    program, platform = kpusim.Program.of(RELU), kpusim.Platform.load("npm_lite")
    simulation = kpusim.Simulation(program, platform)
    measure("parsed", runs, lambda: kpusim.simulate(RELU, "npm_lite", inputs))
    measure("prepared", runs, lambda: kpusim.simulate(program, platform, inputs))
    measure("again", runs, lambda: simulation.run(inputs))


if __name__ == "__main__":
    main()
