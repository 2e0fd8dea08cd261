"""The test cases of the ONNX package, run through the importer and the graph executor.

usage: node_cases.py GRAPH_RUN [--list]

Prints how many pass, and the others by reason (--list: each).
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict

import ml_dtypes
import numpy as np
import onnx
from graph_run import Array, Case, run
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def arrays(data: list[object], infos: list[onnx.ValueInfoProto]) -> dict[str, Array] | None:
    """Inputs or outputs by name; None where one is no tensor."""
    result = {}
    for value, info in zip(data, infos, strict=False):
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if not isinstance(value, np.ndarray | np.generic) or not info.type.HasField("tensor_type"):
            return None
        result[info.name] = np.asarray(value)
    return result


def differs(got: Array, wanted: Array, rtol: float, atol: float) -> str:
    """What is wrong with an output; empty: nothing."""
    if got.shape != wanted.shape:
        return f"shape {got.shape} instead of {wanted.shape}"
    if got.dtype == ml_dtypes.bfloat16:
        got, wanted, rtol = got.astype(np.float32), wanted.astype(np.float32), max(rtol, 1e-2)
    if got.dtype.kind == "f":
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        close = np.allclose(a, b, rtol, max(atol, 1e-7), equal_nan=True)
    else:
        close = bool(np.array_equal(got.astype(np.int64), wanted.astype(np.int64)))
    return "" if close else "wrong values"


def collect() -> tuple[list[tuple[Case, dict[str, Array], float, float]], dict[str, str]]:
    """Cases with their expected outputs and tolerances; the others, with the reason."""
    cases, refused = [], {}
    for test in collect_testcases(None):
        if test.model is None:
            refused[test.name] = "no model"
            continue
        graph = test.model.graph
        for number, (given, wanted) in enumerate(test.data_sets):
            name = test.name if number == 0 else f"{test.name}#{number}"
            inputs, outputs = arrays(given, list(graph.input)), arrays(wanted, list(graph.output))
            if inputs is None or outputs is None:
                refused[name] = "sequences, optionals"
                continue
            cases.append((Case(name, test.model, inputs), outputs, test.rtol, test.atol))
    return cases, refused


def with_constants(case: Case) -> Case:
    """The case with its integer inputs, and single numbers, as constants: shapes, axes, indices, bounds."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = {}
    for name, array in case.inputs.items():
        if array.dtype in (np.int64, np.int32, np.bool_) or (array.ndim <= 1 and array.size <= 8):
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        else:
            inputs[name] = array
    return Case(case.name, model, inputs)


def reason_of(error: str) -> str:
    """The reason in an error text, without names."""
    found = re.search(r"node `[^`]*` \((\w+)\): (.*)", error)
    text = f"{found[1]}: {found[2]}" if found else error.strip().splitlines()[-1]
    return re.sub(r"`[^`]*`", "`..`", text)


def main() -> None:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    cases, refused = collect()
    cases = [row for row in cases if re.search(options.k, row[0].name)]
    run([case for case, *_ in cases], options.tool)
    retried = {i: with_constants(row[0]) for i, row in enumerate(cases) if "not constant" in row[0].error}
    run(retried.values(), options.tool)
    for i, case in retried.items():
        cases[i] = (case, *cases[i][1:])
    passed, reasons = [], defaultdict(list)
    for case, wanted, rtol, atol in cases:
        problem = reason_of(case.error) if case.error else ""
        for name, array in wanted.items():
            if not problem and (wrong := differs(case.outputs[name], array, rtol, atol)):
                problem = f"WRONG {name}: {wrong}"
        (reasons[problem] if problem else passed).append(case.name)
    for name, reason in refused.items():
        reasons[reason].append(name)
    for reason, names in sorted(reasons.items(), key=lambda row: -len(row[1])):
        print(len(names), reason, *(names if options.list else names[:3]))
    wrong = sum(reason.startswith("WRONG") for reason in reasons)
    print(f"{len(passed)} of {len(cases) + len(refused)} pass, {wrong} kinds of wrong results")


if __name__ == "__main__":
    main()
