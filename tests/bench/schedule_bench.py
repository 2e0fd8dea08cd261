"""CPU time of `Runtime.execute` of the original's network of 99 ops, with and without the model of time.

usage: .venv/bin/python tests/bench/schedule_bench.py     best and median of many, ms
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kpusim import schedule

DATA = Path(__file__).resolve().parents[2] / "examples" / "tile_schedule"


def measure(name: str, rounds: int, work: Callable[[], object]) -> None:
    """Print the CPU time of one call."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append((time.process_time() - start) * 1e3)
    print(f"{name:44} best {min(times):7.3f} ms   median {statistics.median(times):7.3f} ms")


def main() -> None:
    """Measure."""
    mlp = schedule.load(DATA / "mlp_3layer_256k.sched", DATA / "mlp_3layer.header")
    ops, packed = mlp.ops, mlp.write("packed")
    random = np.random.default_rng(0)

    def runtime() -> schedule.Runtime:
        rt = schedule.Runtime()
        for tensor in mlp.tensors.values():
            rt.register_tensor(tensor.name, tensor.shape)
            rt.set_tensor(tensor.name, random.standard_normal(tensor.shape, np.float32))
        return rt

    rt = runtime()
    rt.execute(ops)
    measure("the same 99 ops again, as a list", 2000, lambda: rt.execute(ops))
    measure("the same 99 ops again, packed", 2000, lambda: rt.execute(packed))

    def alternate() -> None:
        rt.execute(ops)
        rt.execute(ops[:-1])

    measure("two schedules in turn, both checked anew", 1000, alternate)

    def again() -> None:
        rt.execute(ops)
        assert rt.stats.cycles > 0

    again()
    measure("the same 99 ops again, with their cycles", 1000, again)
    fresh = [runtime() for _ in range(50)]

    def timed() -> None:
        one = fresh.pop()
        one.execute(ops)
        assert one.stats.cycles > 0

    measure("first execute of a runtime, with its cycles", 50, timed)


if __name__ == "__main__":
    main()
