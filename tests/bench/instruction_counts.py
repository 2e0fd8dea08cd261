"""Instructions that named uses of the command take, against those of instruction_counts.json: a gate.

usage: instruction_counts.py KPUSIM [--compiler CXX] [--build-type TYPE] [--only NAME]... [--update]
                             [--jobs N] [--libraries]

Valgrind counts them, so nothing depends on the clock or on who else uses the machine. What counts is our own
code and that of libraries whose code does not depend on the processor. The command finds one processor, so
that work is not divided. More than 1 % above the file fails; more than 1 % below says that the file wants an
update. --update writes what is counted. Counts belong to a compiler and to libraries: with others nothing is
compared, and it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import small_models

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.01
#: Their instructions count, beside the command's own.
COUNTED = ("libsystemc", "libprotobuf", "libstdc++", "libfmt", "libisl", "libboost_iostreams")
#: Packages of these, and what counts the instructions.
PACKAGES = (
    "libsystemc",
    "libprotobuf32",
    "libstdc++6",
    "libfmt9",
    "libisl23",
    "libboost-iostreams1.74.0",
    "valgrind",
)

DEVICE = "--platform swkpu-v1"
INT8 = f"{DEVICE} --precision int8 --calibrate random:1 --effort 1"
RESIDUAL = f"compile residual.onnx {DEVICE} --precision fp16 --effort 1 -o residual.kpu"
GEMM = "{root}/examples/gemm_relu/gemm_relu.nem --mode timing --quiet"
TILES = "{root}/examples/tile_schedule/mlp_3layer"
KERNEL = """kernel k workgroup(256) (x: read u32[], o: output u32[]):
  let a = f32(gid.x)
  loop i in 0..4000: a = fma(a, 1.0001, 0.5) + sqrt(a) endloop
  o[gid.x] = u32(a)
endkernel
"""
PROGRAM = """device "npm_lite.nem"
program kernels:
#! kernels k.kern
buffer x : L2 (size = 4)
buffer y : L1[0] (size = 4)
buffer o : DDR (size = 4096)
buffer m : L2 (size = 4096)
buffer s : L1[0] (size = 4096)
let x0 = region(x, 0, 4) elem=u32, shape=[1], layout=N
let x1 = region(y, 0, 4) elem=u32, shape=[1], layout=N
let o0 = region(o, 0, 4096) elem=u32, shape=[1024], layout=N
let o1 = region(m, 0, 4096) elem=u32, shape=[1024], layout=N
let o2 = region(s, 0, 4096) elem=u32, shape=[1024], layout=N
t = transfer.async(dst=x1, src=x0)
k = compute.async in x1 out o2 op="k" grid=[4] deps=[t]
v = store.async(dst=o1, src=o2, deps=[k])
w = transfer.async(dst=o0, src=o1, deps=[v])
"""


class Benchmark(NamedTuple):
    """Commands: first those that make its files, which are not counted."""

    name: str
    made: tuple[str, ...]
    counted: tuple[str, ...]


BENCHMARKS = (
    Benchmark(
        "compile_int8",
        (),
        (
            f"compile residual.onnx {INT8} --export-qdq qdq.onnx -o a.kpu",
            f"compile qdq.onnx {DEVICE} --effort 1 -o b.kpu",
        ),
    ),
    Benchmark(
        "compile_effort_2", (), (f"compile attention.onnx {DEVICE} --precision fp16 --effort 2 -o a.kpu",)
    ),
    Benchmark("check", (RESIDUAL,), ("check residual.kpu", "check {root}/examples/gemm_relu/gemm_relu.nem")),
    Benchmark("run_timing", (RESIDUAL,), ("run residual.kpu --mode timing --quiet -o run",)),
    Benchmark(
        "run_values",
        (f"compile recurrent.onnx {DEVICE} --precision fp16 --effort 1 -o a.kpu",),
        ("run a.kpu --fill random:1 --quiet -o run",),
    ),
    Benchmark(
        "text",
        (f"compile deep.onnx {DEVICE} --precision fp16 --effort 1 -o deep.kpu",),
        ("disasm deep.kpu -o a.nem", "asm a.nem -o b.kpu"),
    ),
    Benchmark(
        "tile_schedule", (), (f"run {TILES}_256k.sched --header {TILES}.header --fill zeros --quiet -o run",)
    ),
    Benchmark(
        "explain_and_diff",
        (
            f"run {GEMM} --events a/run.events -o a",
            f"run {GEMM} --set engine.array.rows=32 --events b/run.events -o b",
        ),
        ("explain a --bounds-only", "diff a b"),
    ),
    Benchmark(
        "traces",
        (),
        (f"run {GEMM} --events a.events --vcd a.vcd --perfetto a.pftrace",),
    ),
    Benchmark("kernel", (), ("run kernels.nem --fill zeros --quiet -o run",)),
)


@cache
def files() -> dict[str, bytes]:
    """Make the files that benchmarks begin with."""
    return {
        "kernels.nem": PROGRAM.encode(),
        "k.kern": KERNEL.encode(),
        "residual.onnx": small_models.residual(32, 3, 32),
        "deep.onnx": small_models.residual(16, 4, 64),
        "recurrent.onnx": small_models.recurrent(12, 32, 64),
        "attention.onnx": small_models.attention(64, 64),
    }


def command(text: str, kpusim: str) -> list[str]:
    """Return its words."""
    return [kpusim, *text.format(root=ROOT).split()]


def run(words: list[str], folder: str, processor: int) -> None:
    """One command, which finds one processor. Raises RuntimeError with what it said."""
    environment = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C", "TZ": "UTC"}
    result = subprocess.run(
        ["taskset", "--cpu-list", str(processor), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode not in (0, 3):  # 3: diff found a difference
        raise RuntimeError(f"{' '.join(words)}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def by_object(profile: Path) -> Counter[str]:
    """Instructions of each file of code, by its name: callgrind's lines of costs, less those of calls."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    current, of_call = "", False
    for line in profile.read_text().splitlines():
        if line.startswith("ob="):
            number, _, path = line[3:].partition(" ")
            current = names.setdefault(number, Path(path).name)
        elif line.startswith("calls="):
            of_call = True
        elif line[:1] in "0123456789+-*" and line:
            if not of_call:
                counts[current] += int(line.split()[1])
            of_call = False
        elif line.startswith("cob="):
            number, _, path = line[4:].partition(" ")
            names.setdefault(number, Path(path).name)
    return counts


