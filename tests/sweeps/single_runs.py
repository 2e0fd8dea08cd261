"""Random points of random sweeps beside single runs of the command: the same statistics, to the last digit.

usage: single_runs.py KPUSIM [--points N] [--seed N]

Programs of several front ends, shipped platforms, axes of every kind. Prints each point that differs; exit 3
if any does.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kpusim

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
INT8 = {"precision": "int8", "calibrate": str(EXAMPLES / "networks/calibration")}
#: File, options, platforms that take it.
PROGRAMS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("gemm_relu/gemm_relu.nem", {}, ["npm_lite", "npm_pro", "swkpu-v1"]),
    ("conv_pool/conv_pool.nem", {}, ["npm_lite", "swkpu-v1"]),
    ("networks/digits_cnn.onnx", {"precision": "fp16"}, ["tile32", "swkpu-v1", "npm_lite"]),
    ("networks/digits_cnn.onnx", {**INT8, "effort": 1}, ["tile32", "edge16", "npm_pro", "core128-hbm2"]),
    (
        "tile_schedule/mlp_3layer_256k.sched",
        {"header": str(EXAMPLES / "tile_schedule/mlp_3layer.header")},
        ["tile32", "swkpu-v1"],
    ),
]
AXES: dict[str, list[Any]] = {
    "engine.array.rows": [8, 16, 32, 64], "engine.array.cols": [8, 16, 32, 64], "engine.count": [1, 2, 3],
    "engine.l1.size_bytes": ["128KiB", "256KiB", "512KiB"], "l2.size_bytes": ["1MiB", "2MiB", "4MiB"],
    "l2.banks": [4, 16, 32], "ddr.channels": [1, 2, 4], "ddr.fidelity": ["simple", "burst"],
    "clock.core_mhz": [400, 1000, 1234.5], "clock.sram_mhz": [500, 1000], "energy.node_nm": [7, 16, 28],
    "engine.dma.channels": [1, 2, 4], "interconnect.topology": ["crossbar", "ring"],
    "energy.corner": ["low", "high"],
    "interconnect.link_bytes_per_cycle": [32, 64, 128], "engine.vector.lanes": [16, 64],
}  # fmt: skip


def compared(command: str, results: kpusim.SweepResults, row: dict[str, Any], folder: Path) -> list[str]:
    """List what differs between a row and a single run: names of statistics, or the error."""
    words = shlex.split(results.point(row["point"]).command())[1:]
    target = folder / f"run{row['point']}"
    run = subprocess.run(
        [command, *words, "--quiet", "-o", target], capture_output=True, text=True, check=False
    )
    if row["error"] or run.returncode:
        return [] if bool(row["error"]) == bool(run.returncode) else [f"error: {row['error'] or run.stderr}"]
    stats = json.loads((target / "stats.json").read_text())["stats"]
    return [name for name, stat in stats.items() if name in results.columns and row[name] != stat["value"]]


def main() -> int:
    """Draw, sweep, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", metavar="KPUSIM")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    done = differ = failed = columns = 0
    while done < given.points:
        file, options, platforms = draw.choice(PROGRAMS)
        names = draw.sample(list(AXES), 4)
        values_too = draw.random() < 0.3
        with tempfile.TemporaryDirectory() as name:
            results = kpusim.sweep(
                folder=Path(name) / "sweep", programs=[EXAMPLES / file], platforms=draw.sample(platforms, 2),
                options=options, axes={axis: AXES[axis] for axis in names}, sample={"random": 8},
                seed=draw.randrange(1000), inputs="random:3",
                mode="values+timing" if values_too else "timing",
            )  # fmt: skip
            columns = max(columns, len(results.columns))
            for row in draw.sample(results.rows, min(4, len(results.rows), given.points - done)):
                found = compared(given.command, results, row, Path(name))
                done, failed = done + 1, failed + bool(row["error"])
                if found:
                    differ += 1
                    print(f"{results.point(row['point']).command()}\n  {', '.join(found[:5])}")
    told = f"{done} points, {failed} refused by both, up to {columns} columns, {differ} differ"
    print(f"seed {given.seed}: {told}")
    return 3 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
