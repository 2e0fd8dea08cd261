"""Random cases on types and sizes that no device has: 64 bits, single bits, no elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import Const, Draft, case, model_case
from graph_run import Array, Case
from onnx import helper

Generator = Callable[[Draft], Case]


def doubles(d: Draft, shape: list[int], low: float = -3, high: float = 3) -> Array:
    """Return the numbers that f32 has, too: what is made of them is rounded, they are not."""
    return d.floats(shape, low, high).astype(np.float64)


def double_unary(d: Draft) -> Case:
    """Return a function of each element."""
    name, first = d.pick([("Relu", 14), ("Exp", 7), ("Abs", 7), ("Neg", 7), ("Sigmoid", 7), ("Softmax", 13)])
    return case(name, d.opset(first), [doubles(d, d.shape())])


def double_binary(d: Draft) -> Case:
    """Return two operands that broadcast, either of them a constant or not."""
    shape = d.shape()
    operands = [doubles(d, shape), d.weight(doubles(d, d.partner(shape), 0.5, 3))]
    return case(d.pick(["Add", "Sub", "Mul", "Div", "Max"]), d.opset(13), operands)


def double_product(d: Draft) -> Case:
    """Return a matrix product with a bias, or a sum of rows."""
    m, k, n = d.integer(1, 9), d.integer(1, 20), d.integer(1, 9)
    if d.chance(0.3):
        return case("ReduceSum", d.opset(13), [doubles(d, [m, k]), Const(np.array([1]))])
    operands = [doubles(d, [m, k]), d.weight(doubles(d, [k, n])), d.weight(doubles(d, [n]))]
    return case("Gemm", d.opset(13), operands)


def double_cast(d: Draft) -> Case:
    """From and to the other types."""
    shape = d.shape()
    if d.chance():
        return case("Cast", d.opset(13), [doubles(d, shape, -90, 90)], to=d.pick([1, 6, 7, 9, 10]))
    x = d.pick([d.floats(shape), d.ints(shape, -90, 90, np.int64), d.ints(shape, 0, 1, bool)])
    return case("Cast", d.opset(13), [x], to=11)


def wide_integers(d: Draft) -> Case:
    """Arithmetic of 64 bits whose results fit 31."""
    dtype, shape = d.pick([np.int64, np.uint64]), d.shape()
    low = 0 if dtype == np.uint64 else -30_000
    a, b = d.ints(shape, low, 30_000, dtype), d.ints(d.partner(shape), 1, 9, dtype)
    name = d.pick(["Add", "Mul", "Div", "Mod", "Max", "Min", "Greater", "Equal", "Sub"])
    if name == "Sub" and dtype == np.uint64:
        a = a + dtype(9)
    return case(name, d.opset(13), [a, d.weight(b)])


UNSIGNED = (np.uint8, np.uint32, np.uint64)


def bit_shift(d: Draft) -> Case:
    """Shift types that ONNX Runtime shifts; what leaves 8 or 32 bits is gone."""
    dtype, shape, direction = d.pick(UNSIGNED), d.shape(), d.pick(["LEFT", "RIGHT"])
    wide = dtype == np.uint64
    most = 1 << 12 if wide else np.iinfo(dtype).max
    bits = 18 if wide else np.iinfo(dtype).bits - 1
    operands = [d.ints(shape, 0, most, dtype), d.weight(d.ints(d.partner(shape), 0, bits, dtype))]
    return case("BitShift", d.opset(11), operands, direction=direction)


def bitwise(name: str) -> Generator:
    """Combine every integer type."""

    def make(d: Draft) -> Case:
        types = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
        dtype, shape = d.pick(types if name == "BitwiseNot" else [*types, np.uint64]), d.shape()
        limits = np.iinfo(np.int32 if dtype in (np.int64, np.uint64) else dtype)
        low = 0 if dtype == np.uint64 else int(limits.min)
        operands = [d.ints(shape, low, int(limits.max), dtype)]
        if name != "BitwiseNot":
            operands.append(d.weight(d.ints(d.partner(shape), low, int(limits.max), dtype)))
        return case(name, d.opset(18), operands)

    return make


def some_zero(d: Draft, low: int = 1) -> list[int]:
    """Dimensions, one of them 0."""
    shape = d.shape(low)
    shape[d.integer(0, len(shape) - 1)] = 0
    return shape


def empty_reduction(d: Draft) -> Case:
    """Sums of nothing, or nothing."""
    shape = some_zero(d)
    axes = Const(np.array([d.integer(0, len(shape) - 1)]))
    return case("ReduceSum", d.opset(13), [d.floats(shape), axes], keepdims=d.integer(0, 1))


def empty_concat(d: Draft) -> Case:
    """Operands that add nothing, inputs and slices, among others."""
    shape = d.shape()
    axis = d.integer(0, len(shape) - 1)
    sizes = [d.integer(0, 3) for _ in range(d.integer(1, 3))]
    parts = [d.floats([size if i == axis else other for i, other in enumerate(shape)]) for size in sizes]
    operands = {f"x{i}": d.weight(part) if part.size else part for i, part in enumerate(parts)}
    nodes = [helper.make_node("Concat", list(operands), ["y"], axis=axis)]
    return model_case("Concat", d.opset(13), nodes, operands, ["y"])


def empty_moves(d: Draft) -> Case:
    """Views, elementwise operators and products of a tensor without elements."""
    shape = some_zero(d, 2)
    x = d.floats(shape)
    ends = Const(np.array([len(shape)], np.int64))
    node, operands = d.pick(
        [
            (helper.make_node("Transpose", ["x"], ["y"]), {}),
            (helper.make_node("Relu", ["x"], ["y"]), {}),
            (helper.make_node("Add", ["x", "b"], ["y"]), {"b": Const(d.floats([1]))}),
            (helper.make_node("Flatten", ["x"], ["y"], axis=d.integer(0, len(shape))), {}),
            (helper.make_node("Unsqueeze", ["x", "a"], ["y"]), {"a": ends}),
            (helper.make_node("Tile", ["x", "a"], ["y"]), {"a": Const(np.full(len(shape), 2))}),
            (helper.make_node("Shape", ["x"], ["y"]), {}),
            (helper.make_node("MatMul", ["x", "b"], ["y"]), {"b": Const(d.floats([shape[-1], 3]))}),
            (helper.make_node("Pad", ["x", "a"], ["y"]), {"a": Const(np.ones(2 * len(shape), np.int64))}),
            (helper.make_node("Cast", ["x"], ["y"], to=7), {}),
        ]
    )
    return model_case(node.op_type, d.opset(13), [node], {"x": x, **operands}, ["y"])


def cut_to_nothing(d: Draft) -> Case:
    """Tensors with elements that leave none: a slice, a split, no repetition."""
    shape = d.shape()
    x, axis = d.floats(shape), d.integer(0, len(shape) - 1)
    at, times = d.integer(0, shape[axis]), [1] * len(shape)
    times[axis] = 0
    kind = d.pick(["Slice", "Split", "Tile"])
    if kind == "Slice":
        bounds = [Const(np.array([value], np.int64)) for value in (at, at, axis)]
        return case("Slice", d.opset(13), [x, *bounds])
    if kind == "Split":
        sizes = Const(np.array([0, shape[axis]], np.int64))
        return case("Split", d.opset(13), [x, sizes], outputs=2, axis=axis)
    return case("Tile", d.opset(13), [x, Const(np.array(times, np.int64))])


GENERATORS: dict[str, Generator] = {
    "float64 functions": double_unary,
    "float64 pairs": double_binary,
    "float64 products": double_product,
    "float64 casts": double_cast,
    "64-bit integers": wide_integers,
    "BitShift": bit_shift,
    **{name: bitwise(name) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")},
    "sums of nothing": empty_reduction,
    "concatenated nothing": empty_concat,
    "nothing moved": empty_moves,
    "nothing left": cut_to_nothing,
}
