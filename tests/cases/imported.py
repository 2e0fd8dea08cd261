"""Models that the importer takes, and inputs that decide structure."""

from __future__ import annotations

import numpy as np
from builders import Case, constant, info, model, node
from onnx import TensorProto, helper


def arg_max_of_a_vocabulary() -> dict[str, Case]:
    """Greedy decoding: the largest of many logits in 16 bits, on a device with 256 KiB of L1."""

    def of(count: int) -> Case:
        x = np.zeros((1, count), np.float32)
        x[0, count - 7] = 3
        ports = [info("X", [1, count])], [info("Y", [1], TensorProto.INT64)]
        made = model([node("ArgMax", ["X"], ["Y"], axis=1, keepdims=0)], *ports)
        wanted = {"Y": np.array([count - 7])}
        return Case(made, {"X": x}, wanted, options=("--platform", "swkpu-v1"))

    return {str(count): of(count) for count in (152064, 256000)}


def if_on_a_scalar_input() -> dict[str, Case]:
    """A number that the caller gives (a sample rate) chooses a branch: both are computed, one is selected."""
    x = np.array([[-1, 2]], np.float32)
    relu = helper.make_graph([node("Relu", ["X"], ["t"])], "then", [], [info("t", [1, 2])])
    neg = helper.make_graph([node("Neg", ["X"], ["e"])], "else", [], [info("e", [1, 2])])
    nodes = [
        node("Equal", ["rate", "k"], ["c"]),
        node("If", ["c"], ["Y"], then_branch=relu, else_branch=neg),
    ]
    ports = [info("X", [1, 2]), info("rate", [], TensorProto.INT64)], [info("Y", [1, 2])]
    made = model(nodes, *ports, [constant("k", 16000, np.int64)])
    return {
        "then": Case(made, {"X": x, "rate": np.array(16000)}, {"Y": np.maximum(x, 0)}),
        "else": Case(made, {"X": x, "rate": np.array(8000)}, {"Y": -x}),
    }


def timing_without_weights() -> dict[str, Case]:
    """Workloads of mapping tools come without the bytes of their weights; time does not depend on them."""
    w = constant("w", np.zeros((8, 4, 3, 3)), np.float32)
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value="weights.external")
    ports = [info("X", [1, 4, 8, 8])], [info("Y", [1, 8, 6, 6])]
    made = model([node("Conv", ["X", "w"], ["Y"])], *ports, [w])
    options = ("--platform", "tile32", "--precision", "f32", "--mode", "timing")
    return {"external": Case(made, {}, options=options)}


def same_name_for_two_dimensions() -> dict[str, Case]:
    """Exporters name every unknown dimension alike: INPUT.AXIS says the size of one of them."""
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3) - 2
    made = model([node("Relu", ["X"], ["Y"])], [info("X", ["?"] * 3)], [info("Y", ["?"] * 3)])
    options = ("--platform", "tile32", "--precision", "f32", "--dim", "X.1=2", "--dim", "X.2=3")
    return {"input_axis": Case(made, {"X": x}, {"Y": np.maximum(x, 0)}, options=options)}


def layer_norm_before_17() -> dict[str, Case]:
    """ONNX Runtime's fusions write LayerNormalization of ai.onnx into models of opset 11 to 16, and run."""
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    g, b = np.linspace(0.5, 2, 8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)
    wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    norm = node("LayerNormalization", ["X", "g", "b"], ["Y"], axis=-1, epsilon=1e-5)

    def of(opset: int) -> Case:
        ports = [info("X", [2, 5, 8])], [info("Y", [2, 5, 8])]
        made = model([norm], *ports, [constant("g", g), constant("b", b)], opset)
        return Case(made, {"X": x}, {"Y": wanted}, 1e-5)

    return {f"opset_{opset}": of(opset) for opset in (12, 16)}


def average_over_a_window_beyond() -> dict[str, Case]:
    """Return a window larger than its input in ceil mode, as exporters write a pool over everything."""
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    window = {"kernel_shape": [8, 8], "strides": [8, 8], "ceil_mode": 1, "count_include_pad": 1}
    ports = [info("X", [1, 3, 2, 2])], [info("Y", [1, 3, 1, 1])]
    made = model([node("AveragePool", ["X"], ["Y"], **window)], *ports, opset=19)
    return {"ceil": Case(made, {"X": x}, {"Y": x.mean((2, 3), keepdims=True)}, 1e-6)}


GROUPS = (
    arg_max_of_a_vocabulary,
    if_on_a_scalar_input,
    timing_without_weights,
    same_name_for_two_dimensions,
    layer_norm_before_17,
    average_over_a_window_beyond,
)
