"""Hostile and huge programs: `kpusim check` answers in bounded time and memory, with an error or without.

usage: check_limits.py KPUSIM [SECONDS] [MEGABYTES]

The bounds (default 30 s of CPU, 1500 MB) are of the whole command, parser and verifier, and wide: they are
there to notice what grows without bound, not to measure speed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

REGION = "let a = region(D, 0, 4) elem=i8, shape=[4], layout=C\n"
BUFFER = "buffer D : DDR (size = 1048576)\n"


def ten_megabytes() -> str:
    """160,000 tasks, each with a region of its own."""
    lines = [
        f"t{i} = relu.async in a out region(D, {i + 4}, 4) elem=i8, shape=[4], layout=C\n"
        for i in range(160000)
    ]
    return BUFFER + REGION + "".join(lines)


def one_long_line() -> str:
    """Ten megabytes without a line end."""
    return "".join(f"const A{i} = {i} " for i in range(500000))


def nested_loops(count: int) -> str:
    """Loops within loops."""
    return "".join(f"loop v{i} in [0..1]:\n" for i in range(count)) + "endloop\n" * count


def undecided_bounds() -> str:
    """Offsets that no interval decides, in loops with many iterations: each would be tried one by one."""
    lines = [f"    let r{i} = region(D, i * 4 - i * 4, 4)\n" for i in range(20000)]
    return BUFFER + "loop i in [0..60000]:\n" + "".join(lines) + "endloop\n"


def undecided_overlaps() -> str:
    """Copies within one buffer whose distance depends on the iteration."""
    lines = [
        f"    t{i} = transfer.async(dst=region(D, i * {i} mod 7 * 8 + 4, 4), src=region(D, i mod 5 * 8, 4))\n"
        for i in range(20000)
    ]
    return BUFFER + "loop i in [0..60000]:\n" + "".join(lines) + "endloop\n"


def unordered_tasks() -> str:
    """Every task writes the same bytes and nothing orders them."""
    return BUFFER + REGION + "".join(f"t{i} = relu.async in a out a\n" for i in range(20000))


def long_waits() -> str:
    """Return each task depends on the sixteen before it."""
    lines = []
    for i in range(20000):
        deps = ", ".join(f"t{k}" for k in range(max(0, i - 16), i))
        lines.append(f"t{i} = relu.async in a out a" + (f" deps=[{deps}]\n" if deps else "\n"))
    return BUFFER + REGION + "".join(lines)


def doubling() -> str:
    """2^60 terms if the lets were written out."""
    return "let x0 = 1 + 1\n" + "".join(f"let x{i} = x{i - 1} + x{i - 1}\n" for i in range(1, 60))


PROGRAMS = {
    "ten megabytes": (ten_megabytes(), None),
    "one long line": (one_long_line(), 0),
    "parentheses": ("const A = " + "(" * 100000 + "1" + ")" * 100000, 1),
    "minus signs": ("const A = " + "-" * 100000 + "1", 1),
    "lists": ("t = relu.async in a out a v=" + "[" * 100000, 1),
    "nested loops": (nested_loops(10000), 1),
    "as many loops as allowed": (nested_loops(64), 0),
    "undecided bounds": (undecided_bounds(), 0),
    "undecided overlaps": (undecided_overlaps(), None),
    "unordered tasks": (unordered_tasks(), 0),
    "long waits": (long_waits(), 0),
    "doubling lets": (doubling(), 1),
    "endless string": ('t = relu.async in a out a v="' + "x" * 10000000, 1),
    "one long name": ("const " + "x" * 10000000 + " = 1", None),
    "many mistakes": ("(" * 1000000, 1),
    "huge loop": ("loop i in [0..9223372036854775807]:\nendloop\n", 0),
}


def bomb(folder: Path) -> Path:
    """Return each file includes the next one twice: 2^200 files if each were read again."""
    for i in range(200):
        (folder / f"bomb{i}.nem").write_text(f'include "bomb{i + 1}.nem"\ninclude "bomb{i + 1}.nem"\n')
    return folder / "bomb0.nem"


def wide(folder: Path) -> Path:
    """Return one file that includes 5,000 others."""
    for i in range(5000):
        (folder / f"leaf{i}.nem").write_text("# nothing\n")
    path = folder / "wide.nem"
    path.write_text("".join(f'include "leaf{i}.nem"\n' for i in range(5000)))
    return path


def main() -> int:
    """Check every program; complain about those that crash, hang or grow."""
    kpusim = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    megabytes = float(sys.argv[3]) if len(sys.argv) > 3 else 1500.0
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        cases = {"include bomb": (bomb(folder), 1), "many includes": (wide(folder), 1)}
        for i, (name, (text, code)) in enumerate(PROGRAMS.items()):
            path = folder / f"program{i}.nem"
            path.write_text(text)
            cases[name] = (path, code)
        for name, (path, code) in cases.items():
            with (folder / "out").open("wb") as out:
                process = subprocess.Popen([kpusim, "check", str(path)], stdout=out, stderr=out)
                _, status, usage = os.wait4(process.pid, 0)
            exit_code = os.waitstatus_to_exitcode(status)
            process.returncode = exit_code
            used, grown = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
            wrong = exit_code not in ((0, 1) if code is None else (code,))
            if wrong or used > seconds or grown > megabytes:
                bad += 1
                said = (folder / "out").read_text(errors="replace")[:300]
                print(f"{name}: exit {exit_code}, {used:.1f} s, {grown:.0f} MB: {said}")
            else:
                print(f"{name}: exit {exit_code}, {used:.1f} s, {grown:.0f} MB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
