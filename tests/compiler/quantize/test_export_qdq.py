"""Exported QDQ models give in ONNX Runtime what our arithmetic gives: every operator within one step.

usage: test_export_qdq.py path/to/quantize_run
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

Array = npt.NDArray[np.float32]
Node = onnx.NodeProto


class Model:
    """An ONNX model that grows by calls; weights are random."""

    def __init__(self, seed: int, shape: Sequence[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = list(shape)
        self.last = "x"

    def weights(self, *shape: int, scale: float = 0.5) -> str:
        """Add a random constant; gives its name."""
        name = f"w{len(self.constants)}"
        values = self.random.normal(0, scale, shape).astype(np.float32)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def integers(self, *values: int) -> str:
        """Add a constant list of int64; gives its name."""
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op: str, *more: str, inputs: Sequence[str] = (), **attributes: object) -> str:
        """Add an operator on the last result, or on `inputs`; gives its result."""
        operands = list(inputs) or [self.last, *more]
        self.last = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [self.last], name=self.last, **attributes))
        return self.last

    def save(self, folder: Path, outputs: Sequence[str] = ()) -> None:
        """Write the model, four samples and an input."""
        graph = helper.make_graph(
            self.nodes,
            "case",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs or [self.last]],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        (folder / "samples").mkdir(parents=True)
        onnx.save(onnx.shape_inference.infer_shapes(model), folder / "model.onnx")
        for i in range(4):
            x = self.sample()
            np.save(folder / "samples" / f"{i}.npy", x)
        np.save(folder / "x.npy", x)  # one of them: its ranges are known

    def sample(self) -> Array:
        """Return random numbers of the input's shape."""
        return self.random.normal(0, 1, self.shape).astype(np.float32)


IMAGE = (1, 3, 8, 8)


