"""Networks in float8: bits against NumPy, logits against ONNX Runtime, what is refused.

usage: test_float8.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import csv
import re
import sys
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import test_networks
from numpy.typing import NDArray
from test_networks import DIGITS, EXAMPLES, IMAGES, Folder, command, done, expected, logits, rows, worst

Singles = NDArray[np.float32]
DEVICE = ["--platform", "core128-fp8", "--precision"]
CALIBRATE = ["--calibrate", str(EXAMPLES / "calibration")]
FORMATS = {"fp8": (ml_dtypes.float8_e4m3fn, 1), "fp8_e5m2": (ml_dtypes.float8_e5m2, 16)}
"""And the part of its range that activations leave to what exceeds the samples."""
BOUNDS = {"fp8": 5.5e-2, "fp8_e5m2": 0.134}
"""Largest error of a logit of the digits, in parts of the range of all: half as much again as measured."""
VALUE, REAL = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT


def nearest(dtype: type, numbers: NDArray[np.float64]) -> Singles:
    """Rounded once, ties to even, and saturated: ml_dtypes itself rounds doubles to f32 first."""
    positive = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float64)
    positive = positive[np.isfinite(positive)]
    middles = (positive[1:] + positive[:-1]) / 2
    low, high = (np.searchsorted(middles, np.abs(numbers), side) for side in ("left", "right"))
    return (np.sign(numbers) * positive[np.where(low % 2 == 0, low, high)]).astype(np.float32)


def save(path: Path, nodes: list[onnx.NodeProto], arrays: dict[str, NDArray[np.generic]], n: int) -> Path:
    """Return a model of x [16, 40] to y [16, n]."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(
        nodes, "g", [VALUE("x", REAL, [16, 40])], [VALUE("y", REAL, [16, n])], tensors
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), path)
    return path


