"""The arithmetic of the language in NumPy, written from its definition: the oracle of the execution cases.

Nothing here knows the simulator. Sums are sequential, float products are exact fractions rounded once a step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import float8
import functions
import numpy as np
import posits

FLOATS = ("f16", "bf16", "f32", "posit8", "posit16", "f8e4m3", "f8e5m2")
RANGES = {
    "i4": (-8, 7),
    "i8": (-128, 127),
    "i16": (-32768, 32767),
    "i32": (-(2**31), 2**31 - 1),
    "u8": (0, 255),
    "u16": (0, 65535),
    "u32": (0, 2**32 - 1),
}
HOST = {
    "i4": np.int8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "posit16": np.uint16,
} | dict.fromkeys(("posit8", "f8e4m3", "f8e5m2", "f6e2m3", "f6e3m2", "f4e2m1"), np.uint8)
BITS = {
    "i4": 4,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "posit16": 16,
    "f4e2m1": 4,
} | dict.fromkeys(("posit8", "f8e4m3", "f8e5m2", "f6e2m3", "f6e3m2"), 8)


@dataclass
class Quant:
    """Scales and zero points: of the tensor, or of (groups of) indices along an axis."""

    scales: list[float]
    zeros: list[int]
    axis: int = -1  # -1: per tensor
    group: int = 0  # 0: per channel

    def text(self) -> str:
        """Write it as NEM does."""
        if self.axis < 0:
            return f"per_tensor(scale={self.scales[0]!r}, zero_point={self.zeros[0]})"
        lists = f"scales={self.scales}, zero_points={self.zeros}"
        if self.group == 0:
            return f"per_channel(axis={self.axis}, {lists})"
        return f"per_group(axis={self.axis}, group_size={self.group}, {lists})"

    def expand(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point of every element."""
        if self.axis < 0:
            return np.full(shape, self.scales[0]), np.full(shape, self.zeros[0])
        index = np.arange(shape[self.axis]) // (self.group or 1)
        view = [1] * len(shape)
        view[self.axis] = shape[self.axis]
        scales = np.array(self.scales)[index].reshape(view)
        zeros = np.array(self.zeros)[index].reshape(view)
        return np.broadcast_to(scales, shape), np.broadcast_to(zeros, shape)


