"""Reports on a network beside its run: coverage, memory map, QDQ export, bounds, its device.

usage: test_network_tools.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import json
import math
import re
import sys
import unittest
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnxruntime
import test_networks
from numpy.typing import NDArray
from test_networks import DIGITS, EXAMPLES, Folder, command, cycles, done, logits, rows

INT8 = ["--precision", "int8", "--calibrate", str(EXAMPLES / "calibration")]


class Pictures(HTMLParser):
    """The titles of the boxes of a page, and what is left open."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Into an element."""
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Out of the element that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text of a title inside the picture."""
        if self.open and self.open[-1] == "title" and len(self.open) > 3:
            self.titles.append(data)


class Tools(Folder):
    """The digits, compiled once more with each option."""

    program = Path()

    @classmethod
    def setUpClass(cls) -> None:
        """Compiled for swkpu-v1 in int8, with all that can be written beside it."""
        super().setUpClass()
        cls.program = cls.folder / "digits.kpu"
        written = {"--export-qdq": "qdq.onnx", "--memory-map": "map.html"}
        beside = [text for name, file in written.items() for text in (name, str(cls.folder / file))]
        done("compile", DIGITS, *INT8, "--dim", "batch=320", *beside, "-o", str(cls.program))

    def test_quantized_model(self) -> None:
        """Another runtime computes the exported model to the same classes, within few steps of the logits."""
        out = self.folder / "run"
        done(
            "run", str(self.program), "--input", f"image={EXAMPLES / 'images.npy'}", "-o", str(out), "--quiet"
        )
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")  # else sums may saturate
        session = onnxruntime.InferenceSession(
            str(self.folder / "qdq.onnx"), options, providers=["CPUExecutionProvider"]
        )
        (want,) = session.run(None, {session.get_inputs()[0].name: np.load(EXAMPLES / "images.npy")})
        got = logits(out)
        self.assertGreaterEqual(np.mean(got.argmax(1) == np.asarray(want).argmax(1)), 0.99)
        self.assertLess(np.abs(got - want).max() / np.ptp(want), 0.02)
        result = command(
            "compile", DIGITS, "--export-qdq", str(self.folder / "n"), "-o", str(self.folder / "n.kpu")
        )
        self.assertRegex(result.stderr, r"--export-qdq: the network is not quantized. Fix: \S")

    def test_memory_map(self) -> None:
        """Tensors that live at one time have different bytes, within their level; the page shows them."""
        table = self.folder / "map.txt"
        done("compile", DIGITS, *INT8, "--memory-map", str(table), "-o", str(self.folder / "map.kpu"))
        text = table.read_text()
        order = {
            name: i
            for i, name in enumerate(
                re.findall(r"^\s+\d+\s+\d+\s+(\S+)\s+\1\s+.*slot 0$", text, re.MULTILINE)
            )
        }
        bands = re.split(r"\n\n", text)[1:]
        self.assertGreaterEqual(len(bands), 2)
        for band in bands:
            size = int(re.search(r": (\d+) bytes", band)[1])  # type: ignore[index]
            boxes = [line.split(maxsplit=4) for line in band.splitlines()[2:]]
            self.assertGreater(len(boxes), 0)
            for i, (address, count, first, last, name) in enumerate(boxes):
                begin, end = int(address), int(address) + int(count)
                self.assertLessEqual(end, size, name)
                for other in boxes[:i]:
                    apart = order[other[3]] < order[first] or order[last] < order[other[2]]
                    other_begin, other_end = int(other[0]), int(other[0]) + int(other[1])
                    self.assertTrue(apart or end <= other_begin or other_end <= begin, (name, other))
        page = Pictures()
        page.feed((self.folder / "map.html").read_text())
        self.assertEqual(page.open, [])
        self.assertTrue(any("conv2, slot 0" in title for title in page.titles), page.titles)

    def test_coverage(self) -> None:
        """Each node has its line: numbers and unit, within which other, or that no work is left."""
        text = done("check", DIGITS, *INT8, "--platform", "swkpu-v1")
        lines = {line.split()[0]: line for line in text.splitlines() if line}
        nodes = onnx.load(DIGITS).graph.node
        self.assertIn(f"{len(nodes)} of {len(nodes)} nodes are supported", text)
        for node in nodes:
            self.assertRegex(lines[node.name], rf"^{node.name} +{node.op_type} ")
        self.assertRegex(lines["conv2"], r"i8, i8 to i8 .*an array")
        self.assertRegex(lines["relu1"], r"within conv1$")

    def test_coverage_of_unsupported(self) -> None:
        """The reason stands at the node, those that are supported are told too, and the check fails."""
        make = onnx.helper.make_node
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [make("Relu", ["x"], ["r"], "first"), make("Det", ["r"], ["y"], "second")],
            "g",
            [value("x", onnx.TensorProto.FLOAT, [4, 4])],
            [value("y", onnx.TensorProto.FLOAT, [])],
        )
        path = self.folder / "det.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
        result = command("check", str(path), "--platform", "tile32")
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 of 2 nodes are supported", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^first +Relu +supported$")
        self.assertRegex(result.stdout, r"(?m)^second +Det +not supported: \S")

    def test_rows(self) -> None:
        """Absorbed nodes have a row that points to their operation; bounds are below what was needed."""
        out = self.folder / "rows"
        result = command("run", str(self.program), "--fill", "random:1", "-o", str(out))
        self.assertRegex(result.stdout, r"bound +at least\n.*(array|vector|dma|dram) +[0-9,]+\n")
        self.assertGreater(cycles(out), 0)
        found = rows(out)
        self.assertEqual(found["relu1"]["fused_into"], "conv1")
        for name, row in found.items():
            if row["fused_into"]:
                self.assertIn(row["fused_into"], found)
                self.assertEqual(
                    (row["charged_cycles"], row["span_cycles"], row["macs"]), ("0", "0", "0"), name
                )
            elif row["macs"] != "0":
                self.assertGreater(int(row["bound_cycles"]), 0, name)
                self.assertLess(int(row["bound_cycles"]), 1.15 * int(row["charged_cycles"]), name)

    def test_target(self) -> None:
        """A program runs where it was compiled for, whatever the rates; elsewhere when asked and legal."""
        run = ["run", str(self.program), "--fill", "zeros", "--quiet"]
        for rate in ("ddr.channels=1", "clock.core_mhz=700", "engine.vector.lanes=8"):
            done(*run, "--set", rate)
        for change in ("--platform=tile32", "--set=engine.array.rows=32", "--set=l2.size_bytes=4194304"):
            for verb in (run, ["check", str(self.program)]):
                result = command(*verb, change)
                self.assertEqual(result.returncode, 1, change)
                self.assertRegex(
                    result.stderr + result.stdout,
                    r"compiled for `swkpu-v1`.*Fix: .*--retarget to run",
                )
            done(*run, change, "--retarget")
            done("check", str(self.program), change, "--retarget")
        result = command(*run, "--set", "l1.size_bytes=1024", "--retarget")
        self.assertEqual(result.returncode, 1, "what is not legal is refused all the same")


def product(factors: dict[str, int]) -> onnx.GraphProto:
    """MatMul of [m,k] by constant [k,n]."""
    m, k, n = (factors[axis] for axis in "mkn")
    return graph_of("MatMul", (m, k), np.ones((k, n), np.float32), (m, n))


def convolution(sizes: dict[str, int]) -> onnx.GraphProto:
    """Return a convolution 3 x 3 whose output has the size of its input."""
    weights = np.ones((sizes["o"], sizes["c"], 3, 3), np.float32)
    y, x = sizes["y"], sizes["x"]
    return graph_of("Conv", (1, sizes["c"], y, x), weights, (1, sizes["o"], y, x), pads=[1, 1, 1, 1])


def graph_of(
    kind: str,
    shape: tuple[int, ...],
    weights: NDArray[np.float32],
    result: tuple[int, ...],
    **attributes: object,
) -> onnx.GraphProto:
    """Return one operator with constant weights."""
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(kind, ["in", "w"], ["out"], "op", **attributes)
    ports = [value("in", onnx.TensorProto.FLOAT, shape)], [value("out", onnx.TensorProto.FLOAT, result)]
    return onnx.helper.make_graph([node], "g", *ports, [onnx.numpy_helper.from_array(weights, "w")])


class Tiles(Folder):
    """Tile sizes, buffers and prefetching of an operation are what its program does."""

    def program_of(self, graph: onnx.GraphProto) -> str:
        """Compiled for swkpu-v1 in int8, as text."""
        model, program = self.folder / "op.onnx", self.folder / "op.kpu"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), model)
        given = ["--precision", "int8", "--calibrate", "random:1", "--force"]
        done("compile", str(model), *given, "-o", str(program))
        return done("disasm", str(program))

    def test_sizes(self) -> None:
        """Sizes that fit L1, that fit L2, and that stream from DRAM: a product and a convolution."""
        cases = [
            (product, {"m": 4, "k": 16, "n": 16}),
            (product, {"m": 512, "k": 512, "n": 512}),
            (product, {"m": 2048, "k": 2048, "n": 2048}),
            (convolution, {"y": 4, "x": 4, "o": 4, "c": 4}),
            (convolution, {"y": 56, "x": 56, "o": 64, "c": 64}),
            (convolution, {"y": 112, "x": 112, "o": 128, "c": 128}),
        ]
        for make, extents in cases:
            with self.subTest(operator=make.__name__, **extents):
                self.compare(self.program_of(make(extents)), extents)

    def compare(self, text: str, extents: dict[str, int]) -> None:
        """Counts the products of the program, and the iterations in flight."""
        (line,) = (line for line in text.splitlines() if line.startswith('#! op {"id":"op"'))
        tiling = json.loads(line[len("#! op ") :])["tiling"]
        tiles = {item["name"]: int(item["value"]) for item in tiling["tile_size"]}
        products, trips, windows = 0, [1], {1}
        for statement in map(str.strip, text.splitlines()):
            if loop := re.match(r"loop \w+ in \[(\d+)\.\.(\d+)\](?: @max_in_flight\((\d+)\))?", statement):
                trips.append(trips[-1] * (int(loop[2]) - int(loop[1]) + 1))
                windows.add(int(loop[3] or 1))
            elif statement == "endloop":
                trips.pop()
            elif re.match(r"(\w+ = )?(gemm|matmul|conv2d)(\.acc)?\.async", statement):
                products += trips[-1]
        wanted = math.prod(-(-extent // tiles.get(axis, 1)) for axis, extent in extents.items())
        self.assertEqual(products, wanted, tiling)
        self.assertEqual(tiling.get("double_buffer", False), max(windows) > 1, tiling)
        ahead = tiling.get("prefetch_distance", 0)
        self.assertEqual(ahead == 0, wanted == 1, tiling)
        self.assertGreaterEqual(ahead, max(windows) - 1)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
