"""Networks from the ONNX file to the logits, by the command, against ONNX Runtime.

usage: test_networks.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

KPUSIM = os.environ.get("KPUSIM", "")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "networks"
DIGITS = str(EXAMPLES / "digits_cnn.onnx")
IMAGES = 320
BYTES = {"f32": 4, "bf16": 2, "fp16": 2, "int8": 1, "posit8": 1, "posit16": 2}
# Largest error of a logit of the digits, in parts of the range of all: three times what was measured.
BOUNDS = {"f32": 1e-6, "bf16": 8e-3, "fp16": 1.2e-3, "int8": 6e-2, "posit8": 8.1e-2, "posit16": 3e-4}
PRECISIONS = {
    "swkpu-v1": ("fp16", "int8"),
    "swkpu-v2": ("bf16", "fp16", "int8", "posit8", "posit16"),
    "tile32": ("f32", "bf16", "fp16", "int8"),
    "npm_lite": ("fp16", "int8"),
    "core128-hbm2": ("f32", "bf16", "fp16", "int8"),
    "edge16": ("fp16", "int8"),
}
PAIRS = [(device, precision) for device, has in PRECISIONS.items() for precision in has]


def command(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return what the command returns and says."""
    return subprocess.run([KPUSIM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)


def done(*arguments: str) -> str:
    """Return what the command prints; it must succeed."""
    result = command(*arguments)
    if result.returncode != 0:
        raise AssertionError(f"{result.args}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def options(device: str, precision: str) -> list[str]:
    """Return the digits, all of them, on a device."""
    calibrate = ["--calibrate", str(EXAMPLES / "calibration")] if precision == "int8" else []
    return ["--platform", device, "--precision", precision, *calibrate, "--dim", f"batch={IMAGES}"]


def logits(folder: Path) -> NDArray[np.float32]:
    """The output of a run."""
    return np.asarray(np.load(folder / "outputs" / "logits.npy"), np.float32)


def rows(folder: Path) -> dict[str, dict[str, str]]:
    """The operations of a run, by name."""
    return {row["op"]: row for row in csv.DictReader((folder / "ops.csv").read_text().splitlines())}


def cycles(folder: Path) -> int:
    """The cycles of a run, each of them charged to one operation."""
    total = int(json.loads((folder / "stats.json").read_text())["stats"]["cycles.total"]["value"])
    charged = sum(int(row["charged_cycles"]) for row in rows(folder).values())
    if charged != total:
        raise AssertionError(f"{folder}: {charged} of {total} cycles are charged to operations")
    return total


def expected(model: str, images: str) -> NDArray[np.float32]:
    """Return the logits by ONNX Runtime."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"image": np.load(images)})[0], np.float32)


def worst(got: NDArray[np.float32], want: NDArray[np.float32]) -> float:
    """Return the largest error in parts of the range of what is wanted; not a number is infinitely wrong."""
    return float(np.abs(got - want).max() / np.ptp(want)) if np.isfinite(got).all() else math.inf


class Folder(unittest.TestCase):
    """Tests with one scratch folder for all of them."""

    folder = Path()

    @classmethod
    def setUpClass(cls) -> None:
        """The folder."""
        cls.folder = Path(tempfile.mkdtemp(prefix="kpusim_networks_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def clean(self, *network: str) -> None:
        """No races and no unwritten reads, nor any other warning."""
        found = json.loads(done("check", *network, "--strict", "--json"))
        self.assertEqual((found["errors"], found["warnings"]), (0, 0), found)


class Digits(Folder):
    """The classifier of handwritten digits on each device in each precision that it has."""

    @classmethod
    def setUpClass(cls) -> None:
        """One run with values and timing of each."""
        super().setUpClass()
        for pair in PAIRS:
            cls.run_digits(cls.folder / "-".join(pair), DIGITS, *options(*pair))

    @staticmethod
    def run_digits(out: Path, *program: str) -> str:
        """A run of all images; what it says on the error stream."""
        images = f"image={EXAMPLES / 'images.npy'}"
        result = command("run", *program, "--input", images, "-o", str(out), "--quiet")
        assert result.returncode == 0, result.stderr
        return result.stderr

    def test_batch(self) -> None:
        """--batch is --dim of the first dimension, and tells the throughput; from a container too."""
        network = [DIGITS, "--platform", "swkpu-v1", "--precision", "fp16"]
        out, container, text = (self.folder / name for name in ("batch", "batch.kpu", "batch.nem"))
        report = done("run", *network, "--batch", "5", "--fill", "random:1", "-o", str(out))
        stats = {
            name: row["value"] for name, row in json.loads((out / "stats.json").read_text())["stats"].items()
        }
        self.assertEqual(stats["throughput.inferences"], 5)
        self.assertAlmostEqual(stats["throughput.us_per_inference"], stats["time.total_us"] / 5)
        self.assertAlmostEqual(stats["throughput.inferences_per_s"] * stats["time.total_us"], 5e6, places=3)
        self.assertRegex(report, r"throughput +5 inferences: .* each, [\d.]+ in a second")
        done("compile", *network, "--batch", "5", "-o", str(container))
        done("disasm", str(container), "-o", str(text))
        others = {"named": [*network, "--dim", "batch=5"], "container": [str(container)], "text": [str(text)]}
        for name, program in others.items():
            with self.subTest(program=name):
                again = self.folder / f"batch_{name}"
                device = [] if program[1:] else ["--platform", "swkpu-v1"]
                done("run", *program, *device, "--fill", "random:1", "-o", str(again), "--quiet")
                self.assertEqual(cycles(again), cycles(out))
                told = json.loads((again / "stats.json").read_text())["stats"]
                self.assertEqual("throughput.inferences" in told, name != "named")

    def test_values(self) -> None:
        """Logits, classes and accuracy are those of ONNX Runtime."""
        want, labels = expected(DIGITS, str(EXAMPLES / "images.npy")), np.load(EXAMPLES / "labels.npy")
        for device, precision in PAIRS:
            with self.subTest(device=device, precision=precision):
                got = logits(self.folder / f"{device}-{precision}")
                self.assertEqual(got.shape, want.shape)
                self.assertLessEqual(worst(got, want), BOUNDS[precision])
                self.assertGreaterEqual(np.mean(got.argmax(1) == want.argmax(1)), 0.99)
                self.assertGreaterEqual(np.mean(got.argmax(1) == labels), 0.98875)  # 0.99375 by ONNX Runtime

    def test_missing_precisions(self) -> None:
        """A precision that the arrays do not have is refused."""
        for device, has in PRECISIONS.items():
            for precision in BYTES.keys() - has:
                with self.subTest(device=device, precision=precision):
                    out = self.folder / "missing"
                    result = command("run", DIGITS, *options(device, precision), "-o", str(out))
                    self.assertEqual(result.returncode, 1)
                    self.assertRegex(result.stderr, rf"`{device}` have no {precision} .*Fix: \S")
                    self.assertFalse(out.exists())

    def test_functional(self) -> None:
        """Without timing the outputs are the same bytes."""
        for pair in PAIRS:
            with self.subTest(device=pair[0], precision=pair[1]):
                timed, out = (self.folder / ("-".join(pair) + end) for end in ("", "-functional"))
                said = self.run_digits(out, DIGITS, *options(*pair), "--mode", "functional")
                self.assertNotIn("tasks in flight", said)  # the schedule is the compiler's, not the reader's
                self.assertEqual(logits(out).tobytes(), logits(timed).tobytes())

    def test_check(self) -> None:
        """The verifier finds nothing, for one image and for all."""
        for pair in PAIRS:
            for size in ("batch=1", f"batch={IMAGES}"):
                with self.subTest(device=pair[0], precision=pair[1], size=size):
                    self.clean(DIGITS, *options(*pair)[:-1], size)

    def test_operations(self) -> None:
        """The rows of ops.csv are nodes of the model, with their work and all cycles."""
        macs = {"conv1": 8 * 8 * 16 * 9 * 1, "conv2": 4 * 4 * 32 * 9 * 16, "classify": 128 * 10}
        nodes = {node.name for node in onnx.load(DIGITS).graph.node}
        for device, precision in PAIRS:
            with self.subTest(device=device, precision=precision):
                folder = self.folder / f"{device}-{precision}"
                self.assertGreater(cycles(folder), 0)
                found = {name: row for name, row in rows(folder).items() if not name.startswith("__")}
                self.assertLessEqual(found.keys(), nodes)
                work = {name: int(row["macs"]) for name, row in found.items() if int(row["macs"])}
                self.assertEqual(work, {name: count * IMAGES for name, count in macs.items()})

    def test_container(self) -> None:
        """A compiled network is small, is not replaced unasked, and runs as the model does."""
        weights = sum(math.prod(tensor.dims) for tensor in onnx.load(DIGITS).graph.initializer)
        for device, precision in PAIRS:
            with self.subTest(device=device, precision=precision):
                model_run, program = (self.folder / f"{device}-{precision}{end}" for end in ("", ".kpu"))
                compile_it = ["compile", DIGITS, *options(device, precision), "-o", str(program)]
                done(*compile_it)
                data = program.read_bytes()
                self.assertLess(len(data), weights * BYTES[precision] * 1.05 + 2**20)
                again = command(*compile_it[:-3], "batch=1", *compile_it[-2:])
                self.assertRegex(f"{again.returncode} {again.stderr}", r"(?s)^1 .*exists.*Fix: .*--force")
                self.assertEqual(program.read_bytes(), data)
                done(*compile_it, "--force")
                self.assertEqual(program.read_bytes(), data)
                text, again_program = program.with_suffix(".nem"), program.with_suffix(".again.kpu")
                done("disasm", str(program), "-o", str(text))
                self.assertTrue(text.read_text().startswith(f'device "{device}"\n'))
                done("asm", str(text), "-o", str(again_program))
                self.assertEqual(again_program.read_bytes(), data)
                out = self.folder / f"{model_run.name}-kpu"
                self.run_digits(out, str(program))
                for name in ("outputs/logits.npy", "ops.csv"):
                    self.assertEqual((out / name).read_bytes(), (model_run / name).read_bytes(), name)


class Errors(Folder):
    """Mistakes are refused with a text that says the fix, and nothing is written."""

    def refused(self, text: str, *arguments: str, model: str = DIGITS, precision: str = "fp16") -> None:
        """Both commands say this."""
        before = sorted(self.folder.rglob("*"))
        asked = [model, "--platform", "swkpu-v1", "--precision", precision, *arguments, "--dot", "graph.dot"]
        for start in (["run", "--fill", "zeros", "-o", "out"], ["compile", "-o", "out.kpu"]):
            with self.subTest(command=start[0], arguments=arguments, model=model, precision=precision):
                result = command(*start, *asked, folder=self.folder)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, rf"(?s)^(?=.*{text}).*Fix: \S")
                self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_options(self) -> None:
        """Options without sense."""
        self.refused("fp17", precision="fp17")
        self.refused("--dim bacth=2.*batch", "--dim", "bacth=2")
        for value in ("0", "-1"):
            self.refused(f"batch={value} must be at least 1", "--dim", f"batch={value}")
        for value in ("two", "99999999999999999999"):
            self.refused(f"--dim: `{value}` is not an integer", "--dim", f"batch={value}")
        for value in ("1000000000", "9223372036854775807"):
            self.refused(rf"\[{value},.*(too large|elements)", "--dim", f"batch={value}")
        self.refused("NAME=INTEGER", "--dim", "batch")
        self.refused("no pass `fusion`.*fuse", "--print-after", "fusion")
        self.refused("no operation `conv9`", "--explain-mapping", "conv9")

    def test_batch(self) -> None:
        """Numbers that are no batch, and models that have no place for one."""
        for value in ("0", "-2"):
            self.refused(f"--batch {value}: a run has 1 inference", "--batch", value)
        self.refused("--batch: `many` is not an integer", "--batch", "many")
        self.refused("--batch 4: --dim gives `batch` another size", "--batch", "4", "--dim", "batch=2")
        fixed = onnx.load(DIGITS)
        fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
        path = str(self.folder / "fixed.onnx")
        onnx.save(fixed, path)
        self.refused("--batch 4: no input has a dynamic first dimension", "--batch", "4", model=path)

    def test_model(self) -> None:
        """A file that ends too soon."""
        data = Path(DIGITS).read_bytes()
        for size in (0, 100, len(data) // 2, len(data) - 1):
            (self.folder / "cut.onnx").write_bytes(data[:size])
            self.refused("cut.onnx", model="cut.onnx")

    def test_calibration(self) -> None:
        """Samples for int8: none, no folder, too few, of another shape."""
        self.refused("int8 needs samples.*--calibrate", precision="int8")
        self.refused("absent", "--calibrate", "absent", precision="int8")
        self.refused("random:x", "--calibrate", "random:x", precision="int8")
        for name, count, shape in (("few", 1, (1, 1, 8, 8)), ("shape", 8, (1, 1, 7, 8))):
            (self.folder / name).mkdir()
            for i in range(count):
                np.save(self.folder / name / f"{i}.npy", np.zeros(shape, np.float32))
        self.refused("few: .*at least 4 samples, found 1", "--calibrate", "few", precision="int8")
        self.refused(r"shape/0.npy: .*\(1, 1, 7, 8\)", "--calibrate", "shape", precision="int8")

    def test_options_of_int8(self) -> None:
        """Options of steps are told not to be used where nothing is quantized."""
        for option in (["--calibration-method", "mse"], ["--percentile", "99"]):
            given = command("check", DIGITS, "--platform", "tile32", "--precision", "f32", *option)
            self.assertEqual(given.returncode, 0, given.stderr)
            self.assertRegex(given.stdout + given.stderr, f"{option[0]} is for .*it is not used")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
