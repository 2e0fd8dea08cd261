"""Operators along a row that is far longer than L1, against NumPy: they are cut, or refused with the reason.

usage: test_long_rows.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
import test_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from test_networks import Folder, command, done

ROW = 1 << 20
L1 = 65536  #: of the long rows: 64 KiB
SMALL = 8192  #: of short ones, which both modes take
Array = NDArray[Any]
Mode = Literal["reflect", "edge", "wrap"]


class Case(NamedTuple):
    """A node, what else it reads, and what NumPy makes of the row (float64)."""

    node: onnx.NodeProto
    constants: dict[str, Array]
    want: Array
    bound: float = 0.0  #: of the largest result


def whole(*numbers: int) -> Array:
    """Sizes, places and the like."""
    return np.array(numbers, np.int64)


def padded(x: Array, axis: int, before: int, behind: int, mode: Mode) -> Case:
    """Pad, along one dimension."""
    pads = np.zeros(2 * x.ndim, np.int64)
    pads[axis], pads[axis + x.ndim] = before, behind
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    return Case(node, {"p": pads}, np.pad(x, [(int(a), int(b)) for a, b in pads.reshape(2, -1).T], mode=mode))


def stepped(x: Array, axes: list[int], starts: list[int], steps: list[int]) -> Case:
    """Slice to the end, or to the beginning."""
    ends = [x.shape[axis] if step > 0 else -x.shape[axis] - 1 for axis, step in zip(axes, steps, strict=True)]
    taken = [slice(None)] * x.ndim
    for axis, start, step in zip(axes, starts, steps, strict=True):
        taken[axis] = slice(start, None, step)
    constants = {"s": whole(*starts), "e": whole(*ends), "a": whole(*axes), "t": whole(*steps)}
    return Case(helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]), constants, x[tuple(taken)])


def resized(x: Array, axis: int, size: int, coordinates: str, mode: str = "linear") -> Case:
    """Resize of one dimension, by the positions that ONNX states."""
    length, scale = x.shape[axis], size / x.shape[axis]
    at = (np.arange(size) + 0.5) / scale - 0.5 if coordinates == "half_pixel" else np.arange(size) / scale
    low = np.floor(at) if mode == "linear" else np.ceil(at - 0.5)  # nearest: of two the lower
    share = (at - low if mode == "linear" else np.zeros(size)).reshape([-1] + [1] * (x.ndim - axis - 1))
    a, b = (np.take(x, np.clip(low + i, 0, length - 1).astype(int), axis=axis) for i in (0, 1))
    sizes = list(x.shape)
    sizes[axis] = size
    node = helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], mode=mode, coordinate_transformation_mode=coordinates
    )
    return Case(node, {"n": whole(*sizes)}, a * (1 - share) + b * share, 1e-6)


def pooled(x: Array, op: str) -> Case:
    """A pool over all that is behind the channels."""
    axes = tuple(range(2, x.ndim))
    want = (np.max if op == "GlobalMaxPool" else np.mean)(x, axis=axes, keepdims=True)
    return Case(helper.make_node(op, ["x"], ["y"]), {}, want, 1e-6)


def root_mean_square(x: Array) -> Case:
    """RMSNormalization, with a scale."""
    scale = np.linspace(0.5, 1.5, x.shape[-1]).astype(np.float32)
    node = helper.make_node("RMSNormalization", ["x", "g"], ["y"], axis=-1, epsilon=1e-5)
    return Case(node, {"g": scale}, x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * scale, 1e-6)


def looked_up(x: Array, op: str, count: int) -> Case:
    """Gather or GatherElements of a row of a table, some from its end."""
    places = np.random.default_rng(count).integers(-x.shape[1], x.shape[1], count)
    index = places if op == "Gather" else places[None]
    return Case(helper.make_node(op, ["x", "i"], ["y"], axis=1), {"i": index}, x[:, places])


def running(x: Array, reverse: bool) -> Case:
    """CumSum."""
    want = np.flip(np.cumsum(np.flip(x, 1), 1), 1) if reverse else np.cumsum(x, 1)
    node = helper.make_node("CumSum", ["x", "a"], ["y"], reverse=int(reverse))
    return Case(node, {"a": np.array(1, np.int64)}, want, 1e-6)


class LongRows(Folder):
    """One node on tile32 with a small L1."""

    def save(self, case: Case, x: Array) -> list[str]:
        """The model and its input; result: what the command takes."""
        graph = helper.make_graph(
            [case.node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [onnx.ValueInfoProto(name=name) for name in case.node.output],
            [numpy_helper.from_array(array, name) for name, array in case.constants.items()],
        )  # fmt: skip
        version = 23 if case.node.op_type == "RMSNormalization" else 18
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
        onnx.save(model, self.folder / "row.onnx")
        np.save(self.folder / "x.npy", np.ascontiguousarray(x))
        return [str(self.folder / "row.onnx"), "--input", f"x={self.folder / 'x.npy'}"]

    def check(self, case: Case, x: Array, l1: int, modes: tuple[str, ...]) -> None:
        """The values, in each mode."""
        given = self.save(case, x)
        device = ["--platform", "tile32", "--set", f"engine.l1.size_bytes={l1}", "--precision", "f32"]
        for mode in modes:
            out = self.folder / "out"
            done("run", *given, *device, "--mode", mode, "--quiet", "-o", str(out), "--force")
            got = np.load(out / "outputs" / "y.npy")
            what = (case.node.op_type, case.node.attribute, x.shape, mode)
            self.assertEqual(got.shape, case.want.shape, what)
            self.assertLessEqual(np.abs(got - case.want).max(), case.bound * np.abs(case.want).max(), what)

    def test_a_million(self) -> None:
        """One row of 2^20 in 64 KiB."""
        x = np.random.default_rng(3).integers(-40, 40, (1, ROW)) * 0.125
        line = x.reshape(1, 1, ROW)
        cases = [
            (padded(x, 1, 5, 7, "reflect"), x), (padded(x, 1, 100_000, 200_000, "reflect"), x),
            (padded(x, 1, 5, 70_000, "edge"), x), (padded(x, 1, 0, 70_000, "wrap"), x),
            (stepped(x, [1], [-1], [-1]), x), (stepped(x, [1], [-2], [-3]), x),
            (resized(line, 2, 2 * ROW, "half_pixel"), line), (resized(line, 2, ROW // 2, "asymmetric"), line),
            (pooled(line, "GlobalAveragePool"), line), (pooled(line, "GlobalMaxPool"), line),
            (root_mean_square(x), x), (running(x, True), x),
            (looked_up(x, "Gather", 100), x), (looked_up(x, "GatherElements", 1000), x),
        ]  # fmt: skip
        for case, operand in cases:
            self.check(case, operand.astype(np.float32), L1, ("functional",))

    def test_around_small_l1(self) -> None:
        """Odd lengths, with other dimensions before and behind, in both modes."""
        random = np.random.default_rng(5)
        for number in range(5):
            length, outer, inner = 3001 + 2 * number, 1 + number % 2, 1 + number % 3
            x = random.integers(-40, 40, (outer, length, inner)) * 0.125
            row, image, line = x[:1, :, 0], np.moveaxis(x[None], 2, 3), x[..., :1].transpose(0, 2, 1)
            cases = [
                (padded(x, 1, 3 + number, 2500, "reflect"), x), (padded(x, 1, 2500, number, "edge"), x),
                (stepped(x, [1], [-1 - number], [-1 - number % 2]), x),
                (stepped(x, [0, 1], [-1, -2], [-1, -1]), x),
                (resized(image, 3, 2 * length, "asymmetric"), image),
                (resized(image, 3, 3 * length, "half_pixel"), image),
                (pooled(line, "GlobalAveragePool"), line),
                (root_mean_square(x[..., 0]), x[..., 0]), (looked_up(row, "GatherElements", 50), row),
            ]  # fmt: skip
            for case, operand in cases:
                self.check(case, operand.astype(np.float32), SMALL, ("functional", "values+timing"))
        halves = random.integers(-40, 40, (1, 1, 6000)) * 0.125
        for size, mode in ((4000, "linear"), (9000, "linear"), (4500, "nearest")):
            case = resized(halves, 2, size, "half_pixel", mode)
            self.check(case, halves.astype(np.float32), SMALL, ("functional", "values+timing"))

    def test_a_sort_is_refused(self) -> None:
        """All of a row in order: no part of it is a result by itself."""
        x = np.zeros((1, ROW), np.float32)
        node = helper.make_node("TopK", ["x", "k"], ["y", "i"])
        given = self.save(Case(node, {"k": whole(ROW)}, x), x)
        result = command("run", *given, "--platform", "tile32", "--precision", "f32", "--mode", "functional")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a sort of a row that is longer than L1 is not taken. Fix: ", result.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
