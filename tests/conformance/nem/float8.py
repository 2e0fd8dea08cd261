"""float8 of the Open Compute Project (OFP8 1.0) bit by bit: a part of the oracle, see arithmetic.py.

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


def decoded(elem: str, pattern: int) -> float:
    """The number of a pattern."""
    mantissa, bias = FORMATS[elem]
    sign = -1.0 if pattern & 0x80 else 1.0
    exponent, fraction = (pattern & 0x7F) >> mantissa, pattern & ((1 << mantissa) - 1)
    if elem == "f8e4m3" and pattern & 0x7F == 0x7F:
        return math.nan
    if elem == "f8e5m2" and exponent == 31:
        return sign * math.inf if fraction == 0 else math.nan
    significand = fraction / 2**mantissa + (exponent > 0)
    return sign * significand * 2.0 ** (max(exponent, 1) - bias)


@functools.cache
def values(elem: str) -> np.ndarray:
    """The numbers of all patterns."""
    return np.array([decoded(elem, pattern) for pattern in range(256)])


@functools.cache
def finite(elem: str) -> list[float]:
    """The numbers from 0 up, by pattern."""
    return [v for v in values(elem)[:128].tolist() if math.isfinite(v)]


def encoded(elem: str, value: float) -> int:
    """Rounded to nearest, ties to even; a finite number stays finite, and an infinity where there is none."""
    if math.isnan(value):
        return 0x7F if elem == "f8e4m3" else 0x7E
    sign = 0x80 if math.copysign(1, value) < 0 else 0
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
