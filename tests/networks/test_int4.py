"""Weights of four bits (INT4, UINT4; per tensor, channel, block), on every device, against ONNX Runtime.

usage: test_int4.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

KPUSIM = os.environ.get("KPUSIM", "")
FOUR_BITS = {"npm_mid", "npm_pro", "swkpu-v2"}  # have products of i8 and i4
BLOCK, STEP = 16, 0.1
TYPES = {TensorProto.INT4: (ml_dtypes.int4, -8), TensorProto.UINT4: (ml_dtypes.uint4, 0)}


def scales_of(kind: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, int]]:
    """Shape of the scales of a weight, and the attributes that say so."""
    axis = 0 if len(shape) == 4 else 1
    if kind == "tensor":
        return (), {}
    if kind == "channel":
        return (shape[axis],), {"axis": axis}
    return (shape[0] // BLOCK, *shape[1:]), {"axis": 0, "block_size": BLOCK}


def write_model(
    path: Path, elem: int, kind: str, integers: bool, shape: tuple[int, ...], seed: int
) -> list[int]:
    """Write a product of an input and a weight; integers: between QuantizeLinear and DequantizeLinear nodes.

    Parameters
    ----------
    path
        Where.
    elem, kind
        Type of the weight; what has a scale of its own.
    integers
        Whether input and output are quantized.
    shape
        Of the weight; of rank 4 it is that of a convolution.
    seed
        Of the numbers.

    Returns
    -------
    list
        The shape of the input `x`.
    """
    rng = np.random.default_rng(seed)
    dtype, low = TYPES[elem]
    scale_shape, attributes = scales_of(kind, shape)
    zeros = np.full(scale_shape, low + 8) if integers else rng.integers(low, low + 16, scale_shape)
    tensors = [
        helper.make_tensor(
            "wq", elem, shape, rng.integers(low, low + 16, shape).astype(dtype).flatten().tolist()
        ),
        onnx.numpy_helper.from_array(rng.uniform(0.02, 0.08, scale_shape).astype(np.float32), "ws"),
        helper.make_tensor("wz", elem, scale_shape, zeros.astype(dtype).flatten().tolist()),
    ]
    product, extra = ("Conv", {"pads": [1, 1, 1, 1]}) if len(shape) == 4 else ("MatMul", {})
    nodes = [helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], "weights", **attributes)]
    if integers:
        for name, scale, zero in (("x", 0.03, 3), ("y", STEP, -2)):
            tensors.append(helper.make_tensor(f"{name}s", TensorProto.FLOAT, [], [scale]))
            tensors.append(helper.make_tensor(f"{name}z", TensorProto.INT8, [], [zero]))
        nodes += [
            helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "qx"),
            helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"], "dqx"),
            helper.make_node(product, ["xd", "w"], ["p"], "product", **extra),
            helper.make_node("QuantizeLinear", ["p", "ys", "yz"], ["yq"], "qy"),
            helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"], "dqy"),
        ]
    else:
        nodes.append(helper.make_node(product, ["x", "w"], ["y"], "product", **extra))
    x = [1, shape[1], 7, 7] if len(shape) == 4 else [5, shape[0]]
    y = [1, shape[0], 7, 7] if len(shape) == 4 else [5, shape[1]]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, x)], [value("y", TensorProto.FLOAT, y)], tensors
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return x


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command says; it must succeed."""
    result = subprocess.run([KPUSIM, *arguments], capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise AssertionError(f"{result.args}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def platforms() -> list[str]:
    """The devices that are shipped."""
    return [row["name"] for row in json.loads(command("list", "platforms", "--json").stdout)]


class Int4Test(unittest.TestCase):
    """Values, and what is told of how the weights are stored."""

    def setUp(self) -> None:
        """Make a folder."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.model = self.folder / "model.onnx"

    def expected(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """What ONNX Runtime makes of it, node by node."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(self.model), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {"x": x})[0], np.float32)

    def check(self, device: str, x: NDArray[np.float32], integers: bool) -> None:
        """Run on a device: within a step, or a float's share of the range (bf16 at the coarsest)."""
        out = self.folder / device
        command(
            "run",
            str(self.model),
            "--platform",
            device,
            "--input",
            f"x={self.folder / 'x.npy'}",
            "-o",
            str(out),
            "--force",
        )
        y, right = np.asarray(np.load(out / "outputs" / "y.npy"), np.float32), self.expected(x)
        bound = 1.01 * STEP if integers else (8e-3 if device == "swkpu-v2" else 1e-3) * float(np.ptp(right))
        self.assertLessEqual(float(np.abs(y - right).max()), bound)

    def test_values(self) -> None:
        """Odd sizes, so that channels begin within bytes; sums that fit L1."""
        cases = [
            (shape, kind)
            for shape, kinds in (
                ((64, 33), ("tensor", "channel", "block")),
                ((9, 5, 3, 3), ("tensor", "channel")),
            )
            for kind in kinds
        ]
        devices = platforms()
        self.assertGreaterEqual(len(devices), 6)
        for seed, ((shape, kind), elem, integers) in enumerate(
            itertools.product(cases, TYPES, (False, True))
        ):
            x = np.random.default_rng(seed).standard_normal(
                write_model(self.model, elem, kind, integers, shape, seed)
            )
            np.save(self.folder / "x.npy", x.astype(np.float32))
            for device in devices:
                with self.subTest(shape=shape, kind=kind, elem=elem, integers=integers, device=device):
                    self.check(device, x.astype(np.float32), integers)

    def test_tiles(self) -> None:
        """Weights of many tiles, cut along both dimensions."""
        x = np.random.default_rng(5).standard_normal(
            write_model(self.model, TensorProto.INT4, "channel", True, (1024, 771), 5)
        )
        np.save(self.folder / "x.npy", x.astype(np.float32))
        for device in FOUR_BITS:
            self.check(device, x.astype(np.float32), True)

    def test_told(self) -> None:
        """A device with i4 products keeps four bits; others store eight, and say so."""
        write_model(self.model, TensorProto.UINT4, "channel", True, (9, 5, 3, 3), 1)
        for device in platforms():
            with self.subTest(device=device):
                result = command("check", str(self.model), "--platform", device)
                four = device in FOUR_BITS
                row = next(line for line in result.stdout.splitlines() if line.startswith("product"))
                self.assertIn("i8, i4 to i8" if four else "i8, i8 to i8", row)
                (self.assertNotIn if four else self.assertIn)("has 4 bits, is stored with 8", result.stdout)
        sizes = {}
        for device in ("npm_lite", "npm_mid"):
            write_model(self.model, TensorProto.INT4, "channel", True, (1024, 512), 1)
            command(
                "compile", str(self.model), "--platform", device, "-o", str(self.folder / f"{device}.kpu")
            )
            sizes[device] = (self.folder / f"{device}.kpu").stat().st_size
        self.assertGreater(sizes["npm_lite"], 1024 * 512)
        self.assertLess(sizes["npm_mid"], 1024 * 512 * 0.6)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
