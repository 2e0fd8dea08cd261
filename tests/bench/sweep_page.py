"""The page of a sweep of 10,000 points: its size, and how long a browser with software rendering takes.

usage: sweep_page.py [--points N] [--chromium COMMAND]

Makes the sweep (a tiled product on npm_lite), writes the page, and has headless Chromium make a picture of it
and of an empty page, five times each: the difference of the medians is what the page takes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import kpusim
from kpusim.sweeps.report import write_report

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples/gemm_relu/gemm_relu.nem"
REPEATS = 5


def shown(chromium: str, page: Path, picture: Path) -> float:
    """Seconds until a page's picture is there."""
    begun = time.perf_counter()
    words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    subprocess.run(
        [*words, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=300
    )
    return time.perf_counter() - begun


def main() -> None:
    """Make and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--chromium", default="chromium")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        results = kpusim.sweep(
            folder=folder / "sweep", programs=[PROGRAM], platforms=["npm_lite"],
            sample={"random": given.points},
            axes={"engine.array.rows": "8..64+4", "l2.banks": "1..64*2", "ddr.channels": "1..4",
                  "clock.core_mhz": "200..1200+25", "l2.write_latency_cycles": "1..8"},
        )  # fmt: skip
        print(f"{len(results.rows)} points in {time.perf_counter() - begun:.0f} s")
        begun = time.perf_counter()
        page, empty = folder / "page.html", folder / "empty.html"
        write_report(results, page)
        print(f"page: {page.stat().st_size / 1e6:.1f} MB, written in {time.perf_counter() - begun:.1f} s")
        empty.write_text("<!doctype html><title>empty</title>")
        times = [
            [shown(given.chromium, of, folder / "picture.png") for _ in range(REPEATS)]
            for of in (empty, page)
        ]
        blank, full = map(statistics.median, times)
        print(
            f"an empty page {blank:.2f} s, this one {full:.2f} s: {full - blank:.2f} s (medians of {REPEATS})"
        )


if __name__ == "__main__":
    main()
