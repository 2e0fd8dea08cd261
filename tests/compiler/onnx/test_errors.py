"""Files that are wrong: each is refused by a text that says what, where, and the fix.

usage: test_errors.py GRAPH_RUN
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto as Model
from onnx import TensorProto, external_data_helper, helper, numpy_helper

TOOL = ""


def model(
    nodes: list[onnx.NodeProto],
    tensors: list[TensorProto] | None = None,
    opset: int = 17,
    shape: list[int | str | None] | None = None,
    type_: int = TensorProto.FLOAT,
    outputs: tuple[str, ...] = ("y",),
) -> Model:
    """Return a model with one input x [2, 3]."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", type_, [2, 3] if shape is None else shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        tensors or [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def relu(x: str = "x", y: str = "y", name: str = "") -> onnx.NodeProto:
    """Return the simplest node."""
    return helper.make_node("Relu", [x], [y], name=name)


def weight(shape: list[int], name: str = "w") -> TensorProto:
    """Return a constant of ones."""
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


class Errors(unittest.TestCase):
    """Each test writes one file and reads what the importer says."""

    def setUp(self) -> None:
        """A folder for the model."""
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "model"
        self.folder.mkdir()

    def tearDown(self) -> None:
        """Nothing stays."""
        self.scratch.cleanup()

    def said(self, content: Model | bytes, *options: str) -> str:
        """Return what the importer says of a file; no file remains."""
        data = content if isinstance(content, bytes) else content.SerializeToString()
        (self.folder / "model.onnx").write_bytes(data)
        subprocess.run([TOOL, *options, str(self.folder)], check=True, timeout=60)
        self.assertFalse((self.folder / "out").exists())
        return (self.folder / "error.txt").read_text()

    def expect(self, content: Model | bytes, *texts: str) -> None:
        """The text holds all of these, and a fix."""
        said = self.said(content)
        for text in (*texts, "Fix: ", "model.onnx: error: "):
            self.assertIn(text, said)

    def test_no_model(self) -> None:
        """Files of other kinds."""
        self.expect(b"", "the file is empty")
        self.expect(pickle.dumps({"a": 1}), "Python pickle")
        self.expect(b"PK\3\4rest of an archive", "zip archive")
        self.expect(b"\x7fELF no model at all", "not an ONNX model")
        self.expect(Model(), "empty")
        self.expect(
            model([relu("x", "zzzz"), relu("zzzz", "y")]).SerializeToString().replace(b"zzzz", b"z\xffz\xfe"),
            "not UTF-8",
        )
        self.expect(Model(ir_version=9), "no graph")

    def test_truncated(self) -> None:
        """Every length of a file is refused, or a smaller model: no crash."""
        data = model([relu("x", "h"), relu("h", "y")], [weight([4])]).SerializeToString()
        for size in range(1, len(data), 3):
            self.assertIn("Fix: ", self.said(data[:size]))

    def test_claims(self) -> None:
        """Sizes that the file does not have."""
        node = helper.make_node("Add", ["x", "w"], ["y"])
        tensor = weight([3])
        tensor.dims[0] = 1 << 39
        self.expect(model([node], [tensor]), "`w`", "needs 2199023255552 bytes, the file has 12")
        tensor.dims.extend([1 << 62])
        self.expect(model([node], [tensor]), "claims more than")
        tensor.dims[1] = -1
        self.expect(model([node], [tensor]), "dimension of -1")
        self.expect(model([relu()], shape=[1 << 40, 1 << 40]), "fit a memory")
        huge = numpy_helper.from_array(np.array([1 << 40, 1 << 40], np.int64), "s")
        self.expect(model([helper.make_node("Expand", ["x", "s"], ["y"])], [huge]), "do not broadcast")
        self.expect(
            model([helper.make_node("ConstantOfShape", ["s"], ["y"])], [huge]), "elements are more than"
        )

    def test_absent_bytes(self) -> None:
        """Tensors without any bytes, of sizes that would be made up for."""
        tensor = weight([3])
        tensor.raw_data = b""
        node = helper.make_node("Add", ["x", "w"], ["y"])
        self.expect(model([node], [tensor]), "`w`: the file has none of its bytes")
        tensor.ClearField("raw_data")
        self.expect(model([node], [tensor]), "`w`: the file has none of its bytes")
        tensor.dims[0] = 1 << 39
        self.expect(
            model([node], [tensor]), "`w`", "has 2199023255552 bytes, and the file has none of its bytes"
        )

    def test_graph(self) -> None:
        """Graphs that are none."""
        self.expect(model([]), "the graph is empty")
        self.expect(model([relu("y", "h", "first"), relu("h", "y")]), "cycle", "`first`")
        self.expect(model([relu("h", "y", "n")]), "node `n` (Relu): it reads `h`, which nothing makes")
        self.expect(model([relu("x", "h")]), "output `y` is never made")
        self.expect(model([relu(), relu()]), "`y` is made twice")
        self.expect(model([relu("x", "x")]), "`x` is made twice")
        self.expect(model([relu()], outputs=("y", "y")), "`y` is an output twice")
        self.expect(model([relu()], [weight([1], "w"), weight([1], "w")]), "`w` is made twice")

    def test_shapes(self) -> None:
        """Operands that do not fit together."""
        self.expect(
            model([helper.make_node("Add", ["x", "w"], ["y"])], [weight([4])]), "do not broadcast", "(Add)"
        )
        self.expect(
            model([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight([4, 4])]), "do not fit", "(MatMul)"
        )
        conv = helper.make_node("Conv", ["x", "w"], ["y"])
        self.expect(model([conv], [weight([1, 2, 3, 3])], shape=[1, 3, 8, 8]), "weights [1,2,3,3] do not fit")
        self.expect(model([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0])]), "not a permutation")

    def test_types(self) -> None:
        """Types are refused by name."""
        self.expect(model([relu()], type_=TensorProto.COMPLEX64), "input `x` has type complex64")
        self.expect(model([relu()], type_=TensorProto.STRING), "type string")
        self.expect(model([relu()], shape=[1] * 7), "7 dimensions")
        far = numpy_helper.from_array(np.array([1 << 40], np.int64), "w")
        node = helper.make_node("Add", ["x", "w"], ["y"])
        self.expect(model([node], [far], type_=TensorProto.INT64), "1099511627776 does not fit into int32")
        all_ones = numpy_helper.from_array(np.array([2**64 - 1], np.uint64), "w")
        self.expect(
            model([node], [all_ones], type_=TensorProto.UINT64),
            "the uint64 constant 18446744073709551615 does not fit into int32",
        )
        self.expect(
            model([helper.make_node("BitwiseNot", ["x"], ["y"])], opset=18, type_=TensorProto.UINT64),
            "its result has 64 bits",
        )

    def test_declared_shapes(self) -> None:
        """An output with another shape than the nodes make; unknown dimensions fit any size."""
        for shape, text in {(2, 4): "[2,4]", (2,): "[2]", ("n", 4): "[n,4]", (2, 3, 1): "[2,3,1]"}.items():
            wrong = model([relu()])
            wrong.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
            self.expect(wrong, f"output `y` is declared {text}, the nodes make [2,3]")
        open_ = model([relu()])
        open_.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, "n", 5)))
        self.assertNotIn("declared", self.said(open_))  # a warning: what is said next is of another thing
        scales = numpy_helper.from_array(np.array([1, 0.7], np.float32), "s")
        wrong = model([helper.make_node("Resize", ["x", "", "s"], ["y"])], [scales], shape=[1, 20])
        wrong.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 13]))
        self.expect(wrong, "output `y` is declared [1,13], the nodes make [1,14]")

    def test_empty_tensors(self) -> None:
        """Operators that have no meaning, or no rule, without elements."""
        arg_max = helper.make_node("ArgMax", ["x"], ["y"], axis=0)
        self.expect(model([arg_max], shape=[0, 3]), "opcode argmax of a tensor without elements")
        pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1])
        self.expect(model([pool], shape=[1, 0, 2, 2]), "a tensor [1,0,2,2] without elements is not taken")

    def test_unsupported(self) -> None:
        """All nodes are in one list; those after them are told apart."""
        nodes = [
            helper.make_node("DeformConv", ["x"], ["a"], name="first"),
            helper.make_node("Nothing", ["x"], ["b"], domain="com.example"),
            relu("a", "c"),
            helper.make_node("Reshape", ["x", "i"], ["y"]),
        ]
        graph = model(nodes)
        graph.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, [2]))
        self.expect(
            graph,
            "4 of 4 nodes",
            "node `first` (DeformConv): the operator is not known",
            "node `Nothing_1` (com.example.Nothing): the domain com.example is not known",
            "not looked at: `first` before it",
            "its target sizes are not constant",
        )

    def test_opsets(self) -> None:
        """Versions."""
        self.expect(model([relu()], opset=29), "opset 29, 7 to 28", "lower opset_version")
        self.expect(model([relu()], opset=6), "opset 6", "version_converter")
        self.expect(
            model([helper.make_node("Gelu", ["x"], ["y"])], opset=17), "opset 17 has no such operator"
        )

    def test_external_data(self) -> None:
        """Missing files, and ways out of the folder."""
        (self.folder.parent / "secret.bin").write_bytes(bytes(12))
        (self.folder / "short.bin").write_bytes(bytes(8))
        os.symlink(self.folder.parent / "secret.bin", self.folder / "link.bin")
        (self.folder / "sub").mkdir()
        cases = {
            "missing.bin": "is not there",
            "../secret.bin": "not below the model's folder",
            "sub/../../secret.bin": "not below the model's folder",
            str(self.folder.parent / "secret.bin"): "not below the model's folder",
            "link.bin": "not below the model's folder",
            "sub": "not a regular file",
            "": "not below the model's folder",
            "short.bin": "ends at byte 12",
        }
        for location, text in cases.items():
            tensor = weight([3])
            external_data_helper.set_external_data(tensor, location)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            self.expect(model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor]), "`w`", text)

    def test_deep_graphs(self) -> None:
        """2,000 branches inside each other, and functions that call themselves twice."""
        inner = model([relu()]).graph
        field = inner.SerializeToString()
        for _ in range(2000):  # If { then_branch: graph }
            attribute = onnx.AttributeProto(
                name="then_branch", type=onnx.AttributeProto.GRAPH
            ).SerializeToString()
            attribute += b"\x32" + varint(len(field)) + field
            node = helper.make_node("If", ["x"], ["y"]).SerializeToString()
            node += b"\x2a" + varint(len(attribute)) + attribute
            field = b"\x0a" + varint(len(node)) + node
        outer = model([relu()])
        outer.ClearField("graph")
        self.expect(
            outer.SerializeToString() + b"\x3a" + varint(len(field)) + field, "nested more than 40 deep"
        )
        looping = model([helper.make_node("F", ["x"], ["y"], domain="my")])
        body = [
            helper.make_node("F", ["a"], ["h"], domain="my"),
            helper.make_node("F", ["h"], ["b"], domain="my"),
        ]
        ids = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        looping.functions.append(helper.make_function("my", "F", ["a"], ["b"], body, ids))
        self.expect(looping, "nested more than 64 deep")
        for number in range(40):
            body = [helper.make_node(f"G{number + 1}", [f"{i}"], [f"{i + 1}"], domain="my") for i in range(2)]
            looping.functions.append(helper.make_function("my", f"G{number}", ["0"], ["2"], body, ids))
        looping.functions.append(helper.make_function("my", "G40", ["0"], ["2"], [relu("0", "2")], ids))
        looping.graph.node[0].op_type = "G0"
        self.expect(looping, "more than 250000 nodes")

    def test_loops(self) -> None:
        """The number of iterations must be known, and be no more than anybody means."""

        def info(
            name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] = ()
        ) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, kind, shape)

        def loop(nodes: list[onnx.NodeProto], again: str = "go", trips: str = "") -> onnx.NodeProto:
            ends = [info(again, TensorProto.BOOL), info("s2", shape=(3,))]
            starts = [info("i", TensorProto.INT64), info("go", TensorProto.BOOL), info("s", shape=(3,))]
            body = helper.make_graph(nodes, "body", starts, ends)
            return helper.make_node("Loop", [trips, "", "x"], ["y"], body=body)

        add = helper.make_node("Add", ["s", "s"], ["s2"])
        trips = numpy_helper.from_array(np.asarray(np.int64(4096)), "trips")
        data = [add, helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0)]
        data.append(helper.make_node("Cast", ["sum"], ["again"], to=TensorProto.BOOL))
        self.expect(model([loop(data, "again")]), "how often it runs depends on data")
        self.expect(model([loop([add])]), "more than 4096 iterations")
        self.expect(model([helper.make_node("Loop", ["", "", "x"], ["y"])]), "it lacks a body")
        nameless = loop([add])
        nameless.attribute[0].g.input[0].name = ""
        self.expect(model([nameless]), "more than 4096 iterations")
        self.expect(
            model([loop([relu("s", "s2"), helper.make_node("No", ["s"], ["n"])], trips="trips")], [trips]),
            "the operator is not known",
        )
        start = time.monotonic()
        nothing = loop([], trips="trips")  # 4096 times 4096 times nothing
        nothing.attribute[0].g.output[1].name = "s"
        for depth in range(3):
            inner = onnx.NodeProto.FromString(nothing.SerializeToString())
            inner.input[2], inner.output[0] = "s", "s2"
            inner.name = f"inner{depth}"
            nothing = loop([inner], trips="trips")
        self.expect(model([nothing], [trips]), "more than 250000 nodes")
        self.assertLess(time.monotonic() - start, 60)

    def test_sequences(self) -> None:
        """They are known where the model is imported, and nowhere else."""
        pair = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
        whole = helper.make_node("Identity", ["s"], ["y"])
        self.expect(model([pair, whole]), "output `y`: it is a sequence", "leave it out")
        self.expect(model([pair, relu("s")]), "operand 0 is a sequence")
        self.expect(model([helper.make_node("SequenceLength", ["x"], ["y"])]), "operand 0 is not a sequence")
        place = numpy_helper.from_array(np.asarray(np.int64(2)), "place")
        self.expect(
            model([pair, helper.make_node("SequenceAt", ["s", "place"], ["y"])], [place]),
            "position 2 is outside",
        )
        none = helper.make_node("SequenceEmpty", [], ["e"])
        self.expect(
            model([none, helper.make_node("ConcatFromSequence", ["e"], ["y"], axis=0)]),
            "its sequence is empty",
        )

    def test_many_nodes(self) -> None:
        """More than anything has, refused in seconds."""
        start = time.monotonic()
        one = relu("x", "h0000000").SerializeToString()
        nodes = [one.replace(b"0000000", b"%07d" % number) for number in range(1_000_000)]
        many = model([relu()])
        field = many.graph.SerializeToString()
        field += b"".join(b"\x0a" + varint(len(node)) + node for node in nodes)
        many.ClearField("graph")
        data = many.SerializeToString() + b"\x3a" + varint(len(field)) + field
        self.expect(data, "more than 250000 nodes")
        self.assertLess(time.monotonic() - start, 60)


