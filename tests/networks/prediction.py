"""How near predicted cycles are to simulated ones, per operation and in all.

usage: prediction.py KPUSIM MODEL.onnx... [--on PLATFORM:PRECISION]... [--within TOTAL MEDIAN NINE]

Prints a row for each model on each device. Operations below half a percent of a network's cycles count in its
sum only: what they are charged is mostly what their neighbours leave over.
`--within 0.1 0.07 0.15` fails when a total is off by more than 10 %, the median error of operations is above
7 %, or one of ten is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DEVICES = (
    *("swkpu-v1:int8", "swkpu-v1:fp16", "swkpu-v2:bf16", "swkpu-v2:posit8", "swkpu-v2:posit16"),
    *("tile32:int8", "tile32:fp16", "tile32:bf16", "tile32:f32", "npm_lite:int8", "npm_lite:fp16"),
    *("core128-hbm2:int8", "core128-hbm2:bf16", "core128-hbm2:f32"),
)
SHARE = 0.005


def errors(kpusim: str, model: Path, platform: str, precision: str) -> tuple[int, float, list[float]] | None:
    """Run a model.

    Parameters
    ----------
    kpusim
        The command.
    model, platform, precision
        What runs where.

    Returns
    -------
    tuple or None
        Simulated cycles, predicted / simulated, relative errors of operations; None if the device refuses.
    """
    calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [kpusim, "run", str(model), "--platform", platform, "--precision", precision, *calibrate]
        command += ["--mode", "timing", "--quiet", "-o", str(out)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        total = int(json.loads((out / "stats.json").read_text())["stats"]["cycles.total"]["value"])
        rows = list(csv.DictReader((out / "ops.csv").read_text().splitlines()))
    estimated = [(float(row["estimated_cycles"] or 0), int(row["charged_cycles"])) for row in rows]
    large = [abs(guess / real - 1) for guess, real in estimated if guess > 0 and real > SHARE * total]
    return total, sum(guess for guess, _ in estimated) / total, sorted(large)


def main() -> int:
    """Print the table; 1 if it is not within the bounds asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kpusim")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--on", action="append", metavar="PLATFORM:PRECISION")
    parser.add_argument("--within", nargs=3, type=float, metavar=("TOTAL", "MEDIAN", "NINE"))
    arguments = parser.parse_args()
    totals: list[float] = []
    every: list[float] = []
    print("| network | device | precision | cycles | predicted / simulated | median error of operations |")
    print("|---|---|---|---|---|---|")
    for model in arguments.models:
        for device in arguments.on or DEVICES:
            platform, precision = device.split(":")
            found = errors(arguments.kpusim, model, platform, precision)
            if found is None:
                print(f"| {model.stem} | {platform} | {precision} | refused | | |", flush=True)
                continue
            total, ratio, large = found
            every += large
            totals.append(abs(ratio - 1))
            median = f"{statistics.median(large):.1%}" if large else ""
            print(
                f"| {model.stem} | {platform} | {precision} | {total:,} | {ratio:.3f} | {median} |",
                flush=True,
            )
    if not every:
        print("no operation was compared")
        return 1
    every.sort()
    median, ninth = statistics.median(every), every[len(every) * 9 // 10]
    near = sum(error <= 0.1 for error in totals)
    print(f"\n{len(every)} operations: median {median:.1%}, nine of ten below {ninth:.1%}")
    print(f"{near} of {len(totals)} totals within 10 %")
    if arguments.within is None:
        return 0
    total, most_median, most_ninth = arguments.within
    return 0 if max(totals) <= total and median <= most_median and ninth <= most_ninth else 1


if __name__ == "__main__":
    sys.exit(main())
