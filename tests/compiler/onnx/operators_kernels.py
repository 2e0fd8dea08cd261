"""Random cases of operators that become kernels: they choose, take and put elements by values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from drafts import Const, Draft, Operand, case, model_case
from graph_run import Array, Case
from onnx import helper

Generator = Callable[[Draft], Case]


def whole(values: object) -> Const:
    """Return a constant of int64."""
    return Const(np.array(values, np.int64))


def ties(d: Draft, shape: Sequence[int]) -> Array:
    """Return the numbers, many of them equal, infinities among them; floats or integers."""
    if d.chance(0.25):
        return d.ints(shape, -6, 6, d.pick([np.int32, np.int64]))
    x = d.floats(shape) if d.chance() else d.ints(shape, -4, 4, np.float32)
    if d.chance(0.3):
        x[d.rng.random(x.shape) < 0.1] = d.pick([np.inf, -np.inf])
    if d.chance(0.2):
        x[d.rng.random(x.shape) < 0.2] = -0.0
    return x


def top_k(d: Draft) -> Case:
    """Any axis, few or all of them, rows short and so long that they are sorted in blocks."""
    shape = d.shape(1, 4)
    axis = d.integer(0, len(shape) - 1)
    if d.chance(0.3):
        shape = shape[-2:]
        axis = min(axis, len(shape) - 1)
        shape[axis] = d.integer(33, 1700)
    n = shape[axis]
    k = n if d.chance(0.3) else d.integer(1, min(n, 80))
    opset = d.opset(7)
    attributes: dict[str, object] = {"axis": axis - len(shape) * d.integer(0, 1)}
    if opset < 10:
        x = d.floats(shape)
        return case("TopK", opset, [x], 2, k=k, **attributes)
    if opset >= 11:
        attributes |= {"largest": d.integer(0, 1), "sorted": 1}
    x = ties(d, shape) if opset >= 11 else d.floats(shape)
    return case("TopK", opset, [x, whole([k])], 2, **attributes)


def signed(d: Draft, indices: Array, sizes: Sequence[int]) -> Array:
    """Return some of them counted from the end."""
    return (indices - np.asarray(sizes) * (d.rng.random(indices.shape) < 0.3)).astype(np.int64)


def tuples(d: Draft, dims: Sequence[int], shape: Sequence[int]) -> Array:
    """Tuples of positions."""
    columns = [d.rng.integers(0, size, tuple(shape)) for size in dims]
    return signed(d, np.stack(columns, axis=-1), dims)


def gather_nd(d: Draft) -> Case:
    """Indices that are inputs, with batches."""
    shape = d.shape(1, 4)
    batch = d.integer(0, len(shape) - 1)
    depth = d.integer(1, len(shape) - batch)
    indices = tuples(d, shape[batch : batch + depth], [*shape[:batch], *d.shape(0, 2, 4)])
    data = d.numbers(shape)
    return case("GatherND", d.opset(12), [data, indices], batch_dims=batch or None)


def distinct(d: Draft, dims: Sequence[int], count: int) -> Array:
    """Different tuples."""
    places = d.rng.permutation(int(np.prod(dims)))[:count]
    return signed(d, np.stack(np.unravel_index(places, tuple(dims)), axis=-1), dims)


def scatter_nd(d: Draft) -> Case:
    """Indices that are inputs: different ones, with reductions any."""
    shape = d.shape(1, 4)
    depth = d.integer(1, len(shape))
    dims = shape[:depth]
    reduction = d.pick([None, None, "add", "mul", "max", "min"])
    most = int(np.prod(dims))
    count = d.integer(1, 8) if reduction else d.integer(1, most)
    indices = tuples(d, dims, [count]) if reduction else distinct(d, dims, count)
    if count % 2 == 0 and d.chance():
        indices = indices.reshape(2, count // 2, depth)
    data = d.numbers(shape)
    updates = d.ints([*indices.shape[:-1], *shape[depth:]], -3, 3).astype(data.dtype)
    constant = reduction is not None and d.chance(0.2)
    opset = d.opset(18) if reduction else d.opset(11)
    operands: list[Operand] = [data, Const(indices) if constant else indices, d.weight(updates)]
    return case("ScatterND", opset, operands, reduction=reduction)


def scatter_elements(d: Draft) -> Case:
    """Along any axis, of a part of the operand; equal indices where updates are combined."""
    shape = d.shape(1, 4)
    axis = d.integer(0, len(shape) - 1)
    part = list(shape) if d.chance() else [d.integer(1, size) for size in shape]
    reduction = d.pick([None, None, "add", "mul", "max", "min"])
    if reduction:
        part[axis] = d.integer(1, 7)
        indices = d.ints(part, 0, shape[axis] - 1)
    else:
        order = np.argsort(d.rng.random((*part[:axis], shape[axis], *part[axis + 1 :])), axis=axis)
        indices = np.take(order, range(part[axis]), axis=axis)
    data = d.numbers(shape)
    return case(
        "ScatterElements",
        d.opset(18) if reduction else d.opset(11),
        [data, signed(d, indices, [shape[axis]]), d.ints(part, -3, 3).astype(data.dtype)],
        axis=axis - len(shape) * d.integer(0, 1),
        reduction=reduction,
    )


def padded(
    d: Draft, type_: str, operands: list[Operand], rows: int, along: int, **attributes: object
) -> Case:
    """Return a case whose result has a length that depends on data: at most `rows`."""
    draft = case(type_, d.opset(13, 18), operands, **attributes)
    draft.bounds = {draft.model.graph.output[0].name: (rows, along)}
    return draft


def non_zero(d: Draft) -> Case:
    """Make a case of numbers or of conditions."""
    x = d.ints(d.shape(1, 4), -1, 1, d.pick([np.float32, np.int32, np.bool_]))
    return padded(d, "NonZero", [x], x.size, 1)


def compress(d: Draft) -> Case:
    """Along an axis, or of all elements; shorter conditions."""
    x = d.numbers(d.shape(1, 3))
    axis = d.integer(0, x.ndim - 1) if d.chance(0.7) else None
    size = x.size if axis is None else x.shape[axis]
    condition = d.rng.random(d.integer(1, size)) < 0.5
    if d.chance(0.3) and condition.any():
        return case("Compress", d.opset(9), [x, Const(condition)], axis=axis)
    return padded(d, "Compress", [x, condition], condition.size, axis or 0, axis=axis)


def unique(d: Draft) -> Case:
    """Sorted, or as they first occur, with few different numbers and many."""
    x = d.ints(d.shape(1, 3), -3, d.pick([-3, 3, 60]), d.pick([np.float32, np.int32, np.int64]))
    outputs = d.integer(1, 4)
    axis = 0 if x.ndim == 1 and d.chance() else None
    draft = case("Unique", d.opset(13, 18), [x], outputs, sorted=d.integer(0, 1), axis=axis)
    draft.bounds = {f"y{i}": (x.size, 0) for i in range(outputs) if i != 2}
    return draft


def boxes_of(d: Draft, images: int, n: int, center: int) -> Array:
    """Boxes that overlap often: around few places."""
    places = d.floats([images, n, 2], 0, 3)
    sizes = d.floats([images, n, 2], 0.5, 2)
    if center:
        return np.concatenate([places, sizes], axis=2)
    corners = np.stack([places, places + sizes], axis=2)
    turned = d.rng.random((images, n, 1, 2)) < 0.2  # any two corners
    return np.where(turned, corners[:, :, ::-1], corners).reshape(images, n, 4).astype(np.float32)


def suppression(d: Draft) -> Case:
    """Both kinds of boxes, with thresholds and without, ties."""
    images, classes, n = d.integer(1, 3), d.integer(1, 4), d.pick([1, 5, 33, 70])
    center, most = d.integer(0, 1), d.integer(1, 12)
    scores = d.floats([images, classes, n], 0, 1)
    if d.chance():
        scores = np.round(scores * 8) / 8
    operands: list[Operand] = [boxes_of(d, images, n, center), scores, whole([most])]
    if d.chance(0.8):
        operands.append(d.weight(np.array([d.rng.uniform(0, 0.9)], np.float32)))
        if d.chance(0.7):
            operands.append(d.weight(np.array([d.rng.uniform(0, 0.9)], np.float32)))
    rows = images * classes * min(most, n)
    return padded(d, "NonMaxSuppression", operands, rows, 0, center_point_box=center)


def grid_sample(d: Draft) -> Case:
    """Return all modes, points inside and outside, at borders and between elements."""
    images, height, width = d.integer(1, 3), d.integer(2, 9), d.integer(2, 9)
    opset = d.opset(16)
    modes = ("nearest", "bilinear", "bicubic") if opset < 20 else ("nearest", "linear", "cubic")
    reach = d.pick([0.9, 1.3, 3.0])
    grid = d.floats([images, d.integer(1, 6), d.integer(1, 6), 2], -reach, reach)
    corners = d.pick([0, 1])
    if d.chance(0.3):  # in the middle of elements
        sizes = np.array([width, height])
        places = d.rng.integers(-1, sizes + 1, grid.shape)
        grid = (places / (sizes - 1) * 2 - 1 if corners else (places * 2 + 1) / sizes - 1).astype(np.float32)
    mode = d.pick(modes)
    if mode == "nearest":  # ties are a matter of the last bit
        grid += np.float32(0.013)
    padding = d.pick(["zeros", "border", "reflection"])
    x = d.floats([images, d.integer(1, 5), height, width])
    return case("GridSample", opset, [x, grid], mode=mode, padding_mode=padding, align_corners=corners)


def roi_align(d: Draft) -> Case:
    """Both modes, regions that reach beyond the picture, and small ones."""
    images, height, width, regions = d.integer(1, 3), d.integer(3, 12), d.integer(3, 12), d.integer(1, 6)
    opset, scale = d.opset(10), d.pick([1.0, 0.5, 0.25])
    starts = d.floats([regions, 2], d.pick([-2, -200]), 8)
    sizes = d.floats([regions, 2], 0.1, d.pick([9, 9, 300]))
    rois = (np.concatenate([starts, starts + sizes], axis=1) / scale).astype(np.float32)
    attributes: dict[str, object] = {"output_height": d.integer(1, 4), "output_width": d.integer(1, 4)}
    attributes |= {"sampling_ratio": d.integer(0, 3), "spatial_scale": scale, "mode": d.pick(["avg", "max"])}
    if opset >= 16:
        attributes["coordinate_transformation_mode"] = d.pick(["half_pixel", "output_half_pixel"])
    operands = [d.floats([images, d.integer(1, 4), height, width]), rois, d.ints([regions], 0, images - 1)]
    return case("RoiAlign", opset, operands, **attributes)


def affine_grid(d: Draft) -> Case:
    """Make grids of pictures and volumes."""
    rank, images = d.integer(2, 3), d.integer(1, 3)
    size = [images, d.integer(1, 4), *(d.integer(2, 7) for _ in range(rank))]
    theta = d.floats([images, rank, rank + 1], -1.5, 1.5)
    return case("AffineGrid", d.opset(20), [theta, whole(size)], align_corners=d.integer(0, 1))


def col2im(d: Draft) -> Case:
    """Blocks that overlap, with gaps, and parts of the image that none covers.

    ONNX Runtime 1-D with dilations differs from its own 2-D and from the ONNX reference.
    """
    rank = 2 if d.chance(0.7) else 1
    block = [d.integer(1, 4) for _ in range(rank)]
    strides, dilations = ([d.integer(1, 3) for _ in range(rank)] for _ in range(2))
    dilations = dilations if rank == 2 else [1]
    pads = [d.integer(0, 2) for _ in range(2 * rank)]
    reach = [(size - 1) * gap + 1 for size, gap in zip(block, dilations, strict=True)]
    image = [max(1, r - pads[i] - pads[i + rank]) + d.integer(0, 8) for i, r in enumerate(reach)]
    places = 1
    for i, size in enumerate(image):
        places *= (size + pads[i] + pads[i + rank] - reach[i]) // strides[i] + 1
    x = d.floats([d.integer(1, 2), d.integer(1, 4) * int(np.prod(block)), places])
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    return case("Col2Im", d.opset(18), [x, whole(image), whole(block)], **attributes)


def dft(d: Draft) -> Case:
    """Forwards and back, of one side, cut and filled up."""
    shape, parts = d.shape(2, 3, 9), d.integer(1, 2)
    axis = d.integer(0, len(shape) - 1)
    opset = d.opset(17)
    length = d.integer(1, 12) if d.chance(0.4) else None
    onesided = int(parts == 1 and d.chance())
    inverse = 0 if onesided else d.integer(0, 1)
    x = d.floats([*shape, parts])
    operands: list[Operand] = [x, None if length is None else whole(length)]
    if opset < 20:
        return case("DFT", opset, operands, axis=axis, inverse=inverse, onesided=onesided)
    operands.append(whole(axis))
    return case("DFT", opset, operands, inverse=inverse, onesided=onesided)


def stft(d: Draft) -> Case:
    """With a window and without."""
    length, step = d.integer(2, 16), d.integer(1, 7)
    signal = d.floats([d.integer(1, 3), length + d.integer(0, 40), 1])
    window = Const(d.floats([length], 0, 1)) if d.chance(0.6) else None
    operands: list[Operand] = [signal, whole(step), window, whole(length)]
    return case("STFT", d.opset(17), operands, onesided=d.integer(0, 1))


def unsorted(d: Draft) -> Case:
    """Make what torch.sort becomes, and the way back: a scatter of what was sorted."""
    shape = d.shape(2, 3, 9)
    x = d.floats(shape)
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "order"], axis=-1),
        helper.make_node("ScatterElements", ["zeros", "order", "values"], ["y"], axis=-1),
    ]
    operands = {"x": x, "k": whole([shape[-1]]), "zeros": Const(np.zeros(shape, np.float32))}
    return model_case("sort and back", d.opset(13), nodes, operands, ["y", "order"])


GENERATORS: dict[str, Generator] = {
    "TopK": top_k,
    "GatherND by inputs": gather_nd,
    "ScatterND by inputs": scatter_nd,
    "ScatterElements by inputs": scatter_elements,
    "NonZero": non_zero,
    "Compress": compress,
    "Unique": unique,
    "NonMaxSuppression": suppression,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "DFT": dft,
    "STFT": stft,
    "Sort": unsorted,
}
