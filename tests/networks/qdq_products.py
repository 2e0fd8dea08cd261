"""Parts of graphs with products: of steps, of floats, of integers; quantised while they run."""

from __future__ import annotations

import numpy as np
from qdq_graph import MICROSOFT, QdqGraph, UnsuitableError
from qdq_steps import (
    Steps,
    bias,
    dequantize,
    fresh,
    maybe_rounded,
    offer,
    quantize,
    real_constant,
    rounded,
    source,
    steps_for,
    weights,
)


def matmul(g: QdqGraph) -> None:
    """Two operands: steps, floats, constants of both, on either side."""
    rank = g.pick([2, 2, 3])
    x = source(g, rank)
    k = g.values[x].shape[-1]
    n = g.integer(1, 10)
    how = g.pick(
        ["float constant first", "float constant", *["two dequantised"] * 2, "weights", "weights", "gemm"]
    )
    if how == "float constant first":
        g.kind("product with a float constant")
        m = g.values[x].shape[-2]
        y = g.add("MatMul", real_constant(g, [n, m], 0.5), rounded(g, x))
    elif how == "float constant":
        g.kind("product with a float constant")
        y = g.add("MatMul", rounded(g, x), real_constant(g, [k, n], 0.5))
    elif how == "two dequantised":
        g.kind("product of two dequantised")
        other = rounded(g, fresh(g, [*g.values[x].shape[:-2], k, n]))
        y = g.add("MatMul", rounded(g, x), other)
    elif how == "gemm" and rank == 2:
        g.kind("product with weights in steps")
        turned = g.integer(0, 1)
        w = weights(g, [n, k] if turned else [k, n], 1 - turned)
        more = [bias(g, n)] if g.chance(0.7) else []
        y = g.add("Gemm", maybe_rounded(g, x, 0.9), w, *more, transB=turned)
    else:
        g.kind("product with weights in steps")
        y = g.add("MatMul", maybe_rounded(g, x, 0.9), weights(g, [k, n], 1))
        if g.chance(0.4):
            y = g.add("Add", y, g.pick([lambda: bias(g, n), lambda: real_constant(g, [n])])())
    if g.chance(0.3):
        y = g.add("Relu", y)
    offer(g, maybe_rounded(g, y, 0.7))


