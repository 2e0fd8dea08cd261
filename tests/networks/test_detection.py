"""A detector with its post-processing on the device: convolutions, TopK, GatherND, NonMaxSuppression.

usage: test_detection.py KPUSIM [unittest options]
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

KPUSIM = ""
CELLS, CLASSES, CANDIDATES, BOXES = 12, 3, 24, 5
Array = NDArray[Any]
Arrays = dict[str, Array]


class Builder:
    """Nodes and constants of a model."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(seed)

    def constant(self, array: Array) -> str:
        """Return a constant operand."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values: int) -> str:
        """Return one dimension of int64."""
        return self.constant(np.array(values, np.int64))

    def node(self, kind: str, *operands: str, name: str = "", outputs: int = 1, **attributes: object) -> str:
        """Return a node; the first of its outputs."""
        name = name or f"{kind.lower()}{len(self.nodes)}"
        made = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(operands), made, name=f"node_{name}", **attributes))
        return name

    def conv(self, x: str, channels: tuple[int, int], stride: int) -> str:
        """3 x 3, with a bias."""
        out, into = channels
        weights = self.rng.normal(0, (2 / (9 * into)) ** 0.5, (out, into, 3, 3)).astype(np.float32)
        bias = self.constant(self.rng.normal(0, 0.3, out).astype(np.float32))
        w = self.constant(weights)
        return self.node("Conv", x, w, bias, pads=[1, 1, 1, 1], strides=[stride, stride])


def decoded(b: Builder, head: str) -> tuple[str, str]:
    """Boxes [1, cells, 4] and scores [1, cells, classes] of a head: one for each cell of the grid."""
    cells = CELLS * CELLS
    rows = b.node("Transpose", b.node("Reshape", head, b.ints(1, 4 + CLASSES, cells)), perm=[0, 2, 1])
    split = b.node("Split", rows, b.ints(2, 2, CLASSES), name="part", outputs=3, axis=2)
    grid = np.stack(np.meshgrid(np.arange(CELLS), np.arange(CELLS), indexing="xy"), -1).reshape(1, cells, 2)
    centres = b.node("Add", b.node("Sigmoid", split), b.constant(grid.astype(np.float32)))
    sizes = b.node("Mul", b.node("Sigmoid", "part_1"), b.constant(np.array([6], np.float32)))
    return b.node("Concat", centres, sizes, axis=2), b.node("Sigmoid", "part_2")


def detector() -> onnx.ModelProto:
    """Return the best cells, those of their boxes that overlap less, and a map of where they are."""
    b = Builder(3)
    x = b.node("Relu", b.conv("image", (8, 3), 2))
    boxes, scores = decoded(b, b.conv(x, (4 + CLASSES, 8), 1))
    best = b.node("ReduceMax", scores, b.ints(2), keepdims=0)
    b.node("TopK", best, b.ints(CANDIDATES), name="best", outputs=2)
    at = b.node("Unsqueeze", "best_1", b.ints(2))
    chosen = b.node("GatherND", boxes, at, batch_dims=1)
    of_chosen = b.node("Transpose", b.node("GatherND", scores, at, batch_dims=1), perm=[0, 2, 1])
    overlap, least = (b.constant(np.array([v], np.float32)) for v in (0.1, 0.85))
    b.node(
        "NonMaxSuppression",
        chosen,
        of_chosen,
        b.ints(BOXES),
        overlap,
        least,
        name="selected",
        center_point_box=1,
    )
    ones = b.constant(np.ones((1, CANDIDATES), np.float32))
    flat = b.constant(np.zeros((1, CELLS * CELLS), np.float32))
    b.node("ScatterElements", flat, "best_1", ones, name="map", axis=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 2 * CELLS, 2 * CELLS])
    outputs = [onnx.ValueInfoProto(name=name) for name in ("selected", "best", "best_1", "map")]
    graph = helper.make_graph(b.nodes, "detector", [image], outputs, b.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


class Detection(unittest.TestCase):
    """Compiled by the command, run with and without time."""

    folder: Path
    image: Array
    expected: Arrays

    @classmethod
    def setUpClass(cls) -> None:
        """The model, an image, and what ONNX Runtime makes of it."""
        cls.enterClassContext(scratch := tempfile.TemporaryDirectory())
        cls.folder = Path(scratch.name)
        onnx.save(detector(), cls.folder / "detector.onnx")
        cls.image = np.random.default_rng(1).normal(0, 1, (1, 3, 2 * CELLS, 2 * CELLS)).astype(np.float32)
        np.save(cls.folder / "image.npy", cls.image)
        session = onnxruntime.InferenceSession(
            str(cls.folder / "detector.onnx"), providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        cls.expected = dict(zip(names, session.run(names, {"image": cls.image}), strict=True))

    def run_on(self, device: str, precision: str, *options: str) -> tuple[Path, Arrays]:
        """The folder of a run, and its outputs."""
        folder = self.folder / "-".join([device, precision, *options]).replace("/", "_")
        calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
        command = [KPUSIM, "run", "detector.onnx", "--platform", device, "--precision", precision, *calibrate]
        command += ["--input", "image=image.npy", "-o", str(folder), "--force", "--quiet", *options]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder, {path.stem: np.load(path) for path in (folder / "outputs").iterdir()}

    def test_values_and_time(self) -> None:
        """The same bytes with and without time, cycles under each node's name."""
        nodes = ("node_best", "node_selected", "node_map")
        for device, precision in (("tile32", "f32"), ("swkpu-v1", "fp16"), ("swkpu-v1", "int8")):
            with self.subTest(device=device, precision=precision):
                folder, timed = self.run_on(device, precision)
                _, untimed = self.run_on(device, precision, "--mode", "functional")
                for name, array in timed.items():
                    np.testing.assert_array_equal(array, untimed[name], name)
                rows = csv.DictReader((folder / "ops.csv").read_text().splitlines())
                charged: dict[str, int] = {}
                for row in rows:
                    charged[row["op"]] = charged.get(row["op"], 0) + int(row["charged_cycles"])
                for node in nodes:
                    self.assertGreater(charged[node], 0, node)
                total = json.loads((folder / "stats.json").read_text())["stats"]["cycles.total"]["value"]
                self.assertEqual(sum(charged.values()), total)

    def test_against_runtime(self) -> None:
        """The boxes of ONNX Runtime in f32; -1 after them up to as many as there can be."""
        _, outputs = self.run_on("tile32", "f32")
        found = self.expected["selected"]
        count = len(found)
        self.assertGreater(count, 3)
        self.assertEqual(outputs["selected"].shape, (CLASSES * BOXES, 3))
        self.assertLess(count, CLASSES * BOXES)
        np.testing.assert_array_equal(outputs["selected"][:count], found)
        self.assertTrue((outputs["selected"][count:] == -1).all())
        self.assertEqual(outputs["selected.count"].tolist(), [count])
        np.testing.assert_array_equal(outputs["best_1"], self.expected["best_1"])
        np.testing.assert_array_equal(outputs["map"], self.expected["map"])
        np.testing.assert_allclose(outputs["best"], self.expected["best"], rtol=1e-5)

    def test_half(self) -> None:
        """In fp16 the best scores are the same but for its rounding."""
        _, outputs = self.run_on("swkpu-v1", "fp16")
        np.testing.assert_allclose(outputs["best"], self.expected["best"], atol=3e-3)

    def test_refusals(self) -> None:
        """Neither time without values nor trials; rows that no L1 holds are refused with numbers."""
        command = [KPUSIM, "run", "detector.onnx", "--platform", "tile32", "--mode", "timing"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 1)
        self.assertIn("values+timing", result.stderr)
        command = [KPUSIM, "compile", "detector.onnx", "--platform", "tile32", "--effort", "3", "-o", "3.kpu"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no mapping was simulated: --effort 3 chose as 2 does", result.stderr)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1 << 17])
        node = helper.make_node("TopK", ["x", "k"], ["values", "order"], name="sort")
        k = numpy_helper.from_array(np.array([1 << 17], np.int64), "k")
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        model = helper.make_model(
            helper.make_graph([node], "sort", [x], results, [k]),
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=10,
        )
        onnx.save(onnx.shape_inference.infer_shapes(model), self.folder / "sort.onnx")
        result = subprocess.run(
            [KPUSIM, "check", "sort.onnx", "--platform", "tile32"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(
            result.stdout + result.stderr, r"sort \(TopK\): .* a row that is longer than L1 is not taken"
        )
        self.assertIn("Fix:", result.stdout + result.stderr)


if __name__ == "__main__":
    KPUSIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
