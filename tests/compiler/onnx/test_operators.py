"""Every operator alone, on random operands, attributes, versions: against ONNX Runtime and binary64.

usage: test_operators.py GRAPH_RUN [-n CASES] [OPERATOR...]
"""

from __future__ import annotations

import argparse
import zlib

import operators_math
import operators_nets
from drafts import Draft
from graph_run import Case, run
from oracle import by_numpy, by_runtime, problem

GENERATORS = {**operators_math.GENERATORS, **operators_nets.GENERATORS}


def cases_of(name: str, count: int) -> list[Case]:
    """Cases of an operator: always the same ones."""
    return [GENERATORS[name](Draft(zlib.crc32(name.encode()) + seed)) for seed in range(count)]


def main() -> None:
    """Runs the cases; exit code 1 when one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("-n", type=int, default=40, help="cases of each operator")
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    drafts = [
        (name, case) for name in options.operators or GENERATORS for case in cases_of(name, options.n)
    ]
    run([case for _, case in drafts], options.tool)
    wrong, total = 0, 0
    for name, case in drafts:
        text = case.error or problem(case, by_runtime(case), by_numpy(case))
        total += 1
        if text:
            wrong += 1
            node = case.model.graph.node[0]
            given = {a.name: a.i or a.f or a.s or list(a.ints) for a in node.attribute}
            shapes = {key: array.shape for key, array in case.inputs.items()}
            print(f"{case.name} {shapes} {given}: {text.strip()}")
        _ = name
    print(f"{total - wrong} passed, {wrong} failed")
    if wrong or not total:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
