"""Rows about as long as L1, or longer: searches, reductions and softmax in passes, against NumPy.

usage: test_rows.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import test_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from test_networks import Folder, done

L1 = 16384
BYTES = {"f32": 4, "bf16": 2, "fp16": 2, "int8": 1}
# Bounds as shares of the largest result: half a step of the type, and what sums of that many add.
BOUNDS = {"f32": 3e-5, "bf16": 2e-2, "fp16": 4e-3, "int8": 4e-3}
STEP = 0.125  #: of the numbers, which each of the types has
OPERATORS = (
    "ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "Softmax", "LogSoftmax", "TopK",
)  # fmt: skip
node = helper.make_node


def model(op: str, shape: list[int], axis: int, k: int, largest: bool, quantized: bool) -> onnx.ModelProto:
    """One operator along an axis; quantized: on integers with a scale, as quantize_static writes it."""
    constants: dict[str, NDArray[Any]] = {"s": np.float32(STEP), "z": np.int8(0)}  # type: ignore[dict-item]
    x, outputs = "x", ["y"]
    nodes = []
    if quantized:
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        ]
        x = "d"
    if op == "ReduceSum":
        constants["a"] = np.array([axis])
        nodes.append(node(op, [x, "a"], ["y"]))
    elif op == "TopK":
        constants["k"] = np.array([k])
        outputs.append("i")
        nodes.append(node(op, [x, "k"], outputs, axis=axis, largest=int(largest)))
    elif op.startswith("Reduce"):
        nodes.append(node(op, [x], ["y"], axes=[axis]))
    else:
        nodes.append(node(op, [x], ["y"], axis=axis))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(op: str, x: NDArray[np.float64], axis: int, k: int, largest: bool) -> dict[str, NDArray[Any]]:
    """Return the same by NumPy: of equal elements the first."""
    if op in ("ArgMax", "ArgMin"):
        return {"y": (np.argmax if op == "ArgMax" else np.argmin)(x, axis=axis, keepdims=True)}
    if op == "TopK":
        order = np.take(np.argsort(-x if largest else x, axis=axis, kind="stable"), range(k), axis=axis)
        return {"y": np.take_along_axis(x, order, axis=axis), "i": order}
    if op.startswith("Reduce"):
        reduce = {"Max": np.max, "Min": np.min, "Mean": np.mean, "Sum": np.sum}[op[6:]]
        return {"y": reduce(x, axis=axis, keepdims=True)}
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    share = powers / powers.sum(axis=axis, keepdims=True)
    return {"y": share if op == "Softmax" else np.log(share)}


class Rows(Folder):
    """Each operator on tile32 with a small L1."""

    def check(self, op: str, precision: str, shape: list[int], axis: int, k: int, largest: bool) -> None:
        """The values of both modes."""
        random = np.random.default_rng(shape[axis])
        x = random.integers(-40, 40, shape).astype(np.float32) * np.float32(STEP)
        path = self.folder / "row.onnx"
        onnx.save(model(op, shape, axis, k, largest, precision == "int8"), path)
        np.save(self.folder / "x.npy", x)
        want = expected(op, x.astype(np.float64), axis, k, largest)
        exact = op in ("ArgMax", "ArgMin", "TopK", "ReduceMax", "ReduceMin")
        found = []
        for mode in ("functional", "values+timing"):
            out = self.folder / "out"
            type_ = [] if precision == "int8" else ["--precision", precision]
            device = ["--platform", "tile32", "--set", f"engine.l1.size_bytes={L1}", *type_]
            done(
                "run", str(path), *device, "--mode", mode, "--input", f"x={self.folder / 'x.npy'}",
                "--quiet", "-o", str(out), "--force",
            )  # fmt: skip
            found.append({name: np.load(out / "outputs" / f"{name}.npy") for name in want})
        for name, array in want.items():
            case = (op, precision, shape, axis, k, largest, name)
            self.assertEqual(found[0][name].tobytes(), found[1][name].tobytes(), case)
            got = found[0][name].astype(np.float64)
            self.assertEqual(got.shape, array.shape, case)
            bound = 0 if exact else BOUNDS[precision] * np.abs(array).max()
            self.assertLessEqual(np.abs(got - array).max(), bound, case)

    def test_lengths_around_l1(self) -> None:
        """Random lengths from a third of L1 to three times L1, along each axis."""
        random = np.random.default_rng(11)
        for number in range(36):
            op = OPERATORS[number % len(OPERATORS)]
            precision = list(BYTES)[number // len(OPERATORS)]
            length = int(L1 / BYTES[precision] * random.uniform(0.33, 3))
            shape = [int(size) for size in random.integers(1, 4, int(random.integers(1, 4)))]
            axis = int(random.integers(len(shape)))
            shape[axis] = length
            k = int(random.integers(1, 40))
            self.check(op, precision, shape, axis, k, bool(random.integers(2)))

    def test_lengths_with_few_divisors(self) -> None:
        """Lengths are twice or four times a prime, with dimensions after; two searches in sequence."""
        for op, precision, shape, axis, k in (
            ("ReduceSum", "bf16", [10796, 2, 3], 0, 1),
            ("ReduceMean", "int8", [1, 2, 19192, 2], 2, 1),
            ("ReduceMax", "bf16", [6730, 4], 0, 1),
            ("ArgMin", "f32", [4916, 5], 0, 1),
            ("TopK", "int8", [2, 60046, 1], 1, 105),
        ):
            self.check(op, precision, shape, axis, k, True)

    def test_many_of_a_row(self) -> None:
        """TopK of so many that only two runs of them fit."""
        for k, length in ((200, 5000), (300, 9001)):
            self.check("TopK", "fp16", [1, length], 1, k, True)

    def test_vocabulary(self) -> None:
        """The largest of 256,000 logits on the device as it is."""
        x = np.zeros((1, 256000), np.float32)
        x[0, [200001, 200002, 255999]] = 3
        path, out = self.folder / "logits.onnx", self.folder / "logits"
        onnx.save(model("ArgMax", [1, 256000], 1, 1, True, False), path)
        np.save(self.folder / "logits.npy", x)
        done("run", str(path), "--input", f"x={self.folder / 'logits.npy'}", "--quiet", "-o", str(out))
        self.assertEqual(np.load(out / "outputs" / "y.npy").tolist(), [[200001]])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
