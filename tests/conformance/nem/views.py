"""Views and resize in NumPy, written from their definition: a part of the oracle, see arithmetic.py."""

from __future__ import annotations

import math

import arithmetic as ar
import numpy as np
from arithmetic import Quant, Tensor


def wrapped(indices: Tensor, x: Tensor, axis: int) -> np.ndarray:
    """Indices for take_along_axis, which broadcasts instead of reading a part of the other dimensions."""
    positions = indices.data.astype(np.int64)
    if any(i != s for d, (i, s) in enumerate(zip(indices.shape, x.shape, strict=True)) if d != axis):
        raise ValueError("the cases read whole dimensions")
    return np.where(positions < 0, positions + x.shape[axis], positions)


def depth_to_space(x: np.ndarray, block: int, mode: str) -> np.ndarray:
    """Channels to blocks of pixels; NHWC."""
    n, h, w, c = x.shape
    if mode == "DCR":
        parts = x.reshape(n, h, w, block, block, c // block**2).transpose(0, 1, 3, 2, 4, 5)
    else:
        parts = x.reshape(n, h, w, c // block**2, block, block).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, h * block, w * block, c // block**2)


def space_to_depth(x: np.ndarray, block: int, mode: str) -> np.ndarray:
    """Blocks of pixels to channels; NHWC."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h // block, block, w // block, block, c)
    order = (0, 1, 3, 2, 4, 5) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(n, h // block, w // block, c * block**2)


def view(opcode: str, attrs: dict, inputs: list[Tensor]) -> list[Tensor]:
    """Elements are copied as they are."""
    x = inputs[0]
    if opcode == "transpose":
        results = [x.data.transpose(attrs["perm"])]
    elif opcode == "reshape":
        results = [x.data.reshape(attrs["target_shape"])]
    elif opcode == "slice":
        index = [slice(None)] * x.data.ndim
        for start, end, axis, step in zip(
            attrs["starts"], attrs["ends"], attrs["axes"], attrs["steps"], strict=True
        ):
            below = step < 0 and end < -x.shape[axis]
            index[axis] = slice(start, None if below else end, step)
        results = [x.data[tuple(index)]]
    elif opcode == "concat":
        results = [np.concatenate([t.data for t in inputs], axis=attrs["axis"])]
    elif opcode == "choose":
        results = [inputs[attrs["index"]].data]
    elif opcode == "insert_rows":
        rows, whole = inputs[1].data, np.moveaxis(x.data.copy(), attrs["axis"], 0)
        whole[attrs["start"] : attrs["start"] + rows.shape[attrs["axis"]]] = np.moveaxis(
            rows, attrs["axis"], 0
        )
        results = [np.moveaxis(whole, 0, attrs["axis"])]
    elif opcode == "split":
        cuts = np.cumsum(attrs["split_sizes"])[:-1]
        results = np.split(x.data, cuts, axis=attrs["axis"])
    elif opcode == "gather":
        results = [np.take(x.data, inputs[1].data.astype(np.int64), axis=attrs["axis"])]
    elif opcode == "gather_elements":
        results = [np.take_along_axis(x.data, wrapped(inputs[1], x, attrs["axis"]), axis=attrs["axis"])]
    elif opcode == "depth_to_space":
        results = [depth_to_space(x.data, attrs["block"], attrs.get("mode", "DCR"))]
    elif opcode == "space_to_depth":
        results = [space_to_depth(x.data, attrs["block"], attrs.get("mode", "DCR"))]
    else:
        rank = x.data.ndim
        pads = list(zip(attrs["pads"][:rank], attrs["pads"][rank:], strict=True))
        if attrs["mode"] == "constant":
            value = ar.to_elem(x.elem, np.array(attrs.get("constant_value", 0.0)), x.quant).data
            results = [np.pad(x.data, pads, constant_values=value)]
        else:
            results = [np.pad(x.data, pads, mode=attrs["mode"])]
    return [Tensor(x.elem, r, x.quant) for r in results]


def position(attrs: dict, axis: int, i: int, size: int, out: int) -> float:
    """Return where index i of Y lies along a dimension of X."""
    given = attrs.get("scales")
    scale = given[axis] if given else out / size
    exact = scale * size if given else out
    half = (i + 0.5) / scale - 0.5
    match attrs.get("coordinates", "half_pixel"):
        case "align_corners":
            return 0.0 if exact <= 1 else i * (size - 1) / (exact - 1)
        case "asymmetric":
            return i / scale
        case "pytorch_half_pixel":
            return 0.0 if exact <= 1 else half
        case "half_pixel_symmetric":
            return size / 2 * (1 - out / exact) + half
    return half


def taps(attrs: dict, axis: int, i: int, size: int, out: int) -> list[tuple[int, float]]:
    """Return the elements along a dimension of X, and their weights."""
    at = position(attrs, axis, i, size, out)
    if attrs.get("mode", "nearest") == "linear":
        at = min(max(at, 0.0), size - 1.0)
        first = math.floor(at)
        return [(k, v) for k, v in ((first, 1 - (at - first)), (first + 1, at - first)) if v != 0]
    rounding = {
        "round_prefer_floor": lambda v: math.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: math.floor(v + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }[attrs.get("nearest_mode", "round_prefer_floor")]
    return [(min(max(rounding(at), 0), size - 1), 1.0)]


def resize(attrs: dict, x: Tensor, quant: Quant | None) -> Tensor:
    """Nearest, or linear in every dimension; what lies beyond X is its border."""
    values, sizes = x.real(), attrs["sizes"]
    y = np.zeros(sizes)

    def blend(along: list[list[tuple[int, float]]], place: tuple[int, ...], weight: float) -> float:
        if len(place) == values.ndim:
            return weight * float(values[place])
        terms = [blend(along, (*place, k), weight * w) for k, w in along[len(place)]]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    for at in np.ndindex(*sizes):
        along = [taps(attrs, d, i, x.shape[d], sizes[d]) for d, i in enumerate(at)]
        y[at] = blend(along, (), 1.0)
    return ar.to_elem(x.elem, y, quant)
