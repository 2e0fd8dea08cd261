"""compile --precision mxfp8, mxfp6, mxfp4, mxint8 and nvfp4: products that NumPy computes with ml_dtypes.

usage: test_block_formats.py KPUSIM
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

KPUSIM = ""
Array = NDArray[Any]

TYPES = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f6e2m3": ml_dtypes.float6_e2m3fn,
    "f6e3m2": ml_dtypes.float6_e3m2fn,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
}
#: Elements of weights and of activations.
FORMATS = {
    "mxfp8": ("f8e4m3", "f8e4m3"),
    "mxfp8_e5m2": ("f8e5m2", "f8e5m2"),
    "mxfp6": ("f6e2m3", "f6e2m3"),
    "mxfp6_e3m2": ("f6e3m2", "f6e3m2"),
    "mxfp4": ("f4e2m1", "f8e4m3"),
    "mxint8": ("i8", "i8"),
    "nvfp4": ("f4e2m1", "f8e4m3"),
}
SMALL = ["--set", "engine.l1.size_bytes=65536", "--set", "l2.size_bytes=524288"]


def in_blocks(x: Array, elem: str, size: int, scaled: bool = False) -> Array:
    """Return the numbers that rows become; `scaled`: by scales in f8e4m3, else powers of two."""
    count = -(-x.shape[1] // size)
    padded = np.pad(np.abs(x), ((0, 0), (0, count * size - x.shape[1]))).reshape(len(x), count, size)
    largest = padded.max(2)
    most = 127 / 64 if elem == "i8" else float(ml_dtypes.finfo(TYPES[elem]).max)
    if scaled:
        ratio = np.minimum(largest / most, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        scales = np.maximum(ratio, 2.0**-9)
    else:
        scales = 2.0 ** (np.floor(np.log2(largest)) - np.floor(np.log2(most)))
    wide = np.repeat(scales, size, 1)[:, : x.shape[1]]
    if elem == "i8":
        return np.clip(np.rint(x / wide * 64), -127, 127) / 64 * wide
    return np.clip(x / wide, -most, most).astype(TYPES[elem]).astype(np.float64) * wide


def weights_in(precision: str, w: Array) -> Array:
    """Return the numbers that weights [K, N] become."""
    elem = FORMATS[precision][0]
    if precision != "nvfp4":
        return in_blocks(w.T.astype(np.float64), elem, 32).T
    of_tensor = float(np.float32(np.abs(w).max() / 2688))
    return in_blocks(w.T / of_tensor, elem, 16, True).T * of_tensor


class BlockFormats(unittest.TestCase):
    """Models of one product, and of several."""

    def setUp(self) -> None:
        """A folder, and numbers that every float type has."""
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.random = np.random.default_rng(9)

    def numbers(self, *shape: int, wide: float = 1.0) -> Array:
        """Draw numbers of fp16."""
        return (wide * self.random.standard_normal(shape)).astype(np.float16).astype(np.float32)

    def save(self, nodes: list[onnx.NodeProto], x: Array, y: tuple[int, ...], **weights: Array) -> Path:
        """Return a model from x to y."""
        graph = helper.make_graph(
            nodes,
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
            [numpy_helper.from_array(array, name) for name, array in weights.items()],
        )
        path = self.folder / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        np.save(self.folder / "x.npy", x)
        return path

    def command(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Runs kpusim."""
        return subprocess.run([KPUSIM, *map(str, words)], check=False, capture_output=True, text=True)

    def run_model(self, path: Path, precision: str, *more: str, device: str = "core128-mx") -> Array:
        """Return what the device makes of x."""
        out = self.folder / "out"
        options = ["--platform", device, "--precision", precision, "--quiet", "--strict", *more]
        given = ["--input", f"x={self.folder / 'x.npy'}", "-o", out, "--force"]
        done = self.command("run", path, *options, *given)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(out / "outputs" / "y.npy")

    def test_products(self) -> None:
        """Each format; several tiles along each axis, a shorter last block."""
        for precision, (_, of_x) in FORMATS.items():
            size = 16 if precision == "nvfp4" else 32
            for (m, k, n), more in (((7, 100, 50), []), ((33, 333, 77), SMALL)):
                w, x = self.numbers(k, n, wide=k**-0.5), self.numbers(m, k)
                path = self.save([helper.make_node("MatMul", ["x", "w"], ["y"])], x, (m, n), w=w)
                y = self.run_model(path, precision, *more)
                wanted = in_blocks(x.astype(np.float64), of_x, size) @ weights_in(precision, w)
                with self.subTest(f"{precision} {m} {k} {n}"):
                    self.assertLess(np.abs(y - wanted).max(), 1e-6 * np.abs(wanted).max())

    def test_layers(self) -> None:
        """Biases, a function between, and a product of computed factors, which stays in floats."""
        x = self.numbers(8, 64)
        weights = {
            "a": self.numbers(64, 96, wide=0.125),
            "b": self.numbers(96),
            "c": self.numbers(96, 8, wide=0.1),
        }
        nodes = [
            helper.make_node("Gemm", ["x", "a", "b"], ["h"], "first"),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "c"], ["s"], "second"),
            helper.make_node("MatMul", ["s", "s"], ["y"], "third"),
        ]
        path = self.save(nodes, x, (8, 8), **weights)
        h = np.maximum(x @ weights["a"] + weights["b"], 0) @ weights["c"]
        bounds = {"mxint8": 0.04, "mxfp8": 0.15, "mxfp6": 0.15, "nvfp4": 0.3, "mxfp4": 0.4}
        for precision, bound in bounds.items():
            y = self.run_model(path, precision)
            error = np.linalg.norm(y - h @ h) / np.linalg.norm(h @ h)
            with self.subTest(precision):
                self.assertLess(error, bound)
                self.assertGreater(error, 1e-4)  # something was rounded
        out = self.folder / "p.kpu"
        done = self.command("compile", path, "--platform", "core128-mx", "--precision", "mxfp4", "-o", out)
        self.assertRegex(done.stderr, "stays in floats, because its second factor is computed.*third")
        text = self.command("disasm", out).stdout
        self.assertEqual(text.count("gemm.mx.async"), 2)
        self.assertIn('"precision":"mxfp4"', text.replace(" ", ""))

    def test_refused(self) -> None:
        """Devices without them, and models that are quantized."""
        w, x = self.numbers(32, 16), self.numbers(4, 32)
        path = self.save([helper.make_node("MatMul", ["x", "w"], ["y"])], x, (4, 16), w=w)
        for device, precision in (("core128-hbm2", "mxfp8"), ("core128-fp8", "mxfp4"), ("tile32", "nvfp4")):
            done = self.command(
                "compile", path, "--platform", device, "--precision", precision, "-o", "x.kpu"
            )
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"`{device}` have no {precision} products. Fix: ")
        self.assertGreater(np.abs(self.run_model(path, "mxfp8", device="core128-fp8")).max(), 0)


if __name__ == "__main__":
    KPUSIM = sys.argv.pop(1)
    unittest.main()
