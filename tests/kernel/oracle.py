"""Results of operations of kernels, rule set gpu, computed with Python's integers, fractions and NumPy alone.

Values are bit patterns: of u32 i32 f32 bool 32 bits, of u64 64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np

NAN = 0x7FC00000
WIDTH = {"u32": 32, "i32": 32, "u64": 64, "bool": 32, "f32": 32}

INTEGERS = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    255,
    0x12345678,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
]
WIDE = [*INTEGERS, 63, 64, 65, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1]
REALS = [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0e9, -3.0e9, 5.0e9, 16777216.0, 3.1415927,
         88.0, -104.0, 1e-20, 1e20, 2147483648.0, 4294967040.0, 1.8446742e19, np.inf, -np.inf]  # fmt: skip
#: MIN_NORMAL, its neighbours, subnormals of both signs, MAX, NaNs: quiet, signalling, negative
SPECIAL_BITS = [0x00800000, 0x80800000, 0x00800001, 0x007FFFFF, 0x807FFFFF, 1, 0x80000001, 0x7F7FFFFF,
                0xFF7FFFFF, 0x7FC00000, 0x7FA12345, 0xFFC54321]  # fmt: skip


def bits_of(value: float) -> int:
    """Return the bits of an f32."""
    with np.errstate(all="ignore"):
        return int(np.float32(value).view(np.uint32))


def real(bits: int) -> np.float32:
    """Return the f32 of its bits."""
    return np.uint32(bits).view(np.float32)


def canonical(bits: int) -> int:
    """Return one NaN, no subnormal."""
    if bits & 0x7F800000 == 0:
        return bits & 0x80000000
    return NAN if bits & 0x7FFFFFFF > 0x7F800000 else bits


EDGES = {
    "u32": INTEGERS,
    "i32": INTEGERS,
    "u64": WIDE,
    "bool": [0, 1],
    "f32": [*map(bits_of, REALS), *SPECIAL_BITS],
}


def signed(bits: int, width: int = 32) -> int:
    """Return two's complement."""
    return bits - (1 << width) if bits >> (width - 1) else bits


def number(bits: int, kind: str) -> int:
    """Return the number of an integer or bool."""
    return signed(bits) if kind == "i32" else bits


def _clamped(value: int, kind: str) -> int:
    width = WIDTH[kind]
    low, high = (-(1 << 31), (1 << 31) - 1) if kind == "i32" else (0, (1 << width) - 1)
    return min(max(value, low), high)


def _divided(a: int, b: int, kind: str) -> int:
    if kind != "i32":
        return a // b if b else (1 << WIDTH[kind]) - 1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rest(a: int, b: int, kind: str) -> int:
    if kind != "i32":
        return a % b if b else 0
    return a - b * _divided(a, b, kind)


def _rotated(a: int, by: int) -> int:
    by %= 32
    return (a << by | a >> (32 - by)) & 0xFFFFFFFF


Two = Callable[[int, int, str], int]
#: Operations on numbers; the result is cut to the width of the type.
INTEGER_PAIRS: dict[str, Two] = {
    "a | b": lambda a, b, k: a | b,
    "a ^ b": lambda a, b, k: a ^ b,
    "a & b": lambda a, b, k: a & b,
    "a << b": lambda a, b, k: a << (b % WIDTH[k]),
    "a >> b": lambda a, b, k: a >> (b % WIDTH[k]),
    "a + b": lambda a, b, k: a + b,
    "a - b": lambda a, b, k: a - b,
    "a * b": lambda a, b, k: a * b,
    "a / b": _divided,
    "a % b": _rest,
    "wrapping_add(a, b)": lambda a, b, k: a + b,
    "wrapping_sub(a, b)": lambda a, b, k: a - b,
    "min(a, b)": lambda a, b, k: min(a, b),
    "max(a, b)": lambda a, b, k: max(a, b),
    "abs_diff(a, b)": lambda a, b, k: abs(a - b),
    "saturating_add(a, b)": lambda a, b, k: _clamped(a + b, k),
    "saturating_sub(a, b)": lambda a, b, k: _clamped(a - b, k),
    "saturating_mul(a, b)": lambda a, b, k: _clamped(a * b, k),
}
UNSIGNED_PAIRS: dict[str, Two] = {"mul_high(a, b)": lambda a, b, k: a * b >> WIDTH[k]}
WORD_PAIRS: dict[str, Two] = {
    "rotate_left(a, b)": lambda a, b, k: _rotated(a, b),
    "rotate_right(a, b)": lambda a, b, k: _rotated(a, -b),
}
LOGICAL_PAIRS: dict[str, Two] = {
    "a || b": lambda a, b, k: int(a != 0 or b != 0),
    "a && b": lambda a, b, k: int(a != 0 and b != 0),
}
COMPARISONS = {"a == b": operator.eq, "a != b": operator.ne, "a < b": operator.lt, "a > b": operator.gt,
               "a <= b": operator.le, "a >= b": operator.ge}  # fmt: skip
