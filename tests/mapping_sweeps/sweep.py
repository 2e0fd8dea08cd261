"""Sweeps of layers over devices: how near products come to their bound, cliffs, more resources, all mappings.

usage: sweep.py SWEEP [--check] [gemms|cliffs|more|mappings]...

SWEEP is the program that CMake builds from sweep.cpp. Without --check the tables of docs/mapping_sweeps.md
are written; with it nothing is written, and it is an error if a table differs. Runs two processes at once;
the layers have fixed seeds, and cycles are simulated, so the tables are the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mapping_sweeps.md"
PARTS = 8  # of a sweep, so that two processes are busy to the end
Rows = list[list[str]]


def rows_of(sweep: str, what: str, device: str, count: int, pool: ThreadPoolExecutor) -> Rows:
    """Return all rows of a sweep, in the order of its layers.

    Parameters
    ----------
    sweep
        The program.
    what, device, count
        Its arguments; the device as PLATFORM TYPE.
    pool
        Runs parts of it.
    """

    def part(number: int) -> Rows:
        command = [sweep, what, *device.split(), str(count), str(number), str(PARTS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return list(csv.reader(done.stdout.splitlines()))

    found = list(pool.map(part, range(PARTS)))
    return [rows[i] for i in range(max(map(len, found))) for rows in found if i < len(rows)]


def share(flags: list[bool]) -> str:
    """Write it as "98.5 %"."""
    return f"{100 * sum(flags) / len(flags):.1f} %"


def middle(numbers: list[float], part: float) -> str:
    """Return a quantile, as "1.03"."""
    ordered = sorted(numbers)
    return f"{ordered[min(len(ordered) - 1, int(part * len(ordered)))]:.3f}"


GEMM_HEAD = (
    "device | within 15 % | median | nine of ten below | most | with padding: within 15 % | median | "
    "nine of ten below | most"
)


def gemms(device: str, rows: Rows) -> list[str]:
    """Simulated cycles over the bound."""
    cells = [device]
    for column in (3, 4):
        ratios = [float(row[8]) / (max(float(row[column]), float(row[5])) + float(row[6])) for row in rows]
        cells += [share([ratio <= 1.15 for ratio in ratios])]
        cells += [middle(ratios, 0.5), middle(ratios, 0.9), f"{max(ratios):.3f}"]
    return cells


CLIFF_HEAD = "device | steps | within padding + 10 % | nine of ten below | worst | at"


def cliffs(device: str, rows: Rows) -> list[str]:
    """Growth with one channel more, over that of the padded array."""
    growth = [float(row[4]) / float(row[5]) for row in rows]
    worst = growth.index(max(growth))
    return [
        device, str(len(rows)), share([factor <= 1.1 for factor in growth]), middle(growth, 0.9),
        f"{growth[worst]:.3f}", f"{rows[worst][0]} -> {rows[worst][1]}",
    ]  # fmt: skip


MORE_HEAD = "device | twice the | networks | slower by over 2 % | most | of"


def more(device: str, rows: Rows) -> list[str]:
    """Time with twice of a resource, over that without."""
    lines = []
    for what in ("L2", "DRAM", "engines"):
        of = [row for row in rows if row[1] == what]
        worst = max(of, key=lambda row: float(row[4]))
        lines += [
            device,
            what,
            str(len(of)),
            str(sum(float(row[4]) > 1.02 for row in of)),
            worst[4],
            worst[0],
        ]
    return lines


MAPPING_HEAD = "device | operations | mappings | within 5 % of the fastest | within 10 % | worst | of"


def mappings(device: str, rows: Rows) -> list[str]:
    """Return the default's choice over the fastest of all mappings."""
    ratios = [float(row[4]) for row in rows]
    worst = ratios.index(max(ratios))
    return [
        device, str(len(rows)), f"{sum(int(row[1]) for row in rows):,}",
        str(sum(ratio <= 1.05 for ratio in ratios)), str(sum(ratio <= 1.10 for ratio in ratios)),
        f"{ratios[worst]:.3f}", rows[worst][0],
    ]  # fmt: skip


Sweep = tuple[str, Callable[[str, Rows], list[str]], int, tuple[str, ...]]
SWEEPS: dict[str, Sweep] = {
    "gemms": (GEMM_HEAD, gemms, 200, ("swkpu-v1 i8", "swkpu-v1 f16", "tile32 i8", "core128-hbm2 bf16")),
    "cliffs": (CLIFF_HEAD, cliffs, 0, ("swkpu-v1 i8", "tile32 f16", "core128-hbm2 bf16")),
    "more": (MORE_HEAD, more, 40, ("swkpu-v1 i8", "tile32 f16")),
    "mappings": (MAPPING_HEAD, mappings, 50, ("swkpu-v1 i8",)),
}


def table(sweep: str, what: str, pool: ThreadPoolExecutor) -> str:
    """Return a table of the page."""
    head, cells_of, count, devices = SWEEPS[what]
    width = len(head.split("|"))
    text = f"| {head} |\n{'|---' * width}|\n"
    for device in devices:
        cells = cells_of(device, rows_of(sweep, what, device, count, pool))
        for at in range(0, len(cells), width):
            text += f"| {' | '.join(cells[at : at + width])} |\n"
        print(text.splitlines()[-1], flush=True)
    return text


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep")
    parser.add_argument("what", nargs="*", choices=[*SWEEPS, []])
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    page, differing = PAGE.read_text(), 0
    with ThreadPoolExecutor(2) as pool:
        for what in given.what or SWEEPS:
            begin, end = f"<!-- {what}: written by sweep.py -->\n", f"<!-- {what}: end -->"
            before, rest = page.split(begin)
            known, behind = rest.split(end)
            now = f"\n{table(given.sweep, what, pool)}\n"
            differing += known != now
            page = before + begin + now + end + behind
    if not given.check:
        PAGE.write_text(page)
    elif differing:
        print(f"{differing} tables differ. Fix: look why; if it is meant, leave --check out.")
    return 1 if given.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