class Notes(unittest.TestCase):
    """Notes on models that are taken."""

    def notes(self, content: Model, *options: str) -> str:
        """Notes and errors of the tool's coverage report."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(content.SerializeToString())
            result = subprocess.run(
                [TOOL, "--coverage", str(path), *options], capture_output=True, text=True, check=True
            )
        return result.stdout

    def test_dynamic_dimensions(self) -> None:
        """1 is taken and told; a size can be given, by a name that exists."""
        dynamic = model([relu()], shape=["batch", None])
        text = self.notes(dynamic)
        self.assertIn("`batch` is taken as 1", text)
        self.assertIn("--dim x.1=N", text)
        self.assertNotIn("taken as 1", self.notes(dynamic, "batch=4", "x.1=3"))
        self.assertIn("Fix: use one of x.0 (`batch`), x.1", self.notes(dynamic, "bach=4"))
        self.assertIn("must be at least 1", self.notes(dynamic, "batch=0"))

    def test_nan(self) -> None:
        """A warning, not an error."""
        nan = numpy_helper.from_array(np.array([1, np.nan, 2], np.float32), "w")
        self.assertIn("`w` holds NaN", self.notes(model([helper.make_node("Add", ["x", "w"], ["y"])], [nan])))

    def test_doubles(self) -> None:
        """One warning names what is computed in f32; constants that only shapes need are not among it."""
        nodes = [
            helper.make_node("Mul", ["x", "w"], ["h"]),
            helper.make_node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["f"], ["y"], to=TensorProto.DOUBLE),
            helper.make_node("Resize", ["f", "", "s"], ["z"]),
        ]
        constants = [numpy_helper.from_array(np.ones(3), "w")]
        constants.append(numpy_helper.from_array(np.ones(2, np.float32), "s"))
        text = self.notes(model(nodes, constants, type_=TensorProto.DOUBLE, outputs=("y", "z")))
        self.assertEqual(len({line for line in text.splitlines() if "float64" in line}), 1)
        self.assertIn(": `h`, `w`, `x`, `y`. Fix:", text)
        many = [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(20)]
        names = tuple(f"y{i}" for i in range(20))
        self.assertIn("and 13 more", self.notes(model(many, type_=TensorProto.DOUBLE, outputs=names)))
        self.assertNotIn("float64", self.notes(model([relu()])))

    def test_value_info(self) -> None:
        """Declarations of a tensor between others may be stale: one warning."""
        stale = model([relu("x", "h"), relu("h", "i"), relu("i", "y")])
        for name in "hi":
            info = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])
            stale.graph.value_info.append(info)
        text = self.notes(stale)
        self.assertEqual(len({line for line in text.splitlines() if "warning" in line}), 1)
        self.assertIn("`h` [1,3] is [2,3], `i` [1,3] is [2,3]", text)

    def test_coverage(self) -> None:
        """Every node, with its reason; after an unsupported one by the shapes that the file tells."""
        nodes = [
            relu("x", "a", "good"),
            helper.make_node("Det", ["a"], ["b"], name="bad"),
            relu("b", "c", "behind"),
            helper.make_node("MatMul", ["b", "w"], ["y"], name="wrong"),
        ]
        graph = model(nodes, [weight([5, 5])])
        self.assertIn("behind Relu: not looked at: `bad` before it cannot be imported", self.notes(graph))
        graph.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3]))
        text = self.notes(graph)
        self.assertIn("good Relu: \n", text)
        self.assertIn("bad Det: the operator is not known", text)
        self.assertIn("behind Relu: \n", text)
        self.assertIn("wrong MatMul: operands [2,3] and [5,5] do not fit", text)


def varint(value: int) -> bytes:
    """Return a number as Protobuf writes it."""
    result = bytearray()
    while value >= 128:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def main(arguments: list[str]) -> Callable[[], None]:
    """Takes the tool out of the arguments."""
    global TOOL
    TOOL = arguments.pop(1)
    return unittest.main


if __name__ == "__main__":
    main(sys.argv)()
