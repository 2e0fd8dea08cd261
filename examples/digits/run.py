"""Run the digits network through kpusim, check its values, and say where the cycles and the energy went.

usage: run.py [--kpusim BINARY] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import reference

HERE = Path(__file__).parent


def main() -> None:
    """Simulate, compare, summarise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kpusim", default="build/release/bin/kpusim")
    parser.add_argument("--out", type=Path, default=Path("out/digits"))
    arguments = parser.parse_args()

    out = arguments.out
    command = [
        arguments.kpusim,
        "run",
        str(HERE / "digits.nem"),
        "--platform",
        "npm_lite",
        "-o",
        str(out),
        "--force",
    ]
    for name in reference.inputs():
        command += ["--input", f"{name}={HERE / 'data' / name}.npy"]
    for flag, file in (
        ("--vcd", "run.vcd"),
        ("--stalls", "stalls.csv"),
        ("--power", "power.csv"),
        ("--events", "run.kpuev"),
    ):
        command += [flag, str(out / file)]
    print("$", " ".join(command), flush=True)
    subprocess.run(command, check=True)

    logits = np.load(out / "outputs" / "logits.npy")
    labels = np.load(HERE / "data" / "labels.npy")
    if not np.array_equal(logits, reference.logits(np.load(HERE / "data" / "images.npy"))):
        sys.exit("error: the logits differ from the NumPy reference")
    stats = {k: v["value"] for k, v in json.loads((out / "stats.json").read_text())["stats"].items()}
    images = len(labels)
    total = stats["cycles.total"]
    accuracy = np.mean(logits.argmax(1) == labels)
    print(f"\ndigits on npm_lite: {images} held-back images")
    print(f"  accuracy           {accuracy:.2%}, logits equal to NumPy's bit for bit")
    print(f"  cycles per image   {total / images:.1f}")
    for part in ("compute", "memory_stall", "other"):
        print(f"    {part:<16} {stats['cycles.' + part] / total:6.1%} of {total}")
    print(f"  energy per image   {stats['energy.total_uj'] / images:.4f} uJ")
    print(f"  average power      {stats['power.average_w']:.3f} W")
    print(f"files in {out}:")
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        print(f"  {path.relative_to(out)!s:<22} {path.stat().st_size:>9} bytes")
    if accuracy < 0.95:
        sys.exit("error: accuracy is below 95 %")


if __name__ == "__main__":
    main()
