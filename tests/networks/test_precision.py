"""Mixed precision: operations kept wider, the mix that meets a bound, the page of errors; ranges.

usage: test_precision.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import csv
import json
import re
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import test_networks
from numpy.typing import NDArray
from test_networks import DIGITS, EXAMPLES, Folder, command, done, expected, logits, rows

Numbers = NDArray[np.float64]
CALIBRATE = ["--calibrate", str(EXAMPLES / "calibration")]
INT8 = ["--platform", "swkpu-v1", "--precision", "int8", *CALIBRATE]
FP16 = ["--platform", "swkpu-v1", "--precision", "fp16"]
BINS, LEVELS = 2048, 128


def counted(numbers: Numbers) -> tuple[NDArray[np.int64], Numbers]:
    """Count how many numbers are in each bin of their range, and return the middles of the bins."""
    low, width = numbers.min(), np.ptp(numbers)
    place = np.minimum(np.floor((numbers - low) * (BINS / width)).astype(int), BINS - 1)
    return np.bincount(place, minlength=BINS), low + (np.arange(BINS) + 0.5) * width / BINS


def least_error(numbers: Numbers) -> tuple[float, float]:
    """Return the range, shrunk by steps of 1/128, whose 256 steps have the least mean square error."""
    counts, middles = counted(numbers)
    found = []
    for factor in np.arange(128, 0, -1) / 128:
        low, high = min(numbers.min(), 0) * factor, max(numbers.max(), 0) * factor
        step = (high - low) / 255
        zero = round(-low / step)
        steps = np.clip(np.sign(middles) * np.floor(np.abs(middles / step) + 0.5) + zero, 0, 255)
        found.append((float(counts @ (middles - (steps - zero) * step) ** 2), low, high))
    errors = np.array([row[0] for row in found])
    return found[int(errors.argmin())][1:]


def most_information(numbers: Numbers) -> tuple[float, float]:
    """The range up to the size whose distribution in 128 levels diverges least from that of the numbers."""
    counts, middles = counted(numbers)
    most = np.abs(numbers).max()
    parts = np.minimum((np.abs(middles) / most * BINS).astype(int), BINS - 1)
    sizes = np.bincount(parts, weights=counts, minlength=BINS)
    divergences = {}
    for end in range(LEVELS, BINS + 1, 4):
        kept = sizes[:end].copy()
        kept[-1] += sizes[end:].sum()
        level = np.searchsorted(np.arange(1, LEVELS + 1) * end // LEVELS, np.arange(end), side="right")
        sums = np.bincount(level, weights=sizes[:end], minlength=LEVELS)
        filled = np.bincount(level, weights=kept > 0, minlength=LEVELS)
        spread = np.where(kept > 0, sums[level] / np.maximum(filled[level], 1), 0)
        some = kept > 0
        if (spread[some] == 0).any():
            continue
        p, q = kept[some] / kept.sum(), spread[some] / spread.sum()
        divergences[end] = float((p * np.log(p / q)).sum())
    size = most * min(divergences, key=lambda end: divergences[end]) / BINS
    return max(numbers.min(), -size), min(numbers.max(), size)


class Ranges(Folder):
    """The step of an input with a long tail, by each method, against NumPy."""

    def setUp(self) -> None:
        """A product of one input, and samples of it."""
        rng = np.random.default_rng(22)
        value, real = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        weights = onnx.numpy_helper.from_array(rng.normal(size=(64, 8)).astype(np.float32), "w")
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
            "g", [value("x", real, [64, 64])], [value("y", real, [64, 8])], [weights],
        )  # fmt: skip
        self.model = self.folder / "product.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), self.model)
        (self.folder / "x").mkdir(exist_ok=True)
        samples = [(rng.laplace(size=(64, 64)) + 0.5).astype(np.float32) for _ in range(6)]
        for index, sample in enumerate(samples):
            np.save(self.folder / "x" / f"{index}.npy", sample)
        self.numbers = np.concatenate(samples).astype(np.float64).ravel()

    def step(self, *options: str) -> float:
        """Return the scale of the input in the exported model."""
        qdq = self.folder / "qdq.onnx"
        qdq.unlink(missing_ok=True)
        done(
            "compile", str(self.model), *FP16[:2], "--precision", "int8", "--calibrate", str(self.folder),
            *options, "--export-qdq", str(qdq), "-o", str(self.folder / "p.kpu"), "--force",
        )  # fmt: skip
        graph = onnx.load(qdq).graph
        known = {row.name: onnx.numpy_helper.to_array(row) for row in graph.initializer}
        node = next(row for row in graph.node if row.op_type == "QuantizeLinear" and row.input[0] == "x")
        return float(known[node.input[1]])

    def test_methods(self) -> None:
        """Extremes, least square error, least divergence."""
        low, high = self.numbers.min(), self.numbers.max()
        wanted = {
            "minmax": (low, high),
            "mse": least_error(self.numbers),
            "entropy": most_information(self.numbers),
        }
        steps = {name: (top - bottom) / 255 for name, (bottom, top) in wanted.items()}
        self.assertLess(steps["mse"], 0.99 * steps["minmax"])
        self.assertLess(steps["entropy"], 0.9 * steps["minmax"])
        self.assertNotAlmostEqual(steps["entropy"], steps["mse"], 4)
        for name, step in steps.items():
            with self.subTest(name):
                self.assertAlmostEqual(self.step("--calibration-method", name) / step, 1, 5)
        self.assertAlmostEqual(self.step() / steps["minmax"], 1, 5)

    def test_percentile(self) -> None:
        """The middle of the numbers; a share is for no other method."""
        low, high = np.quantile(self.numbers, [0.01, 0.99])
        step = self.step("--calibration-method", "percentile", "--percentile", "98")
        self.assertAlmostEqual(step / ((high - low) / 255), 1, 1)
        self.assertEqual(step, self.step("--percentile", "98"))
        result = command(
            "compile", str(self.model), *FP16[:2], "--precision", "int8", "--calibrate", str(self.folder),
            "--calibration-method", "mse", "--percentile", "98", "-o", str(self.folder / "n.kpu"),
        )  # fmt: skip
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"--percentile is not for --calibration-method mse. Fix: \S")


class Equalised(Folder):
    """A network with channels of very unlike sizes between two products."""

    def setUp(self) -> None:
        """Channels of 1 to 1/128 of the others, which the second product takes back; samples of the input."""
        rng = np.random.default_rng(5)
        sizes = 2.0 ** -(np.arange(32) % 8)
        first, second = rng.normal(size=(16, 32)) * sizes, rng.normal(size=(32, 8)) / sizes[:, None]
        value, real = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        weights = [
            onnx.numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in (("a", first), ("b", second))
        ]
        nodes = [
            onnx.helper.make_node("MatMul", ["x", "a"], ["p"], "first"),
            onnx.helper.make_node("Relu", ["p"], ["q"], "relu"),
            onnx.helper.make_node("MatMul", ["q", "b"], ["y"], "second"),
        ]
        graph = onnx.helper.make_graph(
            nodes, "g", [value("x", real, [64, 16])], [value("y", real, [64, 8])], weights
        )
        self.model = self.folder / "uneven.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), self.model)
        (self.folder / "x").mkdir(exist_ok=True)
        for index in range(6):
            np.save(self.folder / "x" / f"{index}.npy", rng.normal(size=(64, 16)).astype(np.float32))
        self.input = rng.normal(size=(64, 16)).astype(np.float32)
        hidden = np.maximum(self.input @ first, 0)
        self.exact = hidden @ second
        step = hidden.max() / 255
        noise = (np.round(hidden / step) * step - hidden) @ second
        self.in_one_scale = 10 * np.log10(
            (self.exact**2).sum() / (noise**2).sum()
        )  #: rounded between the products

    def run_int8(self, samples: str) -> tuple[str, float, int]:
        """Return what the command tells, signal to noise in dB, and cycles."""
        out, given = self.folder / "out", self.folder / "input.npy"
        np.save(given, self.input)
        result = command(
            "run", str(self.model), "--platform", "swkpu-v1", "--precision", "int8", "--calibrate", samples,
            "--input", f"x={given}", "-o", str(out), "--force",
        )  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        noise = np.load(out / "outputs" / "y.npy") - self.exact
        cycles = json.loads((out / "stats.json").read_text())["stats"]["cycles.total"]["value"]
        return result.stderr, 10 * np.log10((self.exact**2).sum() / (noise**2).sum()), cycles

    def test_on_samples_only(self) -> None:
        """Small channels get finer steps for the same cycles; random samples equalise nothing."""
        told, better, cycles = self.run_int8(str(self.folder))
        self.assertRegex(
            told, r"channels are equalised: signal to noise on samples [\d.]+ dB, [\d.]+ dB before\."
        )
        told, _, same = self.run_int8("random:1")
        self.assertNotIn("equalised", told)
        self.assertEqual(cycles, same)
        self.assertGreater(better, self.in_one_scale + 6)


class Mixed(Folder):
    """The digits with operations that are wider."""

    def run_digits(self, name: str, *options: str) -> Path:
        """A run of all images; the folder that it leaves."""
        out = self.folder / name
        done(
            "run", DIGITS, *options, "--dim", "batch=320", "--input", f"image={EXAMPLES / 'images.npy'}",
            "-o", str(out), "--quiet",
        )  # fmt: skip
        return out

    def error(self, out: Path) -> float:
        """Return the error of the logits, in parts of their norm."""
        want = expected(DIGITS, str(EXAMPLES / "images.npy"))
        return float(np.linalg.norm(logits(out) - want) / np.linalg.norm(want))

    def refused(self, text: str, *options: str) -> None:
        """An error that says this and how to go on."""
        result = command("compile", DIGITS, *options, "-o", str(self.folder / "n.kpu"), "--force")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, rf"{text}(.|\n)*Fix: \S")

    def test_kept(self) -> None:
        """Each place that names an operation says its type; less error, more cycles."""
        plain, kept = self.run_digits("int8", *INT8), self.run_digits("kept", *INT8, "--keep", "conv2=fp16")
        types = {name: row["precision"] for name, row in rows(kept).items() if not row["fused_into"]}
        self.assertEqual((types["conv1"], types["conv2"], types["classify"]), ("i8", "f16", "i8"))
        self.assertEqual(rows(plain)["conv2"]["precision"], "i8")
        manifest = json.loads((kept / "manifest.json").read_text())
        self.assertEqual(manifest["precisions"]["conv2"], "f16")
        self.assertRegex(
            done("check", DIGITS, *INT8, "--keep", "conv2=fp16"), r"conv2 +Conv +f16, f16 to f16"
        )
        self.assertLess(self.error(kept), self.error(plain))
        charged = [int(rows(out)["conv2"]["charged_cycles"]) for out in (plain, kept)]
        self.assertGreater(charged[1], 1.3 * charged[0])
        for option in ([*INT8, "--keep", "conv2=fp16"], [*FP16, "--keep", "conv2=f32"]):
            self.clean(DIGITS, *option)

    def test_kept_floats(self) -> None:
        """fp16 with sums, and with whole operations, in f32; every operation kept is the wider network."""
        narrow = self.run_digits("fp16", *FP16)
        sums = self.run_digits("sums", *FP16, "--keep", "conv*=f32")
        self.assertLess(self.error(sums), self.error(narrow))
        tile32 = ["--platform", "tile32", "--precision"]
        whole = self.run_digits("whole", *tile32, "fp16", "--keep", "*=f32")
        wide = self.run_digits("f32", *tile32, "f32")
        np.testing.assert_array_equal(logits(whole), logits(wide))
        self.assertEqual({row["precision"] for row in rows(whole).values() if row["macs"] != "0"}, {"f32"})

    def test_other_es(self) -> None:
        """Posits of each es: near ONNX Runtime (three times what was measured), the same without timing."""
        bounds = {"posit8_es1": 6.4e-2, "posit8_es2": 9.6e-2, "posit16_es0": 3.7e-4, "posit16_es2": 4.8e-4}
        want = expected(DIGITS, str(EXAMPLES / "images.npy"))
        for elem, bound in bounds.items():
            with self.subTest(elem):
                device = ["--platform", "swkpu-v2", "--precision", elem]
                out = self.run_digits(elem, *device)
                self.assertLess(test_networks.worst(logits(out), want), bound)
                self.assertEqual({row["precision"] for row in rows(out).values()} - {""}, {elem})
                functional = self.run_digits(f"{elem}_f", *device, "--mode", "functional")
                self.assertEqual(logits(functional).tobytes(), logits(out).tobytes())
                self.clean(DIGITS, *device)
                program, text, again = (self.folder / f"{elem}.{end}" for end in ("kpu", "nem", "again.kpu"))
                done("compile", DIGITS, *device, "-o", str(program))
                done("disasm", str(program), "-o", str(text))
                self.assertIn(f"elem={elem}", text.read_text())
                done("asm", str(text), "-o", str(again))
                self.assertEqual(again.read_bytes(), program.read_bytes())
        mixed = self.run_digits(
            "mixed", "--platform", "swkpu-v2", "--precision", "posit8", "--keep", "conv2=posit16_es2"
        )
        self.assertEqual(rows(mixed)["conv2"]["precision"], "posit16_es2")
        narrow = self.run_digits("narrow", "--platform", "swkpu-v2", "--precision", "posit8")
        self.assertLess(self.error(mixed), self.error(narrow))
        self.refused(
            "`swkpu-v1` have no posit8_es2 products", "--platform", "swkpu-v1", "--precision", "posit8_es2"
        )

    def test_wrong_wishes(self) -> None:
        """Wishes that are none, name nothing, or are not there are refused."""
        self.refused(r"--keep: `conv1` is not OPERATION=TYPE", *FP16, "--keep", "conv1")
        self.refused(r"--keep: `conv1=int8` is not OPERATION=TYPE", *FP16, "--keep", "conv1=int8")
        self.refused(r"--keep: the network has no operation `conv9\*`", *FP16, "--keep", "conv9*=f32")
        self.refused(r"`conv1` cannot be kept in bf16: the device has no", *INT8, "--keep", "conv1=bf16")
        self.refused("errors are measured on samples", *FP16, "--accuracy", "60")
        self.refused("--accuracy: `much` is not a number", *INT8, "--accuracy", "much")
        self.refused(
            "--wide-share: 101 must be 0 to 100 percent", *INT8, "--accuracy", "30", "--wide-share", "101"
        )

    def test_options_that_are_not_used_are_checked(self) -> None:
        """All of them, before the network is imported: a slip is found in every precision."""
        self.refused("--percentile: not above 50", *FP16, "--percentile", "20")
        self.refused("--wide-share: 101 must be 0 to 100 percent", *FP16, "--wide-share", "101")
        self.refused("--group-size: 0.5 must be 32, 64 or 128", *FP16, "--group-size", "0.5")
        self.refused("--image-mean: 2 numbers", *FP16, "--image-mean", "1,2")

    def test_bound(self) -> None:
        """Nothing is widened for a low bound, some for a higher one; what is not reached is an error."""
        chosen = {}
        for bound in ("20", "45"):
            result = command(
                "compile", DIGITS, *INT8, "--accuracy", bound, "--wide-share", "100", "-o",
                str(self.folder / f"{bound}.kpu"),
            )  # fmt: skip
            self.assertEqual(result.returncode, 0, result.stderr)
            found = re.search(r"signal to noise of the outputs: ([0-9.]+) dB(.*)\.$", result.stderr, re.M)
            assert found is not None, result.stderr
            self.assertGreaterEqual(float(found[1]), float(bound))
            chosen[bound] = re.findall(r"(\w+)=fp16", found[2])
        self.assertEqual(chosen["20"], [])
        self.assertGreater(len(chosen["45"]), 0)
        wide = self.run_digits("wide", *INT8, "--keep", ",".join(f"{name}=fp16" for name in chosen["45"]))
        self.assertLess(self.error(wide), 10 ** (-40 / 20))
        again = self.folder / "again.kpu"
        done("compile", DIGITS, *INT8, "--accuracy", "45", "--wide-share", "100", "-o", str(again))
        self.assertEqual(again.read_bytes(), (self.folder / "45.kpu").read_bytes())
        self.refused(
            r"--accuracy 90 is not reached: [0-9.]+ dB in one type, [0-9.]+ dB with 10 % .*`\w+` adds most",
            *INT8, "--accuracy", "90",
        )  # fmt: skip

    def test_report(self) -> None:
        """Shares sum up, errors of layers add up to that of the whole, the page has the same layers."""
        table, page = self.folder / "errors.csv", self.folder / "errors.txt"
        for path in (table, page):
            done(
                "compile", DIGITS, *INT8, "--report-accuracy", str(path), "-o", str(self.folder / "r.kpu"),
                "--force",
            )  # fmt: skip
        layers = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([row["layer"] for row in layers], ["conv1", "conv2", "classify"])
        for column in ("noise_share", "cycles_share", "energy_share"):
            self.assertAlmostEqual(sum(float(row[column]) for row in layers), 1, 4)
        for row in layers:
            self.assertGreater(float(row["snr_wider_db"]), float(row["snr_int8_db"]) + 10)
        text = page.read_text()
        whole = re.search(r"([0-9.]+) dB all in int8", text)
        assert whole is not None
        added = -10 * np.log10(sum(10 ** (-float(row["snr_int8_db"]) / 10) for row in layers))
        self.assertAlmostEqual(float(whole[1]), added, delta=3)
        for row in layers:
            self.assertRegex(text, rf"(?m)^{row['layer']} +\w+ +int8 +{row['snr_int8_db']} ")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
