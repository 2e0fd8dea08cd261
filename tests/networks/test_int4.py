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
#: Devices that compute wide products in bf16.
BF16 = ("swkpu-v2", "tpu_v3_core", "tpu_v4_core", "wormhole")
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
    """Return what the command says; it must succeed."""
    result = subprocess.run([KPUSIM, *arguments], capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise AssertionError(f"{result.args}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def platforms() -> list[str]:
    """Return the shipped devices that can run networks: without a VPU nothing changes a type."""
    names = [row["name"] for row in json.loads(command("list", "platforms", "--json").stdout)]
    return [name for name in names if "conversions" in command("list", "units", "--platform", name).stdout]


class Int4Test(unittest.TestCase):
    """Values, and what is told of how the weights are stored."""

    def setUp(self) -> None:
        """Make a folder."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.model = self.folder / "model.onnx"

    def expected(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what ONNX Runtime makes of it, node by node."""
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
        bound = 1.01 * STEP if integers else (8e-3 if device in BF16 else 1e-3) * float(np.ptp(right))
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


def float_network(path: Path, seed: int = 3) -> None:
    """Write two convolutions and two matrix products; 40 and 72 channels, no multiples of 32."""
    rng = np.random.default_rng(seed)
    constants = {
        "w1": rng.normal(0, 0.2, (40, 3, 3, 3)),
        "b1": rng.normal(0, 0.2, 40),
        "w2": rng.normal(0, 0.06, (72, 40, 3, 3)),
        "b2": rng.normal(0, 0.2, 72),
        "w3": rng.normal(0, 0.1, (72, 96)),
        "w4": rng.normal(0, 0.1, (96, 10)),
        "b4": rng.normal(0, 0.2, 10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1, 0, 1, 2], strides=[2, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w3"], ["m"], "hidden"),
        helper.make_node("Relu", ["m"], ["h"], "relu3"),
        helper.make_node("Gemm", ["h", "w4", "b4"], ["y"], "head"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [value("y", TensorProto.FLOAT, [1, 10])],
        [onnx.numpy_helper.from_array(data.astype(np.float32), name) for name, data in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def decibel(got: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Signal to noise."""
    return 10 * np.log10(float(np.sum(right**2)) / float(np.sum((got - right) ** 2)))


class GroupTest(unittest.TestCase):
    """Networks that are compiled to int4."""

    def setUp(self) -> None:
        """Make a folder with a network, samples and an input."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.model = self.folder / "model.onnx"
        float_network(self.model)
        (self.folder / "samples").mkdir()
        rng = np.random.default_rng(1)
        for i in range(8):
            np.save(
                self.folder / "samples" / f"{i}.npy", rng.standard_normal((1, 3, 12, 12)).astype(np.float32)
            )
        self.x = np.load(self.folder / "samples" / "0.npy")
        np.save(self.folder / "x.npy", self.x)

    def onnx_runtime(self, model: Path) -> NDArray[np.float32]:
        """Return the output that ONNX Runtime gives, node by node."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {session.get_inputs()[0].name: self.x})[0], np.float32)

    def compile(self, device: str, *more: str, precision: str = "int4") -> Path:
        """Return a program."""
        program = self.folder / "model.kpu"
        calibrate = ["--calibrate", str(self.folder / "samples")]
        command(
            "compile",
            str(self.model),
            "--platform",
            device,
            "--precision",
            precision,
            *calibrate,
            *more,
            "-o",
            str(program),
            "--force",
        )
        return program

    def run_program(self, program: Path, mode: str) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Return its output, where there are values, and statistics."""
        out = self.folder / "out"
        given = ["--input", f"x={self.folder / 'x.npy'}"]
        command("run", str(program), *given, "--mode", mode, "-o", str(out), "--force", "--quiet")
        stats = json.loads((out / "stats.json").read_text())["stats"]
        y = np.zeros(0) if mode == "timing" else np.load(out / "outputs" / "y.npy")
        return y, {name: row["value"] for name, row in stats.items()}

    def test_exported(self) -> None:
        """ONNX Runtime makes of the exported QDQ model, with its blocks, what the device gives."""
        right = self.onnx_runtime(self.model)
        for device in ("swkpu-v2", "npm_mid"):
            for size in (16, 32, 128):
                with self.subTest(device=device, size=size):
                    qdq = self.folder / "qdq.onnx"
                    program = self.compile(device, "--group-size", str(size), "--export-qdq", str(qdq))
                    exported = onnx.load(qdq)
                    blocks = {
                        attribute.i
                        for node in exported.graph.node
                        for attribute in node.attribute
                        if attribute.name == "block_size"
                    }
                    self.assertEqual(blocks, {size})
                    y, _ = self.run_program(program, "values+timing")
                    np.testing.assert_array_equal(y, self.run_program(program, "functional")[0])
                    theirs = self.onnx_runtime(qdq)
                    # a step of a hidden layer may be rounded to the other side
                    self.assertGreater(decibel(y, theirs), 35)
                    self.assertGreater(decibel(y, right), 14)
                    self.assertEqual(command("check", str(program), "--strict").returncode, 0)

    def test_smaller_groups_are_nearer(self) -> None:
        """The error of weights shrinks with their groups: on the whole, over outputs of all samples."""
        right, noise = self.onnx_runtime(self.model), []
        for size in (4, 128):
            y, _ = self.run_program(self.compile("swkpu-v2", "--group-size", str(size)), "functional")
            noise.append(decibel(y, right))
        self.assertGreater(noise[0], noise[1] + 1)

    def test_cut_sums(self) -> None:
        """A sum that is cut between groups has the bits of one that is not; the cut is fixed by a mapping."""
        whole, _ = self.run_program(self.compile("swkpu-v2"), "functional")
        for tile in ({"hidden": {"tile": {"k": 1}}}, {"conv2": {"tile": {"c": 1}}}):
            (self.folder / "m.json").write_text(json.dumps(tile))
            program = self.compile("swkpu-v2", "--mapping", str(self.folder / "m.json"))
            for mode in ("functional", "values+timing"):
                np.testing.assert_array_equal(self.run_program(program, mode)[0], whole)

    def test_memory(self) -> None:
        """Weights take 4 bits and their share of a scale of 16 bits, in the file and on the way from DRAM."""
        stats = {}
        for precision in ("int8", "int4"):
            stats[precision] = self.run_program(self.compile("swkpu-v2", precision=precision), "timing")[1]
        weights = 40 * 27 + 72 * 40 * 9 + 72 * 96 + 96 * 10
        scales = 2 * (40 * 1 + 72 * 2 + 96 * 3 + 10 * 3)
        saved = stats["int8"]["bytes.dram.read"] - stats["int4"]["bytes.dram.read"]
        # beside them: biases in either type, tiles at whole lines
        self.assertLess(abs(saved - (weights / 2 - scales)), 0.05 * weights)

    def nbits(self, symmetric: bool, scales: type, seed: int, **told: int) -> list[int]:
        """Write a MatMulNBits node, [5, 200] times [200, 33] in blocks of 32; its scales as bits.

        Its attributes are those, but for what is `told`.
        """
        rng = np.random.default_rng(seed)
        k, n, size = 200, 33, 32
        blocks = -(-k // size)
        packed = rng.integers(0, 256, (n, blocks, size // 2)).astype(np.uint8)
        given = rng.uniform(0.01, 0.05, (n, blocks)).astype(scales)
        tensors = [onnx.numpy_helper.from_array(packed, "w"), onnx.numpy_helper.from_array(given, "s")]
        inputs = ["x", "w", "s"]
        if not symmetric:
            zeros = rng.integers(0, 256, (n, (blocks + 1) // 2)).astype(np.uint8)
            tensors.append(onnx.numpy_helper.from_array(zeros, "z"))
            inputs.append("z")
        attributes = {"K": k, "N": n, "bits": 4, "block_size": size} | told
        node = helper.make_node("MatMulNBits", inputs, ["y"], "product", domain="com.microsoft", **attributes)
        elem = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(scales))
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [node], "g", [value("x", elem, [5, k])], [value("y", elem, [5, n])], tensors
        )
        sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=10), self.model)
        self.x = rng.standard_normal((5, k)).astype(scales)
        for path in (self.folder / "samples").iterdir():
            np.save(path, self.x)
        np.save(self.folder / "x.npy", self.x)
        return sorted(given.ravel().view(f"u{given.itemsize}").tolist())

    def test_matmul_nbits(self) -> None:
        """With its own scales and zero points in int4, as floats elsewhere; against ONNX Runtime."""
        for seed, (symmetric, scales) in enumerate(
            itertools.product((True, False), (np.float32, np.float16))
        ):
            with self.subTest(symmetric=symmetric, scales=scales.__name__):
                bits = self.nbits(symmetric, scales, seed)
                right = self.onnx_runtime(self.model)
                qdq = self.folder / "qdq.onnx"
                y, _ = self.run_program(self.compile("swkpu-v2", "--export-qdq", str(qdq)), "values+timing")
                self.assertGreater(decibel(y.astype(np.float32), right), 36)  # inputs of 8 bits
                (kept,) = [
                    onnx.numpy_helper.to_array(t).astype(scales)
                    for t in onnx.load(qdq).graph.initializer
                    if t.data_type == TensorProto.FLOAT and list(t.dims) == [7, 33]
                ]
                self.assertEqual(sorted(kept.ravel().view(f"u{kept.itemsize}").tolist()), bits)
                out = self.folder / "floats"
                command(
                    "run",
                    str(self.model),
                    "--platform",
                    "tile32",
                    "--precision",
                    "fp16",
                    "--mode",
                    "functional",
                    "--input",
                    f"x={self.folder / 'x.npy'}",
                    "-o",
                    str(out),
                    "--force",
                )
                floats = np.load(out / "outputs" / "y.npy").astype(np.float32)
                self.assertGreater(decibel(floats, right), 50)

    def test_nbits_of_sizes_that_are_none(self) -> None:
        """Sizes that overflow, or that the data does not fit, end in an error that names them."""
        most = 2**63 - 1
        for told in (
            *({"block_size": size} for size in (most, most - 1, 2**62, 2**31 + 2, 64, 15, 0, -16)),
            *({name: size} for name in ("K", "N") for size in (most, 2**62, 2**31 + 1, 0, -1)),
        ):
            with self.subTest(**told):
                self.nbits(True, np.float32, 0, **told)
                told_back = self.refused("swkpu-v2").stderr
                self.assertIn("product", told_back)
                ((name, size),) = told.items()
                wanted = rf"{name}.* {size}\b" if size != 64 else r"do not fit \[33,200\] in blocks of 64"
                self.assertRegex(told_back, wanted)

    def test_given_blocks(self) -> None:
        """Blocks of a QDQ model stay where the device takes them, of a transposed Gemm and a Conv too."""
        write_model(self.model, TensorProto.UINT4, "block", True, (64, 33), 7)
        listed = command("check", str(self.model), "--platform", "swkpu-v2").stdout
        row = next(line for line in listed.splitlines() if line.startswith("product"))
        self.assertIn("i8, i4", row)
        rng = np.random.default_rng(2)
        shapes = {"w1": ((40, 16, 3, 3), 1), "w2": ((10, 40), 1)}
        tensors, nodes, value = [], [], helper.make_tensor_value_info
        for name, (shape, axis) in shapes.items():
            blocks = [*shape]
            blocks[axis] //= 8
            steps = rng.integers(-8, 8, shape).astype(ml_dtypes.int4)
            scales = np.broadcast_to(rng.uniform(0.01, 0.05, blocks[:2] + [1] * (len(shape) - 2)), blocks)
            tensors += [
                helper.make_tensor(f"{name}q", TensorProto.INT4, shape, steps.flatten().tolist()),
                onnx.numpy_helper.from_array(np.ascontiguousarray(scales, np.float32), f"{name}s"),
            ]
            nodes.append(
                helper.make_node(
                    "DequantizeLinear", [f"{name}q", f"{name}s"], [name], axis=axis, block_size=8
                )
            )
        nodes += [
            helper.make_node("Conv", ["x", "w1"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("GlobalAveragePool", ["c"], ["g"], "pool"),
            helper.make_node("Flatten", ["g"], ["f"], "flatten"),
            helper.make_node("Gemm", ["f", "w2"], ["y"], "gemm", transB=1),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [value("x", TensorProto.FLOAT, [1, 16, 6, 6])],
            [value("y", TensorProto.FLOAT, [1, 10])],
            tensors,
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.model
        )
        self.x = rng.standard_normal((1, 16, 6, 6)).astype(np.float32)
        for path in (self.folder / "samples").iterdir():
            np.save(path, self.x)
        np.save(self.folder / "x.npy", self.x)
        # nothing of the weights is lost: 8 bits of the activations are the whole error
        y, _ = self.run_program(self.compile("swkpu-v2", "--group-size", "128"), "values+timing")
        self.assertGreater(decibel(y, self.onnx_runtime(self.model)), 36)

    def test_told(self) -> None:
        """Devices without such products, and sizes that are none."""
        for device in ("swkpu-v1", "npm_lite", "tile32"):
            result = self.refused(device)
            self.assertIn("int4", result.stderr)
            self.assertIn("Fix:", result.stderr)
        result = self.refused("swkpu-v2", "--group-size", "0")
        self.assertIn("--group-size: 0 must be 32, 64 or 128. Fix:", result.stderr)

    def refused(self, device: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Return what a compilation that ends in an error tells."""
        fixed = ["--precision", "int4", "--calibrate", "random:1", "-o", str(self.folder / "no.kpu")]
        arguments = [KPUSIM, "compile", str(self.model), "--platform", device, *fixed, *more]
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, 1)
        return result


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