@dataclass
class Tensor:
    """Elements as the host stores them: i4 as int8, bf16, posits and float8 as their bits."""

    elem: str
    data: np.ndarray
    quant: Quant | None = None
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Fixes the storage type."""
        self.data = np.ascontiguousarray(self.data, HOST[self.elem])
        self.shape = self.data.shape

    def real(self) -> np.ndarray:
        """Every element as binary64; dequantized, rounded to f32, as ONNX's DequantizeLinear gives it."""
        if self.elem == "bf16":
            return (self.data.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.elem in float8.FORMATS | float8.NARROW:
            return float8.values(self.elem)[self.data]
        if self.elem.startswith("posit"):
            exact = [
                posits.decoded(int(p), BITS[self.elem], posits.ES[BITS[self.elem]]) for p in self.data.ravel()
            ]
            return np.array([math.nan if v is None else float(v) for v in exact]).reshape(self.shape)
        values = self.data.astype(np.float64)
        return values if self.quant is None else single(self.unrounded())

    def unrounded(self) -> np.ndarray:
        """Return the numbers that steps stand for, in binary64."""
        scale, zero = self.quant.expand(self.shape)
        return (self.data.astype(np.float64) - zero) * scale


def single(values: np.ndarray) -> np.ndarray:
    """Rounded to f32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(np.float64)


def round_bits(value: float | Fraction, mantissa: int, least_exponent: int) -> Fraction:
    """Return the nearest number with that many mantissa bits, ties to even; value is finite and not 0."""
    exact = Fraction(value)
    exponent = max(math.frexp(float(exact))[1] - 1, least_exponent)
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > least_exponent and abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - mantissa)
    return round(exact / unit) * unit


def bf16_bits(value: float) -> int:
    """Rounded once to bfloat16."""
    if math.isnan(value):
        return 0x7FC0
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    if math.isinf(value):
        return sign | 0x7F80
    if value == 0:
        return sign
    rounded = abs(round_bits(value, 7, -126))
    if rounded >= Fraction(2) ** 128:
        return sign | 0x7F80
    return sign | int(np.float32(float(rounded)).view(np.uint32)) >> 16


def to_elem(elem: str, values: np.ndarray, quant: Quant | None = None) -> Tensor:
    """Rounds once to a float type, or requantizes, or rounds half to even and saturates."""
    values = np.asarray(values, np.float64)
    if elem == "bf16":
        bits = [bf16_bits(float(v)) for v in values.ravel()]
        return Tensor(elem, np.array(bits, np.uint16).reshape(values.shape))
    if elem in float8.FORMATS | float8.NARROW:
        patterns = [float8.encoded(elem, float(v)) for v in values.ravel()]
        return Tensor(elem, np.array(patterns, np.uint8).reshape(values.shape))
    if elem.startswith("posit"):
        exact = [Fraction(float(v)) if math.isfinite(v) else None for v in values.ravel()]
        patterns = [posits.encoded(v, BITS[elem]) for v in exact]
        return Tensor(elem, np.array(patterns, HOST[elem]).reshape(values.shape))
    if elem in FLOATS:
        with np.errstate(over="ignore", invalid="ignore"):
            data = values.astype(HOST[elem])
        data[np.isnan(data)] = HOST[elem]("nan")
        return Tensor(elem, data)
    low, high = RANGES[elem]
    zero: np.ndarray | int = 0
    if quant is not None:
        scale, zero = quant.expand(values.shape)
        values = single(single(values) / scale)  # QuantizeLinear divides in f32
    values = np.where(np.isnan(values), 0, values)
    return Tensor(elem, np.clip(np.rint(np.clip(values, -(2.0**40), 2.0**40)) + zero, low, high), quant)


def total(values: np.ndarray, axis: int) -> np.ndarray:
    """Sum in ascending index order (np.sum adds pairwise)."""
    return np.take(np.cumsum(values, axis=axis), -1, axis=axis)


# ---- elementwise


def each(function: Callable[[float], float]) -> np.vectorize:
    """Return a scalar function on every element."""
    return np.vectorize(function, otypes=[np.float64])


# Their results are conditions, whatever the operands.
CONDITIONS = ("equal not_equal less less_equal greater greater_equal is_nan is_inf and or xor not").split()


def apply_elementwise(opcode: str, attrs: dict, inputs: list[Tensor], quant: Quant | None) -> Tensor:
    """Y of an elementwise opcode."""
    x = inputs[-1]  # the first operand of where is its condition
    integers = x.elem not in FLOATS and x.quant is None
    rows = zip(*(t.real().ravel() for t in inputs), strict=True)
    values = [functions.element(opcode, attrs, tuple(map(float, row)), integers) for row in rows]
    return to_elem("u8" if opcode in CONDITIONS else x.elem, np.array(values).reshape(x.shape), quant)


# ---- normalization, softmax, pooling, reductions


def norm(opcode: str, attrs: dict, inputs: list[Tensor]) -> Tensor:
    """layernorm, rmsnorm, softmax, log_softmax."""
    x = np.moveaxis(inputs[0].real(), attrs["axis"], -1)
    n = x.shape[-1]
    if opcode in ("softmax", "log_softmax"):
        shifted = x - x.max(axis=-1, keepdims=True)
        powers = each(functions.exp)(shifted)
        sums = total(powers, -1)[..., None]
        y = powers / sums if opcode == "softmax" else shifted - each(functions.log)(sums)
    else:
        mean = total(x, -1)[..., None] / n if opcode == "layernorm" else np.zeros(x.shape[:-1] + (1,))
        centred = x - mean
        y = centred / np.sqrt(total(centred * centred, -1)[..., None] / n + attrs["epsilon"])
        if len(inputs) > 1:
            y = y * inputs[1].real()
        if len(inputs) > 2:
            y = y + inputs[2].real()
    return to_elem(inputs[0].elem, np.moveaxis(y, -1, attrs["axis"]))


def group_norm(attrs: dict, inputs: list[Tensor]) -> Tensor:
    """Channels last; means over the pixels and channels of each group."""
    x = inputs[0].real()
    batch, channels, groups = x.shape[0], x.shape[-1], attrs["groups"]
    parts = x.reshape(batch, -1, groups, channels // groups).transpose(0, 2, 1, 3)
    rows = parts.reshape(batch, groups, -1)
    centred = rows - total(rows, -1)[..., None] / rows.shape[-1]
    y = centred / np.sqrt(total(centred * centred, -1)[..., None] / rows.shape[-1] + attrs["epsilon"])
    y = y.reshape(parts.shape).transpose(0, 2, 1, 3).reshape(x.shape)
    if len(inputs) > 1:
        y = y * inputs[1].real()
    if len(inputs) > 2:
        y = y + inputs[2].real()
    return to_elem(inputs[0].elem, y)


def windows(
    size: int, out: int, kernel: int, stride: int, dilation: int, before: int
) -> list[list[tuple[int, int]]]:
    """For each output position its taps inside the tensor: (kernel index, input index)."""
    result = []
    for position in range(out):
        start = position * stride - before
        taps = [(k, start + k * dilation) for k in range(kernel)]
        result.append([(k, i) for k, i in taps if 0 <= i < size])
    return result


def pool(opcode: str, attrs: dict, x: Tensor, quant: Quant | None) -> Tensor:
    """maxpool and avgpool, channels last; padding counts only where an attribute says so."""
    values, rank = x.real(), x.data.ndim - 2
    kernel, strides, pads = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    dilations = attrs.get("dilations", [1] * rank)
    counted = attrs.get("count_include_pad", False)
    taps, inside = [], []
    for d in range(rank):
        size, before, behind = x.shape[1 + d], pads[d], pads[d + rank]
        room = size + before + behind - dilations[d] * (kernel[d] - 1) - 1
        out = room // strides[d] + 1
        if attrs.get("ceil_mode", False):
            out = -(-room // strides[d]) + 1
            out -= (out - 1) * strides[d] >= size + before
        taps.append(windows(size, out, kernel[d], strides[d], dilations[d], before))
        padded = windows(size + before + behind, out, kernel[d], strides[d], dilations[d], 0)
        inside.append([len(t) for t in (padded if counted else taps[-1])])
    shape = (x.shape[0], *map(len, taps), x.shape[-1])
    y = np.zeros(shape)
    for at in np.ndindex(shape[1:-1]):
        places = itertools.product(*(taps[d][i] for d, i in enumerate(at)))
        found = np.stack([values[(slice(None), *(i for _, i in place))] for place in places])
        count = math.prod(inside[d][i] for d, i in enumerate(at))
        y[(slice(None), *at)] = found.max(axis=0) if opcode == "maxpool" else total(found, 0) / count
    return to_elem(x.elem, y, quant)


def reduce(opcode: str, attrs: dict, x: Tensor, quant: Quant | None) -> Tensor:
    """Reductions, argmax and argmin."""
    values, keep = x.real(), attrs["keepdims"]
    if opcode in ("argmax", "argmin"):
        search = np.argmax if opcode == "argmax" else np.argmin
        if attrs.get("select_last_index", False):
            found = x.shape[attrs["axis"]] - 1 - search(np.flip(values, attrs["axis"]), axis=attrs["axis"])
        else:
            found = search(values, axis=attrs["axis"])
        shape = [1 if d == attrs["axis"] % values.ndim else s for d, s in enumerate(x.shape)]
        return Tensor("i32", found.reshape(shape) if keep else np.atleast_1d(found))
    axes = [a % values.ndim for a in attrs["axes"]]
    kept = [d for d in range(values.ndim) if d not in axes]
    rows = values.transpose(kept + sorted(axes)).reshape([x.shape[d] for d in kept] + [-1])
    with np.errstate(over="ignore"):
        products = np.cumprod(rows, axis=-1)
    y = {
        "reduce_sum": lambda: total(rows, -1),
        "reduce_max": lambda: rows.max(-1),
        "reduce_min": lambda: rows.min(-1),
        "reduce_mean": lambda: total(rows, -1) / rows.shape[-1],
        "reduce_prod": lambda: products[..., -1],
        "reduce_l2": lambda: np.sqrt(total(rows * rows, -1)),
    }[opcode]()
    shape = [1 if d in axes else s for d, s in enumerate(x.shape) if keep or d not in axes]
    return to_elem(x.elem, np.asarray(y).reshape(shape or [1]), quant)


def cumsum(attrs: dict, x: Tensor, quant: Quant | None) -> Tensor:
    """Running sums along an axis."""
    axis = attrs["axis"]
    values = np.flip(x.real(), axis) if attrs.get("reverse", False) else x.real()
    sums = np.cumsum(values, axis=axis)
    if attrs.get("exclusive", False):
        sums = np.concatenate([np.zeros_like(np.take(sums, [0], axis)), np.delete(sums, -1, axis)], axis=axis)
    return to_elem(x.elem, np.flip(sums, axis) if attrs.get("reverse", False) else sums, quant)


# ---- products


def fused(terms: list[tuple[float, float]], start: float) -> float:
    """Return one f32 fused multiply-add per term, in order, exactly."""
    acc = Fraction(start)
    for a, b in terms:
        exact = acc + Fraction(a) * Fraction(b)
        acc = exact if exact == 0 else round_bits(exact, 23, -126)
    return float(acc)


def wrap(value: int) -> int:
    """Modulo 2^32, as a signed integer."""
    return (value + 2**31) % 2**32 - 2**31


def narrow_sums(
    sums: dict[int, int], bias: int, column: int, x: Tensor, w: Tensor, y: Quant, bias_scale: float
) -> float:
    """Accumulators of one output (one per weight group along the summed axis) in steps of Y."""
    sx = x.quant.scales[0] if x.quant else 1.0
    sy = y.scales[0 if y.axis < 0 else column] if y else 1.0
    if len(sums) > 1 or (w.quant and w.quant.axis == w.data.ndim - 2):
        value = 0.0
        for group in sorted(sums):
            value += wrap(sums[group]) * (sx * w.quant.scales[group] / sy)
        return value + bias * (bias_scale / sy)
    sw = 1.0
    if w.quant:
        sw = w.quant.scales[0 if w.quant.axis < 0 else column // (w.quant.group or 1)]
    return wrap(sums[0] + bias) * (sx * sw / sy)


def product(
    terms: list[tuple[int, int, int]],
    column: int,
    x: Tensor,
    w: Tensor,
    bias: float,
    elem: str,
    quant: Quant | None,
    first: bool,
    bias_scale: float = 0.0,
) -> float:
    """Return one output from its terms: flat index into x, into w, depth along the summed axis of w.

    Floats: the value before the last rounding. Integers: the value of the output element. `first`: the sum
    starts from the bias and stays in the accumulator's type.
    """
    if x.elem in FLOATS:
        xs, ws = x.real().ravel(), w.real().ravel()
        acc = fused([(xs[i], ws[j]) for i, j, _ in terms], bias if first else 0.0)
        if first:
            return acc
        exact = Fraction(acc) + Fraction(bias)
        return 0.0 if exact == 0 else float(round_bits(exact, 23, -126))
    grouped = w.quant is not None and w.quant.axis == w.data.ndim - 2
    zx = x.quant.zeros[0] if x.quant else 0
    _, zw = w.quant.expand(w.shape) if w.quant else (None, np.zeros(w.shape))
    zw = np.ravel(zw)
    xs, ws = x.data.ravel(), w.data.ravel()
    sums: dict[int, int] = {}
    if grouped:
        sums = {g: 0 for g in range(len(w.quant.scales))}
    for i, j, depth in terms:
        group = depth // (w.quant.group or 1) if grouped else 0
        sums[group] = sums.get(group, 0) + (int(xs[i]) - zx) * (int(ws[j]) - int(zw[j]))
    if elem == "i32":
        return wrap(sums.get(0, 0) + int(bias))
    value = narrow_sums(sums or {0: 0}, int(bias), column, x, w, quant, bias_scale)
    zy = quant.zeros[0 if quant.axis < 0 else column] if quant else 0
    low, high = RANGES[elem]
    return float(np.clip(np.rint(value) + zy, low, high))


def finish(values: np.ndarray, elem: str, quant: Quant | None) -> Tensor:
    """Outputs of product() in their type."""
    if elem in FLOATS:
        return to_elem(elem, values)
    return Tensor(elem, values, quant)


def gemm(inputs: list[Tensor], elem: str, quant: Quant | None, first: bool) -> Tensor:
    """gemm, matmul, gemm.acc; leading dimensions are batches."""
    a, b = inputs[0], inputs[1]
    m, k = a.shape[-2:]
    n = b.shape[-1]
    batch = int(np.prod(a.shape[:-2]))
    shape = (*a.shape[:-2], m, n)
    bias, scale = np.zeros(shape), 0.0
    if len(inputs) > 2:
        bias = np.broadcast_to(inputs[2].data if elem not in FLOATS else inputs[2].real(), shape)
        scale = inputs[2].quant.scales[0] if inputs[2].quant else 0.0
    y = np.zeros(shape)
    for p in range(batch):
        for r in range(m):
            for c in range(n):
                terms = [((p * m + r) * k + i, (p * k + i) * n + c, i) for i in range(k)]
                at = (*np.unravel_index(p, a.shape[:-2]), r, c) if batch > 1 or len(shape) > 2 else (r, c)
                y[at] = product(terms, c, a, b, float(bias[at]), elem, quant, first, scale)
    return finish(y, elem, quant)


def conv(
    opcode: str, attrs: dict, inputs: list[Tensor], elem: str, quant: Quant | None, first: bool
) -> Tensor:
    """conv1d, conv2d, conv3d, depthwise_conv2d, conv2d.acc: channels last."""
    x, w = inputs[0], inputs[1]
    rank = x.data.ndim - 2
    groups = x.shape[-1] if opcode == "depthwise_conv2d" else attrs.get("groups", 1)
    kernel, cin, cout = w.shape[:rank], w.shape[-2], w.shape[-1]
    pads, strides, dilations = attrs["pads"], attrs["strides"], attrs["dilations"]
    size = [
        (x.shape[1 + d] + pads[d] + pads[d + rank] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d in range(rank)
    ]
    taps = [
        windows(x.shape[1 + d], size[d], kernel[d], strides[d], dilations[d], pads[d]) for d in range(rank)
    ]
    shape = (x.shape[0], *size, cout)
    bias, scale = np.zeros(shape), 0.0
    if len(inputs) > 2:
        bias = np.broadcast_to(inputs[2].data if elem not in FLOATS else inputs[2].real(), shape)
        scale = inputs[2].quant.scales[0] if inputs[2].quant else 0.0
    y = np.zeros(shape)
    for at in np.ndindex(shape):
        image, channel = at[0], at[-1]
        group = channel // (cout // groups)
        combos: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
        for d in range(rank):
            combos = [(k + (i,), p + (j,)) for k, p in combos for i, j in taps[d][at[1 + d]]]
        terms = []
        for k, p in combos:
            for c in range(cin):
                source = np.ravel_multi_index((image, *p, group * cin + c), x.shape)
                weight = np.ravel_multi_index((*k, c, channel), w.shape)
                terms.append((int(source), int(weight), c))
        y[at] = product(terms, channel, x, w, float(bias[at]), elem, quant, first, scale)
    return finish(y, elem, quant)


def conv_transpose(attrs: dict, inputs: list[Tensor], elem: str, quant: Quant | None) -> Tensor:
    """conv_transpose2d: each element of X spreads the window over Y; channels last."""
    x, w = inputs[0], inputs[1]
    groups, (kh, kw, cin, cout) = attrs.get("groups", 1), w.shape
    pads, (sh, sw), (dh, dw) = attrs["pads"], attrs["strides"], attrs["dilations"]
    more = attrs.get("output_padding", [0, 0])
    height = (x.shape[1] - 1) * sh + dh * (kh - 1) + 1 + more[0] - pads[0] - pads[2]
    width = (x.shape[2] - 1) * sw + dw * (kw - 1) + 1 + more[1] - pads[1] - pads[3]
    shape = (x.shape[0], height, width, cout)
    terms: dict[tuple[int, ...], list[tuple[int, int, int, int, int]]] = {}
    for image, i, j, k, m in itertools.product(*map(range, (*x.shape[:3], kh, kw))):
        row, column = i * sh + k * dh - pads[0], j * sw + m * dw - pads[1]
        if 0 <= row < height and 0 <= column < width:
            terms.setdefault((image, row, column), []).append((k, m, image, i, j))
    y = np.zeros(shape)
    for at in np.ndindex(shape):
        channel = at[-1]
        first = channel // (cout // groups) * cin
        ordered = []
        for k, m, image, i, j in sorted(terms.get(at[:-1], []), reverse=True):  # X's rows, columns, channels
            for c in range(cin):
                source = np.ravel_multi_index((image, i, j, first + c), x.shape)
                ordered.append((int(source), int(np.ravel_multi_index((k, m, c, channel), w.shape)), c))
        bias, scale = 0.0, 0.0
        if len(inputs) > 2:
            bias = float((inputs[2].data if elem not in FLOATS else inputs[2].real())[channel])
            scale = inputs[2].quant.scales[0] if inputs[2].quant else 0.0
        y[at] = product(ordered, channel, x, w, bias, elem, quant, False, scale)
    return finish(y, elem, quant)


# ---- conversions


def convert(opcode: str, x: Tensor, elem: str, quant: Quant | None) -> Tensor:
    """cast, quantize, dequantize, requant."""
    if opcode == "quantize":
        return to_elem(elem, Tensor(x.elem, x.data).real(), quant)
    if opcode == "dequantize":
        return to_elem(elem, x.unrounded())
    if opcode == "requant":
        sx, zx = x.quant.expand(x.shape)
        sy, zy = quant.expand(x.shape)
        steps = np.rint((x.data.astype(np.float64) - zx) * (sx / sy)) + zy
        return Tensor(elem, np.clip(steps, *RANGES[elem]), quant)
    values = Tensor(x.elem, x.data).real()
    if elem in FLOATS:
        return to_elem(elem, values)
    return to_elem(elem, np.trunc(np.where(np.isnan(values), 0, values)))
