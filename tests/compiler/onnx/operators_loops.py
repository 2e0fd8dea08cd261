"""Random cases of Scan, Loop and sequences: weights around bodies, inside of them, or computed in them."""

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
    """Return a value of a body."""
    return helper.make_tensor_value_info(name, kind, shape)


def weights(d: Draft, shape: list[int], name: str) -> tuple[dict[str, Operand], list[onnx.TensorProto], str]:
    """Around the body, or an initializer of it: outer operands, initializers, the name."""
    array = d.floats(shape, -1, 1)
    if d.chance():
        return {name: Const(array) if d.chance() else array}, [], name
    return {}, [numpy_helper.from_array(array, name)], name


def scan(d: Draft) -> Case:
    """Return two operands along any axis and direction; a state; the results joined along any axis."""
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
    """Return a trip count, a condition that the body computes, or both; row after row of an operand."""
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


def sequence(d: Draft) -> Case:
    """Parts of an operand, put in, taken out, looked at, joined; perhaps in a loop."""
    shape = [d.integer(2, 6), d.integer(1, 4), d.integer(1, 4)]
    axis, keep = d.integer(-3, 2), d.integer(0, 1)
    extent = shape[axis]
    operands: dict[str, Operand] = {"x": d.floats(shape)}
    given = ["x"]
    kind = d.pick(["ones", "equal", "sizes"])
    if kind == "equal":
        keep = 1  # ONNX ignores keepdims then, ONNX Runtime does not for a size of 1
        operands["sizes"] = Const(np.asarray(np.int64(d.integer(1, extent))))
    elif kind == "sizes":
        first = d.integer(1, extent)
        operands["sizes"] = Const(np.asarray([first, *([1] * (extent - first))], np.int64))
    given += ["sizes"] if "sizes" in operands else []
    nodes = [helper.make_node("SplitToSequence", given, ["s"], axis=axis, keepdims=keep)]
    count = {"ones": extent, "sizes": 0, "equal": 0}[kind]
    if kind == "equal":
        count = -(-extent // int(operands["sizes"].array))  # type: ignore[union-attr]
    elif kind == "sizes":
        count = len(operands["sizes"].array)  # type: ignore[union-attr]

    def constant(name: str, value: int) -> str:
        operands[name] = Const(np.asarray(np.int64(value)))
        return name

    place = constant("place", d.integer(-count, count - 1))
    nodes += [
        helper.make_node("SequenceAt", ["s", place], ["taken"]),
        helper.make_node("Neg", ["taken"], ["turned"]),
        helper.make_node("SequenceLength", ["s"], ["length"]),
        helper.make_node("SequenceErase", ["s", *([place] if d.chance() else [])], ["fewer"]),
        helper.make_node("SequenceInsert", ["fewer", "turned"], ["more"]),
        helper.make_node("SequenceInsert", ["more", "taken", constant("front", 0)], ["most"]),
    ]
    outputs = ["taken", "length"]
    alike = kind == "ones" or (kind == "equal" and extent % int(operands["sizes"].array) == 0)  # type: ignore[union-attr]
    if alike and d.chance():
        nodes.append(
            helper.make_node("ConcatFromSequence", ["most"], ["joined"], axis=d.integer(-2, 1), new_axis=1)
        )
        outputs.append("joined")
    elif alike or keep == 1 or kind != "ones":
        along = axis if keep or kind != "ones" else 0
        nodes.append(helper.make_node("ConcatFromSequence", ["most"], ["joined"], axis=along))
        outputs.append("joined")
    if d.chance():
        nodes += [
            helper.make_node("SequenceConstruct", ["taken", "turned"], ["two"]),
            helper.make_node("ConcatFromSequence", ["two"], ["both"], axis=-1),
        ]
        outputs.append("both")
    return model_case("Sequence", d.opset(13), nodes, operands, outputs)


GENERATORS: dict[str, Generator] = {"Scan": scan, "Loop": loop, "SplitToSequence": sequence}
