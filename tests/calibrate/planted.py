"""Times of a device that is known: what a fit has to find again.

usage: planted.py [SEED...]    the whole, on npm_lite: five parameters from noisy times, two that cannot be
                               told apart, rows that were held out; the figures of docs/calibration.md

Programs are chains and streams that each show one part of the device, in many sizes.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from kpusim.calibrate import Calibration, calibrate
from kpusim.calibrate.measured import read_measured
from kpusim.calibrate.simulating import simulations
from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform

BASE = "npm_lite"
SETS: dict[str, OverrideValue] = {"clock.array_mhz": 1000.0}  #: the array's clock is one of its own
#: Five parameters, none of which is near to what the platform has.
TRUTH: dict[str, OverrideValue] = {
    "ddr.controller_latency_ns": 137, "ddr.data_rate_mtps": 2480, "clock.array_mhz": 640.0,
    "engine.vector.pipeline_latency_cycles": 60, "l2.read_latency_cycles": 45,
}  # fmt: skip
NOISE = 0.003  #: standard deviation of the logarithm of a time


def program(kind: str, size: int, count: int, ahead: int) -> str:
    """Return a loop of tasks, `ahead` of which are on their way: moves of `size` bytes, or operations."""
    moved = {"ddr": ("DDR", "L2"), "l2": ("L2", "L1[0]")}
    head = f"program {kind}:\n"
    if kind in moved:
        source, target = moved[kind]
        body = "t = transfer.async(dst=region(y, i mod {0} * {1}, {1}), src=region(x, i mod {0} * {1}, {1}))"
        return (
            f"{head}buffer x : {source} (size = {ahead * size}, align = 64)\n"
            f"buffer y : {target} (size = {ahead * size}, align = 64)\n"
            f"loop i in [0..{count - 1}] @max_in_flight({ahead}):\n    {body.format(ahead, size)}\nendloop\n"
        )
    if kind == "vector":
        regions, shape, task = {"x": "N", "z": "N"}, [size], "relu.async in x_r out z_r"
    else:
        regions, shape = {"x": "MK", "y": "KN", "z": "MN"}, [size, size]
        task = "gemm.async in x_r, y_r out z_r accum_type=f32"
    size_bytes = 2 * math.prod(shape)
    for name, layout in regions.items():
        head += f"buffer {name} : L1[0] (size = {size_bytes}, align = 64)\n"
        head += f"let {name}_r = region({name}, 0, {size_bytes}) elem=f16, shape={shape}, layout={layout}\n"
    return f"{head}loop i in [0..{count - 1}] @max_in_flight(1):\n    t = {task}\nendloop\n"


def write_programs(folder: Path, count: int, seed: int) -> list[tuple[str, str]]:
    """Write programs of all kinds; file and kind of each."""
    chosen = random.Random(seed)
    found = []
    for index in range(count):
        kind = ("ddr", "l2", "vector", "product")[index % 4]
        if kind in ("ddr", "l2"):
            size, ahead = 64 << chosen.randrange(9), chosen.choice([1, 4, 8])
        else:
            size, ahead = (16 << chosen.randrange(5 if kind == "vector" else 3)), 1
        name = f"{index}_{kind}.nem"
        (folder / name).write_text(program(kind, size, chosen.randrange(4, 16), ahead))
        found.append((name, kind))
    return found


def measure(
    folder: Path, count: int, seed: int, truth: Mapping[str, OverrideValue], noise: float = NOISE
) -> Path:
    """Write programs and their times on the known device, with noise; the file of measurements."""
    programs = write_programs(folder, count, seed)
    path = folder / "measured.csv"

    def write(times: Sequence[float]) -> None:
        lines = [f"{name},{kind},{time:.9g}" for (name, kind), time in zip(programs, times, strict=True)]
        path.write_text("program,class,time_us\n" + "\n".join(lines) + "\n")

    write([1.0] * count)
    data = read_measured(path)
    with simulations(data, BASE, Platform.load(BASE), sets={**SETS, **truth}, workers=1) as simulated:
        times = [values["time.total_us"] for values in simulated.at([{}])[0]]
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(count))
    write(list(np.array(times) * factors))
    return path


def distances(found: Calibration, truth: Mapping[str, OverrideValue]) -> dict[str, float]:
    """Return how far each parameter is from the planted one, as a share."""
    return {name: abs(found.values[name] / float(value) - 1) for name, value in truth.items()}


def main() -> None:
    """Print the figures."""
    for seed in map(int, sys.argv[1:] or ["1", "2", "3"]):
        with tempfile.TemporaryDirectory() as text:
            path = measure(Path(text), 64, seed, TRUTH)
            found = calibrate(path, BASE, list(TRUTH), sets=SETS, hold_out="0.25")
            held = found.held_out
            assert held is not None
            print(f"seed {seed}: {found.all_rows.after.rows} rows, {found.runs:,} simulations")
            for item, off in zip(found.fitted, distances(found, TRUTH).values(), strict=True):
                name = item.parameter.name
                print(f"  {name}: {item.value:g} +- {item.error:.2g} of {TRUTH[name]}, {100 * off:.2f} % off")
            print(f"  held out: {100 * held.before.mean:.2f} % before, {100 * held.after.mean:.2f} % after")
            assert max(distances(found, TRUTH).values()) <= 0.01
            assert held.after.mean < held.before.mean
            pair = ["ddr.controller_latency_ns", "system_dma.descriptor_cycles"]
            try:
                calibrate(path, BASE, pair)
                raise AssertionError("two parameters that act alike were fitted")
            except UserError as error:
                print(f"  {error}")


if __name__ == "__main__":
    main()
