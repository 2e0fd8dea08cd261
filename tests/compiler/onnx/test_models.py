"""Whole models: how files say things, beside what operators do. Against ONNX Runtime.

usage: test_models.py GRAPH_RUN
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from drafts import Const, Draft, Operand, model_case
from graph_run import Case, run
from onnx import TensorProto, helper, numpy_helper
from oracle import by_numpy, by_runtime, problem

TOOL = ""


def node(type_: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """Return a node with names in one string."""
    return helper.make_node(type_, inputs.split(), outputs.split(), **attributes)


def whole(values: object) -> Const:
    """Return a constant of int64."""
    return Const(np.array(values, np.int64))


class Models(unittest.TestCase):
    """Each test compares the outputs of a model."""

    def setUp(self) -> None:
        """The same numbers each time."""
        self.d = Draft(1)

    def same(self, case: Case) -> None:
        """The outputs are those of ONNX Runtime."""
        run([case], TOOL)
        self.assertEqual(case.error, "")
        self.assertEqual(problem(case, by_runtime(case), by_numpy(case)), "")

    def model(
        self, nodes: list[onnx.NodeProto], operands: dict[str, Operand], outputs: str, opset: int = 17
    ) -> Case:
        """Return a model of these nodes."""
        return model_case("model", opset, nodes, operands, outputs.split())

    def test_unsorted_and_unnamed(self) -> None:
        """Nodes in any order; the same type twice without names."""
        nodes = [node("Add", "a b", "y"), node("Relu", "x", "a"), node("Relu", "a", "b")]
        case = self.model([nodes[1], nodes[2], nodes[0]], {"x": self.d.floats([2, 3])}, "y a")
        expected = by_runtime(case)
        del case.model.graph.node[:]
        case.model.graph.node.extend(nodes)
        run([case], TOOL)
        self.assertEqual(case.error, "")
        self.assertEqual(problem(case, expected, None), "")

    def test_int64(self) -> None:
        """Inputs and outputs of int64 and bool have the types of the host."""
        nodes = [node("Mul", "i i", "j"), node("Less", "j limit", "small"), node("Where", "small j i", "k")]
        case = self.model(nodes, {"i": self.d.ints([3, 4], -30, 30), "limit": whole(200)}, "j k small")
        self.same(case)
        self.assertEqual([case.outputs[name].dtype for name in "jk"], [np.int64] * 2)
        self.assertEqual(case.outputs["small"].dtype, bool)

    def test_int64_beyond_int32(self) -> None:
        """Values are checked, not cut."""
        case = self.model([node("Neg", "i", "j")], {"i": np.array([1 << 40])}, "j")
        run([case], TOOL)
        self.assertIn("1099511627776", case.error)

    def test_initializers_as_inputs(self) -> None:
        """Files of IR version 3 list constants among the inputs."""
        case = self.model(
            [node("Add", "x w", "y")], {"x": self.d.floats([2]), "w": Const(self.d.floats([2]))}, "y"
        )
        case.model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
        case.model.ir_version = 3
        self.same(case)

    def test_outputs_that_are_inputs_and_constants(self) -> None:
        """An input as it is, a constant, the same value twice."""
        nodes = [
            node("Identity", "x", "same"),
            node("Identity", "w", "w1"),
            node("Relu", "x", "y"),
            node("Identity", "y", "z"),
        ]
        self.same(self.model(nodes, {"x": self.d.floats([2]), "w": Const(self.d.floats([3]))}, "same w1 y z"))

    def test_typed_fields(self) -> None:
        """Constants that are no raw bytes."""
        types = {
            TensorProto.FLOAT: [1.5, -2.5],
            TensorProto.FLOAT16: [1.5, -2.5],
            TensorProto.INT64: [5, -7],
            TensorProto.INT32: [5, -7],
            TensorProto.UINT8: [5, 200],
            TensorProto.INT8: [5, -7],
            TensorProto.UINT16: [5, 60000],
            TensorProto.BOOL: [1, 0],
            TensorProto.UINT32: [5, 7],
        }
        for type_, values in types.items():
            tensor = helper.make_tensor("w", type_, [2], values)
            self.assertFalse(tensor.HasField("raw_data"))
            case = self.model(
                [node("Cast", "w", "f", to=1), node("Add", "x f", "y")], {"x": self.d.floats([2])}, "y"
            )
            case.model.graph.initializer.append(tensor)
            self.same(case)

    def test_external_data(self) -> None:
        """Weights in a file beside the model, at any offset, one tensor after the other."""
        case = self.model(
            [node("Gemm", "x w b", "y")],
            {
                "x": self.d.floats([2, 40]),
                "w": Const(self.d.floats([40, 30])),
                "b": Const(self.d.floats([30])),
            },
            "y",
        )
        expected = by_runtime(case)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            np.save(folder / "x.npy", case.inputs["x"])
            onnx.save_model(
                case.model,
                folder / "model.onnx",
                save_as_external_data=True,
                location="model.onnx.data",
                size_threshold=0,
                convert_attribute=False,
            )
            subprocess.run([TOOL, scratch], check=True)
            case.outputs["y"] = np.load(folder / "out" / "y.npy")
            self.assertGreater((folder / "model.onnx.data").stat().st_size, 4800)
        self.assertEqual(problem(case, expected, None), "")

    def test_functions(self) -> None:
        """Calls in calls, attributes that refer to those of the call or their defaults, absent operands."""
        ids = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        leaky = node("LeakyRelu", "a", "b")
        leaky.attribute.append(slope)
        defaults = [helper.make_attribute("slope", 0.25)]
        one = helper.make_function("my", "One", ["a"], ["b"], [leaky], ids, attribute_protos=defaults)
        calls = [
            helper.make_node("One", ["p"], ["h"], domain="my", slope=0.5),
            helper.make_node("One", ["h"], ["k"], domain="my"),
            helper.make_node("Clip", ["k", "low", ""], ["q"]),
        ]
        two = helper.make_function("my", "Two", ["p", "low"], ["q"], calls, ids)
        nodes = [
            helper.make_node("Two", ["x", "w"], ["y"], domain="my"),
            helper.make_node("Two", ["x"], ["z"], domain="my"),
        ]
        case = self.model(nodes, {"x": self.d.floats([3, 4]), "w": Const(np.float32(-0.1))}, "y z")
        case.model.opset_import.append(ids[1])
        case.model.functions.extend([one, two])
        for output in case.model.graph.output:
            output.type.tensor_type.elem_type = TensorProto.FLOAT
        self.same(case)

    def test_branches(self) -> None:
        """If with a constant condition: names from around it, constants of its own."""
        for condition in (True, False):
            taken = helper.make_graph([node("Add", "x w", "t")], "then", [], [onnx.ValueInfoProto(name="t")])
            tensor = numpy_helper.from_array(np.float32([2, 3]), "v")
            other = helper.make_graph(
                [node("Mul", "x v", "e")], "else", [], [onnx.ValueInfoProto(name="e")], [tensor]
            )
            operands = {
                "x": self.d.floats([4, 2]),
                "w": Const(self.d.floats([2])),
                "c": Const(np.array(condition)),
            }
            branch = node("If", "c", "y", then_branch=taken, else_branch=other)
            case = self.model([branch], operands, "y")
            self.same(case)

    def test_condition_of_shapes(self) -> None:
        """A condition that the shape of an input decides, as exporters write squeezes."""
        then = helper.make_graph(
            [node("Squeeze", "x axes", "t")], "then", [], [onnx.ValueInfoProto(name="t")]
        )
        other = helper.make_graph([node("Identity", "x", "e")], "else", [], [onnx.ValueInfoProto(name="e")])
        nodes = [
            node("Shape", "x", "s"),
            node("Gather", "s one", "d"),
            node("Equal", "d one", "c"),
            node("If", "c", "y", then_branch=then, else_branch=other),
        ]
        for size in (1, 3):
            operands = {"x": self.d.floats([2, size]), "one": whole(1), "axes": whole([1])}
            case = self.model(nodes, operands, "y")
            run([case], TOOL)
            self.assertEqual(case.error, "")
            # ONNX Runtime looks at the branch that is not taken, too
            wanted = operands["x"][:, 0] if size == 1 else operands["x"]
            np.testing.assert_array_equal(case.outputs["y"], wanted)

    def test_masks(self) -> None:
        """A causal mask of ranges and comparisons, as transformers export it."""
        nodes = [
            node("Shape", "x", "s"),
            node("Gather", "s one", "n"),
            node("Range", "zero n one", "r"),
            node("Unsqueeze", "r a0", "row"),
            node("Unsqueeze", "r a1", "column"),
            node("LessOrEqual", "row column", "seen"),
            node("Where", "seen nothing hidden", "mask"),
            node("Expand", "mask shape4", "mask4"),
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("MatMul", "x t", "scores"),
            node("Unsqueeze", "scores a1", "scores4"),
            node("Add", "scores4 mask4", "masked"),
            node("Softmax", "masked", "p"),
            node("IsNaN", "p", "nan"),
            node("Where", "nan nothing p", "y"),
        ]
        constants = {
            "zero": whole(0),
            "one": whole(1),
            "a0": whole([0]),
            "a1": whole([1]),
            "shape4": whole([2, 1, 5, 5]),
            "nothing": Const(np.float32(0)),
            "hidden": Const(np.float32(-np.inf)),
        }
        self.same(self.model(nodes, {"x": self.d.floats([2, 5, 4]), **constants}, "y"))

    def test_pads_by_chains(self) -> None:
        """Amounts of a Pad as PyTorch writes: ConstantOfShape, Concat, Reshape, Slice, Transpose, Cast."""
        nodes = [
            node("ConstantOfShape", "count", "zeros", value=numpy_helper.from_array(np.array([0], np.int64))),
            node("Concat", "given zeros", "all", axis=0),
            node("Reshape", "all pairs", "table"),
            node("Slice", "table from to axis step", "reversed"),
            node("Transpose", "reversed", "turned", perm=[1, 0]),
            node("Reshape", "turned flat", "flatpads"),
            node("Cast", "flatpads", "pads", to=7),
            node("Pad", "x pads", "y", mode="constant"),
        ]
        constants = {
            "count": whole([4]),
            "given": whole([1, 2, 0, 3]),
            "pairs": whole([-1, 2]),
            "from": whole([-1]),
            "to": whole([-(2**63) + 1]),
            "axis": whole([0]),
            "step": whole([-1]),
            "flat": whole([-1]),
        }
        self.same(self.model(nodes, {"x": self.d.floats([1, 2, 3, 4]), **constants}, "y"))

    def test_repetitions_by_one_hot(self) -> None:
        """torch.repeat_interleave by the older exporter: OneHot makes how often each axis is repeated."""
        nodes = [
            node("OneHot", "at depth values", "hot", axis=-1),
            node("Reshape", "hot flat", "times"),
            node("Tile", "x times", "y"),
        ]
        for at in ([1], [-1], [0]):
            operands = {"at": whole(at), "depth": whole(3), "values": whole([1, 4]), "flat": whole([-1])}
            self.same(self.model(nodes, operands | {"x": self.d.floats([2, 1, 3])}, "y"))

    def test_fractional_scales(self) -> None:
        """The size of a result is a product of two f32: scales that are a little less than they look."""
        how = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        cases = []
        for size in (7, 10, 20, 30, 100, 1000):
            for scale in (0.7, 0.1, 0.3, 0.9, 1.1, 1.4, 0.35, 2.3):
                count = int(np.float32(size) * np.float32(scale))
                if count in (0, size):  # ONNX Runtime copies what keeps its size, whatever the scale
                    continue
                scales = {
                    "none": Const(np.zeros(0, np.float32)),
                    "s": Const(np.array([1, scale], np.float32)),
                }
                resize = node("Resize", "x none s", "y", **how)
                cases.append(self.model([resize], {"x": self.d.floats([1, size]), **scales}, "y"))
                # its shape is inferred in binary64
                cases[-1].model.graph.output[0].type.tensor_type.ClearField("shape")
        run(cases, TOOL)
        for case in cases:
            self.assertEqual(case.error, "")
            self.assertEqual(problem(case, by_runtime(case), None), "")

    def test_nearest_in_the_middle(self) -> None:
        """Positions that are halves but for the rounding of f32 are halves: 7 elements to 2, 22 to 29."""
        cases = []
        for size, count, mode in itertools.product((3, 7, 14, 19, 22, 23), range(1, 31), ("floor", "ceil")):
            for coordinates in ("asymmetric", "half_pixel", "align_corners", "half_pixel_symmetric"):
                how = {"nearest_mode": f"round_prefer_{mode}", "coordinate_transformation_mode": coordinates}
                resize = node("Resize", "x none none to", "y", mode="nearest", **how)
                operands = {"none": Const(np.zeros(0, np.float32)), "to": whole([1, count])}
                cases.append(self.model([resize], {"x": self.d.floats([1, size]), **operands}, "y", opset=19))
        run(cases, TOOL)
        for case in cases:
            self.assertEqual(case.error, "")
            self.assertEqual(problem(case, by_runtime(case), None), "")

    def test_without_ai_onnx(self) -> None:
        """A model of com.microsoft alone, which imports nothing else."""
        case = self.model([node("Gelu", "x", "y", domain="com.microsoft")], {"x": self.d.floats([3])}, "y")
        del case.model.opset_import[:]
        case.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        self.same(case)

    def test_before_the_standard(self) -> None:
        """Operators that ONNX Runtime has in ai.onnx at opsets that do not."""
        picture, row = {"x": self.d.floats([2, 3, 6, 5])}, Const(self.d.floats([5]))
        made = [
            ("LayerNormalization", {"axis": -1}, {**picture, "w": row, "b": row}, (7, 12, 16)),
            ("SimplifiedLayerNormalization", {"axis": -1}, {**picture, "w": row}, (7, 16)),
            ("MeanVarianceNormalization", {"across_channels": 1}, picture, (7, 8)),
            ("MeanVarianceNormalization", {"normalize_variance": 0}, picture, (7, 8)),
            ("ThresholdedRelu", {"alpha": 0.5}, picture, (7, 9)),
            ("Affine", {"alpha": 2.0, "beta": 0.5}, picture, (7, 9)),
            ("Scale", {"scale": 3.0}, picture, (7, 9)),
            ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, picture, (7, 9)),
            ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, picture, (7, 9)),
            ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}, picture, (7, 9)),
            ("Crop", {"border": [1, 0, 2, 1]}, picture, (7, 9)),
            ("Crop", {"border": [1, 2, 0, 0], "scale": [3, 2]}, picture, (7, 9)),
        ]
        for type_, attributes, operands, opsets in made:
            for opset in opsets:
                with self.subTest(type_, opset=opset):
                    only = node(type_, " ".join(operands), "y", **attributes)
                    self.same(self.model([only], operands, "y", opset))

    def test_windows_in_the_padding(self) -> None:
        """Along one axis no window of a convolution meets an element: the bias is left, or zeros."""
        d = self.d
        for shape, attributes in [
            ([1, 2, 1, 6], {"pads": [4, 0, 0, 0], "strides": [6, 1]}),
            ([2, 2, 1, 5], {"pads": [1, 0, 1, 0], "dilations": [2, 1]}),
        ]:
            for bias in ("", " b"):
                operands = {
                    "x": d.floats(shape),
                    "w": Const(d.floats([3, 2, 2, 2])),
                    "b": Const(d.floats([3])),
                }
                operands = {key: value for key, value in operands.items() if key != "b" or bias}
                self.same(self.model([node("Conv", "x w" + bias, "y", **attributes)], operands, "y"))

    def test_empty_inputs_and_outputs(self) -> None:
        """They are inputs and outputs like others; the nodes between leave nothing to compute."""
        nodes = [
            node("Concat", "cache x", "joined", axis=1),
            node("Slice", "cache zero one axis", "kept"),
            node("MatMul", "cache_t cache", "product"),
            node("Relu", "joined", "y"),
        ]
        operands = {
            "x": self.d.floats([2, 3, 4]),
            "cache": np.zeros((2, 0, 4), np.float32),
            "cache_t": np.zeros((2, 5, 0), np.float32),
            "zero": whole([0]),
            "one": whole([1]),
            "axis": whole([2]),
        }
        self.same(self.model(nodes, operands, "y kept product joined"))

    def test_small_network(self) -> None:
        """Convolutions with batch norms, a residual, a mean as PyTorch exports it, a classifier."""
        d = self.d
        nodes = [
            node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]),
            node("BatchNormalization", "c0 s m0 m1 v", "n0"),
            node("Relu", "n0", "r0"),
            node("Conv", "r0 w1", "c1", pads=[1, 1, 1, 1], group=8),
            node("Add", "c1 r0", "sum"),
            node("MaxPool", "sum", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("ReduceMean", "p", "mean", axes=[2, 3], keepdims=1),
            node("Reshape", "mean flat", "f"),
            node("Gemm", "f w2 b2", "logits", transB=1),
            node("Softmax", "logits", "y", axis=1),
        ]
        weights = {
            "w0": Const(d.floats([8, 3, 3, 3], -0.5, 0.5)),
            "b0": Const(d.floats([8])),
            "w1": Const(d.floats([8, 1, 3, 3], -0.5, 0.5)),
            "w2": Const(d.floats([10, 8])),
            "b2": Const(d.floats([10])),
            "flat": whole([0, -1]),
            **{name: Const(d.floats([8], 0.5, 1.5)) for name in ("s", "m0", "m1", "v")},
        }
        self.same(self.model(nodes, {"x": d.floats([2, 3, 12, 12]), **weights}, "y"))

    def test_channels_last(self) -> None:
        """Operators that only GPUs execute agree with the same by operators of ONNX."""
        d = self.d
        last, first = [0, 2, 3, 1], [0, 3, 1, 2]
        weights = {
            "w": Const(d.floats([8, 3, 2, 4])),
            "b": Const(d.floats([8])),
            "s": Const(d.floats([8])),
            "t": Const(d.floats([8])),
        }
        x = {"x": d.floats([2, 5, 6, 4])}
        theirs = [
            node("NhwcConv", "x w b", "c", pads=[1, 0, 1, 0], domain="com.microsoft"),
            node("GroupNorm", "c s t", "y", groups=2, activation=1, epsilon=0.1, domain="com.microsoft"),
        ]
        plain = [
            node("Transpose", "x", "x1", perm=first),
            node("Transpose", "w", "w1", perm=first),
            node("Conv", "x1 w1 b", "c1", pads=[1, 0, 1, 0]),
            node("GroupNormalization", "c1 s t", "g1", num_groups=2, epsilon=0.1),
            node("Sigmoid", "g1", "g2"),
            node("Mul", "g1 g2", "y1"),
            node("Transpose", "y1", "y", perm=last),
        ]
        case = self.model(theirs, {**x, **weights}, "y", opset=21)
        run([case], TOOL)
        self.assertEqual(case.error, "")
        wanted = self.model(plain, {**x, **weights}, "y", opset=21)
        self.assertEqual(problem(case, by_runtime(wanted), by_numpy(wanted)), "")

    def test_quantised_network(self) -> None:
        """QDQ around a convolution and a product, and the operators that are both in one."""
        d = self.d
        scale = {
            name: Const(np.float32(value)) for name, value in {"sx": 0.05, "sw": 0.01, "sy": 0.1}.items()
        }
        zero = {"zx": Const(np.uint8(120)), "zw": Const(np.int8(0)), "zy": Const(np.uint8(100))}
        nodes = [
            node("QuantizeLinear", "x sx zx", "q"),
            node("QLinearConv", "q sx zx w sw zw sy zy bias", "c", pads=[1, 1, 1, 1]),
            node("DequantizeLinear", "c sy zy", "y"),
            node("DequantizeLinear", "w sw zw", "wf"),
            node("DequantizeLinear", "q sx zx", "xf"),
            node("Conv", "xf wf", "z"),
            node("ConvInteger", "q w zx zw", "sums"),
        ]
        operands = {
            "x": d.floats([1, 3, 6, 6]),
            "w": Const(d.ints([4, 3, 3, 3], -100, 100, np.int8)),
            "bias": Const(d.ints([4], -500, 500, np.int32)),
        }
        case = self.model(nodes, {**operands, **scale, **zero}, "c y z sums")
        run([case], TOOL)
        self.assertEqual(case.error, "")
        expected = by_runtime(case)
        # a sum that lies at a half may be rounded the other way: the scale is not the same number in float
        self.assertLessEqual(np.abs(case.outputs["c"].astype(int) - expected["c"].astype(int)).max(), 1)
        np.testing.assert_array_equal(case.outputs["sums"], expected["sums"])
        np.testing.assert_allclose(case.outputs["z"], expected["z"], rtol=1e-5, atol=1e-4)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
