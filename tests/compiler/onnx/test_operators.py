"""Every operator alone, on random operands, attributes, versions: against ONNX Runtime and binary64.

usage: test_operators.py GRAPH_RUN [-n CASES] [--part I/N] [OPERATOR...]
"""

from __future__ import annotations

import argparse
import os
import zlib
from dataclasses import dataclass

import operators_caches
import operators_fused
import operators_kernels
import operators_language
import operators_loops
import operators_math
import operators_nets
import operators_quantized
import operators_shapes
import operators_types
from drafts import Draft
from graph_run import Array, Case, run
from oracle import by_numpy, by_runtime, problem

GENERATORS = {
    **operators_math.GENERATORS,
    **operators_nets.GENERATORS,
    **operators_loops.GENERATORS,
    **operators_shapes.GENERATORS,
    **operators_kernels.GENERATORS,
    **operators_fused.GENERATORS,
    **operators_language.GENERATORS,
    **operators_caches.GENERATORS,
    **operators_quantized.GENERATORS,
    **operators_types.GENERATORS,
}


@dataclass
class Checked:
    """A case that ONNX Runtime takes, and what it makes of it."""

    case: Case
    outputs: dict[str, Array]


def cases_of(name: str, count: int) -> list[Checked]:
    """Cases of an operator: always the same ones, those that ONNX Runtime refuses left out."""
    result: list[Checked] = []
    for seed in range(2 * count):
        case = GENERATORS[name](Draft(zlib.crc32(name.encode()) + seed))
        try:
            result.append(Checked(case, by_runtime(case)))
        except Exception as error:  # it has no common base
            refusal = str(error)
        if len(result) == count:
            return result
    raise SystemExit(f"{name}: ONNX Runtime refuses most cases: {refusal}")


def describe(case: Case) -> str:
    """Shapes and attributes."""
    node = case.model.graph.node[0]
    given = {a.name: a.i or a.f or a.s or list(a.ints) for a in node.attribute}
    constants = {t.name: list(t.dims) for t in case.model.graph.initializer}
    shapes = {key: list(array.shape) for key, array in case.inputs.items()}
    return f"{case.name} {shapes} {constants} {given}"


def main() -> None:
    """Runs the cases; exit code 1 when one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("-n", type=int, default=40, help="cases of each operator")
    parser.add_argument("--part", default="1/1", help="2/3: the second, fifth, ... operator")
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    names = [*(options.operators or GENERATORS)][part - 1 :: parts]
    drafts = [draft for name in names for draft in cases_of(name, options.n)]
    run([draft.case for draft in drafts], options.tool)
    wrong = refused = 0
    for draft in drafts:
        case = draft.case
        if "DEVICE" in os.environ and " has no " in case.error:  # types that no device of ours multiplies
            refused += 1
        elif text := case.error or problem(case, draft.outputs, by_numpy(case)):
            wrong += 1
            print(f"{describe(case)}: {text.strip()}")
    print(
        f"{len(drafts) - wrong - refused} passed, {wrong} failed, the device has not the types of {refused}"
    )
    if wrong or refused * 50 > len(drafts):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
