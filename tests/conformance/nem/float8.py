"""float8 (OFP8 1.0), float6 and float4 (Microscaling 1.0) of the Open Compute Project, bit by bit.

A part of the oracle, see arithmetic.py.

Patterns are read by the text of the specification, and numbers are rounded by looking for the nearest of all
values; nothing is shared with the simulator.
"""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import numpy as np

FORMATS = {"f8e4m3": (3, 7), "f8e5m2": (2, 15)}
"""Bits of the mantissa, and the bias of the exponent."""
NARROW = {"f6e2m3": (3, 1), "f6e3m2": (2, 3), "f4e2m1": (1, 1)}
"""The same of those that hold finite numbers alone."""


def sign_of(elem: str) -> int:
    """Return the bit of the sign."""
    return {"f6e2m3": 0x20, "f6e3m2": 0x20, "f4e2m1": 0x08}.get(elem, 0x80)


def decoded(elem: str, pattern: int) -> float:
    """Return the number of a pattern."""
    mantissa, bias = (FORMATS | NARROW)[elem]
    bit = sign_of(elem)
    sign = -1.0 if pattern & bit else 1.0
    exponent, fraction = (pattern & (bit - 1)) >> mantissa, pattern & ((1 << mantissa) - 1)
    if elem == "f8e4m3" and pattern & 0x7F == 0x7F:
        return math.nan
    if elem == "f8e5m2" and exponent == 31:
        return sign * math.inf if fraction == 0 else math.nan
    significand = fraction / 2**mantissa + (exponent > 0)
    return sign * significand * 2.0 ** (max(exponent, 1) - bias)


@functools.cache
def values(elem: str) -> np.ndarray:
    """Return the numbers of all patterns."""
    return np.array([decoded(elem, pattern) for pattern in range(256)])


@functools.cache
def finite(elem: str) -> list[float]:
    """Return the numbers from 0 up, by pattern."""
    return [v for v in values(elem)[: sign_of(elem)].tolist() if math.isfinite(v)]


def encoded(elem: str, value: float) -> int:
    """Rounded to nearest, ties to even; a finite number stays finite, and an infinity where there is none.

    NaN becomes -0 where there is none, as in ml_dtypes.
    """
    if math.isnan(value):
        return {"f8e4m3": 0x7F, "f8e5m2": 0x7E}.get(elem, sign_of(elem))
    sign = sign_of(elem) if math.copysign(1, value) < 0 else 0
    numbers = finite(elem)
    if math.isinf(value) and elem == "f8e5m2":
        return sign | 0x7C
    if abs(value) >= numbers[-1]:
        return sign | (len(numbers) - 1)
    above = bisect.bisect_right(numbers, abs(value))
    below = above - 1
    low, high = (abs(Fraction(abs(value)) - Fraction(numbers[i])) for i in (below, above))
    even = below if below % 2 == 0 else above
    return sign | (below if low < high else above if high < low else even)