def measure(benchmark: Benchmark, kpusim: str, processor: int) -> Counter[str]:
    """Instructions by file of code."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="counts") as folder:
        for name, content in files().items():
            (Path(folder) / name).write_bytes(content)
        for text in benchmark.made:
            run(command(text, kpusim), folder, processor)
        profile = Path(folder) / "profile"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
        for text in benchmark.counted:
            run([*valgrind, *command(text, kpusim)], folder, processor)
            counts += by_object(profile)
    return counts


def measure_all(benchmarks: list[Benchmark], kpusim: str, jobs: int) -> dict[str, Counter[str]]:
    """Return each on a processor of its own, as many at once."""
    processors: SimpleQueue[int] = SimpleQueue()
    for processor in sorted(os.sched_getaffinity(0))[:jobs]:
        processors.put(processor)

    def on_one(benchmark: Benchmark) -> Counter[str]:
        processor = processors.get()
        try:
            return measure(benchmark, kpusim, processor)
        finally:
            processors.put(processor)

    with ThreadPoolExecutor(processors.qsize()) as pool:
        return dict(zip([each.name for each in benchmarks], pool.map(on_one, benchmarks), strict=True))


def total(counts: Counter[str]) -> int:
    """Sum the counts that the gate is about."""
    return sum(count for name, count in counts.items() if name.startswith(("kpusim", *COUNTED)))


def bare(version: str) -> str:
    """Return the version without Debian's changes (+deb12u3): they mend, no more."""
    return re.sub(r"\+deb\d+u\d+", "", version)


def made_with(compiler: str, build_type: str) -> dict[str, str]:
    """Return what counts belong to."""
    first = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    listing = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Version}\n", *PACKAGES],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    versions = dict(line.split() for line in listing.splitlines() if len(line.split()) == 2)
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return {
        "compiler": bare(first.partition(" ")[2]),  # it goes by several names
        "build": build_type,
        "processor": platform.machine()
        + (" with avx2" if re.search(r"^flags.*\bavx2\b", flags, re.M) else ""),
        **{name: bare(versions.get(name, "none")) for name in PACKAGES},
    }


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return the lines on what is not as where the counts were made."""
    return [
        f"  {name}: {expected.get(name, 'none')} there, {found.get(name, 'none')} here"
        for name in sorted(expected | found)
        if expected.get(name) != found.get(name)
    ]


def judge(name: str, before: int | None, after: int, update: bool) -> tuple[str, bool]:
    """Return what to say of a benchmark, and whether it fails."""
    if before is None and update:
        return f"{name}: {after:,} instructions", False
    if before is None:
        return f"{name}: no count yet, now {after:,}. Fix: --update", True
    change = after / before - 1
    text = f"{name}: {before:,} -> {after:,} instructions, {change:+.2%}"
    if update:
        return text, False
    if change > TOLERANCE:
        return (
            f"{text}: more than {TOLERANCE:.0%} above. Fix: make it cheaper, or accept it with --update",
            True,
        )
    if change < -TOLERANCE:
        return f"{text}: better; update the counts with --update", False
    return text, False


def main() -> int:
    """Count, and compare or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--build-type", default="Release")
    parser.add_argument("--only", action="append", choices=[each.name for each in BENCHMARKS])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--libraries", action="store_true", help="print the instructions of each file of code"
    )
    given = parser.parse_args()
    chosen = [each for each in BENCHMARKS if not given.only or each.name in given.only]
    known = {"made_with": {}, "instructions": {}}
    if EXPECTED.exists() or not given.update:
        known = json.loads(EXPECTED.read_text())
    here = made_with(given.compiler, given.build_type)
    other = differences(known["made_with"], here)
    if other and not given.update:
        print(f"The counts of {EXPECTED.name} belong to another compiler, libraries or processor:")
        print("\n".join(other))
        print("Nothing was compared. Fix: run it where they are as there, or --update makes counts of these.")
        return 0
    if other and given.only:
        print("--update writes all counts where they were made with something else. Fix: leave --only out.")
        return 1
    try:
        found = measure_all(chosen, str(Path(given.kpusim).resolve()), given.jobs)
    except RuntimeError as error:
        print(error)
        return 1
    failed = False
    for name, counts in found.items():
        before = None if other else known["instructions"].get(name)
        text, bad = judge(name, before, total(counts), update=given.update)
        print(text)
        failed |= bad
        if given.libraries:
            for library, count in counts.most_common():
                print(f"  {library or '?'}: {count:,}")
    if given.update:
        kept = {} if other else known["instructions"]
        instructions = kept | {name: total(counts) for name, counts in found.items()}
        ordered = {each.name: instructions[each.name] for each in BENCHMARKS}
        EXPECTED.write_text(json.dumps({"made_with": here, "instructions": ordered}, indent=2) + "\n")
        print(f"written: {EXPECTED}")
        return 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
