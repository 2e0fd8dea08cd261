"""Absent parts: bytes of weights, which time does not need, and units of a device, which operations do.

usage: test_absent.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
import test_networks
from onnx import TensorProto, helper, numpy_helper
from test_networks import DIGITS, EXAMPLES, Folder, command, cycles, done, rows

node = helper.make_node
RANDOM = np.random.default_rng(5)


def network(kind: str) -> onnx.ModelProto:
    """Return a small network with random weights of each kind of layer."""

    def weights(*shape: int) -> np.ndarray:
        return (RANDOM.standard_normal(shape) * 0.3).astype(np.float32)

    if kind == "digits":
        return onnx.load(DIGITS)
    if kind == "cnn":
        tensors = {
            "w1": weights(8, 3, 3, 3), "scale": weights(8) ** 2 + 1, "bias": weights(8), "mean": weights(8),
            "var": weights(8) ** 2 + 1, "w2": weights(12, 8, 3, 3), "w3": weights(5, 12), "b3": weights(5),
        }  # fmt: skip
        nodes = [
            node("Conv", ["x", "w1"], ["c1"], "first", pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c1", "scale", "bias", "mean", "var"], ["n1"], "norm"),
            node("Relu", ["n1"], ["r1"], "relu"),
            node("MaxPool", ["r1"], ["p1"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p1", "w2"], ["c2"], "second"),
            node("GlobalAveragePool", ["c2"], ["g"], "mean"),
            node("Flatten", ["g"], ["f"], "flat"),
            node("Gemm", ["f", "w3", "b3"], ["y"], "head", transB=1),
        ]
        shape = [1, 3, 16, 16]
    elif kind == "lstm":
        tensors = {"w": weights(1, 64, 8), "r": weights(1, 64, 16), "b": weights(1, 128)}
        nodes = [node("LSTM", ["x", "w", "r", "b"], ["y"], "cells", hidden_size=16)]
        shape = [3, 2, 8]
    else:
        tensors = {"q": weights(32, 32), "k": weights(32, 32), "gain": weights(32), "bias": weights(32)}
        nodes = [
            node("MatMul", ["x", "q"], ["xq"], "queries"),
            node("MatMul", ["x", "k"], ["xk"], "keys"),
            node("Transpose", ["xk"], ["kt"], "turn", perm=[0, 2, 1]),
            node("MatMul", ["xq", "kt"], ["s"], "scores"),
            node("Softmax", ["s"], ["p"], "soft"),
            node("MatMul", ["p", "x"], ["o"], "values"),
            node("LayerNormalization", ["o", "gain", "bias"], ["y"], "norm"),
        ]
        shape = [2, 8, 32]
    graph = helper.make_graph(
        nodes, kind, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(t, name) for name, t in tensors.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def stripped(made: onnx.ModelProto, how: str) -> onnx.ModelProto:
    """Return the same without the bytes of its floats."""
    result = onnx.ModelProto.FromString(made.SerializeToString())
    for tensor in result.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        tensor.ClearField("float_data")
        tensor.raw_data = b""
        if how == "external":
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", "weights.bin"
    return result


class Weights(Folder):
    """Networks whose files lack the bytes of their weights."""

    def saved(self, made: onnx.ModelProto) -> str:
        """Return its path."""
        path = self.folder / "net.onnx"
        onnx.save(made, path)
        return str(path)

    def test_cycles_are_those_with_weights(self) -> None:
        """Cycles of the whole and of each operation are those with weights, in both forms and types."""
        for kind in ("digits", "cnn", "lstm", "attention"):
            made = network(kind)
            for precision in ("fp16", "int8"):
                found = []
                for how in ("", "raw", "external"):
                    out = self.folder / f"out_{how}"
                    path = self.saved(stripped(made, how) if how else made)
                    calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
                    result = command(
                        "run", path, "--mode", "timing", "--quiet", "--force", "-o", str(out),
                        "--precision", precision, "--platform", "swkpu-v1", *calibrate,
                    )  # fmt: skip
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(result.stderr.count("made-up numbers"), 1 if how else 0, result.stderr)
                    found.append(
                        (cycles(out), {name: row["charged_cycles"] for name, row in rows(out).items()})
                    )
                self.assertEqual(found[0], found[1], (kind, precision))
                self.assertEqual(found[0], found[2], (kind, precision))

    def test_quantized_model(self) -> None:
        """A model that brings its steps needs no weights, biases and zero points of channels."""
        calibrate = ["--calibrate", str(EXAMPLES / "calibration"), "--precision", "int8"]
        qdq, kpu = self.folder / "qdq.onnx", self.folder / "qdq.kpu"
        done("compile", DIGITS, *calibrate, "--dim", "batch=4", "--export-qdq", str(qdq), "-o", str(kpu))
        made = onnx.load(qdq)
        without = onnx.ModelProto.FromString(made.SerializeToString())
        for tensor in without.graph.initializer:
            if int(np.prod(tensor.dims)) > 8:
                for field in ("float_data", "int32_data", "int64_data"):
                    tensor.ClearField(field)
                tensor.raw_data = b""
        times = []
        for number, model in enumerate((made, without)):
            out = self.folder / f"qdq_{number}"
            done("run", self.saved(model), "--mode", "timing", "--quiet", "-o", str(out))
            times.append(cycles(out))
        self.assertEqual(*times)

    def test_inferences(self) -> None:
        """Several in one run as well."""
        times = []
        for made in (network("cnn"), stripped(network("cnn"), "external")):
            out = self.folder / "several"
            done(
                "run",
                self.saved(made),
                "--mode",
                "timing",
                "--inferences",
                "3",
                "--quiet",
                "--force",
                "-o",
                str(out),
            )
            times.append(cycles(out))
        self.assertEqual(*times)

    def test_time_alone_packs_none(self) -> None:
        """A run that keeps its program packs them, one that tells the time does not: both say the same."""
        for kind in ("cnn", "lstm", "attention"):
            path = self.saved(network(kind))
            for more in (["--precision", "fp16"], ["--precision", "int8", "--calibrate", "random:1"]):
                line = ["run", path, "--mode", "timing", *more, "--platform", "swkpu-v1"]
                alone = command(*line)
                kept = command(*line, "--force", "-o", str(self.folder / "kept"))
                self.assertEqual(alone.returncode, 0, alone.stderr)
                self.assertEqual((alone.stdout, alone.stderr), (kept.stdout, kept.stderr), (kind, more))
                self.assertEqual(
                    done(*line, "--json"), done(*line, "--json", "--force", "-o", str(self.folder / "kept"))
                )

    def test_values_need_them(self) -> None:
        """Whoever asks for values is told the tensor, the file and what does without."""
        path = self.saved(stripped(network("cnn"), "external"))
        for line in (
            ["run", path, "--fill", "zeros"],
            ["run", path, "--fill", "zeros", "--mode", "functional"],
            ["compile", path, "-o", str(self.folder / "net.kpu")],
            ["debug", path, "--fill", "zeros"],
        ):
            result = command(*line)
            self.assertEqual(result.returncode, 1)
            for text in ("tensor `", "`weights.bin` is not there", "Fix: ", "--mode timing"):
                self.assertIn(text, result.stderr)
        self.assertFalse((self.folder / "net.kpu").exists())
        result = command("run", self.saved(stripped(network("cnn"), "raw")), "--fill", "zeros")
        self.assertIn("the file has none of its bytes, and so of 7 more", result.stderr)
        result = command(
            "run",
            path,
            "--mode",
            "timing",
            "--calibrate",
            "random:1",
            "--precision",
            "int8",
            "--accuracy",
            "9",
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("which --accuracy needs. Fix: ", result.stderr)
        self.assertIn("8 of 8 nodes are supported", done("check", path))

    def test_structure_needs_them(self) -> None:
        """Shapes, axes and indices have to be there: an error that names them."""
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
        for make, dtype in (
            (node("Reshape", ["x", "s"], ["y"], "n"), np.int64),
            (node("Gather", ["x", "s"], ["y"], "n", axis=1), np.int64),
            (node("Gather", ["x", "s"], ["y"], "n", axis=1), np.int32),
            (node("Tile", ["x", "s"], ["y"], "n"), np.int64),
            (node("Resize", ["x", "", "s"], ["y"], "n", mode="nearest"), np.float32),
        ):
            shape = numpy_helper.from_array(np.ones(2, dtype), "s")
            shape.raw_data = b""
            graph = helper.make_graph([make], "g", [value], [onnx.ValueInfoProto(name="y")], [shape])
            made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
            result = command("run", self.saved(made), "--mode", "timing")
            self.assertEqual(result.returncode, 1, make.op_type)
            for text in (
                "node `n`",
                "the constant `s`, which decides what is computed",
                "Fix: give the model with",
            ):
                self.assertIn(text, result.stderr)


class Units(Folder):
    """Devices that lack a unit."""

    def test_named(self) -> None:
        """Each count that may be 0: the operation, the device and the unit, or the run works without it."""
        for kind in ("cnn", "attention"):
            path = self.folder / "net.onnx"
            onnx.save(network(kind), path)
            for device in ("swkpu-v1", "tile32", "npm_lite"):
                for precision in ("fp16", "int8"):
                    for count in ("engine.vector.vpu_count", "system_dma.channels", "wdm_count"):
                        self.check_count(str(path), device, precision, count)

    def check_count(self, path: str, device: str, precision: str, count: str) -> None:
        """A device without these units."""
        calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
        target = ["--platform", device, "--precision", precision, "--set", f"{count}=0"]
        result = command("run", path, *target, *calibrate, "--mode", "timing", "--quiet")
        if count == "wdm_count" or (result.returncode == 0 and count != "system_dma.channels"):
            self.assertEqual(result.returncode, 0, result.stderr)
            return
        unit = {"engine.vector.vpu_count": "VPU", "system_dma.channels": "sDMA"}[count]
        self.assertEqual(result.returncode, 1, result.stderr)
        said = rf"error: [a-z][\w:]* \(\w+\): device `{device}` has no {unit} for it. Fix: choose a device"
        self.assertRegex(result.stderr, said)

    def test_host_makes_floats(self) -> None:
        """int8 products with float results need no VPU: the host scales the sums, as of other devices."""
        path, results = self.folder / "product.onnx", []
        weights = numpy_helper.from_array(RANDOM.standard_normal((64, 32)).astype(np.float32), "w")
        graph = helper.make_graph(
            [node("MatMul", ["x", "w"], ["y"])], "product",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 64])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 32])], [weights],
        )  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        for device in ("npm_lite", "gemmini16", "gemmini16_big"):
            out = self.folder / device
            options = ["--precision", "int8", "--calibrate", "random:1", "--fill", "random:1", "--quiet"]
            done("run", str(path), "--platform", device, *options, "-o", str(out), "--force")
            results.append(np.load(out / "outputs" / "y.npy"))
        self.assertGreater(np.abs(results[0]).max(), 1)
        for result in results[1:]:
            self.assertEqual(result.tobytes(), results[0].tobytes())


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
