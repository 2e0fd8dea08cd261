"""Random cases of Scan and Loop: recurrent bodies with weights around, inside of, or computed in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from drafts import Const, Draft, Operand, model_case
from graph_run import Array, Case
from onnx import TensorProto, helper, numpy_helper

Generator = Callable[[Draft], Case]
Info = onnx.ValueInfoProto


def info(name: str, shape: list[int] | None = None, kind: int = TensorProto.FLOAT) -> Info:
    """A value of a body."""
    return helper.make_tensor_value_info(name, kind, shape)


def weights(d: Draft, shape: list[int], name: str) -> tuple[dict[str, Operand], list[onnx.TensorProto], str]:
    """Around the body, or an initializer of it: outer operands, initializers, the name."""
    array = d.floats(shape, -1, 1)
    if d.chance():
        return {name: Const(array) if d.chance() else array}, [], name
    return {}, [numpy_helper.from_array(array, name)], name


def scan(d: Draft) -> Case:
    """Two operands along any axis and direction; a state; the results joined along any axis."""
    steps, rows, width, hidden = (d.integer(1, 5) for _ in range(4))
    outer, inner, w = weights(d, [hidden, width], "w")
    axis, places = d.integer(0, 2), [rows, width]
    places.insert(axis, steps)
    turned = helper.make_node("Transpose", [w], ["wt"], perm=[1, 0])  # the same in all iterations
    nodes = [
        turned,
        helper.make_node("MatMul", ["xt", "wt"], ["p"]),
        helper.make_node("Mul", ["p", "gt"], ["q"]),
        helper.make_node("Add", ["q", "h"], ["s"]),
        helper.make_node("Tanh", ["s"], ["next"]),
        helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0)
        if d.chance()
        else helper.make_node("Neg", ["next"], ["sum"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("h", [rows, hidden]), info("xt", [rows, width]), info("gt", [])],
        [info("next", [rows, hidden]), info("sum"), info("h_out")],
        inner,
    )
    body.node.append(helper.make_node("Identity", ["h"], ["h_out"]))
    scalar = nodes[-1].op_type == "ReduceSum"
    node = helper.make_node(
        "Scan",
        ["h0", "x", "gates"],
        ["last", "sums", "states"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[axis, 0],
        scan_input_directions=[d.integer(0, 1), d.integer(0, 1)],
        scan_output_axes=[0 if scalar else d.integer(-3, 2), d.integer(0, 2)],
        scan_output_directions=[d.integer(0, 1), d.integer(0, 1)],
    )
    operands: dict[str, Operand] = {
        "h0": d.weight(d.floats([rows, hidden])),
        "x": d.floats(places),
        "gates": d.weight(d.floats([steps])),
        **outer,
    }
    return model_case("Scan", d.opset(13), [node], operands, node.output)


def loop(d: Draft) -> Case:
    """A trip count, a condition that the body computes, or both; row after row of an operand."""
    rows, width, most = d.integer(1, 6), d.integer(1, 5), d.integer(1, 6)
    outer, inner, w = weights(d, [width, width], "w")
    limit: Array = np.int64(d.integer(0, most))
    inner.append(numpy_helper.from_array(np.asarray(limit), "limit"))
    inner.append(numpy_helper.from_array(np.asarray(np.int64(rows)), "rows"))
    nodes = [
        helper.make_node("Mod", ["i", "rows"], ["at"]),
        helper.make_node("Gather", ["x", "at"], ["row"], axis=0),
        helper.make_node("MatMul", ["h", w], ["p"]),
        helper.make_node("Add", ["p", "row"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["next"]),
        helper.make_node("Less", ["i", "limit"], ["again"])
        if d.chance()
        else helper.make_node("Identity", ["go"], ["again"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("h", [1, width])],
        [info("again", [], TensorProto.BOOL), info("next", [1, width]), info("p_out", [1, width])],
        inner,
    )
    body.node.append(helper.make_node("Neg", ["p"], ["p_out"]))
    operands: dict[str, Operand] = {
        "m": Const(np.asarray(np.int64(most))),
        "go": Const(np.asarray(np.bool_(True))),
        "h0": d.floats([1, width]),
        "x": d.floats([rows, width]),
        **outer,
    }
    unlimited = nodes[-1].op_type == "Less" and d.chance()
    given = ["" if unlimited else "m", "" if d.chance() else "go", "h0"]
    operands = {name: value for name, value in operands.items() if name not in ("m", "go") or name in given}
    node = helper.make_node("Loop", given, ["last", "all"], body=body)
    return model_case("Loop", d.opset(13), [node], operands, node.output)


GENERATORS: dict[str, Generator] = {"Scan": scan, "Loop": loop}