def conv(seed: int, groups: int = 1, **attributes: object) -> Model:
    """Return a convolution of 4 channels with a bias."""
    m = Model(seed, (1, 4, 9, 9))
    m.add("Conv", m.weights(8, 4 // groups, 3, 3), m.weights(8), group=groups, **attributes)
    return m


def small_cnn(seed: int) -> Model:
    """Convolutions, a residual sum, pools, a classifier."""
    m = Model(seed, IMAGE)
    first = m.add("Conv", m.weights(8, 3, 3, 3), m.weights(8), pads=[1, 1, 1, 1])
    relu = m.add("Relu", inputs=[first])
    m.add("Conv", m.weights(8, 8, 3, 3, scale=0.2), pads=[1, 1, 1, 1])
    m.add("Add", inputs=[relu, m.last])
    m.add("Relu")
    m.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    m.add("GlobalAveragePool")
    m.add("Flatten")
    m.add("Gemm", m.weights(8, 10), m.weights(10))
    return m


def unary(op: str, seed: int, **attributes: object) -> Model:
    """Return one operator on a product, so that its operand is int8."""
    m = conv(seed)
    m.add(op, **attributes)
    return m


def attention(seed: int) -> Model:
    """Return two products of activations with a softmax between: floats inside int8."""
    m = Model(seed, (2, 6, 8))
    q = m.add("MatMul", m.weights(8, 8))
    k = m.add("MatMul", inputs=["x", m.weights(8, 8)])
    m.add("Transpose", perm=[0, 2, 1])
    m.add("MatMul", inputs=[q, m.last])
    p = m.add("Softmax", axis=-1)
    m.add("MatMul", inputs=[p, k])
    m.add("MatMul", m.weights(8, 4))
    return m


def shapes(seed: int) -> Model:
    """Views: elements are moved, not computed."""
    m = conv(seed)
    a = m.add("Slice", m.integers(1), m.integers(5), m.integers(1))
    b = m.add("Pad", m.integers(0, 0, 0, 0, 0, 0, 0, 0))
    m.add("Concat", inputs=[a, b], axis=1)
    m.add("Transpose", perm=[0, 2, 3, 1])
    m.add("Reshape", m.integers(1, -1))
    m.add("Gemm", m.weights(392, 3, scale=0.1), m.weights(3))
    return m


def cases() -> dict[str, Model]:
    """Return every model, by name."""
    made = {
        "conv": conv(1),
        "strides": conv(2, strides=[2, 2], pads=[1, 0, 1, 2]),
        "dilations": conv(3, dilations=[2, 2]),
        "groups": conv(4, groups=2),
        "depthwise": conv(5, groups=4),
        "attention": attention(6),
        "shapes": shapes(7),
        "avgpool": unary("AveragePool", 8, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        "maxpool": unary("MaxPool", 9, kernel_shape=[2, 2], strides=[2, 2]),
        "mean": unary("ReduceMean", 10, keepdims=1),
        "leaky": unary("LeakyRelu", 11, alpha=0.2),
        "softmax": unary("Softmax", 12, axis=1),
    }
    for i, op in enumerate(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "HardSwish", "Gelu", "Erf", "Mish"]):
        made[op.lower()] = unary(op, 20 + i)
    for i, op in enumerate(["Add", "Sub", "Mul", "Min", "Max"]):
        m = conv(40 + i)
        left = m.last
        m.add("Conv", inputs=["x", m.weights(8, 4, 3, 3)])
        m.add(op, inputs=[left, m.last])
        made[op.lower()] = m
    for seed in range(50, 58):
        made[f"cnn{seed}"] = small_cnn(seed)
    return made


def with_runtime(path: Path, x: Array) -> list[Array]:
    """Return what ONNX Runtime makes of it, operator by operator: its own fusions would round elsewhere."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


class Samples(CalibrationDataReader):
    """The samples of a case, for ONNX Runtime's quantizer."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted((folder / "samples").iterdir())

    def get_next(self) -> dict[str, Array] | None:
        """Return one sample, None at the end."""
        return {"x": np.load(self.paths.pop())} if self.paths else None


class QuantizedModels(unittest.TestCase):
    """Models that ONNX Runtime's quantizer made keep their scales."""

    tool = ""

    def test_quantized_models(self) -> None:
        """Ours within a step for each operator of what ONNX Runtime gives."""
        kinds = {"s8": QuantType.QInt8, "u8": QuantType.QUInt8}
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            made = {
                ("cnn", QuantFormat.QDQ): small_cnn(1),
                ("shapes", QuantFormat.QDQ): shapes(2),
                ("groups", QuantFormat.QDQ): conv(3, groups=2),
                ("strides", QuantFormat.QOperator): conv(4, strides=[2, 2]),
            }
            for (case, form), model in made.items():
                for kind, activations in kinds.items():
                    for per_channel in (False, True):
                        folder = root / f"{case}_{kind}_{per_channel}"
                        model.save(folder)
                        quantize_static(
                            folder / "model.onnx",
                            folder / "quantized.onnx",
                            Samples(folder),
                            quant_format=form,
                            activation_type=activations,
                            weight_type=QuantType.QInt8,
                            per_channel=per_channel,
                        )
                        (folder / "quantized.onnx").replace(folder / "model.onnx")
            folders = sorted(root.iterdir())
            subprocess.run([self.tool, *map(str, folders)], check=True)
            for folder in folders:
                with self.subTest(folder.name):
                    x = np.load(folder / "x.npy")
                    (theirs,) = with_runtime(folder / "model.onnx", x)
                    (again,) = with_runtime(folder / "qdq.onnx", x)
                    output, step = (folder / "steps.txt").read_text().split()
                    ours = np.load(folder / "out" / f"{output}.npy")
                    self.assertGreater(float(step), 0)
                    operators = 6 if folder.name.startswith("cnn") else 2
                    self.assertLessEqual(np.abs(ours - theirs).max(), operators * 1.001 * float(step))
                    self.assertLessEqual(np.abs(ours - again).max(), operators * 1.001 * float(step))


class ExportedTypes(unittest.TestCase):
    """Types that the user of a model feeds and gets."""

    tool = ""

    def test_host_types(self) -> None:
        """Host types are those of the model, also of an input that is an output."""
        nodes = [
            helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], group=2, strides=[2, 2]),
            helper.make_node("ArgMax", ["y"], ["place"], axis=1),
            helper.make_node("Greater", ["y", "zero"], ["above"]),
            helper.make_node("Gather", ["y", "index"], ["part"], axis=1),
        ]
        random = np.random.default_rng(3)
        weights = {"w": random.normal(0, 1, (4, 3, 3, 3)), "b": random.normal(0, 1, 6), "zero": np.zeros(())}
        inputs = {"x": random.normal(0, 1, (1, 4, 5, 5)).astype(np.float16), "index": np.array([5, -6])}
        types = {"y": np.float16, "place": np.int64, "above": np.bool_, "part": np.float16, "x": np.float16}
        graph = helper.make_graph(
            nodes,
            "types",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in inputs.items()
            ],
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
                for n, t in types.items()
            ],
            [numpy_helper.from_array(a.astype(np.float16), n) for n, a in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            onnx.save(onnx.shape_inference.infer_shapes(model), folder / "model.onnx")
            for n, a in inputs.items():
                np.save(folder / f"{n}.npy", a)
            subprocess.run([self.tool, folder], check=True)
            onnx.checker.check_model(folder / "qdq.onnx", full_check=True)
            exported = onnxruntime.InferenceSession(folder / "qdq.onnx", providers=["CPUExecutionProvider"])
            exact = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
            results = zip(types, exported.run(None, inputs), exact.run(None, inputs), strict=True)
            for n, made, wanted in results:
                self.assertEqual((made.dtype, made.shape), (np.dtype(types[n]), wanted.shape), n)
                if n in ("y", "part"):
                    np.testing.assert_allclose(made, wanted, atol=0.05 * np.abs(wanted).max())
                else:
                    self.assertGreater(np.mean(made == wanted), 0.9, n)


class ExportedModels(unittest.TestCase):
    """One folder for each case; the tool runs once for all."""

    tool = ""

    def compare(self, steps: bool) -> None:
        """Run all cases through both, with int8 or float outputs."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for case, model in cases().items():
                model.save(root / case)
            folders = sorted(root.iterdir())
            subprocess.run([self.tool, *(["--steps"] if steps else []), *map(str, folders)], check=True)
            for folder in folders:
                with self.subTest(folder.name):
                    self.compare_case(folder, steps)

    def compare_case(self, folder: Path, steps: bool) -> None:
        """Ours against ONNX Runtime, and both against the float model."""
        x = np.load(folder / "x.npy")
        onnx.checker.check_model(folder / "qdq.onnx", full_check=True)
        (theirs,) = with_runtime(folder / "qdq.onnx", x)
        (exact,) = with_runtime(folder / "model.onnx", x)
        output, step = (folder / "steps.txt").read_text().split()
        ours = np.load(folder / "out" / f"{output}.npy")
        self.assertEqual(ours.shape, theirs.shape)
        if steps and folder.name != "softmax":
            self.assertGreater(float(step), 0)
        operators = 6 if folder.name.startswith(("cnn", "attention")) else 1
        bound = operators * 1.001 * float(step) + (0 if float(step) else 0.02) * np.abs(exact).max()
        self.assertLessEqual(np.abs(ours - theirs).max(), bound)
        rms = np.sqrt(np.mean((ours - exact) ** 2)) / np.sqrt(np.mean(exact**2))
        self.assertLess(rms, 0.06)

    def test_int8_outputs(self) -> None:
        """Within one step for each operator."""
        self.compare(steps=True)

    def test_outputs_of_accumulators(self) -> None:
        """Floats on both sides."""
        self.compare(steps=False)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # of the quantizer: advice
    ExportedModels.tool = ExportedTypes.tool = QuantizedModels.tool = sys.argv.pop(1)
    unittest.main()
