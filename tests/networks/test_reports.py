"""Explanations, pages and diffs of compiled networks: layers and tensors, and nothing left out.

usage: test_reports.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KPUSIM = os.environ.get("KPUSIM", "")
LAYERS = 60


def kpusim(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command; its exit code must be `code`."""
    done = subprocess.run([KPUSIM, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}, not {code}: {done.stderr}")
    return done


def chain(layers: int, size: int, channels: int) -> onnx.ModelProto:
    """Chain convolutions of 1 x 1: layer `/block.N/conv` makes `/block.N/out`."""
    nodes, weights = [], []
    names = ["image", *(f"/block.{i}/out" for i in range(layers))]
    for i in range(layers):
        weights.append(
            numpy_helper.from_array(np.ones((channels, channels, 1, 1), np.float32), f"weight.{i}")
        )
        nodes.append(
            helper.make_node("Conv", [names[i], f"weight.{i}"], [names[i + 1]], name=f"/block.{i}/conv")
        )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, channels, size, size))
        for name in (names[0], names[-1])
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Reports(unittest.TestCase):
    """Two runs of a network, in a large and a small L2."""

    folder = Path()

    @classmethod
    def setUpClass(cls) -> None:
        """Run both with their events, under names of their own."""
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        model = cls.folder / "chain.onnx"
        onnx.save(chain(LAYERS, 56, 16), model)
        words = ("run", model, "--platform", "tile32", "--precision", "f32", "--mode", "timing", "--quiet")
        for name, more in {"large": (), "small": ("--set", "l2.size_bytes=524288")}.items():
            out = cls.folder / name
            kpusim(*words, *more, "-o", out, "--events", out / f"{name}.trace")

    def test_explain(self) -> None:
        """Tasks are called by layer and tensor, and such a name gives the task."""
        text = kpusim("explain", self.folder / "large", "--bounds-only").stdout
        for name in ("transfer#", "store#", "conv2d#", "#! ", "transfer@"):
            self.assertNotIn(name, text)
        self.assertIn("/block.0/conv: image to L2", text)
        self.assertIn("/block.0/conv: image to L1", text)
        data = json.loads(kpusim("explain", self.folder / "large", "--json", "--bounds-only").stdout)
        tasks = {segment["task"] for segment in data["critical_path"]["segments"]}
        self.assertGreater(len(tasks), LAYERS)
        for task in sorted(tasks)[:5]:
            self.assertIn("issued", kpusim("explain", self.folder / "large", task).stdout, task)
        last = kpusim("explain", self.folder / "large", f"/block.{LAYERS - 1}/conv").stdout
        self.assertIn(f"/block.{LAYERS - 1}/out to ", last)

    def test_tensors_in_dram(self) -> None:
        """Tensors that are not in L2 are named with their bytes."""
        model = chain(4, 56, 16)
        for number, node in enumerate(list(model.graph.node)):  # no strip goes through these
            made, mean, out = f"made.{number}", f"mean.{number}", node.output[0]
            node.output[0] = made
            gate = [
                helper.make_node("GlobalAveragePool", [made], [mean]),
                helper.make_node("Mul", [made, mean], [out]),
            ]
            for more in reversed(gate):
                model.graph.node.insert(3 * number + 1, more)
        path = self.folder / "gated.onnx"
        onnx.save(model, path)
        words = ("run", path, "--platform", "tile32", "--precision", "f32", "--mode", "timing", "--quiet")
        runs = []
        for bytes_ in (1 << 21, 1 << 17):
            runs.append(self.folder / f"gated{bytes_}")
            more = ("--set", f"l2.size_bytes={bytes_}", "--set", "engine.l1.size_bytes=32768")
            kpusim(*words, *more, "-o", runs[-1], "--events", runs[-1] / "e.trace")
        told = json.loads(kpusim("explain", runs[1], "--json", "--bounds-only").stdout)["tensors_in_dram"]
        lines = (runs[1] / "program.nem").read_text().splitlines()
        tensors = [json.loads(line[10:]) for line in lines if line.startswith("#! tensor ")]
        left = {
            tensor["id"]: 4 * math.prod(map(int, tensor["shape"]))
            for tensor in tensors
            if tensor.get("role") == "INTERMEDIATE" and tensor["buffer"] == "activations"
        }
        self.assertGreater(len(left), 0)
        self.assertEqual(left, {row["name"]: row["bytes"] for row in told})
        text = kpusim("explain", runs[1], "--bounds-only").stdout
        self.assertIn(f"not in L2: {len(left)} of {sum(left.values()):,} bytes", text)
        self.assertNotIn("not in L2: ", kpusim("explain", runs[0], "--bounds-only").stdout)

    def test_diff(self) -> None:
        """Tensors that changed place are named; the program's text is the last part, and short."""
        text = kpusim("diff", self.folder / "large", self.folder / "small").stdout
        data = json.loads(kpusim("diff", self.folder / "large", self.folder / "small", "--json").stdout)
        for row in data["places"]:
            self.assertNotEqual(row["a"], row["b"])
            self.assertLessEqual({row["a"], row["b"]}, {"L2", "DRAM", ""})
            self.assertRegex(row["name"], r"^(image|/block\.\d+/)")
        self.assertGreater(len(data["places"]), 0)
        self.assertIn("tensors that changed place", text)
        self.assertIn(data["places"][0]["name"], text)
        last = text.split("\n\n")[-1]
        self.assertTrue(last.startswith("program: "), last)
        self.assertLess(len(last.splitlines()), 50)
        self.assertNotIn("transfer#", text)

    def test_page(self) -> None:
        """It has every operation, energy, DRAM bytes and the device, and the command says where it is."""
        page = self.folder / "page.html"
        told = kpusim("explain", self.folder / "large", "--html", page).stderr
        self.assertIn(str(page), told)
        text = page.read_text(encoding="utf-8")
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        stats = json.loads((self.folder / "large" / "stats.json").read_text())["stats"]
        names = {row["op"] for row in data["operations"]}
        self.assertLessEqual({f"/block.{i}/conv" for i in range(LAYERS)}, names)
        self.assertEqual(data["energy_uj"], stats["energy.total_uj"]["value"])
        self.assertEqual(data["dram_read"], stats["bytes.dram.read"]["value"])
        self.assertEqual(sum(row["bytes_dram"] for row in data["operations"]),
                         data["dram_read"] + data["dram_written"])  # fmt: skip
        self.assertTrue(all(row["energy_pj"] > 0 for row in data["operations"] if "block" in row["op"]))
        self.assertIn("core_mhz", data["platform_text"])
        self.assertTrue(any(row[0] == "e0_nmu0" for row in data["device"]))

    def test_domains(self) -> None:
        """Where an operator is named, its domain is, but for ONNX itself."""
        path = self.folder / "domains.onnx"
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 4)) for name in "xy"]
        for domain, kind, told in (
            ("com.microsoft", "NoSuchThing", "(com.microsoft.NoSuchThing)"),
            ("org.example", "Relu", "(org.example.Relu)"),
            ("", "NoSuchThing", "(NoSuchThing)"),
            ("ai.onnx", "NoSuchThing", "(NoSuchThing)"),
        ):
            node = helper.make_node(kind, ["x"], ["y"], name="n", domain=domain)
            others = [helper.make_opsetid(domain, 1)] if domain not in ("", "ai.onnx") else []
            sets = [helper.make_opsetid("", 20), *others]
            graph = helper.make_graph([node], "g", ends[:1], ends[1:])
            onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
            error = kpusim(
                "compile", path, "--platform", "tile32", "-o", self.folder / "n.kpu", code=1
            ).stderr
            self.assertIn(f"node `n` {told}: ", error)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = sys.argv.pop(1)
    unittest.main()
