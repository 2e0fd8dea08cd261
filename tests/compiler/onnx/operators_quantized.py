"""Random cases of quantised operators: QLinear ones, products of integers, steps whose scale is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from drafts import SEVEN_BITS, Const, Draft, Operand, case, model_case
from graph_run import Array, Case
from onnx import helper

Generator = Callable[[Draft], Case]


class Steps:
    """Integers of one type with their scales and zero points."""

    def __init__(self, draft: Draft) -> None:
        self.d = draft
        self.dtype = draft.pick([np.uint8, np.int8])
        self.low = 0 if self.dtype is np.uint8 else -128

    def numbers(self, shape: Sequence[int]) -> Array:
        """Draw from the whole range."""
        return self.d.ints(shape, self.low, self.low + 255, self.dtype)

    def zero(self, count: Sequence[int] = ()) -> Const:
        """Zero points somewhere in the middle."""
        return Const(self.d.ints(count, self.low + 100, self.low + 156, self.dtype))

    def scale(self, low: float = 0.005, high: float = 0.03) -> Const:
        """Draw the scale of one tensor."""
        return Const(self.d.floats([], low, high))

    def operand(self, shape: Sequence[int]) -> list[Operand]:
        """Return an input, or sometimes a constant."""
        numbers = self.numbers(shape)
        return [Const(numbers) if self.d.chance(0.2) else numbers, self.scale(), self.zero()]

    def result(self, low: float = 0.005, high: float = 0.05) -> list[Operand]:
        """Scale and zero point of a result."""
        return [self.scale(low, high), self.zero()]


def qlinear(name: str, operands: list[Operand], *, ours: bool = False, **attributes: object) -> Case:
    """Return one node. A sum that lies at a half may be rounded the other way."""
    if all(operand is None or isinstance(operand, Const) for operand in operands):
        first = next(operand for operand in operands if isinstance(operand, Const) and operand.array.ndim)
        operands[operands.index(first)] = first.array
    made = case(name, 13, operands, domain="" if ours else "com.microsoft", **attributes)
    made.steps = 1
    if not ours:  # whose types are not inferred
        info = made.model.graph.output[0].type.tensor_type
        types = [
            operand.array.dtype if isinstance(operand, Const) else operand.dtype
            for operand in operands
            if operand is not None
        ]
        info.elem_type = helper.np_dtype_to_tensor_dtype(next(t for t in types if t in (np.uint8, np.int8)))
    return made


def binary(name: str) -> Generator:
    """Operands that broadcast."""

    def make(d: Draft) -> Case:
        steps, shape = Steps(d), d.shape()
        return qlinear(name, [*steps.operand(shape), *steps.operand(d.partner(shape)), *steps.result()])

    return make


def unary(name: str, **limits: float) -> Generator:
    """A function of each element."""

    def make(d: Draft) -> Case:
        steps = Steps(d)
        attributes = {"alpha": float(d.rng.uniform(0, 0.5))} if name == "QLinearLeakyRelu" else {}
        return qlinear(name, [*steps.operand(d.shape()), *steps.result(**limits)], **attributes)

    return make


def softmax(d: Draft) -> Case:
    """Along one dimension."""
    steps, shape = Steps(d), d.shape(2, 3)
    operands = [*steps.operand(shape), Const(np.float32(1 / 256)), Const(steps.dtype(steps.low))]
    return qlinear("QLinearSoftmax", operands, axis=len(shape) - 1, opset=13)


def pool(name: str) -> Generator:
    """Windows, or all of each image."""

    def make(d: Draft) -> Case:
        steps = Steps(d)
        shape = [d.integer(1, 2), d.integer(1, 4), d.integer(3, 7), d.integer(3, 7)]
        window: dict[str, Any] = {}
        if name == "QLinearAveragePool":
            window = {
                "kernel_shape": [d.integer(1, 3), d.integer(1, 3)],
                "strides": [d.integer(1, 2), d.integer(1, 2)],
                "count_include_pad": int(d.chance()),
            }
        if d.chance(0.3):
            shape = [shape[0], *shape[2:], shape[1]]
            window["channels_last"] = 1
        return qlinear(name, [*steps.operand(shape), *steps.result()], **window)

    return make


def concat(d: Draft) -> Case:
    """Operands with steps of their own."""
    steps, shape = Steps(d), d.shape(2, 4)
    axis = d.integer(0, len(shape) - 1)
    parts: list[Operand] = []
    for _ in range(d.integer(1, 4)):
        part = list(shape)
        part[axis] = d.integer(1, 4)
        parts += [steps.numbers(part), steps.scale(), steps.zero()]
    return qlinear("QLinearConcat", [*steps.result(), *parts], axis=axis)


def where(d: Draft) -> Case:
    """Return one of two operands."""
    steps, shape = Steps(d), d.shape()
    condition = d.ints(shape, 0, 1, bool)
    return qlinear("QLinearWhere", [condition, *steps.operand(shape), *steps.operand(shape), *steps.result()])


def weights(d: Draft, shape: Sequence[int], channels: int) -> list[Operand]:
    """Draw weights of one scale, or one for each channel."""
    count = [channels] if d.chance() else []
    scale = Const(d.floats(count, 0.003, 0.02))
    return [Const(d.ints(shape, -SEVEN_BITS, SEVEN_BITS, np.int8)), scale, Const(np.zeros(count, np.int8))]


def gemm(d: Draft) -> Case:
    """Turned or not, with a bias or without."""
    steps = Steps(d)
    m, k, n = d.integer(1, 7), d.integer(1, 24), d.integer(1, 9)
    turned = d.chance()
    a, b = steps.operand([m, k]), weights(d, [n, k] if turned else [k, n], n)
    bias = Const(d.ints([n], -3000, 3000, np.int32)) if d.chance() else None
    alpha = float(d.pick([1.0, 0.5]))
    return qlinear("QGemm", [*a, *b, bias, *steps.result(0.02, 0.1)], alpha=alpha, transB=int(turned))


def product(d: Draft) -> Case:
    """Matrices, some of them in batches."""
    steps = Steps(d)
    m, k, n = d.integer(1, 7), d.integer(1, 24), d.integer(1, 9)
    batch = d.shape(0, 2, 3)
    b = weights(d, [k, n], n) if d.chance() else steps.operand([*batch, k, n])
    return qlinear("QLinearMatMul", [*steps.operand([*batch, m, k]), *b, *steps.result(0.02, 0.1)], ours=True)


def conv(d: Draft) -> Case:
    """Groups, pads, a bias; com.microsoft's with channels first or last."""
    last = d.chance(0.3)
    steps, groups = Steps(d), d.pick([1, 1, 2])
    inputs, outputs = groups * d.integer(1, 5), groups * d.integer(1, 5)
    kernel = [d.integer(1, 3), d.integer(1, 3)]
    image = [1, *([] if last else [inputs]), d.integer(3, 8), d.integer(3, 8), *([inputs] if last else [])]
    bias = [Const(d.ints([outputs], -3000, 3000, np.int32))] if d.chance() else []
    operands = [
        *steps.operand(image),
        *weights(d, [outputs, inputs // groups, *kernel], outputs),
        *steps.result(0.02, 0.1),
        *bias,
    ]
    pads = [int(d.chance()) for _ in range(4)]
    if last:
        return qlinear("QLinearConv", operands, group=groups, pads=pads, channels_last=1)
    return qlinear("QLinearConv", operands, ours=True, group=groups, pads=pads)


def last_pool(d: Draft) -> Case:
    """Return the greatest of integers, channels last."""
    steps = Steps(d)
    shape = [d.integer(1, 2), d.integer(3, 7), d.integer(3, 7), d.integer(1, 9)]
    window = {
        "kernel_shape": [d.integer(1, 3), d.integer(1, 3)],
        "strides": [d.integer(1, 2), d.integer(1, 2)],
        "pads": [0, d.integer(0, 1), 0, 0],
    }
    window["kernel_shape"][1] += window["pads"][1]
    return qlinear("NhwcMaxPool", [steps.numbers(shape)], **window)


def dynamic(d: Draft) -> Case:
    """Make what quantize_dynamic makes of a product or a convolution: floats in, floats out."""
    dtype = d.pick([np.int8, np.uint8])
    low = -SEVEN_BITS if dtype is np.int8 else 0
    is_conv = d.chance()
    if is_conv:
        rank = d.integer(1, 3)
        shape = [d.integer(1, 2), d.integer(1, 4), *(d.integer(3, 7) for _ in range(rank))]
        w_shape = [d.integer(1, 5), shape[1], *(d.integer(1, 3) for _ in range(rank))]
    else:
        shape = [*d.shape(1, 2, 4), d.integer(1, 20)]
        w_shape = [shape[-1], d.integer(1, 9)]
    zero = Const(dtype(low + d.integer(40, 80)) if d.chance() else dtype(0))
    attributes: dict[str, object] = {}
    if is_conv:
        attributes["pads"] = [d.integer(0, 2) * int(d.chance()) for _ in range(2 * rank)]
        attributes["strides"] = [d.integer(1, 2) for _ in range(rank)]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node(
            "ConvInteger" if is_conv else "MatMulInteger", ["q", "w", "z", "wz"], ["sums"], **attributes
        ),
        helper.make_node("Cast", ["sums"], ["reals"], to=1),
        helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Mul", ["reals", "scale"], ["y"]),
    ]
    operands = {
        "x": d.floats(shape),
        "w": Const(d.ints(w_shape, low, low + 2 * SEVEN_BITS, dtype)),
        "wz": zero,
        "ws": Const(d.floats([], 0.001, 0.02)),
    }
    return model_case("Dynamic", 13, nodes, operands, ["y"])


def computed_zero(d: Draft) -> Case:
    """Accumulators of operands whose zero point is an input."""
    m, k, n = d.integer(1, 6), d.integer(1, 20), d.integer(1, 6)
    batch = d.shape(0, 2, 3)
    dtype = d.pick([np.uint8, np.int8])
    low = 0 if dtype is np.uint8 else -128
    b = d.ints([*batch, k, n], -SEVEN_BITS, SEVEN_BITS, np.int8)
    operands = [
        d.ints([*batch, m, k], low, low + 255, dtype),
        d.weight(b),
        np.asarray(dtype(low + d.integer(0, 255))),
    ]
    return case("MatMulInteger", 10, operands)


def own_steps(d: Draft) -> Case:
    """Integers that QuantizeLinear made, whose zero point is also an input of the product."""
    m, k, n = d.integer(1, 6), d.integer(1, 20), d.integer(1, 6)
    steps = Steps(d)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("MatMulInteger", ["q", "w", "given"], ["sums"]),
    ]
    operands = {
        "x": d.floats([m, k], -2, 2),
        "s": steps.scale(0.01, 0.03),
        "z": steps.zero(),
        "w": Const(d.ints([k, n], -SEVEN_BITS, SEVEN_BITS, np.int8)),
        "given": steps.zero().array,
    }
    return model_case("OwnSteps", 13, nodes, operands, ["sums"])


