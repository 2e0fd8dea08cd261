"""CPU time and memory of kpusim check and kpusim run on long programs without loops, and how fast they end.

usage: python3 tests/bench/flat_bench.py KPUSIM [--tasks 10000,100000,1000000] [--interrupts 20]

A line per program, verb and size; the time per task is to stay within 1.5 times that of the first size. With
--interrupts the longest is sent SIGTERM at so many random moments, by a seed that is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import flat_program

VERBS = {"check": ["check"], "run": ["run", "--mode", "timing", "--quiet"]}


def measure(command: list[str]) -> tuple[float, float]:
    """CPU seconds and MiB of one command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def interrupt(command: list[str], seconds: float) -> float | None:
    """Seconds from the signal to the end; None when it had ended before."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        if process.poll() is not None:
            return None
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        process.wait()
        if process.returncode != 130:
            sys.exit(f"ended with {process.returncode} after a signal at {seconds:.2f} s")
        return time.monotonic() - start


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kpusim")
    parser.add_argument("--tasks", default="10000,100000,1000000")
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 1_000_000)
    options = parser.parse_args()
    sizes = [int(size) for size in options.tasks.split(",")]
    kinds = {"gemm": flat_program.gemm, "conv": flat_program.conv}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "flat.nem")
        first: dict[str, float] = {}
        for size in sizes:
            for kind, lines in kinds.items():
                with Path(path).open("w") as file:
                    file.writelines(lines(size))
                for verb, arguments in VERBS.items():
                    command = [options.kpusim, *arguments, path]
                    seconds, mib = measure(command)
                    each = seconds / size * 1e6
                    base = first.setdefault(kind + verb, each)
                    print(
                        f"{kind} {size:9} {verb:5} {seconds:7.2f} s {mib:6.0f} MiB {each:6.1f} us a task,"
                        f" {each / base:.2f} of the first",
                        flush=True,
                    )
        if options.interrupts > 0:
            print(f"seed {options.seed}")
            moments = random.Random(options.seed)
            for verb, arguments in VERBS.items():
                command = [options.kpusim, *arguments, path]
                start = time.monotonic()
                measure(command)
                longest = time.monotonic() - start
                took = [interrupt(command, moments.uniform(0.1, longest)) for _ in range(options.interrupts)]
                ends = [seconds for seconds in took if seconds is not None]
                print(f"{verb}: {len(ends)} interrupted, longest {max(ends):.2f} s to its end")


if __name__ == "__main__":
    main()
