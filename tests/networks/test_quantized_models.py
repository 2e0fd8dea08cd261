"""Models that ONNX Runtime quantised, in each of its forms: every device computes what ONNX Runtime computes.

usage: test_quantized_models.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import test_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from test_networks import command, done

DEVICES = ("swkpu-v1", "swkpu-v2", "tile32", "npm_lite", "core128-hbm2")
LEAST_DB = 30.0

Array = NDArray[np.float32]


class Model:
    """A network that grows by calls; weights are random."""

    def __init__(self, shape: list[int]) -> None:
        self.rng = np.random.default_rng(7)
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def weights(self, *shape: int) -> str:
        """Scaled so that sums stay small."""
        name = f"w{len(self.constants)}"
        spread = 1.5 / np.sqrt(np.prod(shape[1:] if len(shape) == 4 else shape[:-1]) or 1)
        array = self.rng.normal(0, spread, shape).astype(np.float32)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *operands: str, **attributes: object) -> str:
        """Return an operator; gives the name of its result."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], name=name, **attributes))
        return name

    def save(self, path: Path, y: str) -> None:
        """The model with the input x and the output y."""
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def convolutions(path: Path) -> list[int]:
    """Residual sum, concat, squeeze and excite, pools, a classifier."""
    m = Model([1, 3, 16, 16])
    x = m.add("Relu", m.add("Conv", "x", m.weights(8, 3, 3, 3), m.weights(8), pads=[1, 1, 1, 1]))
    y = m.add("Conv", x, m.weights(8, 8, 3, 3), m.weights(8), pads=[1, 1, 1, 1])
    x = m.add("MaxPool", m.add("Relu", m.add("Add", x, y)), kernel_shape=[2, 2], strides=[2, 2])
    y = m.add("LeakyRelu", m.add("Conv", x, m.weights(8, 1, 3, 3), pads=[1, 1, 1, 1], group=8), alpha=0.1)
    x = m.add("Concat", x, y, axis=1)
    gate = m.add("Sigmoid", m.add("Conv", m.add("GlobalAveragePool", x), m.weights(16, 16, 1, 1)))
    x = m.add("Mul", x, gate)
    x = m.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.add("Flatten", m.add("Transpose", x, perm=[0, 2, 3, 1]))
    m.save(path, m.add("Gemm", x, m.weights(256, 10), m.weights(10)))
    return m.shape