def moved(d: Draft) -> Case:
    """Operators that only move integers, as ONNX Runtime's optimizer leaves them: steps stay the same."""
    steps = Steps(d)
    node, more = d.pick(
        [
            (helper.make_node("Resize", ["q", "", "by"], ["r"], mode="nearest"), [1, 1, 2, 2]),
            (helper.make_node("Gather", ["q", "by"], ["r"], axis=2), [0, -1, 1]),
            (helper.make_node("Expand", ["q", "by"], ["r"]), [2, 1, 1, 1]),
            (helper.make_node("ReduceMax", ["q"], ["r"], axes=[2]), None),
            (helper.make_node("ReduceMin", ["q"], ["r"], axes=[3]), None),
            (helper.make_node("Pad", ["q", "by", "c"], ["r"]), [0, 0, 1, 2, 0, 0, 0, 1]),
            (helper.make_node("Pad", ["q", "by"], ["r"], mode="reflect"), [0, 0, 1, 1, 0, 0, 0, 1]),
        ]
    )
    kind = np.float32 if node.op_type == "Resize" else np.int64
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node,
        helper.make_node("QLinearConv", ["r", "s", "z", "w", "s", "wz", "ys", "yz"], ["y"]),
    ]
    shape = [1, d.integer(1, 4), d.integer(2, 5), d.integer(2, 5)]
    operands = {
        "x": d.floats(shape, -1, 1),
        "s": steps.scale(0.01, 0.03),
        "z": steps.zero(),
        **({} if more is None else {"by": Const(np.array(more, kind))}),
        **({"c": Const(steps.numbers([]))} if "c" in node.input else {}),
        "w": Const(d.ints([3, shape[1], 1, 1], -SEVEN_BITS, SEVEN_BITS, np.int8)),
        "wz": Const(np.int8(0)),
        "ys": steps.scale(0.02, 0.1),
        "yz": steps.zero(),
    }
    made = model_case(f"Moved-{node.op_type}", 13, nodes, operands, ["y"])
    made.steps = 1
    return made


