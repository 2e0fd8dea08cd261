"""Block formats in NumPy: gemm.mx, quantize.mx and dequantize.mx.

MXFP8, MXFP6, MXFP4 and MXINT8 of OCP (Microscaling 1.0) have E8M0 scales in u8, NVFP4 has scales in f8e4m3.
"""

from __future__ import annotations

import math

import arithmetic as ar
import float8
import numpy as np
from arithmetic import Tensor


def scales(codes: np.ndarray) -> np.ndarray:
    """E8M0: a power of two, or NaN."""
    return np.where(codes == 255, math.nan, np.exp2(codes.astype(np.float64) - 127))


def factors(s: Tensor) -> np.ndarray:
    """Return the scales that an operand holds."""
    return s.real() if s.elem == "f8e4m3" else scales(s.data)


def numbers(x: Tensor) -> np.ndarray:
    """Return the elements; i8 counts steps of 1/64."""
    return x.real() / 64 if x.elem == "i8" else x.real()


def rounded(elem: str, values: np.ndarray) -> Tensor:
    """Return the elements nearest to numbers, saturating; i8 from -127 on."""
    if elem != "i8":
        return ar.to_elem(elem, values)
    steps = np.where(np.isnan(values), 0, values * 64)
    return Tensor(elem, np.clip(np.rint(np.clip(steps, -1e6, 1e6)), -127, 127))


def product(size: int, inputs: list[Tensor]) -> Tensor:
    """gemm.mx: f32 sums of each block, scaled and added in f32."""
    a, b = (numbers(t).astype(np.float32) for t in inputs[:2])
    of_a, of_b = (factors(t) for t in inputs[2:4])
    start = inputs[4].data if len(inputs) > 4 else np.float32(0)
    y = np.broadcast_to(start, (a.shape[0], b.shape[1])).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for block in range(of_a.shape[1]):
            part = np.zeros(y.shape, np.float32)
            for k in range(block * size, min(a.shape[1], (block + 1) * size)):
                part += a[:, k, None] * b[k]  # products of elements are exact in f32
            scale = of_a[:, block, None] * of_b[block]
            y = (y.astype(np.float64) + part.astype(np.float64) * scale).astype(np.float32)
    return ar.to_elem("f32", y)


def code(elem: str, scale: str, largest: float) -> int:
    """Return the scale of a block up to some size, as its bits."""
    most = 127 / 64 if elem == "i8" else float8.finite(elem)[-1]
    if scale == "f8e4m3":
        return 0x7F if not math.isfinite(largest) else max(1, float8.encoded(scale, largest / most))
    if not math.isfinite(largest):
        return 255
    if largest == 0:
        return 0
    return min(max(math.frexp(largest)[1] - math.frexp(most)[1], -127), 127) + 127


def quantized(size: int, axis: int, x: Tensor, elem: str, scale: str = "u8") -> list[Tensor]:
    """quantize.mx: elements, and the scale of each block."""
    rows = np.moveaxis(x.real(), axis, -1)
    codes, elements = [], []
    for row in rows.reshape(-1, rows.shape[-1]):
        for start in range(0, len(row), size):
            part = row[start : start + size]
            codes.append(code(elem, scale, float(np.abs(part).max())))
            elements.append(part / factors(Tensor(scale, np.array(codes[-1]))))
    count = -(-rows.shape[-1] // size)
    back = np.moveaxis(np.concatenate(elements).reshape(rows.shape), -1, axis)
    s = np.moveaxis(np.array(codes).reshape(*rows.shape[:-1], count), -1, axis)
    return [rounded(elem, back), Tensor(scale, s)]


def widened(size: int, axis: int, q: Tensor, s: Tensor, elem: str) -> Tensor:
    """dequantize.mx: the numbers of the blocks."""
    wide = np.repeat(factors(s), size, axis).take(range(q.shape[axis]), axis)
    return ar.to_elem(elem, numbers(q) * wide)
