"""VCD, FST and events of random programs and of networks agree, and with the statistics.

usage: KPUSIM=... waveform_agreement.py RANDOM_PROGRAMS [--programs N] [--first SEED] [MODEL ...]

Each program of the generator (tests/model) on one of the shipped platforms in turn; each ONNX model on
tile32. What is compared: waveforms.py. Prints a row for each, and what was compared in all; exit code 1: one
does not agree.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from command import kpusim
from waveforms import check_agreement, read_stats

PLATFORMS = ("npm_lite", "swkpu-v1", "tile32", "npm_pro", "core128-hbm2", "npm_mid")


def agree(program: Path, folder: Path, platform: str) -> int:
    """Return how many changes of its waveform were compared; raises AssertionError."""
    vcd, fst, events = folder / "w.vcd", folder / "w.fst", folder / "w.kpuev"
    done = kpusim("run", program, "--mode", "timing", "--quiet", "--json", "--vcd", vcd, "--fst", fst,
                  "--events", events, "--platform", platform, "--no-hazards")  # fmt: skip
    assert done.returncode in (0, 2), done.stderr
    return check_agreement(vcd, fst, events, read_stats(done.stdout))


def random_programs(generator: str, first: int, count: int, folder: Path) -> list[Path]:
    """Their files, with the platform in the name."""
    for seed in range(first, first + count):
        platform = PLATFORMS[seed % len(PLATFORMS)]
        subprocess.run([generator, platform, str(seed), "1", folder], check=True)
    return sorted(folder.glob("*.kpu"))


def main() -> int:
    """Return a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("random_programs")
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("models", nargs="*", type=Path)
    options = parser.parse_intermixed_args()
    compared, wrong = 0, 0
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        generated = random_programs(options.random_programs, options.first, options.programs, folder)
        rows = [(path, path.name.rsplit("_", 1)[0]) for path in generated]
        rows += [(path, "tile32") for path in options.models]
        for path, platform in rows:
            try:
                changes = agree(path, folder, platform)
                compared += changes
                print(f"{path.name}: {changes} changes agree")
            except AssertionError as error:
                wrong += 1
                print(f"{path.name}: {error}")
    print(f"{len(rows)} programs, {compared} changes, {wrong} programs do not agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
