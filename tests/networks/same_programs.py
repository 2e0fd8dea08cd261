"""Whether two builds of the command compile the same programs: for changes that mean to change none.

usage: same_programs.py OLD NEW [--network NAME]... [--random N] [--seed N] [--jobs N] [--effort N]...

Compiles each network of examples/networks for each row of docs/networks_measured.md, those in int8 for
three inferences too, and N random quantized graphs. Prints what differs. Exit code 1: something does.
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import onnx
from page import cases, export
from qdq_random import PARTS
from quantized_graphs import graph_of, target_of


class Compilation(NamedTuple):
    """A model and how it is compiled."""

    name: str
    model: Path
    options: tuple[str, ...]


def of_networks(networks: list[str], efforts: list[int]) -> Iterator[Compilation]:
    """Each row of the page; int8 also for three inferences."""
    for network in networks:
        model = export(network)
        for case in cases([network]):
            integers = case.precision.startswith(("int", "fp8"))
            options = ("--platform", case.device, "--precision", case.precision, "--batch", str(case.batch))
            options += ("--calibrate", "random:1") if integers else ()
            more = [("--inferences", "3")] if case.precision == "int8" else []
            for further in ((), *more):
                for effort in efforts:
                    name = " ".join((*case[:3], str(case.batch), *further, f"--effort {effort}"))
                    yield Compilation(name, model, (*options, *further, "--effort", str(effort)))


def of_graphs(seed: int, count: int, folder: Path) -> Iterator[Compilation]:
    """Random ones; without what only a run is told."""
    for each in range(seed, seed + count):
        model = folder / f"{each}.onnx"
        g = graph_of(each, list(PARTS))
        onnx.save(g.model(g.ends()), model)
        target = target_of(each)
        options = list(target.options)
        if "--mode" in options:
            at = options.index("--mode")
            del options[at : at + 2]
        yield Compilation(f"graph {each}", model, ("--platform", target.platform, *options))


def program(kpusim: str, of: Compilation, path: Path) -> str:
    """Write the program; the error, if there is one."""
    command = [kpusim, "compile", of.model, *of.options, "-o", path]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stderr


def differs(old: str, new: str, of: Compilation) -> str:
    """Say how they differ; nothing: the programs are the same, or both are refused with the same words."""
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name) / "old.kpu", Path(name) / "new.kpu"
        errors = program(old, of, first), program(new, of, second)
        if errors[0] != errors[1]:
            return f"old: {errors[0] or 'compiled'}\n  new: {errors[1] or 'compiled'}"
        if errors[0] or filecmp.cmp(first, second, shallow=False):
            return ""
        return f"{first.stat().st_size} and {second.stat().st_size} bytes"


def main() -> int:
    """Compile and compare."""
    from networks import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--network", action="append", choices=[*NETWORKS, "none"])
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--effort", type=int, action="append")
    given = parser.parse_args()
    networks = [name for name in given.network or NETWORKS if name != "none"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        todo = [
            *of_networks(networks, given.effort or [2]),
            *of_graphs(given.seed, given.random, Path(folder)),
        ]
        wrong = 0
        for of, how in zip(todo, pool.map(lambda of: differs(given.old, given.new, of), todo), strict=True):
            if how:
                wrong += 1
                print(f"{of.name}: {how}", flush=True)
    print(f"{len(todo)} compilations, {wrong} differ.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
