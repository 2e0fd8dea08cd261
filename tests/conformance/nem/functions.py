"""The functions of elementwise opcodes in Python, one element in binary64 at a time.

Written from the formulas of the opcode table; nothing here knows the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def exp(x: float) -> float:
    """With infinity instead of an error."""
    return math.exp(x) if x < 709.7 or math.isnan(x) else math.inf


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


def log(x: float) -> float:
    """With IEEE's results instead of errors."""
    return math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)


def power(x: float, y: float) -> float:
    """IEEE's pow."""
    if math.isnan(x) or math.isnan(y):
        return 1.0 if x == 1 or y == 0 else math.nan
    with np.errstate(all="ignore"):
        return float(np.float64(x) ** np.float64(y))


def larger(x: float, y: float) -> float:
    """IEEE 754-2019 maximum."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == y:
        return x if math.copysign(1, x) > 0 else y
    return max(x, y)


def smaller(x: float, y: float) -> float:
    """IEEE 754-2019 minimum."""
    return -larger(-x, -y)


def divide(x: float, y: float) -> float:
    """Divide, by 0 too."""
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


def total_function(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return a function of math, with NaN outside its domain and infinity beyond its range."""

    def wrapped(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, x) if function is math.sinh else math.inf

    return wrapped


def atanh(x: float) -> float:
    """Infinite at -1 and 1."""
    return math.copysign(math.inf, x) if abs(x) == 1 else total_function(math.atanh)(x)


def whole(function: Callable[[float], float]) -> Callable[[float], float]:
    """floor, ceil, rint."""
    return lambda x: float(function(x))


def softplus(x: float) -> float:
    """ln(1 + exp(x)) without overflow."""
    return larger(x, 0.0) + math.log1p(exp(-abs(x)))


def gelu_tanh(x: float) -> float:
    """Return the tanh form of gelu, as a product with a sigmoid."""
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return divide(x, 1.0 + exp(-2.0 * u))


def below(x: float, bent: float) -> float:
    """Return an activation that bends at 0."""
    return bent if x < 0 else x


def remainder(x: float, y: float) -> float:
    """Return the sign of x."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    return math.fmod(x, y)


def floor_remainder(x: float, y: float) -> float:
    """Return the sign of y."""
    rest = remainder(x, y)
    if rest == 0:
        return math.copysign(0.0, y)
    return rest if math.isnan(rest) or (rest < 0) == (y < 0) else rest + y


def is_infinite(attrs: dict, x: float) -> float:
    """Return whether a sign that counts is infinite."""
    if not math.isinf(x):
        return 0.0
    return float(attrs.get("detect_positive" if x > 0 else "detect_negative", True))


UNARY: dict[str, Callable[[float], float]] = {
    "relu": lambda x: larger(x, 0.0),
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "exp": exp,
    "log": log,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "abs": abs,
    "neg": lambda x: -x,
    "gelu": lambda x: 0.5 * x * math.erfc(-x * math.sqrt(0.5)),
    "silu": lambda x: x * sigmoid(x),
    "erf": math.erf,
    "sin": total_function(math.sin),
    "cos": total_function(math.cos),
    "tan": total_function(math.tan),
    "asin": total_function(math.asin),
    "acos": total_function(math.acos),
    "atan": math.atan,
    "sinh": total_function(math.sinh),
    "cosh": total_function(math.cosh),
    "asinh": math.asinh,
    "acosh": total_function(math.acosh),
    "atanh": atanh,
    "reciprocal": lambda x: divide(1.0, x),
    "rsqrt": lambda x: divide(1.0, math.copysign(math.sqrt(abs(x)), x) if x >= 0 else math.nan),
    "square": lambda x: x * x,
    "floor": whole(np.floor),
    "ceil": whole(np.ceil),
    "round": whole(np.rint),
    "sign": lambda x: x if math.isnan(x) else float(x > 0) - float(x < 0),
    "softplus": softplus,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "hard_swish": lambda x: x * smaller(larger(x / 6 + 0.5, 0.0), 1.0),
    "gelu_tanh": gelu_tanh,
    "is_nan": lambda x: float(math.isnan(x)),
    "not": lambda x: float(x == 0),
}

WITH_ATTRIBUTES: dict[str, Callable[[dict, float], float]] = {
    "leaky_relu": lambda attrs, x: attrs["alpha"] * x if x < 0 else x,
    "clamp": lambda attrs, x: smaller(larger(x, attrs["min_val"]), attrs["max_val"]),
    "elu": lambda attrs, x: below(x, attrs.get("alpha", 1.0) * math.expm1(min(x, 0.0))),
    "celu": lambda attrs, x: below(x, attrs["alpha"] * math.expm1(min(x, 0.0) / attrs["alpha"])),
    "selu": lambda attrs, x: SELU_GAMMA * below(x, SELU_ALPHA * math.expm1(min(x, 0.0))),
    "hard_sigmoid": lambda attrs, x: smaller(
        larger(attrs.get("alpha", 0.2) * x + attrs.get("beta", 0.5), 0.0), 1.0
    ),
    "thresholded_relu": lambda attrs, x: x if x > attrs["alpha"] else 0.0,
    "is_inf": is_infinite,
}

BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "min": smaller,
    "max": larger,
    "pow": power,
    "prelu": lambda a, b: below(a, b * a),
    "fmod": remainder,
    "floor_mod": floor_remainder,
    "equal": lambda a, b: float(a == b),
    "not_equal": lambda a, b: float(a != b),
    "less": lambda a, b: float(a < b),
    "less_equal": lambda a, b: float(a <= b),
    "greater": lambda a, b: float(a > b),
    "greater_equal": lambda a, b: float(a >= b),
    "and": lambda a, b: float(a != 0 and b != 0),
    "or": lambda a, b: float(a != 0 or b != 0),
    "xor": lambda a, b: float((a != 0) != (b != 0)),
}


def element(opcode: str, attrs: dict, operands: tuple[float, ...], integers: bool) -> float:
    """Return one element of Y, in binary64; `integers`: plain ones."""
    if opcode == "where":
        return operands[1] if operands[0] != 0 else operands[2]
    if opcode in BINARY:
        value = BINARY[opcode](*operands)
        return float(np.trunc(value)) if opcode == "div" and integers else value
    if opcode in WITH_ATTRIBUTES:
        return WITH_ATTRIBUTES[opcode](attrs, *operands)
    return UNARY[opcode](*operands)
