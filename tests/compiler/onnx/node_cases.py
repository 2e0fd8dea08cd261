"""The test cases of the ONNX package, run through the importer and the graph executor.

usage: node_cases.py GRAPH_RUN [--list] [--update PAGE | --check PAGE]

Prints how many pass, and the others by reason (--list: each).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from graph_run import SMALL_FLOATS, Array, Case, run
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

MARK = "<!-- from here on written by tests/compiler/onnx/node_cases.py --update -->\n\n"


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


#: results are as long as they can be
BOUNDED = {"Compress", "NonMaxSuppression", "NonZero", "Unique"}


def in_bounds(case: Case, got: Array, wanted: Array) -> Array:
    """Return what is wanted, with -1 after it where its length depends on data."""
    bounded = case.model.graph.node[0].op_type in BOUNDED and got.ndim == wanted.ndim
    rest = [(0, max(size - is_, 0)) for size, is_ in zip(got.shape, wanted.shape, strict=False)]
    return np.pad(wanted, rest, constant_values=-1) if bounded else wanted


def differs(got: Array, wanted: Array, rtol: float, atol: float) -> str:
    """Say what is wrong with an output; empty: nothing."""
    if got.shape != wanted.shape:
        return f"shape {got.shape} instead of {wanted.shape}"
    if got.dtype in SMALL_FLOATS.values():
        same = got.astype(np.float32), wanted.astype(np.float32)
        return "" if np.array_equal(*same, equal_nan=True) else "wrong values"
    if got.dtype.kind == "f" or got.dtype == ml_dtypes.bfloat16:
        # the order of sums counts in the last places; doubles are computed as f32
        share = {2: 1e-3, 4: 5e-7, 8: 5e-7}[got.dtype.itemsize] if got.dtype.kind == "f" else 1e-2
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        size = np.abs(b[np.isfinite(b)]).max(initial=0)
        close = np.allclose(a, b, rtol, max(atol, 1e-7, share * size), equal_nan=True)
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
    """The case with integer inputs, and short lists, as constants: shapes, axes, indices, bounds, windows."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = {}
    for name, array in case.inputs.items():
        if array.dtype in (np.int64, np.int32, np.bool_) or (array.ndim <= 1 and array.size <= 64):
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        else:
            inputs[name] = array
    return Case(case.name, model, inputs)


def reason_of(error: str) -> str:
    """Return the reason in an error text, without names."""
    found = re.search(r"node `[^`]*` \(([\w.]+)\): (.*)", error)
    text = f"{found[1]}: {found[2]}" if found else error.strip().splitlines()[-1].split("error: ")[-1]
    text = re.sub(r"`[^`]*`", "`..`", text)
    if type_ := re.search(r"has type (\w+), which|tensors of (\w+) are not taken", text):
        kind = re.sub(r"float8\w+fnuz", "float8fnuz", type_[1] or type_[2])
        return f"tensors of {kind} are not taken"
    for common in (r"the domain [\w.]+ is not known", "it is in training mode"):
        if found := re.search(common, text):
            return found[0]
    return re.sub(r"\[[-0-9,]*\]", "[..]", text)


@dataclass
class Counts:
    """Counts of what came of the cases."""

    total: int
    passed: list[str]
    constants: int  # of those that passed
    reasons: dict[str, list[str]]

    def wrong(self) -> list[str]:
        """Return the names of cases that run and give other values."""
        return [
            name for reason, names in self.reasons.items() if reason.startswith("WRONG") for name in names
        ]


def count(tool: str, pattern: str) -> Counts:
    """Runs the cases; those that need constants once more with them."""
    cases, refused = collect()
    cases = [row for row in cases if re.search(pattern, row[0].name)]
    run([case for case, *_ in cases], tool)
    retried = {i: with_constants(row[0]) for i, row in enumerate(cases) if "not constant" in row[0].error}
    run(retried.values(), tool)
    for i, case in retried.items():
        cases[i] = (case, *cases[i][1:])
    result = Counts(len(cases) + len(refused), [], 0, defaultdict(list))
    for i, (case, wanted, rtol, atol) in enumerate(cases):
        problem = reason_of(case.error) if case.error else ""
        for name, array in wanted.items():
            if problem:
                break
            got = case.outputs[name]
            if wrong := differs(got, in_bounds(case, got, array), rtol, atol):
                problem = f"WRONG {name}: {wrong}"
        (result.reasons[problem] if problem else result.passed).append(case.name)
        result.constants += not problem and i in retried
    for name, reason in refused.items():
        result.reasons[reason].append(name)
    return result


def operators(tool: str) -> str:
    """Return the operators that are taken."""
    listed = subprocess.run([tool, "--operators"], check=True, capture_output=True, text=True).stdout
    names = []
    for line in listed.splitlines():
        name, since, until = line.split()
        if until != "999":
            name += f" (to opset {until})"
        elif since != "7":
            name += f" ({since})"
        names.append(name)
    return ", ".join(names)


def page(tool: str, counts: Counts) -> str:
    """Return the generated part of docs/onnx.md."""
    lines = [
        "## Operators",
        "",
        "Those of `ai.onnx` that are imported; the opset that brought one stands after it if it is above 7.",
        "",
        *textwrap.wrap(operators(tool) + ".", 118),
        "",
        "## The ONNX package's own cases",
        "",
        *textwrap.wrap(
            f"{len(counts.passed)} of the {counts.total} node cases of onnx {onnx.__version__} pass, "
            f"{counts.constants} of them with shapes, axes, indices and bounds as constants, not as inputs. "
            f"{len(counts.wrong())} give wrong values. The others, by reason:",
            118,
        ),
        "",
        "| cases | reason | for example |",
        "|---|---|---|",
    ]
    for reason, names in sorted(counts.reasons.items(), key=lambda row: (-len(row[1]), row[0])):
        text = reason.split(". Fix")[0].replace("|", "/")
        lines.append(f"| {len(names)} | {text} | {min(names)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints what came of the cases, or writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--list", action="store_true", help="print the names of all cases")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the counts into it")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="fail when the page says something else")
    parser.add_argument("-k", default="", metavar="PATTERN", help="only cases whose name has it")
    parser.add_argument("--least", type=int, default=1, help="fail when fewer pass")
    options = parser.parse_args()
    counts = count(options.tool, options.k)
    if options.update or options.check:
        path = options.update or options.check
        old = path.read_text(encoding="utf-8")
        new = old[: old.index(MARK) + len(MARK)] + page(options.tool, counts)
        if options.update:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            raise SystemExit(f"{path.name} is stale. Fix: node_cases.py GRAPH_RUN --update {path}")
    else:
        for reason, names in sorted(counts.reasons.items(), key=lambda row: -len(row[1])):
            print(len(names), reason, *(names if options.list else names[:3]))
    print(f"{len(counts.passed)} of {counts.total} pass, {len(counts.wrong())} give wrong values")
    if counts.wrong() or len(counts.passed) < options.least:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
