"""The traffic patterns of tests/reference/dram/trace_params.csv, and our own, as trace files.

Ours are rnd_mix10, rnd_mix30 and rnd_mix50: random bursts of which so many percent are writes.

usage: traffic.py PATTERN BURSTS ROW_STRIDE [--stl CLOCK_MHZ]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

MIB = 1 << 20
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def random_word(index: int) -> int:
    """Word `index` of the SplitMix64 stream of seed 1."""
    word = (2 * GOLDEN + index) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def bursts(pattern: str, count: int, row_stride: int) -> Iterator[tuple[int, bool, int]]:
    """Address, whether it is a write, and nanoseconds of each 64-byte burst."""
    for i in range(count):
        tile, row = i // 64, i // 2 % 32
        yield {
            "seq_rd": (64 * i, False, 0),
            "seq_wr": (64 * i, True, 0),
            "tile_rd": ((tile // 32 * 32 + row) * 4096 + tile % 32 * 128 + i % 2 * 64, False, 0),
            "two_rd": (i % 2 * 64 * MIB + 64 * (i // 2), False, 0),
            "mix21": (128 * MIB + 64 * (i // 3), True, 0) if i % 3 == 2 else (64 * (i - i // 3), False, 0),
            "rnd_rd": (64 * (random_word(i) % (8 * MIB)), False, 0),
            "conflict": (i % 16384 * row_stride, False, 0),
            "gaps_rd": (64 * i, False, i // 64 * 1000),
            "rnd_mix10": (64 * (random_word(i) % (8 * MIB)), random_word((1 << 32) + i) % 100 < 10, 0),
            "rnd_mix30": (64 * (random_word(i) % (8 * MIB)), random_word((1 << 32) + i) % 100 < 30, 0),
            "rnd_mix50": (64 * (random_word(i) % (8 * MIB)), random_word((1 << 32) + i) % 100 < 50, 0),
        }[pattern]


def checksum(pattern: str, count: int, row_stride: int) -> str:
    """Return what trace_params.csv states: FNV-1a over (address | write, time)."""
    value = 0xCBF29CE484222325
    for address, is_write, ns in bursts(pattern, count, row_stride):
        for word in (address | int(is_write), ns):
            value = ((value ^ word) * 0x100000001B3) & MASK
    return f"{value:016x}"


def csv_text(pattern: str, count: int, row_stride: int) -> str:
    """Return the trace as number,R|W,address,nanoseconds."""
    rows = enumerate(bursts(pattern, count, row_stride))
    return "".join(f"{i},{'W' if w else 'R'},0x{a:x},{ns}\n" for i, (a, w, ns) in rows)


def stl_text(pattern: str, count: int, row_stride: int, clock_mhz: float) -> str:
    """Return the trace as clock: read|write address."""
    rows = bursts(pattern, count, row_stride)
    return "".join(
        f"{round(ns * clock_mhz / 1000)}: {'write' if w else 'read'} 0x{a:x}\n" for a, w, ns in rows
    )


def main() -> None:
    """Print a trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern")
    parser.add_argument("bursts", type=int)
    parser.add_argument("row_stride", type=int)
    parser.add_argument("--stl", type=float, metavar="CLOCK_MHZ")
    options = parser.parse_args()
    what = (options.pattern, options.bursts, options.row_stride)
    print(stl_text(*what, options.stl) if options.stl else csv_text(*what), end="")


if __name__ == "__main__":
    main()
