"""Cost of traces of a run: instructions and processor time beside those of the run without any.

usage: trace_cost.py KPUSIM PROGRAM [OPTION ...]   (options of `kpusim run`; needs valgrind)

Instructions are callgrind's, in timing mode; seconds the least of five runs, with values and in timing mode.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TRACES = ("none", "events", "vcd", "fst")
RUNS = 5


def seconds_of(command: list[str]) -> float:
    """Measure the processor's time."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"error: {' '.join(command)} failed. Fix: run it by hand to see why.")
    return usage.ru_utime + usage.ru_stime


def instructions_of(command: list[str]) -> int:
    """Count the instructions of the whole process."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"refs:\s+([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def main() -> None:
    """A table."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    kpusim, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        rows = {}
        for trace in TRACES:
            path = Path(work) / trace
            more = [] if trace == "none" else [f"--{trace}", str(path)]
            timing = [kpusim, "run", *rest, "--quiet", "--mode", "timing", *more]
            values = [kpusim, "run", *rest, "--quiet", "--fill", "random:1", "--allow-hazards", *more]
            rows[trace] = (
                instructions_of(timing) / 1e6,
                min(seconds_of(timing) for _ in range(RUNS)),
                min(seconds_of(values) for _ in range(RUNS)),
                path.stat().st_size if more else 0,
            )
    print("| trace | instructions, timing | s, timing | s, values | bytes |\n|---|---|---|---|---|")
    base = rows["none"]
    for trace, (instructions, timing_s, values_s, size) in rows.items():
        print(
            f"| {trace} | {instructions:,.0f} M ({instructions / base[0] - 1:+.0%}) "
            f"| {timing_s:.2f} ({timing_s / base[1] - 1:+.0%}) "
            f"| {values_s:.2f} ({values_s / base[2] - 1:+.0%}) | {size:,} |"
        )


if __name__ == "__main__":
    main()