class Float8(Folder):
    """On the shipped device that has it."""

    def run_model(self, name: str, *arguments: str) -> Path:
        """A run; the folder that it leaves."""
        done("run", *arguments, "-o", str(self.folder / name), "--quiet", "--force")
        return self.folder / name

    def run_digits(self, name: str, *options: str) -> Path:
        """Return all images."""
        images = f"image={EXAMPLES / 'images.npy'}"
        return self.run_model(name, DIGITS, *options, "--dim", f"batch={IMAGES}", "--input", images)

    def test_digits(self) -> None:
        """Near ONNX Runtime, the same without timing, no races, and back from text as it was."""
        want = expected(DIGITS, str(EXAMPLES / "images.npy"))
        for precision, bound in BOUNDS.items():
            with self.subTest(precision):
                out = self.run_digits(precision, *DEVICE, precision, *CALIBRATE)
                self.assertLess(worst(logits(out), want), bound)
                self.assertGreater(float((logits(out).argmax(1) == want.argmax(1)).mean()), 0.975)
                types = {name: rows(out)[name]["precision"] for name in ("conv1", "conv2", "classify")}
                self.assertEqual(set(types.values()), {"f8e4m3" if precision == "fp8" else "f8e5m2"}, types)
                fast = self.run_digits(
                    f"{precision}_f", *DEVICE, precision, *CALIBRATE, "--mode", "functional"
                )
                self.assertEqual(logits(fast).tobytes(), logits(out).tobytes())
                self.clean(DIGITS, *DEVICE, precision, *CALIBRATE)
                program, text, again = (
                    self.folder / f"{precision}.{end}" for end in ("kpu", "nem", "again.kpu")
                )
                done("compile", DIGITS, *DEVICE, precision, *CALIBRATE, "-o", str(program))
                done("disasm", str(program), "-o", str(text))
                done("asm", str(text), "-o", str(again))
                self.assertEqual(again.read_bytes(), program.read_bytes())

    def test_bits_of_a_product(self) -> None:
        """Products are as the page says, in NumPy: scales, one rounding, f32 sums from the bias on."""
        random = np.random.default_rng(8)
        x = random.normal(size=(16, 40)).astype(np.float16).astype(np.float32)
        w = (random.normal(size=(40, 24)) * np.exp2(random.integers(-4, 5, 24))).astype(np.float16)
        bias = random.normal(size=24).astype(np.float16)
        arrays = {"w": w.astype(np.float32), "b": bias.astype(np.float32)}
        node = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], "product")
        model = save(self.folder / "product.onnx", [node], arrays, 24)
        (self.folder / "samples").mkdir()
        for index in range(4):
            np.save(self.folder / "samples" / f"{index}.npy", x / 2**index)
        np.save(self.folder / "x.npy", 1.1 * x)  # some of it exceeds the samples
        given = (1.1 * x).astype(np.float16)
        for precision, (dtype, headroom) in FORMATS.items():
            with self.subTest(precision):
                out = self.run_model(
                    precision, str(model), *DEVICE, precision, "--calibrate", str(self.folder / "samples"),
                    "--input", f"x={self.folder / 'x.npy'}",
                )  # fmt: skip
                most = float(ml_dtypes.finfo(dtype).max)
                inverse = np.float16(most / headroom / np.abs(x).max().astype(np.float64))
                scaled = given * inverse  # rounded to f16, as the device computes it
                a = nearest(dtype, scaled.astype(np.float64))
                scales = (np.abs(w.astype(np.float64)).max(0) / most).astype(np.float32)
                q = nearest(dtype, w.astype(np.float64) / scales)
                both = (scales.astype(np.float64) / float(inverse)).astype(np.float32)
                sums = np.tile((bias.astype(np.float64) / both).astype(np.float32), (16, 1))
                for k in range(40):  # one fused multiply-add a step: products are exact in f32
                    sums = sums + a[:, k, None] * q[k]
                got = np.load(out / "outputs" / "y.npy")
                np.testing.assert_array_equal(got, sums * both)

    def test_kept(self) -> None:
        """An operation that is kept is in its type; the others stay float8, with less error."""
        want = expected(DIGITS, str(EXAMPLES / "images.npy"))
        plain = self.run_digits("plain", *DEVICE, "fp8", *CALIBRATE)
        kept = self.run_digits("kept", *DEVICE, "fp8", *CALIBRATE, "--keep", "conv2=f32")
        types = [rows(kept)[name]["precision"] for name in ("conv1", "conv2", "classify")]
        self.assertEqual(types, ["f8e4m3", "f32", "f8e4m3"])
        self.assertLess(np.linalg.norm(logits(kept) - want), np.linalg.norm(logits(plain) - want))

    def test_bound(self) -> None:
        """The bound asked for is reached, by layers in fp16; the table has what each layer adds."""
        table = self.folder / "errors.csv"
        asked = [*DEVICE, "fp8", *CALIBRATE, "--wide-share", "100"]
        result = command(
            "compile", DIGITS, *asked, "--accuracy", "28", "--report-accuracy", str(table), "-o",
            str(self.folder / "b.kpu"),
        )  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        found = re.search(r"signal to noise of the outputs: ([0-9.]+) dB, ([0-9.]+) dB before", result.stderr)
        assert found is not None, result.stderr
        self.assertGreaterEqual(float(found[1]), 28)
        layers = {row["layer"]: row for row in csv.DictReader(table.read_text().splitlines())}
        kinds = [row["precision"] for row in layers.values()]
        self.assertEqual(set(kinds), {"fp8", "fp16"})
        noise = sum(10 ** (-float(row["snr_fp8_db"]) / 10) for row in layers.values())
        self.assertAlmostEqual(-10 * np.log10(noise), float(found[2]), delta=2)

    def test_products_that_stay(self) -> None:
        """A depthwise convolution has no f32 sums: it stays in floats, and is named with the reason."""
        random = np.random.default_rng(10)
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [
                onnx.helper.make_node("Conv", ["x", "wide"], ["t"], "wide", pads=[1, 1, 1, 1]),
                onnx.helper.make_node("Conv", ["t", "deep"], ["y"], "deep", pads=[1, 1, 1, 1], group=16),
            ],
            "g", [value("x", REAL, [1, 8, 9, 9])], [value("y", REAL, [1, 16, 9, 9])],
            [
                onnx.numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
                for name, shape in (("wide", (16, 8, 3, 3)), ("deep", (16, 1, 3, 3)))
            ],
        )  # fmt: skip
        path = self.folder / "deep.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
        samples = ["--calibrate", "random:1"]
        result = command("check", str(path), *DEVICE, "fp8", *samples)
        self.assertRegex(result.stderr + result.stdout, r"no float8 form of it: deep \(depthwise_conv2d\)")
        self.assertRegex(result.stdout, r"(?m)^wide +Conv +f8e4m3, f8e4m3 to f32 ")
        self.assertRegex(result.stdout, r"(?m)^deep +Conv +f16, f16 to f16 ")

    def test_models_with_float8(self) -> None:
        """QuantizeLinear and DequantizeLinear of a model, as the ONNX package's reference computes them."""
        random = np.random.default_rng(9)
        for dtype, type_ in (
            (ml_dtypes.float8_e4m3fn, onnx.TensorProto.FLOAT8E4M3FN),
            (ml_dtypes.float8_e5m2, onnx.TensorProto.FLOAT8E5M2),
        ):
            weights = onnx.helper.make_tensor(
                "w", type_, [40, 8], random.normal(size=(40, 8)).astype(dtype).tobytes(), raw=True
            )
            zero = onnx.helper.make_tensor("zero", type_, [], b"\0", raw=True)
            make = onnx.helper.make_node
            nodes = [
                make("QuantizeLinear", ["x", "sx", "zero"], ["q"], "quantize"),
                make("DequantizeLinear", ["q", "sx"], ["a"], "back"),
                make("DequantizeLinear", ["w", "sw"], ["v"], "weights", axis=1),
                make("MatMul", ["a", "v"], ["y"], "product"),
            ]
            scales = {
                "sx": np.array(0.25, np.float32),
                "sw": (2.0 ** random.integers(-2, 2, 8)).astype(np.float32),
            }
            path = save(self.folder / f"{type_}.onnx", nodes, dict(scales), 8)
            model = onnx.load(path)
            model.graph.initializer.extend([weights, zero])
            onnx.save(model, path)
            x = (8 * random.normal(size=(16, 40))).astype(np.float32)
            np.save(self.folder / "x.npy", x)
            want = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
            for options in (["f32"], ["f32", "--mode", "functional"]):
                out = self.run_model(
                    f"model{type_}", str(path), *DEVICE, *options, "--input", f"x={self.folder / 'x.npy'}"
                )
                self.assertLess(worst(np.load(out / "outputs" / "y.npy"), want), 1e-6)

    def test_arrays_of_the_host(self) -> None:
        """Outputs in float8 are bits, in the host's order; casts may leave the range."""
        make, dtypes = onnx.helper.make_node, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
        x = np.linspace(-7e4, 7e4, 640).astype(np.float32).reshape(16, 40)
        np.save(self.folder / "x.npy", x)
        for dtype, type_ in zip(
            dtypes, (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E5M2), strict=True
        ):
            nodes = [make("Cast", ["x"], ["q"], to=type_, saturate=0), make("Transpose", ["q"], ["y"])]
            graph = onnx.helper.make_graph(
                nodes, "g", [VALUE("x", REAL, [16, 40])], [VALUE("y", type_, [40, 16])]
            )
            path = self.folder / f"cast{type_}.onnx"
            onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), path)
            with np.errstate(invalid="ignore"):
                want = x.astype(dtype).astype(np.float32).T
            for device in ("core128-fp8", "tile32"):  # any device moves and casts them
                out = self.run_model(
                    f"cast{type_}", str(path), "--platform", device, "--input", f"x={self.folder / 'x.npy'}"
                )
                got = np.load(out / "outputs" / "y.npy")
                self.assertEqual(got.dtype, np.uint8)
                np.testing.assert_array_equal(got.view(dtype).astype(np.float32), want)
            top = [nodes[0], make("TopK", ["q", "k"], ["t", "i"], "top"), make("Cast", ["t"], ["y"], to=REAL)]
            kernels = save(self.folder / f"top{type_}.onnx", top, {"k": np.array([3])}, 3)
            program = str(self.folder / "n.kpu")
            refused = command("compile", str(kernels), *DEVICE, "f32", "-o", program)
            self.assertRegex(refused.stderr, r"`top` \(TopK\): opcode top_k does not take f8")
            refused = command("compile", str(path), *DEVICE, "int8", "--calibrate", "random:1", "-o", program)
            self.assertRegex(refused.stderr, r"float8 tensors, which --precision int8 does not take.*Fix: \S")

    def test_refused(self) -> None:
        """Without samples, without rates, and what knows no float8; each with the fix."""
        for text, *options in (
            ("fp8 needs samples of the inputs", *DEVICE, "fp8"),
            (
                "`core128-hbm2` have no fp8 products",
                *DEVICE[:1],
                "core128-hbm2",
                "--precision",
                "fp8",
                *CALIBRATE,
            ),
            ("--accuracy 90 is not reached", *DEVICE, "fp8", *CALIBRATE, "--accuracy", "90"),
            ("`conv1=fp8` is not OPERATION=TYPE", *DEVICE, "fp16", "--keep", "conv1=fp8"),
        ):
            result = command("compile", DIGITS, *options, "-o", str(self.folder / "n.kpu"), "--force")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, rf"{text}(.|\n)*Fix: \S")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