One = Callable[[int, str], int]
INTEGER_SINGLES: dict[str, One] = {
    "neg(a)": lambda a, k: -a,
    "~a": lambda a, k: ~a,
    "popcount(a)": lambda a, k: (a % (1 << WIDTH[k])).bit_count(),
    "clz(a)": lambda a, k: WIDTH[k] - (a % (1 << WIDTH[k])).bit_length(),
    "ctz(a)": lambda a, k: (a & -a).bit_length() - 1 if a else WIDTH[k],
    "reverse_bits(a)": lambda a, k: int(format(a % (1 << WIDTH[k]), f"0{WIDTH[k]}b")[::-1], 2),
}


def rounded(exact: Fraction) -> np.float32:
    """Return the nearest f32, ties to even."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    finite = [f for f in around if np.isfinite(f)]
    if not np.isfinite(near):
        return near
    return min(finite, key=lambda f: (abs(Fraction(float(f)) - exact), bits_of(f) & 1))


def fused(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """a * b + c, rounded once."""
    wide = np.float64(a) * np.float64(b) + np.float64(c)
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return np.float32(wide)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return np.float32(wide) if exact == 0 else rounded(exact)


def _least(a: np.float32, b: np.float32) -> np.float32:
    return np.fmin(a, b)


def _most(a: np.float32, b: np.float32) -> np.float32:
    return np.fmax(a, b)


REAL_PAIRS: dict[str, Callable[[np.float32, np.float32], np.float32]] = {
    "a + b": operator.add,
    "a - b": operator.sub,
    "a * b": operator.mul,
    "a / b": operator.truediv,
    "min(a, b)": _least,
    "max(a, b)": _most,
    "fma(a, b, a)": lambda a, b: fused(a, b, a),
    "fma(a, a, b)": lambda a, b: fused(a, a, b),
}


def _away(x: np.float64) -> np.float64:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _sign(x: np.float64) -> np.float64:
    return x if np.isnan(x) else np.float64(0.0) if x == 0 else np.copysign(1.0, x)


#: In binary64, rounded once.
REAL_SINGLES: dict[str, Callable[[np.float64], np.float64]] = {
    "neg(a)": operator.neg,
    "abs(a)": np.abs,
    "sqrt(a)": np.sqrt,
    "inverse_sqrt(a)": lambda x: 1 / np.sqrt(x),
    "reciprocal(a)": lambda x: 1 / x,
    "sin(a)": np.sin,
    "cos(a)": np.cos,
    "tan(a)": np.tan,
    "asin(a)": np.arcsin,
    "acos(a)": np.arccos,
    "atan(a)": np.arctan,
    "sinh(a)": np.sinh,
    "cosh(a)": np.cosh,
    "tanh(a)": np.tanh,
    "exp(a)": np.exp,
    "exp2(a)": np.exp2,
    "log(a)": np.log,
    "log2(a)": np.log2,
    "floor(a)": np.floor,
    "ceil(a)": np.ceil,
    "round(a)": _away,
    "trunc(a)": np.trunc,
    "sign(a)": _sign,
}
REAL_TESTS: dict[str, Callable[[np.float32], bool]] = {
    "is_nan(a)": np.isnan,
    "is_inf(a)": np.isinf,
    "is_finite(a)": np.isfinite,
}
ATOMICS: dict[str, Callable[[int, int], int]] = {
    "atomic_add(m[i], b)": lambda m, b: m + b,
    "atomic_or(m[i], b)": operator.or_,
    "atomic_and(m[i], b)": operator.and_,
    "atomic_xor(m[i], b)": operator.xor,
    "atomic_min(m[i], b)": min,
    "atomic_max(m[i], b)": max,
    "atomic_exchange(m[i], b)": lambda m, b: b,
    "atomic_lru_update(m[i], b)": max,
    "atomic_compare_exchange(m[i], b, 7)": lambda m, b: 7 if m == b else m,
}


def cast_real(value: np.float32, to: str) -> int:
    """Return an f32 as an integer: cut, saturated, NaN is 0."""
    if np.isnan(value):
        return 0
    low, high = (-(1 << 31), (1 << 31) - 1) if to == "i32" else (0, (1 << WIDTH[to]) - 1)
    if np.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def cast(bits: int, kind: str, to: str) -> int | None:
    """Return a value as another type; None: an error."""
    if kind == "f32":
        value = real(canonical(bits))
        if to == "bool":
            return int(value != 0)
        if to == "f32":
            return canonical(bits)
        if to == "u64" and not (np.isfinite(value) and 0 <= int(value) < 1 << 64):
            return None
        return cast_real(value, to) % (1 << WIDTH[to])
    value = number(bits, kind)
    if to == "bool":
        return int(value != 0)
    if to == "f32":
        return bits_of(rounded(Fraction(value)))
    if to == "u64":
        return None if value < 0 else value
    if kind == "u64" and value >= 1 << (31 if to == "i32" else 32):
        return None
    return value % (1 << 32)


def pair(text: str, kind: str, a: int, b: int) -> int | None:
    """Bits of an operation on two values; None: it is not defined for them."""
    mask = (1 << WIDTH[kind]) - 1
    if kind == "f32":
        x, y = real(canonical(a)), real(canonical(b))
        if text in COMPARISONS:
            return int(COMPARISONS[text](x, y))
        return canonical(bits_of(REAL_PAIRS[text](x, y)))
    m, n = number(a, kind), number(b, kind)
    if text in COMPARISONS:
        return int(COMPARISONS[text](m, n))
    if text in LOGICAL_PAIRS:
        return LOGICAL_PAIRS[text](m, n, kind)
    if kind == "i32" and text in ("a / b", "a % b") and (n == 0 or (m == -(1 << 31) and n == -1)):
        return None
    return {**INTEGER_PAIRS, **UNSIGNED_PAIRS, **WORD_PAIRS}[text](m, n, kind) & mask


def single(text: str, kind: str, a: int) -> int:
    """Bits of an operation on one value."""
    if text == "!a":
        return int(a == 0)
    if kind != "f32":
        return INTEGER_SINGLES[text](number(a, kind), kind) & ((1 << WIDTH[kind]) - 1)
    value = real(canonical(a))
    if text in REAL_TESTS:
        return int(REAL_TESTS[text](value))
    return canonical(bits_of(REAL_SINGLES[text](np.float64(value))))


def pairs_of(kind: str) -> list[str]:
    """Operations on two values of a type."""
    if kind == "bool":
        return [*LOGICAL_PAIRS, "a == b", "a != b"]
    if kind == "f32":
        return [*REAL_PAIRS, *COMPARISONS]
    rows = [*INTEGER_PAIRS, *LOGICAL_PAIRS, *COMPARISONS]
    return rows + ([] if kind == "i32" else [*UNSIGNED_PAIRS]) + ([*WORD_PAIRS] if kind == "u32" else [])


def singles_of(kind: str) -> list[str]:
    """Operations on one value of a type."""
    if kind == "bool":
        return ["!a"]
    return [*REAL_SINGLES, *REAL_TESTS] if kind == "f32" else [*INTEGER_SINGLES, "!a"]


def result_of(text: str, kind: str) -> str:
    """Type of an operation's result."""
    if text in COMPARISONS or text in LOGICAL_PAIRS or text in REAL_TESTS or text == "!a":
        return "bool"
    return "u32" if text.startswith("abs_diff") and kind == "i32" else kind
