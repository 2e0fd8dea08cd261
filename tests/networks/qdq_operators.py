"""Parts of graphs around one operator: between steps, after them, before them, on integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from qdq_graph import QdqGraph, UnsuitableError
from qdq_steps import (
    Steps,
    dequantize,
    fresh,
    like,
    maybe_rounded,
    offer,
    quantize,
    real_constant,
    rounded,
    source,
    steps_for,
    weights,
)


def resize(g: QdqGraph, x: str) -> str:
    """Resize pictures. Where the size stays, ONNX Runtime copies, whatever the scales are."""
    y = any_resize(g, x)
    if g.values[y].shape == g.values[x].shape:
        raise UnsuitableError
    return y


def any_resize(g: QdqGraph, x: str) -> str:
    """Nearest, linear, cubic; sizes or scales, also those whose product is no integer."""
    shape = g.values[x].shape
    real = g.values[x].dtype == np.float32
    mode = g.pick(
        ["nearest", "linear", "cubic", "cubic"] if g.opset >= 11 and real else ["nearest", "linear"]
    )
    g.kind(f"{mode} resize")
    scales = [1.0, 1.0, *(g.pick([0.7, 0.5, 1.3, 1.5, 2.0, 0.35, 2.3]) for _ in range(2))]
    if g.opset < 11:
        return g.add("Resize", x, g.constant(scales, np.float32), mode=mode)
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    by_size = g.chance()
    if not by_size:  # ONNX's reference and ONNX Runtime disagree on the corners of a fractional size
        ways.remove("align_corners")
    if not real:  # where a size is 1 it is a product, which integers do not have
        ways.remove("pytorch_half_pixel")
    attributes: dict[str, str] = {"mode": mode, "coordinate_transformation_mode": g.pick(ways)}
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick(["floor", "round_prefer_floor", "ceil", "round_prefer_ceil"])
    region = "" if g.opset >= 13 else g.constant(np.zeros(0), np.float32)
    if by_size:
        sizes = [*shape[:2], *(g.integer(1, 2 * n + 1) for n in shape[2:])]
        none = "" if g.opset >= 13 else g.constant(np.zeros(0), np.float32)
        return g.add("Resize", x, region, none, g.constant(sizes, np.int64), **attributes)
    g.kind("fractional scales")
    return g.add("Resize", x, region, g.constant(scales, np.float32), **attributes)


def fractional(g: QdqGraph) -> None:
    """Scales whose product in f32 is the next integer, and in binary64 is not; or the other way round."""
    g.kind("size as the f32 product")
    pairs = [
        (n, s)
        for n in range(3, 31)
        for s in np.float32([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.4, 1.6, 1.7, 1.9, 2.2, 2.6])
        if np.floor(np.float32(n) * s) != np.floor(float(n) * float(s)) and np.floor(float(n) * float(s)) > 0
    ]
    height, width = g.pick(pairs), g.pick(pairs)
    x = maybe_rounded(g, fresh(g, [1, g.integer(1, 3), height[0], width[0]]))
    scales = g.constant([1, 1, height[1], width[1]], np.float32)
    if g.opset < 11:
        y = g.add("Resize", x, scales, mode="nearest")
    else:
        region = g.constant(np.zeros(0), np.float32)
        way = g.pick(["asymmetric", "half_pixel"])
        mode = g.pick(["linear", "nearest"])
        more = {"nearest_mode": "floor"} if mode == "nearest" else {}
        y = g.add("Resize", x, region, scales, mode=mode, coordinate_transformation_mode=way, **more)
    offer(g, maybe_rounded(g, y))


def grid_sample(g: QdqGraph, x: str) -> str:
    """At positions of a constant or an input."""
    n = g.values[x].shape[0]
    grid = g.reals([n, g.integer(1, 5), g.integer(1, 5), 2], 0.6)
    modes = ["bilinear", "nearest"] if g.opset < 20 else ["linear", "nearest"]
    mode = g.pick([modes[0], modes[0], modes[1]])
    where = g.constant(grid) if g.chance() else g.input(grid)
    padding = g.pick(["zeros", "border"])
    return g.add("GridSample", x, where, mode=mode, padding_mode=padding, align_corners=g.integer(0, 1))


def roi_align(g: QdqGraph, x: str) -> str:
    """Align some boxes."""
    n, _, height, width = g.values[x].shape
    count = g.integer(1, 3)
    corners = g.rng.uniform(0, 0.5, (count, 2)) * [width, height]
    boxes = np.concatenate([corners, corners + 1 + g.rng.uniform(0, 0.4, (count, 2)) * [width, height]], 1)
    batch = g.rng.integers(0, n, count).astype(np.int64)
    mode = {"mode": "avg"} if g.opset >= 16 else {}
    rois = g.constant(np.rint(boxes * 8) / 8, np.float32)
    return g.add(
        "RoiAlign", x, rois, g.constant(batch), output_height=2, output_width=3, sampling_ratio=2, **mode
    )


def top_k(g: QdqGraph, x: str) -> str:
    """Return the values, and sometimes where they are."""
    shape = g.values[x].shape
    axis = g.integer(1, len(shape) - 1)
    attributes = {"axis": axis}
    if g.opset >= 11:
        attributes["largest"] = g.integer(0, 1)
    k = g.constant([g.integer(1, shape[axis])], np.int64)
    values, indices = g.add_all("TopK", [x, k], 2, **attributes)
    if g.chance(0.3):
        g.outputs.append(indices)
    return values


def kernel(g: QdqGraph, x: str) -> list[int]:
    """Return a window within a picture."""
    return [g.integer(1, min(3, n)) for n in g.values[x].shape[2:]]


def max_pool(g: QdqGraph, x: str) -> str:
    """Windows, also beyond the edge."""
    window = {"kernel_shape": kernel(g, x), "strides": [g.integer(1, 2), 1]}
    if window["kernel_shape"][1] > 1 and g.chance(0.4):
        window["pads"] = [0, 1, 0, 1]
    return g.add("MaxPool", x, **window)


def average_pool(g: QdqGraph, x: str) -> str:
    """Windows, or whole pictures."""
    if g.chance(0.3):
        return g.add("GlobalAveragePool", x)
    window = {"kernel_shape": kernel(g, x), "count_include_pad": g.integer(0, 1)}
    if window["kernel_shape"][1] > 1 and g.chance(0.4):
        window["pads"] = [0, 1, 0, 1]
    return g.add("AveragePool", x, **window)


def reduce(g: QdqGraph, x: str) -> str:
    """Along an axis."""
    op = g.pick(["ReduceMax", "ReduceMax", "ReduceMin", "ReduceMean"])
    axis, kept = g.integer(1, 3), g.integer(0, 1)
    if g.opset >= 18:
        return g.add(op, x, g.constant([axis], np.int64), keepdims=kept)
    return g.add(op, x, axes=[axis], keepdims=kept)


def arg_max(g: QdqGraph, x: str) -> str:
    """Find where the greatest is."""
    y = g.add(g.pick(["ArgMax", "ArgMin"]), x, axis=g.integer(1, 3), keepdims=g.integer(0, 1))
    if g.chance():
        g.outputs.append(y)
    return g.add("Cast", y, to=1)


INTERPOLATES: dict[str, Callable[[QdqGraph, str], str]] = {
    "Resize": resize,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
    "TopK": top_k,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "ReduceMax": reduce,
    "ArgMax": arg_max,
}


def selecting(g: QdqGraph) -> None:
    """Interpolate or select: between steps, after them, before them, on the integers."""
    name = g.pick([*INTERPOLATES, "Resize", "Resize", "Resize", "GridSample", "ReduceMax"])
    if name == "GridSample" and g.opset < 16:
        raise UnsuitableError
    where = g.pick(["between", "between", "behind", "before", "before", "integers"])
    x = source(g, 4)
    if where == "before":
        offer(g, rounded(g, INTERPOLATES[name](g, x)))
    elif where == "integers" and g.opset >= 12 and name in ("Resize", "MaxPool", "ReduceMax"):
        steps = steps_for(g, x, wide=False)
        q = INTERPOLATES[name](g, quantize(g, x, steps))
        offer(g, dequantize(g, q, steps))
    else:
        y = INTERPOLATES[name](g, rounded(g, x))
        if where == "between":
            y = rounded(g, y)
        offer(g, y)
    g.kind(name, f"selects {where} steps")


def activations(g: QdqGraph) -> None:
    """Relu, Clip and others between steps or alone."""
    g.kind("activation")
    x = maybe_rounded(g, source(g, g.pick([2, 3, 4])), 0.7)
    names = ["Sigmoid", "Tanh", "LeakyRelu", "Softmax", "HardSigmoid", "Elu", "Erf", "Softsign"]
    more = [*["HardSwish"] * (g.opset >= 14), *["LayerNormalization"] * (g.opset >= 17)]
    name = g.pick(["Relu", "Relu", "Relu", "Clip", "Clip", "Clip", *names, *more])
    if name == "Clip":
        low, high = sorted(map(float, g.reals([2], 1.5)))
        if g.opset < 11:
            y = g.add("Clip", x, min=low, max=high)
        else:
            bounds = [g.constant(low, np.float32), g.constant(high, np.float32)]
            y = g.add("Clip", x, *g.pick([bounds, bounds[:1], ["", bounds[1]]]))
    elif name == "Softmax":
        y = g.add(name, x, axis=g.values[x].ndim - 1)
    elif name == "LayerNormalization":
        y = g.add(name, x, real_constant(g, g.values[x].shape[-1:]), axis=-1)
    else:
        y = g.add(name, x)
    offer(g, maybe_rounded(g, y, 0.7))


def arithmetic(g: QdqGraph) -> None:
    """Two operands, in steps, floats, constants."""
    g.kind("arithmetic")
    a = maybe_rounded(g, source(g, g.pick([2, 3, 4])), 0.75)
    other = g.pick(
        [
            lambda: rounded(g, like(g, a)),
            lambda: rounded(g, like(g, a)),
            lambda: like(g, a),
            lambda: real_constant(g, g.values[a].shape[-1:]),
            lambda: rounded(g, real_constant(g, g.values[a].shape[-1:])),
        ]
    )()
    pair = [a, other] if g.chance(0.7) else [other, a]
    y = g.add(g.pick(["Add", "Add", "Mul", "Sub", "Max", "Min"]), *pair)
    if g.chance(0.3):
        y = g.add("Relu", y)
    offer(g, maybe_rounded(g, y, 0.7))


def one_view(g: QdqGraph, x: str) -> list[str]:
    """Moves or repeats elements."""
    shape = list(g.values[x].shape)
    rank = len(shape)
    axis = g.integer(0, rank - 1)
    op = g.pick(
        ["Reshape", "Transpose", "Slice", "Split", "Unsqueeze", "Gather", "Expand", "Flatten", "Tile"]
    )
    if op == "Reshape":
        target = g.pick([[-1], [shape[0], -1], shape[::-1]])
        return [g.add(op, x, g.constant(target, np.int64))]
    if op == "Transpose":
        return [g.add(op, x, perm=list(map(int, g.rng.permutation(rank))))]
    if op == "Slice":
        start = g.integer(0, shape[axis] - 1)
        more = [g.constant([start], np.int64), g.constant([g.integer(start + 1, shape[axis])], np.int64)]
        return [g.add(op, x, *more, g.constant([axis], np.int64))]
    if op == "Split" and shape[axis] > 1:
        first = g.integer(1, shape[axis] - 1)
        sizes = [first, shape[axis] - first]
        if g.opset < 13:
            return g.add_all(op, [x], 2, axis=axis, split=sizes)
        return g.add_all(op, [x, g.constant(sizes, np.int64)], 2, axis=axis)
    if op == "Unsqueeze":
        if g.opset < 13:
            y = g.add(op, x, axes=[axis])
            return [y if rank > 3 else g.add("Squeeze", y, axes=[axis])]
        at = g.constant([axis], np.int64)
        y = g.add(op, x, at)
        return [y if rank > 3 else g.add("Squeeze", y, at)]
    if op == "Gather":
        indices = g.rng.integers(-shape[axis], shape[axis], g.integer(1, 4)).astype(np.int64)
        return [g.add(op, x, g.constant(indices), axis=axis)]
    if op == "Expand":
        y = g.add("Reshape", x, g.constant([1, *shape], np.int64)) if rank < 4 else x
        return [
            g.add(
                op, y, g.constant([2, *g.values[y].shape[1:]] if g.values[y].shape[0] == 1 else [1], np.int64)
            )
        ]
    if op == "Tile":
        return [g.add(op, x, g.constant([g.integer(1, 2) for _ in shape], np.int64))]
    return [g.add("Flatten", x, axis=axis)]


def views(g: QdqGraph) -> None:
    """Views of floats between steps, or of the integers."""
    x = source(g, g.pick([2, 3, 4]))
    if g.chance(0.4):
        g.kind("views of integers")
        steps = steps_for(g, x)
        parts = one_view(g, quantize(g, x, steps))
        if g.chance(0.3):
            parts = one_view(g, parts[0]) + parts[1:]
        offer(g, *(dequantize(g, q, steps) for q in parts))
        return
    g.kind("views between")
    parts = one_view(g, maybe_rounded(g, x, 0.8))
    if g.chance(0.4):
        parts = one_view(g, parts[0]) + parts[1:]
    offer(g, *(maybe_rounded(g, y, 0.8) for y in parts))


def channels(g: QdqGraph) -> None:
    """Steps for each index of an axis, of what is no constant."""
    x = source(g, g.pick([2, 3, 4]))
    if g.opset < 13:
        raise UnsuitableError
    axis = g.integer(0, g.values[x].ndim - 1)
    steps = steps_for(g, x, axis=axis, wide=False)
    q = quantize(g, x, steps)
    how = g.pick(["back", "back", "view", "product"])
    if how == "view":
        order = list(map(int, g.rng.permutation(g.values[x].ndim)))
        q = g.add("Transpose", q, perm=order)
        turned = Steps(steps.scale, steps.zero, steps.dtype, {"axis": order.index(axis)})
        offer(g, maybe_rounded(g, dequantize(g, q, turned)))
        return
    y = dequantize(g, q, steps)
    if how == "product" and g.values[y].ndim == 2:
        y = g.add("MatMul", y, weights(g, [g.values[y].shape[1], g.integer(2, 8)], 1))
    offer(g, maybe_rounded(g, y))


PARTS = {
    selecting: 7.5,
    fractional: 0.8,
    activations: 1,
    arithmetic: 1,
    views: 1.6,
    channels: 1,
}
