"""The block formats of OCP (Microscaling 1.0) in NumPy: gemm.mx, quantize.mx and dequantize.mx."""

from __future__ import annotations

import math

import arithmetic as ar
import float8
import numpy as np
from arithmetic import Tensor


def scales(codes: np.ndarray) -> np.ndarray:
    """E8M0: a power of two, or NaN."""
    return np.where(codes == 255, math.nan, np.exp2(codes.astype(np.float64) - 127))


def product(size: int, inputs: list[Tensor]) -> Tensor:
    """gemm.mx: f32 sums of each block, scaled and added in f32."""
    a, b = (t.real().astype(np.float32) for t in inputs[:2])
    of_a, of_b = (scales(t.data) for t in inputs[2:4])
    start = inputs[4].data if len(inputs) > 4 else np.float32(0)
    y = np.broadcast_to(start, (a.shape[0], b.shape[1])).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for block in range(of_a.shape[1]):
            part = np.zeros(y.shape, np.float32)
            for k in range(block * size, min(a.shape[1], (block + 1) * size)):
                part += a[:, k, None] * b[k]  # products of float8 are exact in f32
            scale = of_a[:, block, None] * of_b[block]
            y = (y.astype(np.float64) + part.astype(np.float64) * scale).astype(np.float32)
    return ar.to_elem("f32", y)


def quantized(size: int, axis: int, x: Tensor, elem: str) -> list[Tensor]:
    """quantize.mx: elements, and the exponent of each block."""
    rows = np.moveaxis(x.real(), axis, -1)
    greatest = math.frexp(float8.finite(elem)[-1])[1] - 1
    codes, elements = [], []
    for row in rows.reshape(-1, rows.shape[-1]):
        for start in range(0, len(row), size):
            part = row[start : start + size]
            largest = float(np.abs(part).max())
            if not math.isfinite(largest):
                codes.append(255)
            elif largest == 0:
                codes.append(0)
            else:
                codes.append(min(max(math.frexp(largest)[1] - 1 - greatest, -127), 127) + 127)
            elements.append(part / scales(np.array(codes[-1])))
    count = -(-rows.shape[-1] // size)
    back = np.moveaxis(np.concatenate(elements).reshape(rows.shape), -1, axis)
    s = np.moveaxis(np.array(codes).reshape(*rows.shape[:-1], count), -1, axis)
    return [ar.to_elem(elem, back), Tensor("u8", s)]


def widened(size: int, axis: int, q: Tensor, s: Tensor, elem: str) -> Tensor:
    """dequantize.mx: the numbers of the blocks."""
    wide = np.repeat(scales(s.data), size, axis).take(range(q.shape[axis]), axis)
    return ar.to_elem(elem, q.real() * wide)
