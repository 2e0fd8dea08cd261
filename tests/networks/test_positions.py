"""One program for all positions: values, what generates, and what is refused.

usage: test_positions.py KPUSIM
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import genai_layers
import numpy as np
import onnx
import onnxruntime
from genai_layers import Array, Builder, empty_cache, next_cache
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

KPUSIM = ""
ROWS, SIZE, GROUPS, HEADS = 12, 8, 2, 4
MASK = ("--bind", "attention_mask=upto(position)")


def scattered(rows: int, masked: bool) -> onnx.ModelProto:
    """Keys and values of new rows, written into caches that attention reads."""
    info = helper.make_tensor_value_info
    inputs = [
        info("q", TensorProto.FLOAT, [1, HEADS, rows, SIZE]),
        *(info(name, TensorProto.FLOAT, [1, GROUPS, rows, SIZE]) for name in ("k", "v")),
        *(info(f"past.{name}", TensorProto.FLOAT, [1, GROUPS, ROWS, SIZE]) for name in ("k", "v")),
        info("at", TensorProto.INT64, [1]),
        info("valid", TensorProto.INT64, [1]),
        *([info("mask", TensorProto.FLOAT, [rows, ROWS])] if masked else []),
    ]
    nodes = [
        helper.make_node("TensorScatter", [f"past.{name}", name, "at"], [f"present.{name}"], axis=2)
        for name in ("k", "v")
    ]
    operands = ["q", "present.k", "present.v", "mask" if masked else "", "", "", "valid"]
    nodes.append(helper.make_node("Attention", operands, ["y"], is_causal=1))
    outputs = [info("y", TensorProto.FLOAT, None)]
    outputs += [info(f"present.{name}", TensorProto.FLOAT, [1, GROUPS, ROWS, SIZE]) for name in ("k", "v")]
    graph = helper.make_graph(nodes, "scattered", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


class Positions(unittest.TestCase):
    """Models of a few rows."""

    def setUp(self) -> None:
        """A folder, and a decoder in GenAI's form."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.decoder = self.folder / "decoder.onnx"
        onnx.save(Builder(genai_layers.FAMILIES["llama"], False, 7).model(), self.decoder)

    def command(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command of kpusim."""
        words = [KPUSIM, *map(str, arguments)]
        return subprocess.run(words, check=False, capture_output=True, text=True)

    def done(self, *arguments: object) -> str:
        """Return what it prints, without an error."""
        result = self.command(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, text: str, *arguments: object) -> None:
        """One error with a fix."""
        result = self.command(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(text, result.stderr)
        self.assertIn("Fix: ", result.stderr)

    def compiled(self, model: Path, *options: object) -> Path:
        """Return its program."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.kpu"
        self.done("compile", model, "--platform", "tile32", "--precision", "f32", *options, "-o", path)
        return path

    def saved(self, arrays: dict[str, Array]) -> list[str]:
        """Return the options that give them."""
        words = []
        for name, array in arrays.items():
            path = self.folder / f"{name}.npy"
            np.save(path, array)
            words += ["--input", f"{name}={path}"]
        return words

    def of_decoder(self, rows: int, *more: object) -> tuple[object, ...]:
        """Return the options for so many new rows."""
        most = genai_layers.MOST
        dims = ("--dim", f"rows={rows}", "--dim", f"total={most}", "--dim", f"past={most}")
        mask = ("--bind", f"attention_mask=upto(position+{rows - 1})")
        return *dims, "--positions", f"{most - rows + 1}:4", *mask, *more

    def test_attention_reads_what_is_scattered(self) -> None:
        """Attention reads what is scattered at each position, as ONNX has it; later rows are never read."""
        rng = np.random.default_rng(3)
        for rows, masked in ((1, False), (3, True)):
            model = scattered(rows, masked)
            path = self.folder / f"scattered{rows}.onnx"
            onnx.save(model, path)
            binds = ("--bind", "at=position", "--bind", f"valid=position+{rows}")
            program = self.compiled(path, "--positions", f"{ROWS - rows + 1}:5", *binds)
            for position in (0, 1, 4, 5, ROWS - rows):
                shapes = {"q": HEADS, "k": GROUPS, "v": GROUPS}
                given: dict[str, Array] = {
                    name: rng.standard_normal((1, heads, rows, SIZE)).astype(np.float32)
                    for name, heads in shapes.items()
                }
                for name in ("k", "v"):
                    past = rng.standard_normal((1, GROUPS, ROWS, SIZE)).astype(np.float32)
                    given[f"past.{name}"] = past
                if masked:
                    given["mask"] = rng.standard_normal((rows, ROWS)).astype(np.float32)
                at = {"at": np.array([position]), "valid": np.array([position + rows])}
                names = [output.name for output in model.graph.output]
                wanted = dict(zip(names, ReferenceEvaluator(model).run(names, given | at), strict=True))
                out = self.folder / "out"
                place = ("--param", f"position={position}", "--strict", "--quiet", "--force")
                self.done("run", program, *self.saved(given), *place, "-o", out)
                for name, array in wanted.items():
                    got = np.load(out / "outputs" / f"{name}.npy")
                    np.testing.assert_allclose(got, array, rtol=0, atol=2e-6, err_msg=f"{name} at {position}")

    def test_generated_tokens(self) -> None:
        """A prompt and steps, each on what the one before left, give the tokens that ONNX Runtime gives."""
        session = onnxruntime.InferenceSession(self.decoder)
        names = [output.name for output in session.get_outputs()]
        ids = prompt = np.array([[3, 14, 15, 9, 2]])
        past, wanted, seen = empty_cache("buffer"), [], 0
        empty = {f"past_key_values.{name}": array for name, array in past.items()}
        for _ in range(8):
            seen += ids.shape[1]
            mask = (np.arange(genai_layers.MOST) < seen).astype(np.int64)[None]
            given = {f"past_key_values.{name}": array for name, array in past.items()}
            made = session.run(names, given | {"input_ids": ids, "attention_mask": mask})
            outputs = dict(zip(names, made, strict=True))
            past = next_cache(outputs)
            wanted.append(int(outputs["logits"][0, -1].argmax()))
            ids = np.array([[wanted[-1]]])
        step = self.compiled(self.decoder, *self.of_decoder(1))
        checked = self.done("check", step, "--platform", "tile32", "--param", "position=3", "--strict")
        self.assertNotIn("warning", checked)
        first = self.compiled(self.decoder, *self.of_decoder(5))
        chain = ("--param", "position=5", "--generate", "7")
        inputs = self.saved(empty | {"input_ids": prompt})
        text = self.done("run", step, *chain, "--prompt", first, "--next", "input_ids=logits", *inputs)
        lines = text.splitlines()
        self.assertEqual(lines[-1], "next: " + " ".join(map(str, wanted)))
        self.assertEqual([line.split()[0] for line in lines[1:9]], ["prompt", *map(str, range(5, 12))])
        timed = self.done("run", step, *chain, "--mode", "timing").splitlines()
        self.assertEqual(timed[1:8], lines[2:9])

        self.assertEqual(self.done("run", step, *chain, "--mode", "timing", "--quiet"), "")
        rows = json.loads(self.done("run", step, *chain, "--mode", "timing", "--json"))["steps"]
        self.assertEqual([str(row["cycles"]) for row in rows], [line.split()[1] for line in timed[1:8]])

        # what leaves the cache, and what no run of several steps has
        full = ("--param", "position=10", "--generate", "7", "--mode", "timing")
        self.refused("the cache would be full", "run", step, *full)
        self.refused("add --param position", "run", step, "--generate", "2", "--mode", "timing")
        self.refused("--generate has no -o", "run", step, *chain, "-o", self.folder / "o")
        self.refused("--generate N", "run", step, "--next", "a=b")
        self.refused(
            "`nothing` is not a known output",
            "run",
            step,
            *chain,
            "--fill",
            "zeros",
            "--next",
            "input_ids=nothing",
        )
        self.refused("holds no integers", "run", step, *chain, "--fill", "zeros", "--next",
                     "past_key_values.0.key=logits")  # fmt: skip
        self.refused("parameter `position` is 16", "run", step, "--mode", "timing", "--param", "position=16")
        self.refused("parameter `position` is -1", "run", step, "--mode", "timing", "--param", "position=-1")
        mask = self.saved({"attention_mask": np.ones((1, genai_layers.MOST), np.int64)})
        self.refused("follows from the parameter", "run", step, "--fill", "zeros", *mask)
        alone = self.compiled(self.decoder, "--dim", "total=1")
        self.refused("compile the model with --positions", "run", alone, *chain, "--mode", "timing")

    def test_tokens_of_doubles(self) -> None:
        """Logits of float64 give the tokens that those of float32 give."""
        model = onnx.load(self.decoder)
        model.graph.node.append(helper.make_node("Cast", ["logits"], ["wide"], to=TensorProto.DOUBLE))
        model.graph.output.append(
            helper.make_tensor_value_info("wide", TensorProto.DOUBLE, [1, "rows", genai_layers.WORDS])
        )
        path = self.folder / "doubles.onnx"
        onnx.save(model, path)
        step = self.compiled(path, *self.of_decoder(1))
        inputs = self.saved(
            {f"past_key_values.{name}": array for name, array in empty_cache("buffer").items()}
            | {"input_ids": np.array([[7]])}
        )
        chain = ("--param", "position=0", "--generate", "5", *inputs)
        said = [
            self.done("run", step, *chain, "--next", f"input_ids={name}").splitlines()[-1]
            for name in ("logits", "wide")
        ]
        self.assertEqual(said[0], said[1])
        self.assertEqual(len(said[0].split()), 6)

    def test_text(self) -> None:
        """A graph that was printed on the way makes the same program."""
        text = self.folder / "graph.txt"
        words = ("compile", self.decoder, "--platform", "tile32", "--precision", "f32", *self.of_decoder(1))
        for passed in ("simplify", "order"):
            printed = ("--print-after", passed, "--print-graph", text, "--force")
            whole = self.folder / f"{passed}.kpu"
            self.done(*words, *printed, "-o", whole)
            self.assertIn("positions 16 step 4 rows 1", text.read_text())
            again = self.compiled(text)
            for position in (0, 9):
                place = ("--mode", "timing", "--param", f"position={position}", "--json")
                runs = [json.loads(self.done("run", path, *place))["stats"] for path in (whole, again)]
                self.assertEqual(runs[0]["cycles.total"], runs[1]["cycles.total"])

    def test_what_does_not_follow(self) -> None:
        """Inputs that say no position, or another one; types, numbers and models that do not fit."""
        dims = self.of_decoder(1)[:6]

        def bad(text: str, *options: object) -> None:
            out = ("--platform", "tile32", "-o", self.folder / "bad.kpu")
            self.refused(text, "compile", self.decoder, *dims, *options, *out)

        bad("does not follow from the position", "--positions", 16)
        bad("begin at 1, not 0", "--positions", 15, "--bind", "attention_mask=upto(position+1)")
        bad("16 positions for 1 new rows", "--positions", 17, *MASK)
        bad("say how many there are", *MASK)
        bad("no precision that is calibrated", "--positions", 16, *MASK, "--precision", "int8", "--calibrate",
            "random:1")  # fmt: skip
        for number in ("0", "16:0", "x", "16:", "1000000:1", "-3", "99999999999999999999"):
            bad(f"--positions {number}", "--positions", number, *MASK)
        plain = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "plain",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
        )
        path = self.folder / "plain.onnx"
        onnx.save(helper.make_model(plain, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        self.refused("no node has a cache", "compile", path, "--platform", "tile32", "--positions", "4", "-o",
                     self.folder / "bad.kpu")  # fmt: skip


if __name__ == "__main__":
    KPUSIM = sys.argv.pop(1)
    unittest.main()