def products(path: Path) -> list[int]:
    """Return an attention of one head and a perceptron."""
    m = Model([1, 12, 32])
    q, k, v = (m.add("MatMul", "x", m.weights(32, 32)) for _ in range(3))
    scores = m.add("Softmax", m.add("MatMul", q, m.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
    x = m.add("Add", "x", m.add("MatMul", scores, v))
    y = m.add("Tanh", m.add("Add", m.add("MatMul", x, m.weights(32, 64)), m.weights(64)))
    m.save(path, m.add("Add", x, m.add("MatMul", y, m.weights(64, 32))))
    return m.shape


def rows(path: Path) -> list[int]:
    """Convolutions along one dimension, dilated ones of groups among them, then an LSTM."""
    m = Model([1, 6, 24])
    x = m.add("Relu", m.add("Conv", "x", m.weights(16, 6, 3), m.weights(16), pads=[1, 1], strides=[2]))
    x = m.add("Conv", x, m.weights(16, 1, 3), m.weights(16), pads=[4, 0], dilations=[2], group=16)
    x = m.add("Transpose", x, perm=[2, 0, 1])
    weights = m.weights(2, 48, 16), m.weights(2, 48, 12), m.weights(2, 96)
    m.save(path, m.add("LSTM", x, *weights, hidden_size=12, direction="bidirectional"))
    return m.shape


def views_of_weights(path: Path) -> list[int]:
    """Weights with a scale for each channel that views cut, join and turn before they are used."""
    m = Model([1, 8, 8, 8])

    def steps(shape: list[int], axis: int) -> str:
        """Weights of int8 with a scale for each index of an axis."""
        name = f"s{len(m.constants)}"
        low = np.iinfo(np.int8).min // 2
        values = {
            name: m.rng.integers(low, -low, shape).astype(np.int8),
            f"{name}_scales": m.rng.uniform(0.001, 0.01, shape[axis]).astype(np.float32),
            f"{name}_zeros": np.zeros(shape[axis], np.int8),
        }
        m.constants += [numpy_helper.from_array(array, key) for key, array in values.items()]
        return m.add("DequantizeLinear", *values, axis=axis)

    def constant(values: list[int]) -> str:
        """Return a list of int64."""
        name = f"c{len(m.constants)}"
        m.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def between(x: str, scale: float) -> str:
        """Return a value that has steps of int8."""
        names = [f"q{len(m.constants)}_scale", f"q{len(m.constants)}_zero"]
        arrays = np.float32(scale), np.int8(3)
        m.constants += [
            numpy_helper.from_array(np.array(a), name) for name, a in zip(names, arrays, strict=True)
        ]
        return m.add("DequantizeLinear", m.add("QuantizeLinear", x, *names), *names)

    x = between("x", 0.03)
    x = between(m.add("ConvTranspose", x, steps([8, 3, 3, 3], 1), group=4, strides=[2, 2]), 0.01)
    x = between(
        m.add("Conv", x, m.add("Slice", steps([20, 12, 3, 3], 0), constant([4]), constant([16]))), 0.02
    )
    whole = m.add("Concat", steps([4, 12, 1, 1], 0), steps([6, 12, 1, 1], 0), axis=0)
    x = between(m.add("Conv", x, whole), 0.02)
    x = between(m.add("Mul", x, m.add("Add", m.weights(1, 10, 1, 1), steps([1, 10, 1, 1], 1))), 0.02)
    x = between(m.add("Add", x, steps([1, 10, 15, 1], 1)), 0.02)
    x = m.add("Reshape", x, constant([10, 225]))
    turned = m.add("Reshape", steps([16, 10, 1], 0), constant([16, 10]))
    m.save(path, between(m.add("MatMul", turned, x), 0.02))
    return m.shape


class Samples(CalibrationDataReader):
    """Eight inputs."""

    def __init__(self, shape: list[int]) -> None:
        rng = np.random.default_rng(1)
        self.left = iter([{"x": rng.normal(0, 1, shape).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, Array] | None:
        """Give the next one."""
        return next(self.left, None)


def quantised(form: str, model: Path, shape: list[int]) -> Path:
    """Write the model that ONNX Runtime makes of a model.

    Weights have seven bits: of eight, ONNX Runtime sums pairs in 16 bits on many processors, which
    saturates.
    """
    path = model.with_name(f"{model.stem}_{form}.onnx")
    unsigned, per_channel = "u8" in form, "channel" in form
    if form.startswith("dynamic"):
        weight_type = QuantType.QUInt8 if unsigned else QuantType.QInt8
        quantize_dynamic(model, path, per_channel=per_channel, reduce_range=True, weight_type=weight_type)
        return path
    quantize_static(
        model,
        path,
        Samples(shape),
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
        reduce_range=True,
    )
    return path


def decibels(wanted: Array, got: Array) -> float:
    """Signal against error."""
    noise = float(((wanted - got) ** 2).sum())
    return 200.0 if noise == 0 else 10 * np.log10(float((wanted**2).sum()) / noise)


class QuantizedModels(unittest.TestCase):
    """Each form on each device."""

    def check(self, device: str, model: Path, x: Path, wanted: Array) -> None:
        """Compile, run, compare. Where sums are too large for the device, it says so."""
        out = model.parent / f"{model.stem}_{device}"
        given = ["--platform", device, "--input", f"x={x}", "--strict", "-o", str(out)]
        result = command("run", str(model), *given)
        if device == "npm_lite" and "makes f16 of sums of integers" in result.stderr:
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        got = next((out / "outputs").glob("*.npy"))
        self.assertGreater(decibels(wanted, np.load(got)), LEAST_DB)

    def test_forms(self) -> None:
        """Static in one operator each, and dynamic."""
        forms = [
            "operators_u8",
            "operators_i8",
            "operators_u8_channel",
            "dynamic_i8",
            "dynamic_u8",
            "dynamic_i8_channel",
        ]
        with tempfile.TemporaryDirectory() as scratch:
            for build, form in itertools.product((convolutions, products, rows), forms):
                folder = Path(scratch) / f"{build.__name__}_{form}"
                folder.mkdir()
                shape = build(folder / "model.onnx")
                model = quantised(form, folder / "model.onnx", shape)
                x = np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)
                np.save(folder / "x.npy", x)
                wanted = onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]
                for device in DEVICES:
                    with self.subTest(build.__name__, form=form, device=device):
                        self.check(device, model, folder / "x.npy", wanted)

    def test_views_of_weights(self) -> None:
        """Scales of channels follow views, or the weights become floats."""
        with tempfile.TemporaryDirectory() as scratch:
            model = Path(scratch) / "model.onnx"
            x = np.random.default_rng(5).normal(0, 1, views_of_weights(model)).astype(np.float32)
            np.save(model.with_name("x.npy"), x)
            wanted = onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]
            for device in DEVICES:
                with self.subTest(device):
                    self.check(device, model, model.with_name("x.npy"), wanted)

    def test_boundary(self) -> None:
        """Quantized by the device instead of the host: of a model whose last value has the output's name."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            m = Model([1, 4, 9, 9])
            x = m.add("Conv", "x", m.weights(6, 4, 3, 3), pads=[1, 1, 1, 1])
            shape = numpy_helper.from_array(np.array([1, 6, 81], np.int64), "shape")
            m.constants.append(shape)
            m.save(folder / "model.onnx", m.add("Reshape", m.add("Tanh", x), "shape"))
            np.save(folder / "x.npy", np.random.default_rng(5).normal(0, 1, m.shape).astype(np.float32))
            common = [str(folder / "model.onnx"), "--precision", "int8", "--calibrate", "random:1"]
            for device in DEVICES:
                outputs = []
                for where in ("host", "device"):
                    out = folder / f"{device}_{where}"
                    given = ["--platform", device, "--input", f"x={folder / 'x.npy'}", "-o", str(out)]
                    done("run", *common, *given, "--boundary", where)
                    outputs.append(np.load(next((out / "outputs").glob("*.npy"))))
                self.assertGreater(decibels(*outputs), 40.0, device)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
