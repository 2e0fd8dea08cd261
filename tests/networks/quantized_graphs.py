"""Random QDQ graphs, run on devices, against ONNX Runtime without optimisations (qdq_judge.py has the rules).

usage: quantized_graphs.py KPUSIM [--seed N] [--count N] [--jobs N] [--keep FOLDER]
           [--part NAME ...] [--without NAME ...]

Graph, device and options follow from the seed and the names: `--seed N --count 1` is one of them again.
Prints each wrong tensor, then how many graphs have each kind and in how many of them a part of that kind is
wrong. Exit code 1: something is wrong or refused, or a kind has a share below 5 %.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from qdq_graph import QdqGraph
from qdq_judge import Fault, Target, Verdict, judge
from qdq_random import PARTS, random_graph
from qdq_reduce import reduced

LEAST_SHARE = 5.0  #: of the kinds that the parts are about
ENOUGH = 2000  #: graphs for shares to count
COMMON = {"i8", "u8", "16 bits", "zero point off centre", "ties", "saturates", "integer output"}


def target_of(seed: int) -> Target:
    """Floats in f32, where results are exact, on more than half of them."""
    rng = np.random.default_rng([seed, 1])
    options = ("--effort", "1") if rng.random() < 0.8 else ()
    options += ("--boundary", "device") if rng.random() < 0.3 else ()
    options += () if rng.random() < 0.1 else ("--mode", "functional")
    exact = Target("tile32", ("--precision", "f32", *options), half=False)
    others = [
        Target("swkpu-v1", options),
        Target("swkpu-v1", options),
        Target("swkpu-v1", ("--precision", "int8", *options)),
        Target("tile32", ("--precision", "int8", *options)),
        Target("core128-hbm2", options),
        Target("npm_lite", options),
        Target("npm_lite", options),
    ]
    return exact if rng.random() < 0.6 else others[rng.integers(len(others))]


def graph_of(seed: int, names: list[str]) -> QdqGraph:
    """Return the graph of a seed for its device."""
    target = target_of(seed)
    return random_graph(seed, half=target.half, only_i8=target.platform == "npm_lite", names=names)


def checked(seed: int, kpusim: str, names: list[str]) -> tuple[int, set[str], Verdict]:
    """Return one graph."""
    g = graph_of(seed, names)
    kinds = set().union(*(g.kinds[node.output[0]] for node in g.nodes))
    if not g.nodes:
        return seed, kinds, Verdict()
    return seed, kinds, judge(kpusim, target_of(seed), g)


def faults_of(verdict: Verdict) -> list[Fault]:
    """Return a refusal among them, whose rule has no numbers and no names."""
    if not verdict.refusal:
        return verdict.faults
    reason = re.sub(r"`[^`]*`|\S*\d\S*", "", verdict.refusal.rpartition("error: ")[2])[-60:]
    return [*verdict.faults, Fault("model", f"refused {reason}", verdict.refusal, set())]


def keep(folder: Path, seed: int, kpusim: str, names: list[str], fault: Fault) -> None:
    """Write the smallest model with this fault."""
    target, found = target_of(seed), [fault]

    def is_wrong(g: QdqGraph) -> bool:
        same = [other for other in faults_of(judge(kpusim, target, g)) if other.rule == fault.rule]
        found[:] = same[:1] or found
        return bool(same)

    g = reduced(graph_of(seed, names), is_wrong)
    is_wrong(g)
    model = g.model(g.ends() if "whole" in fault.rule else g.results())
    stem = folder / re.sub(r"\W+", "_", f"{seed}_{fault.rule[:40]}")
    onnx.save(model, stem.with_suffix(".onnx"))
    np.savez(stem.with_suffix(".npz"), **{port.name: g.inputs[port.name] for port in model.graph.input})
    stem.with_suffix(".md").write_text(
        f"seed {seed}, kpusim run {stem.name}.onnx {target}\n\n{found[0]}\n\n{onnx.printer.to_text(model)}\n"
    )


class Tally:
    """Sums over all graphs."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.graphs = self.faulty = self.refused = self.nodes = self.outputs = self.judged = 0

    def add(self, kinds: set[str], verdict: Verdict) -> None:
        """One more."""
        self.graphs += 1
        self.kinds.update(kinds)
        self.wrong.update(set().union(*(fault.kinds for fault in verdict.faults)))
        self.rules.update({fault.rule for fault in verdict.faults})
        self.faulty += bool(verdict.faults)
        self.refused += bool(verdict.refusal)
        self.nodes += verdict.nodes
        self.outputs += verdict.outputs
        self.judged += verdict.judged

    def report(self) -> bool:
        """Prints; true: all is right."""
        print(
            f"{self.graphs} graphs, {self.nodes} nodes, {self.judged} of {self.outputs} outputs of whole "
            f"graphs judged: {self.faulty} graphs wrong, {self.refused} refused"
        )
        for rule, count in self.rules.most_common():
            print(f"{count:5} graphs: {rule}")
        small = []
        for kind, count in self.kinds.most_common():
            share = 100 * count / self.graphs
            print(f"{share:5.1f} % {kind}: {self.wrong[kind]} wrong")
            if share < LEAST_SHARE:
                small.append(kind)
        if small and self.graphs >= ENOUGH:
            print(f"less than {LEAST_SHARE:g} %: {', '.join(small)}")
        return not self.faulty and not self.refused and (not small or self.graphs < ENOUGH)


def main() -> None:
    """Runs graphs; exit code 1 when one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="nothing but these parts")
    parser.add_argument("--without", action="append", choices=list(PARTS), default=[], help="not these parts")
    parser.add_argument(
        "--keep", type=Path, help="folder for the smallest model of each fault, one for each rule and part"
    )
    options = parser.parse_args()
    tally, kept, begin = Tally(), Counter[str](), time.monotonic()
    names = options.part or [name for name in PARTS if name not in options.without]
    print(f"seeds {options.seed} to {options.seed + options.count - 1}")
    check = partial(checked, kpusim=str(Path(options.kpusim).resolve()), names=names)
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, kinds, verdict in pool.map(check, range(options.seed, options.seed + options.count)):
            tally.add(kinds, verdict)
            for fault in faults_of(verdict):
                print(f"seed {seed} {target_of(seed)}: {str(fault)[:600]}", flush=True)
                kind = f"{fault.rule} {sorted(fault.kinds - COMMON)}"
                kept[kind] += 1
                if options.keep and kept[kind] == 1:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    keep(options.keep, seed, options.kpusim, names, fault)
    right = tally.report()
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(not right)


if __name__ == "__main__":
    main()
