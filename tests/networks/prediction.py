"""Nearness of predicted cycles and energy to simulated ones, per operation and in all.

usage: prediction.py KPUSIM MODEL.onnx... [--on PLATFORM:PRECISION]... [--within TOTAL MEDIAN NINE ENERGY]

Prints a row for each model on each device. Operations below half a percent of a network's cycles count in its
sum only: what they are charged is mostly what their neighbours leave over.
`--within 0.1 0.07 0.15 0.05` fails when a total is off by more than 10 %, the median error of operations is
above 7 %, one of ten is off by more than 15 %, or the energy of a network is off by more than 5 %.
Always an error: an operation that took less time than the bound that is stated for it, and two of one name.
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
from typing import NamedTuple

DEVICES = (
    *("swkpu-v1:int8", "swkpu-v1:fp16", "swkpu-v2:bf16", "swkpu-v2:posit8", "swkpu-v2:posit16"),
    *("tile32:int8", "tile32:fp16", "tile32:bf16", "tile32:f32", "npm_lite:int8", "npm_lite:fp16"),
    *("core128-hbm2:int8", "core128-hbm2:bf16", "core128-hbm2:f32", "core128-fp8:fp8"),
)
SHARE = 0.005


class Compared(NamedTuple):
    """Predictions for a network, and what the simulation says."""

    cycles: int
    total: float  # predicted / simulated
    operations: list[float]  # relative errors of the large ones
    energy: float  # predicted / simulated


def compare(kpusim: str, model: Path, platform: str, precision: str) -> Compared | None:
    """Compile and run a model; None if the device refuses."""
    calibrate = ["--calibrate", "random:1"] if precision in ("int8", "fp8") else []
    with tempfile.TemporaryDirectory() as folder:
        program, out = Path(folder) / "network.kpu", Path(folder) / "run"
        options = ["--platform", platform, "--precision", precision, *calibrate]
        compiled = [kpusim, "compile", str(model), *options, "-o", str(program)]
        if subprocess.run(compiled, capture_output=True, check=False).returncode != 0:
            return None
        command = [kpusim, "run", str(program), "--platform", platform, "--mode", "timing", "--quiet"]
        subprocess.run([*command, "-o", str(out)], capture_output=True, check=True)
        stats = {k: row["value"] for k, row in json.loads((out / "stats.json").read_text())["stats"].items()}
        rows = list(csv.DictReader((out / "ops.csv").read_text().splitlines()))
        text = subprocess.run([kpusim, "disasm", str(program)], capture_output=True, text=True, check=True)
    head = next(line for line in text.stdout.splitlines() if line.startswith("#! program "))
    told = json.loads(head.removeprefix("#! program "))
    total = int(stats["cycles.total"])
    names = [row["op"] for row in rows]
    if len(set(names)) < len(names):
        raise SystemExit(f"{model} on {platform}: operations have the same name")
    for row in rows:
        if int(row["bound_cycles"] or 0) > int(row["span_cycles"]):
            raise SystemExit(
                f"{model} on {platform} in {precision}: {row['op']} took {row['span_cycles']} cycles, less "
                f"than its bound of {row['bound_cycles']} ({row['bound']})"
            )
    estimated = [(float(row["estimated_cycles"] or 0), int(row["charged_cycles"])) for row in rows]
    large = [abs(guess / real - 1) for guess, real in estimated if guess > 0 and real > SHARE * total]
    energy = told.get("estimated_total_energy_uj", 0) / stats["energy.total_uj"]
    return Compared(total, sum(guess for guess, _ in estimated) / total, sorted(large), energy)


def main() -> int:
    """Print the table; 1 if it is not within the bounds asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kpusim")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--on", action="append", metavar="PLATFORM:PRECISION")
    parser.add_argument("--within", nargs=4, type=float, metavar=("TOTAL", "MEDIAN", "NINE", "ENERGY"))
    arguments = parser.parse_args()
    totals: list[float] = []
    energies: list[float] = []
    every: list[float] = []
    print(
        "| network | device | precision | cycles "
        "| predicted / simulated | median error of operations | energy |"
    )
    print("|---|---|---|---|---|---|---|")
    for model in arguments.models:
        for device in arguments.on or DEVICES:
            platform, precision = device.split(":")
            found = compare(arguments.kpusim, model, platform, precision)
            if found is None:
                print(f"| {model.stem} | {platform} | {precision} | refused | | | |", flush=True)
                continue
            every += found.operations
            totals.append(abs(found.total - 1))
            energies.append(abs(found.energy - 1))
            median = f"{statistics.median(found.operations):.1%}" if found.operations else ""
            print(
                f"| {model.stem} | {platform} | {precision} | {found.cycles:,} "
                f"| {found.total:.3f} | {median} | {found.energy:.3f} |",
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
    energies.sort()
    print(f"energy: median {statistics.median(energies):.1%}, at most {energies[-1]:.1%}")
    if arguments.within is None:
        return 0
    total, most_median, most_ninth, energy = arguments.within
    near_enough = max(totals) <= total and median <= most_median and ninth <= most_ninth
    return 0 if near_enough and energies[-1] <= energy else 1


if __name__ == "__main__":
    sys.exit(main())
