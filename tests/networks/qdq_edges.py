"""Parts of graphs in which a tensor is read in several ways: steps belong to an edge, not to a tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from qdq_graph import QdqGraph, UnsuitableError
from qdq_steps import (
    dequantize,
    fresh,
    like,
    maybe_rounded,
    offer,
    quantize,
    real_constant,
    rounded,
    shape_of,
    source,
    steps_for,
    weights,
)


def any_rank(g: QdqGraph) -> int:
    """Draw the rank of a tensor."""
    return g.pick([2, 3, 4, 4])


def produced(g: QdqGraph) -> str:
    """Return a tensor that two read: an input, a product, a view, a function."""
    by = g.pick(["input", "product", "move", "function"])
    g.kind(f"two quantizers of one {by}")
    if by == "input":
        return fresh(g, shape_of(g, any_rank(g)))
    if by == "product":
        x = rounded(g, source(g, 2), wide=False)
        shape = [g.values[x].shape[1], g.integer(2, 8)]
        return g.add("MatMul", x, weights(g, shape, 1))
    x = source(g, 4)
    if by == "move":
        return g.add("Transpose", maybe_rounded(g, x), perm=list(map(int, g.rng.permutation(4))))
    return g.add(g.pick(["Sigmoid", "Neg", "Relu", "Abs", "Tanh"]), maybe_rounded(g, x))


def joined(g: QdqGraph, a: str, b: str) -> None:
    """Use two floats of one shape."""
    how = g.pick(["apart", "add", "mul", "concat", "max"])
    if how == "apart":
        offer(g, a, b)
    elif how == "concat":
        offer(g, g.add("Concat", a, b, axis=g.integer(0, g.values[a].ndim - 1)))
    else:
        offer(g, maybe_rounded(g, g.add({"add": "Add", "mul": "Mul", "max": "Max"}[how], a, b)))


def two_quantizers(g: QdqGraph) -> None:
    """Two or three steps of one tensor."""
    x = produced(g)
    parts = [rounded(g, x) for _ in range(g.pick([2, 2, 3]))]
    joined(g, parts[0], parts[1])
    offer(g, *parts[2:])
    if g.chance(0.15):
        g.outputs.append(x)


def merged(g: QdqGraph) -> None:
    """Equal nodes, each with steps of its own after it."""
    g.kind("two quantizers of merged nodes")
    x = maybe_rounded(g, source(g, any_rank(g)), 0.4)
    op = g.pick(["Neg", "Sigmoid", "Transpose", "Relu", "Add"])
    more = [real_constant(g, [1])] if op == "Add" else []
    a, b = (rounded(g, g.add(op, x, *more)) for _ in range(2))
    joined(g, a, b)


def both_ways(g: QdqGraph) -> None:
    """An input that one reads in steps and another as floats."""
    g.kind("input read both ways")
    rank = g.pick([2, 3, 4])
    x = fresh(g, shape_of(g, rank))
    a = rounded(g, x)
    if rank == 2 and g.chance():
        a = g.add("MatMul", a, weights(g, [g.values[a].shape[1], g.integer(2, 8)], 1))
    elif g.chance():
        a = g.add(g.pick(["Relu", "Sigmoid", "Neg"]), a)
    op = g.pick(["Identity", "Sigmoid", "Mul", "Add", "Sub", "Neg"])
    if op in ("Mul", "Add", "Sub"):
        other = g.pick([lambda: real_constant(g, [1]), lambda: like(g, x), lambda: rounded(g, like(g, x))])()
        b = g.add(op, x, other)
    else:
        b = g.add(op, x)
    if g.values[a].shape == g.values[b].shape:
        joined(g, a, b)
    else:
        offer(g, a, b)


def concat(g: QdqGraph) -> None:
    """Tensors of unlike steps, or one and floats."""
    rank = any_rank(g)
    axis = g.integer(0, rank - 1)
    first = source(g, rank)
    parts = [rounded(g, first)]
    for _ in range(g.pick([1, 1, 2])):
        shape = list(g.values[first].shape)
        shape[axis] = g.integer(1, 4)
        what = g.pick(["steps", "steps", "constant", "computed", "input", "weight"])
        if what == "steps":
            g.kind("concat of unlike steps")
            parts.append(rounded(g, fresh(g, shape)))
            continue
        g.kind("concat with a float")
        if what == "constant":
            parts.append(real_constant(g, shape, 3))
        elif what == "weight":
            parts.append(weights(g, shape, axis))
        else:
            x = fresh(g, shape)
            parts.append(g.add(g.pick(["Sigmoid", "Neg"]), x) if what == "computed" else x)
    if g.chance(0.4):
        parts.reverse()
    y = g.add("Concat", *parts, axis=axis - rank if g.opset >= 11 and g.chance(0.3) else axis)
    if g.chance(0.4):
        y = g.add("Relu", y)
    offer(g, maybe_rounded(g, y))


def pad(g: QdqGraph) -> None:
    """Pad with what lies on no step."""
    g.kind("value of a pad")
    x = rounded(g, source(g, any_rank(g)))
    rank = g.values[x].ndim
    pads = [g.integer(0, 2) for _ in range(2 * rank)]
    value = float(g.reals([], 2.0) * g.pick([0.01, 1, 5]))
    if g.opset < 11:
        y = g.add("Pad", x, pads=pads, value=value)
    else:
        constant = g.constant(value, np.float32)
        y = g.add("Pad", x, g.constant(pads, np.int64), constant)
    offer(g, maybe_rounded(g, y))


def scatter(g: QdqGraph) -> None:
    """Updates of unlike steps, or floats, into a tensor of steps; or the other way round."""
    g.kind("updates of a scatter")
    if g.opset < 11:
        raise UnsuitableError
    rank = g.pick([2, 3])
    data = source(g, rank)
    shape = g.values[data].shape
    if g.chance():
        op, axis, attributes = "ScatterElements", g.integer(0, rank - 1), {}
        size = [g.integer(1, n) for n in shape]
        attributes["axis"] = axis
        order = g.rng.random([*size[:axis], shape[axis], *size[axis + 1 :]]).argsort(axis)
        picked = order.take(range(size[axis]), axis)  # no index twice along the axis
    else:
        op, attributes, depth = "ScatterND", {}, g.integer(1, rank)
        rows = int(np.prod(shape[:depth]))
        count = g.integer(1, rows)
        flat = g.rng.permutation(rows)[:count]
        picked = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64)
        size = [count, *shape[depth:]]
    updates = fresh(g, size) if g.chance(0.8) else real_constant(g, size, 3)
    if updates in g.inputs and g.chance(0.3):
        updates = g.add(g.pick(["Sigmoid", "Neg"]), updates)
    which = g.pick(["both", "data", "updates"])
    if which != "updates":
        data = rounded(g, data)
    if which != "data":
        updates = rounded(g, updates)
    y = g.add(op, data, g.constant(picked), updates, **attributes)
    offer(g, maybe_rounded(g, y))


def compare(g: QdqGraph) -> None:
    """Steps against a float, or against other steps."""
    g.kind("comparison with a float")
    x = rounded(g, source(g, any_rank(g)))
    shape = g.values[x].shape
    other = g.pick(
        [
            lambda: real_constant(g, [1]),
            lambda: g.constant(g.values[x].flat[g.integer(0, g.values[x].size - 1)].reshape(1)),
            lambda: fresh(g, shape),
            lambda: g.add("Sigmoid", fresh(g, shape)),
            lambda: rounded(g, fresh(g, shape)),
            lambda: rounded(g, g.add("Neg", x)),
        ]
    )()
    names = ["Greater", "Less"]
    if g.opset >= 11:
        names.append("Equal")
    if g.opset >= 12:
        names += ["GreaterOrEqual", "LessOrEqual"]
    pair = [x, other] if g.chance(0.6) else [other, x]
    condition = g.add(g.pick(names), *pair)
    if g.chance(0.3):
        g.outputs.append(condition)
        return
    if g.chance(0.3):
        offer(g, g.add("Cast", condition, to=1))
        return
    a = g.pick([lambda: x, lambda: rounded(g, fresh(g, shape)), lambda: fresh(g, shape)])()
    b = g.pick([lambda: real_constant(g, [1]), lambda: rounded(g, fresh(g, shape)), lambda: other])()
    offer(g, maybe_rounded(g, g.add("Where", condition, a, b)))


def consumers(g: QdqGraph) -> None:
    """Steps that several read: as floats, in other steps, as integers, as an output."""
    g.kind("several consumers")
    x = source(g, any_rank(g))
    steps = steps_for(g, x, wide=False)
    q = quantize(g, x, steps)
    y = dequantize(g, q, steps)
    users: list[Callable[[], str]] = [
        lambda: rounded(g, y),
        lambda: g.add("Relu", y),
        lambda: g.add("Sigmoid", y),
        lambda: dequantize(g, q, steps),
        lambda: g.add("Add", y, like(g, y)),
        lambda: rounded(g, g.add("Mul", y, rounded(g, like(g, y)))),
        lambda: g.add("Mul", g.add("Cast", q, to=1), real_constant(g, [1])),
        lambda: dequantize(g, g.add("Reshape", q, g.constant([-1], np.int64)), steps),
    ]
    for i in g.rng.permutation(len(users))[: g.integer(2, 3)]:
        offer(g, users[int(i)]())
    if g.chance(0.3):
        g.outputs.append(g.pick([q, y]))
        g.kind("output in the middle")


def requantized(g: QdqGraph) -> None:
    """From steps to steps, and back: nothing else between."""
    g.kind("steps to steps")
    x = source(g, any_rank(g))
    steps = steps_for(g, x)
    x = rounded(g, x, steps)
    for _ in range(g.integer(1, 2)):
        twice = float(g.values[steps.scale]) * g.pick([2, 2, 4, 6])  # half of the numbers lie at ties
        steps = steps_for(g, x, given=twice if g.chance() else None)
        x = rounded(g, x, steps)
    offer(g, x)


def partial(g: QdqGraph) -> None:
    """A chain of which some nodes have steps, others not."""
    g.kind("partial")
    x = source(g, 2)
    for _ in range(g.integer(2, 4)):
        op = g.pick(["MatMul", "Relu", "Sigmoid", "Add"])
        x = maybe_rounded(g, x)
        width = g.values[x].shape[1]
        if op == "MatMul":
            shape = [width, g.integer(2, 10)]
            w = weights(g, shape, 1) if g.chance() else real_constant(g, shape, 0.4)
            x = g.add("MatMul", x, w)
        elif op == "Add":
            x = g.add("Add", x, maybe_rounded(g, real_constant(g, [width])))
        else:
            x = g.add(op, x)
        if g.chance(0.2):
            g.outputs.append(x)
            g.kind("output in the middle")
    offer(g, maybe_rounded(g, x))


def quantized_constant(g: QdqGraph) -> None:
    """QuantizeLinear of a constant at ties: the zero point is added after the rounding."""
    g.kind("quantizer of a constant")
    shape = shape_of(g, any_rank(g))
    scale = g.pick([1 / 32, 1 / 16, 0.02])
    c = g.constant(((np.rint(g.reals(shape) / 0.05) + 0.5) * scale), np.float32)
    y = rounded(g, c, given=scale)
    x = source(g, len(shape))
    if g.values[x].shape != tuple(shape):
        x = fresh(g, shape)
    offer(g, g.add(g.pick(["Add", "Mul"]), maybe_rounded(g, x), y))


def integer_input(g: QdqGraph) -> None:
    """Integers that the caller gives."""
    g.kind("integers as an input")
    shape = shape_of(g, any_rank(g))
    steps = steps_for(g, g.constant(g.reals(shape)), wide=False)
    limits = np.iinfo(steps.dtype)
    q = g.input(g.rng.integers(limits.min, limits.max + 1, shape).astype(steps.dtype))
    y = dequantize(g, q, steps)
    offer(g, y)
    if g.chance(0.4):
        offer(g, g.add(g.pick(["Relu", "Sigmoid"]), y))
    elif g.chance():
        offer(g, dequantize(g, g.add("Reshape", q, g.constant([-1], np.int64)), steps))


PARTS = {
    two_quantizers: 3.8,
    merged: 1.2,
    both_ways: 1.2,
    concat: 1.8,
    pad: 1,
    scatter: 1.2,
    compare: 1,
    consumers: 1.2,
    requantized: 1,
    partial: 1.2,
    quantized_constant: 1,
    integer_input: 1,
}
