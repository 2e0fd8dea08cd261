"""Results that leave the range of their type are counted and told once; what is meant to is not told.

usage: test_out_of_range.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
Counts are those that NumPy finds in binary64.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

KPUSIM = os.environ.get("KPUSIM", "")
F16_LIMIT = 65520
WORDS = "range of", "steps, from", "its steps"

Values = NDArray[np.float64]


class Run:
    """A run of a model and what it says."""

    def __init__(self, result: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.text = result.stderr
        stats = json.loads((folder / "stats.json").read_text())["stats"]
        self.stats = {key: row["value"] for key, row in stats.items() if key.startswith("values.")}
        with (folder / "ops.csv").open() as file:
            self.ops = {row["op"]: row["out_of_range"] for row in csv.DictReader(file)}
        self.outputs = {path.stem: np.load(path) for path in (folder / "outputs").glob("*.npy")}

    @property
    def told(self) -> list[str]:
        """The lines that speak of ranges."""
        return [line for line in self.text.splitlines() if any(words in line for words in WORDS)]


class OutOfRangeTest(unittest.TestCase):
    """Small models on chosen numbers."""

    def setUp(self) -> None:
        """Make a folder."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.random = np.random.default_rng(1)

    def save(
        self,
        nodes: Sequence[onnx.NodeProto],
        shape: Sequence[int],
        out: Sequence[int],
        constants: Mapping[str, Values],
    ) -> None:
        """Write a model of x that gives y."""
        graph = helper.make_graph(
            nodes,
            "range",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
            [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, self.folder / "m.onnx")

    def run_model(self, x: Values, *options: str, mode: str = "values+timing") -> Run:
        """Run it on x; its samples for calibration are in `samples`."""
        np.save(self.folder / "x.npy", x.astype(np.float32))
        out = self.folder / "run"
        command = [KPUSIM, "run", str(self.folder / "m.onnx"), "--platform", "swkpu-v2", "--mode", mode]
        command += ["--input", f"x={self.folder / 'x.npy'}", "-o", str(out), "--force", "--quiet", *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return Run(result, out)

    def calibrate(self, x: Values) -> tuple[str, ...]:
        """Return the options of int8 with x as its only sample."""
        (self.folder / "samples").mkdir(exist_ok=True)
        for i in range(4):  # as few as it takes
            np.save(self.folder / "samples" / f"{i}.npy", x.astype(np.float32))
        return "--precision", "int8", "--calibrate", str(self.folder / "samples")

    def product(self, *after: onnx.NodeProto) -> Values:
        """Write x[64,300] times w[300,200], and what follows; gives w."""
        w = self.random.normal(0, 40, (300, 200)).astype(np.float16).astype(np.float64)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p" if after else "y"], name="product"), *after]
        self.save(nodes, [64, 300], [64, 200], {"w": w})
        return w

    def exact_sample(self, size: float) -> Values:
        """Return the numbers that fp16 holds."""
        return self.random.normal(0, size, (64, 300)).astype(np.float16).astype(np.float64)

    def test_products_of_fp16(self) -> None:
        """The count is NumPy's, in both modes and engines; one line names the operation and what helps."""
        neg = helper.make_node("Neg", ["p"], ["n"], name="neg")
        w = self.product(neg, helper.make_node("Relu", ["n"], ["y"], name="relu"))
        x = self.exact_sample(60)
        want = int((np.abs(x @ w) >= F16_LIMIT).sum())
        self.assertGreater(want, 100)
        run = self.run_model(x, "--precision", "fp16")
        self.assertEqual(run.stats, {"values.out_of_range": want, "values.inputs_out_of_range": 0})
        self.assertEqual(run.ops["product"], str(want))
        self.assertEqual(len(run.told), 1, run.text)
        for part in ("`product`", f"{want} of", "fp16", "--keep 'product=f32'", "bf16", "--accuracy"):
            self.assertIn(part, run.told[0])
        for engine in ("fast", "reference"):
            other = self.run_model(x, "--precision", "fp16", "--values", engine, mode="functional")
            self.assertEqual(other.stats, run.stats)
            self.assertEqual(other.ops, {name: count for name, count in run.ops.items() if name in other.ops})
            self.assertEqual(run.ops.keys() - other.ops.keys(), {"__background"})
        # what helps, helps
        for options in (
            ("--precision", "bf16"),
            ("--precision", "fp16", "--keep", "product=f32,neg=f32,relu=f32"),
        ):
            kept = self.run_model(x, *options)
            self.assertEqual((kept.stats["values.out_of_range"], kept.told), (0, []))

    def test_timing_alone_says_nothing(self) -> None:
        """There are no values to count."""
        self.product()
        run = self.run_model(self.exact_sample(60), "--precision", "fp16", mode="timing")
        self.assertEqual((run.stats, run.told), ({}, []))
        self.assertEqual(set(run.ops.values()), {""})

    def test_masks_are_meant(self) -> None:
        """Scores of -3e38 and below 65504 become 0 after a softmax; above it is told."""
        nodes = [
            helper.make_node("Add", ["x", "mask"], ["z"], name="masked"),
            helper.make_node("Softmax", ["z"], ["y"], name="softmax"),
        ]
        mask = np.where(np.arange(8) % 2 == 0, 0, np.finfo(np.float32).min)
        self.save(nodes, [4, 8], [4, 8], {"mask": mask})
        x = self.random.uniform(-4000, 0, (4, 8))
        run = self.run_model(x, "--precision", "fp16")
        self.assertEqual(run.told, [])
        want = int((x[:, 1::2].astype(np.float16).astype(np.float64) - 65504 <= -F16_LIMIT).sum())
        self.assertGreater(want, 0)
        self.assertEqual(run.stats["values.out_of_range"], want)
        self.assertEqual(run.outputs["y"][:, 1::2].max(), 0)
        self.save(nodes, [4, 8], [4, 8], {"mask": np.full(8, 60000)})
        self.assertEqual(len(self.run_model(-x * 2, "--precision", "fp16").told), 1)

    def test_inputs(self) -> None:
        """Numbers that the host cannot give the device; those of masks are meant."""
        self.save([helper.make_node("Relu", ["x"], ["y"], name="relu")], [4, 8], [4, 8], {})
        x = np.ones((4, 8))
        x[0, :3] = 70000
        run = self.run_model(x, "--precision", "fp16")
        self.assertEqual(run.stats, {"values.out_of_range": 0, "values.inputs_out_of_range": 3})
        self.assertEqual(len(run.told), 1)
        self.assertIn("input `x`: 3 of its numbers left the range of fp16", run.told[0])
        x[0, :3] = np.finfo(np.float32).min
        run = self.run_model(x, "--precision", "fp16")
        self.assertEqual((run.stats["values.inputs_out_of_range"], run.told), (0, []))

    def test_steps_of_integers(self) -> None:
        """Nothing on the samples; told when inputs are far beyond them."""
        w = self.random.normal(0, 1, (300, 200))
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
            helper.make_node("MatMul", ["p", "v"], ["y"], name="last"),
        ]
        self.save(nodes, [64, 300], [64, 10], {"w": w, "v": self.random.normal(0, 1, (200, 10))})
        x = self.random.uniform(-1, 1, (64, 300))
        options = self.calibrate(x)
        self.assertEqual(self.run_model(x, *options).told, [])
        run = self.run_model(3 * x, *options)
        self.assertGreater(run.stats["values.inputs_out_of_range"], 64 * 300 / 2)
        self.assertEqual(len(run.told), 1, run.text)
        self.assertIn("calibrate", run.told[0])

    def test_a_relu_in_the_steps_is_none(self) -> None:
        """Half of the sums are below 0; what a relu or a clip cuts off does not count."""
        for clip in (False, True):
            cut = (
                helper.make_node("Clip", ["p", "low", "high"], ["r"], name="cut")
                if clip
                else helper.make_node("Relu", ["p"], ["r"], name="cut")
            )
            nodes = [
                helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
                cut,
                helper.make_node("MatMul", ["r", "v"], ["y"], name="last"),
            ]
            w = self.random.normal(0, 1, (300, 200))
            limits = {"low": np.array(0), "high": np.array(6)} if clip else {}
            self.save(
                nodes, [64, 300], [64, 10], {"w": w, "v": self.random.normal(0, 1, (200, 10)), **limits}
            )
            x = self.random.uniform(-1, 1, (64, 300))
            run = self.run_model(x, *self.calibrate(x))
            self.assertEqual(
                (run.stats["values.out_of_range"], run.told), (0, []), "clip" if clip else "relu"
            )

    def test_posits(self) -> None:
        """posit8 ends at 64."""
        self.product(helper.make_node("Relu", ["p"], ["y"], name="relu"))
        run = self.run_model(self.random.choice([-1.0, 1.0, 2.0], (64, 300)), "--precision", "posit8")
        self.assertGreater(run.stats["values.out_of_range"], 0)
        self.assertIn("posit8 and saturated", run.told[0])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = sys.argv.pop(1)
    unittest.main()