def to_float(name: str) -> Generator:
    """Products that are scaled in one operator, with a bias or without."""

    def make(d: Draft) -> Case:
        m, k, n = d.integer(1, 6), d.integer(1, 20), d.integer(1, 6)
        count = [n] if d.chance() else []
        b = Const(d.ints([k, n], -SEVEN_BITS, SEVEN_BITS, np.int8))
        scale, zero = Const(d.floats(count, 0.001, 0.02)), Const(np.zeros(count, np.int8))
        bias = Const(d.floats([n])) if d.chance() else None
        if name == "DynamicQuantizeMatMul":
            operands: list[Operand] = [d.floats([m, k]), b, scale, zero, bias]
        else:
            a = d.ints([m, k], 0, 255, np.uint8)
            a_zero = np.asarray(np.uint8(d.integer(90, 160)))
            operands = [a, b, Const(d.floats([], 0.01, 0.03)), scale, d.weight(a_zero), zero, bias]
        while operands[-1] is None:
            operands.pop()
        return case(name, 13, operands, domain="com.microsoft")

    return make


def matmul_nbits(d: Draft) -> Case:
    """Weights of 2, 4 or 8 bits in blocks; a zero point for each, or none."""
    bits, size = d.pick([2, 4, 8]), d.pick([16, 32])
    k, n = d.integer(1, 70), d.integer(1, 6)
    blocks = -(-k // size)
    operands: list[Operand] = [
        d.floats([d.integer(1, 5), k]),
        Const(d.ints([n, blocks, size * bits // 8], 0, 255, np.uint8)),
        Const(d.floats([n, blocks], 0.01, 0.05)),
    ]
    if d.chance():
        operands.append(Const(d.ints([n, -(-blocks * bits // 8)], 0, 255, np.uint8)))
    return case("MatMulNBits", 17, operands, domain="com.microsoft", K=k, N=n, bits=bits, block_size=size)


GENERATORS: dict[str, Generator] = {
    "QLinearConv": conv,
    "NhwcMaxPool": last_pool,
    "QLinearMatMul": product,
    "QGemm": gemm,
    "QLinearAdd": binary("QLinearAdd"),
    "QLinearMul": binary("QLinearMul"),
    "QLinearSigmoid": unary("QLinearSigmoid", low=0.003, high=0.008),
    "QLinearLeakyRelu": unary("QLinearLeakyRelu"),
    "QLinearSoftmax": softmax,
    "QLinearAveragePool": pool("QLinearAveragePool"),
    "QLinearGlobalAveragePool": pool("QLinearGlobalAveragePool"),
    "QLinearConcat": concat,
    "QLinearWhere": where,
    "QuantizeDynamic": dynamic,
    "ComputedZero": computed_zero,
    "OwnSteps": own_steps,
    "MovedSteps": moved,
    "MatMulNBits": matmul_nbits,
    "DynamicQuantizeMatMul": to_float("DynamicQuantizeMatMul"),
    "MatMulIntegerToFloat": to_float("MatMulIntegerToFloat"),
}
