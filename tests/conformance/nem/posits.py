"""Posits by exact fractions: a part of the oracle, see arithmetic.py.

Patterns are read by the text of the posit standard, bit by bit, and numbers are rounded by comparing
fractions; nothing is shared with the simulator.
"""

from __future__ import annotations

import bisect
import functools
from fractions import Fraction

ES = {8: 0, 16: 1}
"""What posit8 and posit16 have; element types of another es say it."""
FORMATS = {
    "posit8": (8, 0),
    "posit8_es1": (8, 1),
    "posit8_es2": (8, 2),
    "posit16": (16, 1),
    "posit16_es0": (16, 0),
    "posit16_es2": (16, 2),
}
"""Bits and es of the element types."""


@functools.cache
def decoded(pattern: int, bits: int, es: int) -> Fraction | None:
    """Return the value of a pattern; None is NaR."""
    text = format(pattern, f"0{bits}b")
    if "1" not in text:
        return Fraction(0)
    if text == "1" + "0" * (bits - 1):
        return None
    if text[0] == "1":
        opposite = decoded((1 << bits) - pattern, bits, es)
        assert opposite is not None
        return -opposite
    body = text[1:]
    run = len(body) - len(body.lstrip(body[0]))
    regime = run - 1 if body[0] == "1" else -run
    rest = body[run + 1 :]
    exponent = int((rest[:es] + "0" * es)[:es] or "0", 2)
    fraction = rest[es:]
    significand = 1 + Fraction(int(fraction or "0", 2), 2 ** len(fraction))
    return Fraction(2) ** (regime * 2**es + exponent) * significand


FINEST = 256
"""All ties are multiples of 2^-FINEST."""


@functools.cache
def ties(bits: int, es: int) -> list[Fraction]:
    """Between pattern i + 1 and the next: the pattern with one more bit that lies there."""
    return [decoded(2 * p + 1, bits + 1, es) or Fraction(0) for p in range(1, (1 << (bits - 1)) - 1)]


@functools.cache
def scaled_ties(bits: int, es: int) -> list[int]:
    """Return whole numbers in the place of fractions, which compare ten times as fast."""
    return [int(tie * 2**FINEST) for tie in ties(bits, es)]


def encoded(value: Fraction | None, bits: int, es: int | None = None) -> int:
    """Return the pattern of a number, rounded once; None is NaR."""
    es = ES[bits] if es is None else es
    if value is None:
        return 1 << (bits - 1)
    if value == 0:
        return 0
    if value < 0:
        return (1 << bits) - encoded(-value, bits, es)
    between = scaled_ties(bits, es)
    whole, rest = divmod(value.numerator << FINEST, value.denominator)
    at = bisect.bisect_left(between, whole + (rest > 0))  # ties below the number
    pattern = at + 1
    if at < len(between) and between[at] == whole and rest == 0 and pattern % 2 == 1:
        pattern += 1
    return pattern
