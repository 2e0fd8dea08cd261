"""Random cases of operators that move elements, take them by index, or quantise them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import SEVEN_BITS, Const, Draft, Operand, case, model_case
from graph_run import Case
from onnx import helper

Generator = Callable[[Draft], Case]


def whole(values: object) -> Const:
    """Return a constant of int64."""
    return Const(np.array(values, np.int64))


def axes_of(d: Draft, rank: int, count: int) -> list[int]:
    """Different axes, some of them negative."""
    return [int(a) - rank * d.integer(0, 1) for a in d.rng.permutation(rank)[:count]]


def reshape(d: Draft) -> Case:
    """-1, 0, and plain sizes."""
    shape = d.shape()
    target = [int(s) for s in d.rng.permutation(shape)]
    if d.chance():
        target = d.pick([[-1], [0, -1] if len(shape) > 1 else [0], [1, *target], [*target, 1], [-1, 1]])
    elif d.chance():
        target[d.integer(0, len(target) - 1)] = -1
    return case("Reshape", d.opset(7), [d.numbers(shape), whole(target)])


def flatten(d: Draft) -> Case:
    """To a matrix."""
    shape = d.shape()
    return case("Flatten", d.opset(11), [d.numbers(shape)], axis=d.integer(-len(shape), len(shape)))


def squeeze(d: Draft) -> Case:
    """Axes as attribute, operand, or all."""
    shape = [1 if d.chance() else size for size in d.shape(2, 5)]
    ones = [i for i, size in enumerate(shape) if size == 1]
    axes = [a - len(shape) * d.integer(0, 1) for a in ones if d.chance(0.7)]
    opset = d.opset(11)
    if not axes:
        return case("Squeeze", opset, [d.numbers(shape)])
    if opset < 13:
        return case("Squeeze", opset, [d.numbers(shape)], axes=axes)
    return case("Squeeze", opset, [d.numbers(shape), whole(axes)])


def unsqueeze(d: Draft) -> Case:
    """Dimensions anywhere."""
    shape, count = d.shape(1, 4), d.integer(1, 2)
    axes = axes_of(d, len(shape) + count, count)
    opset = d.opset(11)
    if opset < 13:
        return case("Unsqueeze", opset, [d.numbers(shape)], axes=axes)
    return case("Unsqueeze", opset, [d.numbers(shape), whole(axes)])


def transpose(d: Draft) -> Case:
    """Any order, or the reverse."""
    shape = d.shape(1, 5)
    perm = [int(a) for a in d.rng.permutation(len(shape))] if d.chance(0.8) else None
    if d.chance(0.3):  # a large constant is transposed by the importer itself
        shape = [d.integer(15, 40) for _ in range(3)]
        order = [int(a) for a in d.rng.permutation(3)]
        return case(
            "Transpose", d.opset(7), [Const(d.ints(shape, -9, 9, d.pick([np.float32, np.int8])))], perm=order
        )
    return case("Transpose", d.opset(7), [d.numbers(shape)], perm=perm)


def concat(d: Draft) -> Case:
    """Return one to four operands."""
    shape = d.shape()
    axis = d.integer(-len(shape), len(shape) - 1)
    operands: list[Operand] = []
    for _ in range(d.integer(1, 4)):
        part = list(shape)
        part[axis] = d.integer(1, 5)
        operands.append(d.floats(part))
    operands[-1] = d.weight(operands[-1])  # type: ignore[arg-type]
    return case("Concat", d.opset(11), operands, axis=axis)


def split(d: Draft) -> Case:
    """Equal parts, given ones, a smaller last one."""
    shape = d.shape()
    axis, count = d.integer(-len(shape), len(shape) - 1), d.integer(1, 4)
    opset = d.opset(11)
    if d.chance():
        parts = [d.integer(1, 4) for _ in range(count)]
        shape[axis] = sum(parts)
        x = d.numbers(shape)
        if opset < 13:
            return case("Split", opset, [x], count, axis=axis, split=parts)
        return case("Split", opset, [x, whole(parts)], count, axis=axis)
    shape[axis] = count * d.integer(1, 3)
    attributes = {"axis": axis}
    if opset >= 18:
        attributes["num_outputs"] = count
        shape[axis] += d.integer(0, 1) if shape[axis] > count * 2 and count > 1 else 0
    return case("Split", opset, [d.numbers(shape)], count, **attributes)


def slice_(d: Draft) -> Case:
    """Ends outside, negative steps, some axes."""
    shape = d.shape(1, 4, 8)
    axes = axes_of(d, len(shape), d.integer(1, len(shape)))
    opset = d.opset(9)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        first, last = sorted([d.integer(0, size - 1), d.integer(0, size - 1)])
        if opset >= 10 and d.chance(0.3):
            starts.append(last)
            ends.append(first - size - 1 if d.chance() or first == 0 else first - 1)
            steps.append(-d.integer(1, 3))
        else:
            starts.append(first - size if d.chance(0.3) else first)
            ends.append(d.pick([last + 1, size + 5, 2**31 - 1, 2**63 - 1]))
            steps.append(d.integer(1, 3) if opset >= 10 else 1)
    x = d.numbers(shape)
    if opset < 10:
        return case("Slice", opset, [x], starts=starts, ends=ends, axes=axes)
    operands = [x, whole(starts), whole(ends), whole(axes)]
    return case("Slice", opset, operands + ([whole(steps)] if any(s != 1 for s in steps) else []))


def pad(d: Draft) -> Case:
    """Return all modes; negative pads; axes."""
    shape = d.shape(1, 4, 7)
    mode = d.pick(["constant", "constant", "edge", "reflect", "wrap"])
    opset = 19 if mode == "wrap" else d.opset(9, 21)
    limit = {"constant": [5] * len(shape), "edge": [4] * len(shape)}.get(mode, [s - 1 for s in shape])
    pads = [d.integer(0, most) for most in limit * 2]
    if mode == "constant" and d.chance(0.3):
        d_axis = d.integer(0, len(shape) - 1)
        pads[d_axis] = -d.integer(0, shape[d_axis] - 1)
    x = d.floats(shape)
    if opset < 11:
        return case("Pad", opset, [x], pads=pads, mode=mode, value=0.5 if mode == "constant" else None)
    operands: list[Operand] = [x, whole(pads)]
    if mode == "constant" and d.chance():
        operands.append(Const(np.float32(1.5)))
    if opset >= 18 and d.chance():
        axis = d.integer(0, len(shape) - 1)
        operands[1] = whole([pads[axis], pads[axis + len(shape)]])
        operands += [None] * (3 - len(operands)) + [whole([axis])]
    return case("Pad", opset, operands, mode=mode)


def expand(d: Draft) -> Case:
    """Both ways."""
    shape = d.shape()
    target = [size if size > 1 or d.chance() else d.integer(1, 4) for size in shape]
    target = [1 if d.chance(0.2) else size for size in target]
    if d.chance(0.3) and len(shape) < 5:
        target = [d.integer(1, 3), *target]
    return case("Expand", d.opset(8), [d.numbers(shape), whole(target)])


def tile(d: Draft) -> Case:
    """Repetitions of each dimension."""
    shape = d.shape()
    return case("Tile", d.opset(7), [d.numbers(shape), whole([d.integer(1, 3) for _ in shape])])


def reshuffle(name: str) -> Generator:
    """Blocks and channels."""

    def make(d: Draft) -> Case:
        b, c, h, w = d.integer(1, 3), d.integer(1, 3), d.integer(1, 4), d.integer(1, 4)
        if name == "SpaceToDepth":
            return case(name, d.opset(7), [d.floats([2, c, h * b, w * b])], blocksize=b)
        return case(
            name, d.opset(11), [d.floats([2, c * b * b, h, w])], blocksize=b, mode=d.pick(["DCR", "CRD"])
        )

    return make


def trilu(d: Draft) -> Case:
    """Either triangle."""
    shape = d.shape(2, 4)
    operands: list[Operand] = [d.floats(shape)] + ([whole(d.integer(-3, 3))] if d.chance() else [])
    return case("Trilu", d.opset(14), operands, upper=d.integer(0, 1))


def gather(d: Draft) -> Case:
    """Indices of any rank, constants or not, negative ones."""
    shape = d.shape(1, 4)
    axis = d.integer(-len(shape), len(shape) - 1)
    size = shape[axis]
    indices = d.ints(d.shape(0, 2, 4), -size, size - 1, d.pick([np.int32, np.int64]))
    return case("Gather", d.opset(11), [d.numbers(shape), d.weight(indices)], axis=axis)


def gather_elements(d: Draft) -> Case:
    """Return an index for each element."""
    shape = d.shape()
    axis = d.integer(-len(shape), len(shape) - 1)
    of_indices = list(shape)
    of_indices[axis] = d.integer(1, 5)
    indices = d.ints(of_indices, -shape[axis], shape[axis] - 1)
    return case("GatherElements", d.opset(11), [d.floats(shape), d.weight(indices)], axis=axis)


def tuples(d: Draft, lead: list[int], sizes: list[int]) -> np.ndarray:
    """Indices along the dimensions of these sizes."""
    return np.stack([d.ints(lead, -size, size - 1) for size in sizes], axis=-1)


def gather_nd(d: Draft) -> Case:
    """Tuples of indices, batches."""
    shape = d.shape(2, 4)
    batch = d.integer(0, 1)
    depth = d.integer(1, len(shape) - batch)
    lead = shape[:batch] + d.shape(1, 2, 3)
    indices = tuples(d, lead, shape[batch : batch + depth])
    return case("GatherND", d.opset(12), [d.floats(shape), d.weight(indices)], batch_dims=batch or None)


def scatter_nd(d: Draft) -> Case:
    """Different places, or sums in the same ones."""
    shape = d.shape(1, 3)
    depth = d.integer(1, len(shape))
    places = [tuple(int(v) for v in p) for p in np.ndindex(*shape[:depth])]
    count = d.integer(1, len(places))
    chosen = [places[i] for i in d.rng.permutation(len(places))[:count]]
    reduction = d.pick([None, None, "add", "mul", "max", "min"])
    if reduction == "add":
        chosen = [d.pick(places) for _ in range(min(count, 6))]
    updates = d.floats([len(chosen), *shape[depth:]])
    opset = d.opset(18) if reduction else d.opset(11)
    return case("ScatterND", opset, [d.floats(shape), whole(chosen), d.weight(updates)], reduction=reduction)


def scatter_elements(d: Draft) -> Case:
    """Return a place for each update."""
    shape = d.shape(1, 3)
    axis = d.integer(0, len(shape) - 1)
    part = [d.integer(1, size) for size in shape]
    order = np.argsort(d.rng.random((*part[:axis], shape[axis], *part[axis + 1 :])), axis=axis)
    indices = np.take(order, range(part[axis]), axis=axis).astype(np.int64)
    reduction = d.pick([None, None, "add", "mul"])
    return case(
        "ScatterElements",
        d.opset(18) if reduction else d.opset(11),
        [d.floats(shape), Const(indices), d.floats(part)],
        axis=axis,
        reduction=reduction,
    )


def one_hot(d: Draft) -> Case:
    """Indices from both ends, and outside."""
    depth = d.integer(1, 6)
    indices = d.ints(d.shape(1, 3), -depth, depth)
    axis = d.integer(-indices.ndim - 1, indices.ndim)
    return case("OneHot", d.opset(11), [indices, whole(depth), d.weight(d.floats([2]))], axis=axis)


def hard_max(d: Draft) -> Case:
    """Return the first of the greatest."""
    shape = d.shape(2, 3)
    return case(
        "Hardmax",
        d.opset(13),
        [d.ints(shape, -3, 3, np.float32)],
        axis=d.integer(-len(shape), len(shape) - 1),
    )


def reverse(d: Draft) -> Case:
    """Sequences up to their length."""
    batch = d.integer(0, 1)
    shape = d.shape(2, 3)
    lengths = [d.integer(1, shape[1 - batch]) for _ in range(shape[batch])]
    return case(
        "ReverseSequence",
        d.opset(10),
        [d.floats(shape), whole(lengths)],
        batch_axis=batch,
        time_axis=1 - batch,
    )


def shapes(d: Draft) -> Case:
    """Return a chain of shape arithmetic as exporters write it: x reshaped to [n, -1] of its own shape."""
    x = d.floats(d.shape(3, 4))
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Div", ["size", "n"], ["rest"]),
        helper.make_node("Unsqueeze", ["rest", "axes"], ["rest1"]),
        helper.make_node("Concat", ["n1", "rest1"], ["target"], axis=0),
        helper.make_node("Cast", ["target"], ["target32"], to=6),
        helper.make_node("Cast", ["target32"], ["target64"], to=7),
        helper.make_node("Reshape", ["x", "target64"], ["y"]),
        helper.make_node("ConstantOfShape", ["target64"], ["zeros"]),
        helper.make_node("Add", ["y", "zeros"], ["z"]),
        helper.make_node("Range", ["zero", "n", "one"], ["numbers"]),
    ]
    operands = {"x": x, "zero": whole(0), "one": whole(1), "axes": whole([0])}
    return model_case("Shapes", d.opset(13), nodes, operands, ["z", "numbers"])


def quantize(d: Draft) -> Case:
    """To and from integers, one scale or many."""
    shape = d.shape(2, 4)
    axis = d.integer(0, len(shape) - 1)
    dtype = d.pick([np.uint8, np.int8])
    by_channel = d.chance()
    opset = d.opset(13, 21)
    count = [shape[axis]] if by_channel else []
    scale = Const(d.floats(count, 0.01, 0.1))
    zero = Const(d.ints(count, 0, 20, dtype))
    q = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis)
    r = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"], axis=axis)
    return model_case(
        "QuantizeLinear", opset, [q, r], {"x": d.floats(shape), "s": scale, "z": zero}, ["q", "r"]
    )


def dequantize(d: Draft) -> Case:
    """Integers that are inputs or constants."""
    shape = d.shape(2, 4)
    dtype = d.pick([np.uint8, np.int8])
    x = d.ints(shape, 0, 100, dtype)
    operands = [d.weight(x), d.weight(d.floats([], 0.01, 0.1)), d.weight(d.ints([], 0, 20, dtype))]
    return case("DequantizeLinear", d.opset(10, 21), operands)


def matmul_integer(d: Draft) -> Case:
    """Accumulators of products."""
    m, k, n = d.integer(1, 6), d.integer(1, 20), d.integer(1, 6)
    dtype = d.pick([np.uint8, np.int8])
    low, high = (0, 100) if dtype is np.uint8 else (-SEVEN_BITS, SEVEN_BITS)
    zeros: list[Operand] = []
    if d.chance(0.6):
        zeros = [Const(d.ints([], 0, 9, np.uint8)), Const(d.ints([], max(low, -5), 9, dtype))]
    return case(
        "MatMulInteger",
        10,
        [d.ints([m, k], 0, 200, np.uint8), d.weight(d.ints([k, n], low, high, dtype)), *zeros],
    )


GENERATORS: dict[str, Generator] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": reshuffle("DepthToSpace"),
    "SpaceToDepth": reshuffle("SpaceToDepth"),
    "Trilu": trilu,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "ScatterElements": scatter_elements,
    "OneHot": one_hot,
    "Hardmax": hard_max,
    "ReverseSequence": reverse,
    "Shapes": shapes,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "MatMulInteger": matmul_integer,
}