def conv(g: QdqGraph) -> None:
    """Convolutions whose input, weights or both are in steps."""
    g.kind("convolution")
    x = source(g, 4)
    c = g.values[x].shape[1]
    groups = c if g.chance(0.25) else 1
    outputs = groups * g.integer(1, 3) if groups > 1 else g.integer(1, 8)
    kernel = [g.integer(1, 3), g.integer(1, 3)]
    window = {"pads": [g.integer(0, 1) for _ in range(4)], "strides": [g.integer(1, 2), 1]}
    x = maybe_rounded(g, x, 0.85)
    more: list[str] = []
    if g.chance(0.2):
        shape = [c, g.integer(1, 3), *kernel]
        w = weights(g, shape, 1) if g.chance(0.8) else real_constant(g, shape, 0.3)
        y = g.add("ConvTranspose", x, w, strides=[2, 1])
    else:
        shape = [outputs, c // groups, *kernel]
        w = weights(g, shape, 0) if g.chance(0.85) else real_constant(g, shape, 0.3)
        if g.chance(0.6):
            more = [g.pick([lambda: bias(g, outputs), lambda: real_constant(g, [outputs])])()]
        y = g.add("Conv", x, w, *more, group=groups, **window)
    if g.chance(0.4):
        y = g.add("Relu", y)
    offer(g, maybe_rounded(g, y, 0.75))


def dynamic(g: QdqGraph) -> None:
    """DynamicQuantizeLinear alone or before a product; of zeros too."""
    g.kind("dynamic")
    if g.opset < 11 or g.only_i8:
        raise UnsuitableError
    x = source(g, 2)
    if g.chance(0.5):
        g.kind("dynamic of zeros")
        shape = g.values[x].shape
        x = (
            g.input(np.zeros(shape, np.float32))
            if g.chance()
            else g.add("Mul", x, g.constant([0], np.float32))
        )
    q, scale, zero = g.add_all("DynamicQuantizeLinear", [x], 3)
    if g.chance(0.3):
        g.outputs += [q, scale, zero]
        return
    if g.chance(0.4):
        offer(g, g.add("DequantizeLinear", q, scale, zero))
        return
    k, n = g.values[x].shape[1], g.integer(1, 8)
    w = g.constant(g.rng.integers(-127, 128, (k, n)), np.int8)
    sums = g.add(
        "MatMulInteger", q, w, zero, *([g.constant(g.integer(-3, 3), np.int8)] if g.chance() else [])
    )
    if g.chance(0.2):
        g.outputs.append(sums)
    by = g.add("Mul", scale, g.constant(1.5 / 127 / np.sqrt(k), np.float32))
    offer(g, maybe_rounded(g, g.add("Mul", g.add("Cast", sums, to=1), by)))


def integer_product(g: QdqGraph) -> None:
    """MatMulInteger and ConvInteger on integers that QuantizeLinear made."""
    g.kind("integer product")
    is_conv = g.chance()
    x = source(g, 4 if is_conv else 2)
    steps = steps_for(g, x, wide=False)
    q = quantize(g, x, steps)
    dtype = g.pick([np.int8, np.uint8])
    low = -64 if dtype is np.int8 else 0
    zero = g.constant(dtype(low + g.integer(40, 80)))
    more = [steps.zero, zero] if steps.zero else []
    if is_conv:
        shape = [g.integer(1, 4), g.values[x].shape[1], g.integer(1, 3), g.integer(1, 3)]
        sums = g.add("ConvInteger", q, g.constant(g.rng.integers(low, low + 128, shape), dtype), *more)
    else:
        shape = [g.values[x].shape[1], g.integer(1, 6)]
        sums = g.add("MatMulInteger", q, g.constant(g.rng.integers(low, low + 128, shape), dtype), *more)
    if g.chance(0.6):
        g.outputs.append(sums)
        g.kind("integer output")
    most = max(int(np.abs(g.values[sums]).max()), 1)
    offer(g, g.add("Mul", g.add("Cast", sums, to=1), g.constant(2.0 / most, np.float32)))


def qlinear(g: QdqGraph) -> None:
    """Nodes that read and write integers, floats around them."""
    g.kind("QLinear")
    if g.chance(0.4):
        return qlinear_product(g)
    op = g.pick(["Add", "Mul", "Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool", "Concat"])
    x = source(g, 4)
    steps = steps_for(g, x, wide=False)
    while not steps.zero:
        steps = steps_for(g, x, wide=False)
    q = quantize(g, x, steps)
    small = 0.0079 if op == "Sigmoid" else None
    result = of_type(g, steps, small or float(g.rng.uniform(0.01, 0.05)))
    attributes: dict[str, object] = {}
    if op in ("Add", "Mul", "Concat"):
        b = like_steps(g, fresh(g, g.values[x].shape), steps)
        other = [quantize(g, b[0], b[1]), *b[1].operands]
        if op == "Concat":
            y = g.add(f"QLinear{op}", *result.operands, q, *steps.operands, *other, axis=1, domain=MICROSOFT)
        else:
            y = g.add(f"QLinear{op}", q, *steps.operands, *other, *result.operands, domain=MICROSOFT)
    else:
        if op == "AveragePool":
            attributes = {"kernel_shape": [min(2, n) for n in g.values[x].shape[2:]]}
        y = g.add(f"QLinear{op}", q, *steps.operands, *result.operands, domain=MICROSOFT, **attributes)
    if g.chance(0.3):
        g.outputs.append(y)
        g.kind("integer output")
    offer(g, dequantize(g, y, result))
    return None


def of_type(g: QdqGraph, steps: Steps, scale: float) -> Steps:
    """Steps of the same integers for a result."""
    low = np.iinfo(steps.dtype).min
    return Steps(
        g.constant(scale, np.float32), g.constant(low + g.integer(90, 160), steps.dtype), steps.dtype, {}
    )


def like_steps(g: QdqGraph, x: str, steps: Steps) -> tuple[str, Steps]:
    """Steps of the same integers for another operand."""
    most = max(float(np.abs(g.values[x]).max()), 1e-3)
    return x, of_type(g, steps, most / g.pick([40.0, 100.0]))


def qlinear_product(g: QdqGraph) -> None:
    """QLinearConv, QLinearMatMul, QGemm."""
    op = g.pick(["QLinearConv", "QLinearMatMul", "QGemm"])
    x = source(g, 4 if op == "QLinearConv" else 2)
    steps = steps_for(g, x, wide=False)
    while not steps.zero:
        steps = steps_for(g, x, wide=False)
    q = quantize(g, x, steps)
    n = g.integer(1, 6)
    taken = g.values[x].shape[1]
    shape = [n, taken, g.integer(1, 3), g.integer(1, 3)] if op == "QLinearConv" else [taken, n]
    count = [n] if g.chance() else []
    scales = np.asarray(0.012 * g.rng.uniform(0.5, 1.5, count) / np.sqrt(taken), np.float32)
    w = [
        g.constant(g.rng.integers(-127, 128, shape), np.int8),
        g.constant(scales),
        g.constant(np.zeros(count), np.int8),
    ]
    result = of_type(g, steps, float(g.rng.uniform(0.01, 0.05)))
    added = [g.constant(g.rng.integers(-3000, 3000, n), np.int32)] if g.chance() else []
    if op == "QLinearMatMul":
        y = g.add(op, q, *steps.operands, *w, *result.operands)
    elif op == "QGemm":
        y = g.add(op, q, *steps.operands, *w, *(added or [""]), *result.operands, domain=MICROSOFT)
    else:
        y = g.add(op, q, *steps.operands, *w, *result.operands, *added)
    if g.chance(0.3):
        g.outputs.append(y)
        g.kind("integer output")
    offer(g, dequantize(g, y, result))


PARTS = {matmul: 2.4, conv: 2, dynamic: 2.4, integer_product: 1, qlinear: 1.2}
