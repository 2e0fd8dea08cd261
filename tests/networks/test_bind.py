"""Inputs that decide structure: as constants (--bind), in branches that are both computed, as sizes (--dim).

usage: test_bind.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import genai_layers
import numpy as np
import onnx
import onnxruntime
import test_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from test_networks import Folder, command

node = helper.make_node
info = helper.make_tensor_value_info
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: tuple[str, ...] = ("y",),
    **constants: object,
) -> onnx.ModelProto:
    """Return a model; shapes of its outputs are left to whoever reads it."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    values = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, values, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def branch(result: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    """Return a branch of an If with one result."""
    return helper.make_graph(list(nodes), result, [], [onnx.ValueInfoProto(name=result)])


class Models(Folder):
    """Models in f32 on one device."""

    def run_model(
        self, made: onnx.ModelProto, inputs: dict[str, NDArray[Any]], *options: str
    ) -> tuple[subprocess.CompletedProcess[str], Path]:
        """Return what the command says of it, and where the results are."""
        path, out = self.folder / "model.onnx", self.folder / "out"
        onnx.save(made, path)
        given = []
        for number, (name, array) in enumerate(inputs.items()):
            np.save(self.folder / f"{number}.npy", array)
            given += ["--input", f"{name}={self.folder / f'{number}.npy'}"]
        device = ["--platform", "tile32", "--precision", "f32", "--quiet", "-o", str(out), "--force"]
        return command("run", str(path), *device, *given, *options), out

    def equal(
        self, made: onnx.ModelProto, inputs: dict[str, Any], bound: dict[str, Any], *options: str
    ) -> str:
        """The values of ONNX Runtime, which gets what is bound as inputs; what the command says beside."""
        all_inputs = {name: np.asarray(value) for name, value in {**inputs, **bound}.items()}
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        want = session.run(None, all_inputs)
        result, out = self.run_model(made, inputs, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        for spec, array in zip(made.graph.output, want, strict=True):
            got = np.load(out / "outputs" / f"{spec.name}.npy")
            self.assertEqual(got.shape, array.shape)
            np.testing.assert_allclose(got, array, rtol=0, atol=1e-5 * max(1.0, np.abs(array).max()))
        return result.stderr

    def refused(self, made: onnx.ModelProto, options: list[str], *texts: str) -> None:
        """One error with these texts and a fix."""
        result, _ = self.run_model(made, {}, "--fill", "zeros", *options)
        self.assertEqual(result.returncode, 1, result.stderr)
        for text in ("error: ", "Fix: ", *texts):
            self.assertIn(text, result.stderr)


class Bind(Models):
    """A bound input is a constant, and no input any more."""

    def test_sizes(self) -> None:
        """Sizes of Reshape, Resize, Split, Range, Expand and TopK are bound as numbers, lists and files."""
        x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
        picture = info("x", FLOAT, [1, 2, 3, 4])
        sizes = np.array([1, 2, 6, 8])
        resize = model(
            [node("Resize", ["x", "", "", "s"], ["y"], mode="nearest")], [picture, info("s", INT64, [4])]
        )
        self.equal(resize, {"x": x}, {"s": sizes}, "--bind", "s=[1,2,6,8]")
        np.save(self.folder / "sizes.npy", sizes)
        self.equal(resize, {"x": x}, {"s": sizes}, "--bind", f"s={self.folder / 'sizes.npy'}")
        split = model(
            [node("Split", ["x", "s"], ["y", "z"], axis=3)], [picture, info("s", INT64, [2])], ("y", "z")
        )
        self.equal(split, {"x": x}, {"s": np.array([1, 3])}, "--bind", "s=[1,3]")
        top = model([node("TopK", ["x", "k"], ["y", "i"])], [picture, info("k", INT64, [1])], ("y", "i"))
        # one number is all there is to say of an input of one element
        self.equal(top, {"x": x}, {"k": np.array([2])}, "--bind", "k=2")
        scales = model(
            [node("Resize", ["x", "", "s"], ["y"], mode="linear")], [picture, info("s", FLOAT, [4])]
        )
        self.equal(scales, {"x": x}, {"s": np.array([1, 1, 2, 1.5], np.float32)}, "--bind", "s=[1,1,2,1.5]")

    def test_trip_counts(self) -> None:
        """A Loop runs as often as its bound input says."""
        values = [info("i", INT64, []), info("go", BOOL, []), info("s", FLOAT, [3])]
        body = helper.make_graph(
            [node("Add", ["s", "s"], ["t"])], "body", values, [info("go", BOOL, []), info("t", FLOAT, [3])]
        )
        loop = model(
            [node("Loop", ["n", "", "x"], ["y"], body=body)], [info("x", FLOAT, [3]), info("n", INT64, [])]
        )
        x = np.array([1, -2, 3], np.float32)
        self.equal(loop, {"x": x}, {"n": np.array(5)}, "--bind", "n=5")
        self.refused(loop, [], "its trip counts are not constant", "--bind n=VALUE")

    def test_values_of_all_types(self) -> None:
        """Bound inputs may be data as well: of each type, with dynamic dimensions, by file and by list."""
        for dtype in (np.float32, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            made = model(
                [node("Cast", ["k"], ["f"], to=FLOAT), node("Mul", ["x", "f"], ["y"])],
                [info("x", FLOAT, [2, 3]), info("k", kind, ["n", "?"])],
            )
            k = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
            x = np.arange(6, dtype=np.float32).reshape(2, 3)
            np.save(self.folder / "k.npy", k)
            self.equal(made, {"x": x}, {"k": k}, "--bind", f"k={self.folder / 'k.npy'}", "--dim", "n=2")
            text = str(k.tolist()).replace("True", "true").replace("False", "false")
            self.equal(made, {"x": x}, {"k": k}, "--bind", f"k={text}", "--dim", "k.1=3")

    def test_refused(self) -> None:
        """Unknown inputs, other types and shapes: with the names of the inputs."""
        made = model([node("Mul", ["x", "k"], ["y"])], [info("x", INT64, [2, "n"]), info("k", INT64, [2, 1])])
        inputs = "there are `x` int64 [2,?], `k` int64 [2,1]"
        np.save(self.folder / "f.npy", np.ones((2, 1), np.float32))
        for value, text in {
            "nothing=1": "--bind nothing: the model has no such input",
            "k=[[1],[2.5]]": "2.5 is not int64",
            "k=[[true],[1]]": "true is not int64",
            "k=[1,2]": "its shape is [2]",
            "k=1": "its shape is []",
            "k=[[1],[2,3]]": "its lists are not all of one length",
            "k=large": "that is not a number, true, false, list of them, or .npy file",
            "k=[[1],[9223372036854775808]]": "int64 does not hold 9223372036854775808",
            f"k={self.folder / 'f.npy'}": "the file holds `<f4`, which is not int64",
        }.items():
            self.refused(made, ["--bind", value], text, inputs)
        self.refused(made, ["--bind", f"k={self.folder / 'none.npy'}"], "none.npy", "cannot read")
        self.refused(made, ["--bind", "k"], "--bind takes NAME=VALUE, not `k`")
        self.refused(made, ["--bind", "k=1", "--bind", "k=2"], "--bind gives `k` two values")
        self.refused(made, ["--bind", "x=[[1],[2]]", "--dim", "n=3"], "its shape is [2,1]")


class Branches(Models):
    """An If whose condition is computed: both branches are, and one result is chosen."""

    def chosen(self, *, sort: str = "Neg", axes: int = 0) -> onnx.ModelProto:
        """Relu where the rate is 16000, else another operator."""
        make = node(sort, ["x"], ["e"], axis=axes) if sort == "Softmax" else node(sort, ["x"], ["e"])
        return model(
            [
                node("Equal", ["rate", "k"], ["c"]),
                node(
                    "If",
                    ["c"],
                    ["y"],
                    "choice",
                    then_branch=branch("t", node("Relu", ["x"], ["t"])),
                    else_branch=branch("e", make),
                ),
            ],
            [info("x", FLOAT, [2, 3]), info("rate", INT64, [])],
            k=np.array(16000),
        )

    def test_selected(self) -> None:
        """An input selects, in both ways: what it costs is told, and nothing where it is bound."""
        x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
        for rate in (16000, 8000):
            said = self.equal(self.chosen(), {"x": x, "rate": np.array(rate)}, {})
            self.assertIn("`choice` (If): its condition is computed from `rate`, so both branches are", said)
            self.assertIn("1 operation (0 multiply-accumulates) in its then_branch", said)
            self.assertIn("--bind rate=VALUE", said)
            said = self.equal(self.chosen(sort="Softmax"), {"x": x}, {"rate": rate}, "--bind", f"rate={rate}")
            self.assertNotIn("both", said)

    def test_computed(self) -> None:
        """Values that the network computes select, within a chosen branch; some results are equal in both."""
        inner = node(
            "If", ["small"], ["t"],
            then_branch=branch("a", node("Abs", ["x"], ["a"])),
            else_branch=branch("b", node("MatMul", ["x", "w"], ["b"])),
        )  # fmt: skip
        outer = helper.make_graph(
            [inner, node("Identity", ["shape"], ["s1"])],
            "then",
            [],
            [onnx.ValueInfoProto(name=n) for n in ("t", "s1")],
        )
        other = helper.make_graph(
            [node("Neg", ["x"], ["e"]), node("Identity", ["shape"], ["s2"])],
            "else",
            [],
            [onnx.ValueInfoProto(name=n) for n in ("e", "s2")],
        )
        made = model(
            [
                node("ReduceSum", ["x"], ["sum"], keepdims=0),
                node("Greater", ["sum", "zero"], ["large"]),
                node("ReduceMin", ["x"], ["min"], keepdims=0),
                node("Less", ["min", "zero"], ["small"]),
                node("If", ["large"], ["z", "target"], then_branch=outer, else_branch=other),
                node("Reshape", ["z", "target"], ["y"]),  # the target is known, whichever branch it is
            ],
            [info("x", FLOAT, [3, 3])],
            zero=np.float32(0),
            w=np.arange(9, dtype=np.float32).reshape(3, 3),
            shape=np.array([9]),
        )
        eye = np.eye(3, dtype=np.float32)
        for x in (eye, eye - 0.1, -eye):
            self.assertIn("9 multiply-accumulates".replace("9", "27"), self.equal(made, {"x": x}, {}))

    def test_refused(self) -> None:
        """Results of unlike shape or type, and branches that cannot be computed, by name and with the fix."""
        fix = "--bind rate=VALUE"
        self.refused(
            self.chosen(sort="ReduceSum"), [], "output `y` is [2,3] in one branch and [1,1] in the other", fix
        )
        self.refused(
            self.chosen(sort="IsNaN"), [], "output `y` is float in one branch and bool in the other", fix
        )
        self.refused(
            self.chosen(sort="Shape"), [], "output `y` is float in one branch and int64 in the other", fix
        )
        self.refused(self.chosen(sort="Det"), [], "of its else_branch cannot be imported", "(Det)", fix)
        x = np.ones((2, 3), np.float32)
        self.equal(self.chosen(sort="ReduceSum"), {"x": x}, {"rate": 8000}, "--bind", "rate=8000")


class Dimensions(Models):
    """--dim NAME=N and --dim INPUT.AXIS=N."""

    def test_places(self) -> None:
        """Each dimension by its place, whatever its name; both forms beside each other; fixed ones too."""
        made = model(
            [node("Add", ["x", "z"], ["y"])],
            [info("x", FLOAT, ["?", "?", "n", 2]), info("z", FLOAT, ["n", None])],
        )
        x, z = np.ones((3, 4, 5, 2), np.float32), np.arange(10, dtype=np.float32).reshape(5, 2)
        sizes = ["--dim", "x.0=3", "--dim", "x.1=4", "--dim", "n=5", "--dim", "z.1=2", "--dim", "x.3=2"]
        self.assertEqual(self.equal(made, {"x": x, "z": z}, {}, *sizes), "")
        same = [*sizes, "--dim", "z.0=5"]
        self.assertEqual(self.equal(made, {"x": x, "z": z}, {}, *same), "")

    def test_batch(self) -> None:
        """It is the first dimension alone where others have its name, and goes with places of others."""
        made = model([node("Relu", ["x"], ["y"])], [info("x", FLOAT, ["?", "?", "?"])])
        x = np.ones((4, 2, 3), np.float32) - 2
        self.assertEqual(
            self.equal(made, {"x": x}, {}, "--batch", "4", "--dim", "x.1=2", "--dim", "x.2=3"), ""
        )

    def test_layers_share_masks(self) -> None:
        """Two layers of a decoder with one mask: it is computed once, as are the angles of their rows."""
        made = genai_layers.Builder(genai_layers.FAMILIES["llama"], False, 1).model()
        onnx.save(made, self.folder / "model.onnx")
        sizes = [word for size in ("rows=2", "total=16", "past=16") for word in ("--dim", size)]
        device = ["--platform", "tile32", "--precision", "f32", "-o", str(self.folder / "p.kpu")]
        result = command(
            "compile", str(self.folder / "model.onnx"), *device, *sizes, "--print-after", "simplify"
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        graph = (result.stdout + result.stderr).split("after simplify")[-1]
        for opcode, count in (("softmax", 2), ("less_equal", 1), ("gather(%cos_cache", 1)):
            self.assertEqual(graph.count(f"= {opcode}"), count, opcode)

    def test_past_without_rows(self) -> None:
        """The rows of a past may be none; a batch may not."""
        x, past = info("x", FLOAT, [1, "n", 2]), info("past", FLOAT, [1, "p", 2])
        made = model([node("Concat", ["past", "x"], ["z"], axis=1), node("Relu", ["z"], ["y"])], [x, past])
        for rows in (0, 3):
            arrays = {"x": np.ones((1, 4, 2), np.float32), "past": np.ones((1, rows, 2), np.float32)}
            self.equal(made, arrays, {}, "--dim", "n=4", "--dim", f"p={rows}")

    def test_refused(self) -> None:
        """Contradictions; unknown inputs and axes, with what there is."""
        made = model([node("Relu", ["x"], ["y"])], [info("x", FLOAT, ["?", "n", 2])])
        there = "use one of x.0 (`?`), x.1 (`n`)"
        for sizes, *texts in (
            (["n=2", "x.1=3"], "dimension 1 of `x` two sizes: x.1=3 and n=2"),
            (["n=2", "n=3"], "--dim gives `n` two sizes: 2 and 3"),
            (["x.2=3"], "the model fixes that dimension to 2"),
            (["x.3=1"], "no input has such a dimension", there),
            (["z.0=1"], "no input has such a dimension", there),
            (["m=1"], "no input has such a dimension", there),
            (["x.0=0"], "x.0=0 must be at least 1"),
        ):
            self.refused(made, [text for size in sizes for text in ("--dim", size)], *texts)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
