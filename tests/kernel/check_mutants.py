"""Mutants of the library: a wait or barrier that is missing, a slot that is swapped. None is silent.

usage: check_mutants.py KPUSIM EXAMPLES_KERNELS_DIR

Each mutant runs without time. It counts as reported when the command fails, and names the kernel and a
statement; of a race both statements.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from check_library import library

SYNC = re.compile(r'^\s*(barrier|async_wait\("[^"]*"\))$')
SLOT = re.compile(r"(?<![a-z])(even|odd)\b(?! out)")
AT_LEAST = 200
MOST_REMOVED = 4  # lines at once


def kernel_lines(text: str, name: str) -> tuple[int, int]:
    """Return the lines of one kernel, as a range."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"kernel {name} "))
    last = next(i for i in range(first, len(lines)) if lines[i] == "endkernel")
    return first, last


def mutants(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Each mutant of a kernel: what was changed, and the file's text."""
    lines = text.splitlines()
    first, last = kernel_lines(text, name)
    body = range(first, last)
    synchronising = [i for i in body if SYNC.match(lines[i])]
    for count in range(1, MOST_REMOVED + 1):
        for removed in itertools.combinations(synchronising, count):
            kept = [line for i, line in enumerate(lines) if i not in removed]
            yield f"without line {', '.join(str(i + 1) for i in removed)}", "\n".join(kept)
    header = next(i for i in body if lines[i].endswith("):"))
    copies = any("async_load" in lines[i] for i in body)
    for i in range(header + 1, last if copies else 0):
        for found in SLOT.finditer(lines[i]):
            other = "odd" if found.group() == "even" else "even"
            line = lines[i][: found.start()] + other + lines[i][found.end() :]
            yield f"line {i + 1}: {line.strip()}", "\n".join([*lines[:i], line, *lines[i + 1 :]])


def is_reported(kpusim: str, name: str, case: object, program: str, text: str) -> str:
    """Empty, or what the command said of a mutant that nobody noticed."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / case.file).write_text(text)
        (work / "p.nem").write_text(program)
        command = [kpusim, "run", str(work / "p.nem"), "--mode", "functional"]
        for key, array in case.reads.items():
            np.save(work / f"{key}.npy", array)
            command += ["--input", f"{key}={work / key}.npy"]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        said = result.stdout + result.stderr
        named = len(re.findall(rf"kernel `{name}`, (?:region [^,]*, )?line \d+, `", said))
        wanted = 2 if "hazard (kernel)" in said else 1
        return "" if result.returncode in (1, 2) and named >= wanted else f"exit {result.returncode}: {said}"


def main() -> None:
    """All mutants of all kernels."""
    kpusim, folder = sys.argv[1], Path(sys.argv[2])
    module = library(folder)
    jobs = []
    for name, case in module.cases().items():
        text = (folder / case.file).read_text()
        for change, mutant in mutants(text, name):
            jobs.append((name, change, case, module.program(name, case), mutant))
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda job: is_reported(kpusim, job[0], job[2], job[3], job[4]), jobs))
    silent = [f"{job[0]}, {job[1]}: {text}" for job, text in zip(jobs, said, strict=True) if text]
    print(f"{len(jobs)} mutants, {len(silent)} silent")
    if silent:
        sys.exit("\n".join(silent))
    assert len(jobs) >= AT_LEAST, f"{len(jobs)} mutants are fewer than {AT_LEAST}"


if __name__ == "__main__":
    main()
