"""Inferences one after the other in one program, with weights that stay in L2.

usage: test_inferences.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as helper
import test_networks
from numpy.typing import NDArray
from test_networks import DIGITS, EXAMPLES, Folder, command, done

INT8 = ["--precision", "int8", "--calibrate", str(EXAMPLES / "calibration")]
DEVICES = {
    "swkpu-v1 int8": ["--platform", "swkpu-v1", *INT8],
    "swkpu-v2 int4": ["--platform", "swkpu-v2", "--precision", "int4", *INT8[2:]],
    "npm_lite fp16": ["--platform", "npm_lite", "--precision", "fp16"],
    "core128-hbm2 bf16": ["--platform", "core128-hbm2", "--precision", "bf16"],
    # room for some of the weights only; operations are cut, also their sums
    "small L2": ["--platform", "swkpu-v1", *INT8, "--set", "l2.size_bytes=268000"],
    "small L1": ["--platform", "swkpu-v1", *INT8, "--set", "engine.l1.size_bytes=16384"],
}
COUNT = 3
Stats = dict[str, float]


class Inferences(Folder):
    """The digits, several images one after the other."""

    images: NDArray[np.float32]

    @classmethod
    def setUpClass(cls) -> None:
        """Images that differ; the first of them alone, too."""
        super().setUpClass()
        cls.images = np.load(EXAMPLES / "images.npy")[: 4 * COUNT].reshape(4 * COUNT, 1, 1, 8, 8)

    def run_images(
        self, device: list[str], images: NDArray[np.float32], *more: str, mode: str = "values+timing"
    ) -> tuple[NDArray[np.float32], Stats]:
        """Logits and statistics of one run."""
        np.save(self.folder / "x.npy", images)
        out = self.folder / "out"
        done(
            *("run", DIGITS, *device, "--input", f"image={self.folder / 'x.npy'}", "--mode", mode),
            *("-o", str(out), "--force", "--quiet", *more),
        )
        rows = json.loads((out / "stats.json").read_text())["stats"]
        return np.load(out / "outputs" / "logits.npy"), {name: row["value"] for name, row in rows.items()}

    def test_values(self) -> None:
        """Each inference has the bits that it has alone, in either mode and any order; no races."""
        for name, device in DEVICES.items():
            with self.subTest(device=name):
                several = [*device, "--inferences", str(COUNT)]
                alone = np.stack([self.run_images(device, image)[0] for image in self.images[:COUNT]])
                self.assertEqual(len({row.tobytes() for row in alone}), COUNT)
                got, _ = self.run_images(several, self.images[:COUNT])
                np.testing.assert_array_equal(got, alone)
                for order in ("program", "random:5"):
                    functional, _ = self.run_images(
                        several, self.images[:COUNT], "--order", order, mode="functional"
                    )
                    np.testing.assert_array_equal(functional, alone)
                self.clean(DIGITS, *several)

    def test_batches(self) -> None:
        """Each inference may be of a batch: the program counts all."""
        device = [*DEVICES["swkpu-v1 int8"], "--batch", "4"]
        images = self.images.reshape(COUNT, 4, 1, 8, 8)
        alone = np.stack([self.run_images(device, batch)[0] for batch in images])
        got, stats = self.run_images([*device, "--inferences", str(COUNT)], images)
        np.testing.assert_array_equal(got, alone)
        self.assertEqual(stats["throughput.inferences"], 4 * COUNT)
        self.assertAlmostEqual(
            stats["throughput.steady_inferences_per_s"] * stats["throughput.step_us"], 4e6, places=3
        )

    def test_weights_once(self) -> None:
        """Where all weights fit, an inference more reads its input from DRAM, and writes its output."""
        for name, size in (("swkpu-v1 int8", 1), ("npm_lite fp16", 2), ("core128-hbm2 bf16", 2)):
            with self.subTest(device=name):
                two, four = (
                    self.run_images([*DEVICES[name], "--inferences", str(n)], self.images[:n])[1]
                    for n in (2, 4)
                )
                again = (four["bytes.dram.read"] - two["bytes.dram.read"]) / 2
                self.assertGreaterEqual(again, 64 * size)
                self.assertLessEqual(again, 2 * 64 * size)  # rows that two tiles of the input need
                written = (four["bytes.dram.write"] - two["bytes.dram.write"]) / 2
                self.assertIn(written, (10 * size, 10 * 4))  # or sums that are f32
                self.assertLess(again, two["bytes.dram.read"] / 20)
                self.assertEqual(four["ops.macs"], 2 * two["ops.macs"])

    def test_some_weights(self) -> None:
        """Where some fit, an inference more reads the others again: fewer bytes than it reads alone."""
        device = DEVICES["small L2"]
        _, one = self.run_images(device, self.images[0])
        two, four = (self.run_images([*device, "--inferences", str(n)], self.images[:n])[1] for n in (2, 4))
        again = (four["bytes.dram.read"] - two["bytes.dram.read"]) / 2
        self.assertGreater(again, 64)
        self.assertLess(again, one["bytes.dram.read"] - 1000)

    def test_throughput(self) -> None:
        """The first takes what one alone takes; later ones less, as their weights stand in L2."""
        device = DEVICES["swkpu-v1 int8"]
        _, one = self.run_images(device, self.images[0])
        self.assertNotIn("throughput.first_us", one)
        report = done("run", DIGITS, *device, "--inferences", "8", "--mode", "timing")
        self.assertRegex(report, r"throughput +8 inferences: ")
        self.assertRegex(report, r"one by one +the first after .*, then one each .*: [\d.]+ in a second")
        _, eight = self.run_images([*device, "--inferences", "8"], self.images[:8])
        self.assertLess(abs(eight["throughput.first_us"] / one["time.total_us"] - 1), 0.1)
        self.assertLess(eight["throughput.step_us"], 0.9 * eight["throughput.first_us"])
        last = eight["throughput.first_us"] + 7 * eight["throughput.step_us"]
        self.assertAlmostEqual(last, eight["time.total_us"], delta=1e-6 * last + 0.1)
        self.assertAlmostEqual(eight["throughput.us_per_inference"] * 8, eight["time.total_us"], places=6)

    def test_container_and_text(self) -> None:
        """The program keeps what it is through its files; the map shows the weights that stay."""
        device = [*DEVICES["swkpu-v1 int8"], "--inferences", "2"]
        program, text, plan = (self.folder / name for name in ("p.kpu", "p.nem", "map.txt"))
        done("compile", DIGITS, *device, "--memory-map", str(plan), "-o", str(program))
        done("disasm", str(program), "-o", str(text))
        _, wanted = self.run_images(device, self.images[:2])
        for path in (program, text):
            out = self.folder / "again"
            done("run", str(path), "--mode", "timing", "-o", str(out), "--force", "--quiet")
            stats = json.loads((out / "stats.json").read_text())["stats"]
            for key in ("cycles.total", "throughput.first_us", "throughput.step_us"):
                self.assertEqual(stats[key]["value"], wanted[key])
        self.assertRegex(plan.read_text(), r"L2, weights that stay: \d+ bytes\n.*\n(.* w\d.*\n){3}$")
        source = text.read_text()
        for number in ("3", str(2**63)):
            text.write_text(source.replace('"inferences":"2"', f'"inferences":"{number}"'))
            self.assertNotEqual(text.read_text(), source)
            result = command("run", str(text), "--mode", "timing")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, rf"makes {number} inferences, but tensor `image`.*Fix: ")

    def test_refused(self) -> None:
        """Numbers that no program has; inputs of another shape; more dimensions than tensors have."""
        for number in ("0", "-1", "1025", "x"):
            result = command("run", DIGITS, "--platform", "tile32", "--inferences", number, "--fill", "zeros")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, r"--inferences.*Fix: ")
        np.save(self.folder / "one.npy", self.images[0])
        given = ["--input", f"image={self.folder / 'one.npy'}"]
        result = command("run", DIGITS, "--platform", "tile32", "--inferences", "2", *given)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"has shape \(2, 1, 1, 8, 8\).*Fix: ")
        value, shape = helper.make_tensor_value_info, [1, 1, 1, 1, 2, 3]
        kinds = [value(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", kinds[:1], kinds[1:])
        path = self.folder / "six.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        result = command(
            "compile", str(path), "--platform", "tile32", "--inferences", "2", "-o", f"{path}.kpu"
        )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"`x` has 6 dimensions.*Fix: ")

    def test_scalars_and_constants(self) -> None:
        """An output of no dimensions has one; a constant output is the same in each inference."""
        value, elem = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        table = helper.make_tensor("c", elem, [3], [1, 2, 3])
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0),
            helper.make_node("Identity", ["c"], ["z"]),
        ]
        outputs = [value("y", elem, []), value("z", elem, [3])]
        graph = helper.make_graph(nodes, "g", [value("x", elem, [2, 5])], outputs, [table])
        path = self.folder / "sum.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        x = np.arange(40, dtype=np.float32).reshape(4, 2, 5)
        np.save(self.folder / "x.npy", x)
        out = self.folder / "sums"
        done(
            *("run", str(path), "--platform", "tile32", "--inferences", "4", "-o", str(out), "--quiet"),
            *("--input", f"x={self.folder / 'x.npy'}"),
        )
        outputs_of = {name: np.load(out / "outputs" / f"{name}.npy") for name in ("y", "z")}
        np.testing.assert_array_equal(outputs_of["y"], x.sum((1, 2)))
        np.testing.assert_array_equal(outputs_of["z"], np.tile([1, 2, 3], (4, 1)))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
