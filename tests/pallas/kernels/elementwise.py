"""One operation each, on special values too."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from kernels.case import add, floats, integers, odd_floats, odd_integers, rng

#: Units of the last place that jax itself may be off, and one of ours; others have 4. Measured on 200,000
#: numbers of the ranges below.
ULPS = {"tanh": 5, "expm1": 5, "erf": 5, "exp2": 10, "sinh": 10, "cosh": 10, "erf_inv": 64, "lgamma": 82}

F = Callable[..., Any]


def pointwise(function: F, dtype: Any, count: int) -> F:
    """A call that applies a function of `count` blocks."""

    def body(*refs: Any) -> None:
        refs[-1][...] = function(*(ref[...] for ref in refs[:-1]))

    def call(*arrays: Any, interpret: Any = False) -> Any:
        out = jax.ShapeDtypeStruct(arrays[0].shape, dtype)
        return pl.pallas_call(body, out_shape=out, interpret=interpret)(*arrays)

    assert count > 0
    return call


UNARY: dict[str, tuple[F, tuple[float, float] | None]] = {
    "neg": (lax.neg, None),
    "sign": (lax.sign, None),
    "abs": (lax.abs, None),
    "floor": (lax.floor, None),
    "ceil": (lax.ceil, None),
    "round_away": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), None),
    "round_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), None),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), None),
    "sqrt": (lax.sqrt, None),
    "rsqrt": (lax.rsqrt, None),
    "cbrt": (lax.cbrt, (-20, 20)),
    "square": (lax.square, None),
    "integer_pow_3": (lambda x: lax.integer_pow(x, 3), None),
    "integer_pow_minus_2": (lambda x: lax.integer_pow(x, -2), None),
    "exp": (lax.exp, None),
    "exp2": (lax.exp2, (-20, 20)),
    "expm1": (lax.expm1, None),
    "log": (lax.log, None),
    "log1p": (lax.log1p, None),
    "logistic": (lax.logistic, None),
    "tanh": (lax.tanh, None),
    "sin": (lax.sin, (-100, 100)),
    "cos": (lax.cos, (-100, 100)),
    "tan": (lax.tan, (-100, 100)),
    "asin": (lax.asin, (-1, 1)),
    "acos": (lax.acos, (-1, 1)),
    "atan": (lax.atan, None),
    "sinh": (lax.sinh, (-20, 20)),
    "cosh": (lax.cosh, (-20, 20)),
    "asinh": (lax.asinh, (-1e9, 1e9)),
    "acosh": (lax.acosh, (1, 1e9)),
    "atanh": (lax.atanh, (-0.999, 0.999)),
    "erf": (lax.erf, None),
    "erf_inv": (lax.erf_inv, (-0.9999, 0.9999)),
    "lgamma": (lax.lgamma, (2.5, 1e9)),
    "reciprocal": (lambda x: pl.reciprocal(x), None),
}
EXACT_UNARY = {
    "neg",
    "sign",
    "abs",
    "floor",
    "ceil",
    "round_away",
    "round_even",
    "reduce_precision",
    "square",
}
for name, (function, limits) in UNARY.items():
    low, high = limits or (None, None)
    operand = odd_floats(name, 5.0, low, high)
    if name == "cbrt":  # that of jax 0.9.2 is several ULP off at 1e-30
        operand[np.abs(operand) < 1e-20] = 0
    add(
        f"{name}_f32",
        pointwise(function, jnp.float32, 1),
        [operand],
        compare="exact" if name in EXACT_UNARY else "ulp",
        ulp=ULPS.get(name, 4),
    )


def rounded(function: F) -> F:
    """A function of binary64, rounded once: more exact than jax, so that what is off by more is ours."""

    def exact(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.vectorize(function, otypes=[np.float64])(x.astype(np.float64)).astype(np.float32)

    return exact


def of_magnitudes(name: str, low: float, high: float) -> np.ndarray:
    """(8, 128) numbers of both signs whose logarithms are spread evenly."""
    logarithms = np.linspace(low, high, 512)
    values = np.concatenate([2.0**logarithms, -(2.0**logarithms)])
    return rng(name).permutation(values).astype(np.float32).reshape(8, 128)


#: Over all of their range, within a unit of the last place.
SWEEPS: dict[str, tuple[F, F, np.ndarray]] = {
    "exp2": (lax.exp2, lambda x: 2.0**x if x < 128 else np.inf, np.linspace(-160, 140, 1024)),
    "cbrt": (lax.cbrt, np.cbrt, of_magnitudes("cbrt", -125.9, 127.9)),
    "exp": (lax.exp, np.exp, np.linspace(-110, 100, 1024)),
    "lgamma": (lax.lgamma, math.lgamma, np.linspace(-20.013, 60, 1024)),
    "erf_inv": (
        lax.erf_inv,
        lambda y: math.copysign(NormalDist().inv_cdf((1 - abs(y)) / 2) / math.sqrt(2), y),
        np.sin(np.linspace(-1.57, 1.57, 1024)),
    ),
    "tanh": (lax.tanh, np.tanh, of_magnitudes("tanh", -60, 10)),
}
for name, (function, exact, values) in SWEEPS.items():
    add(
        f"{name}_everywhere",
        pointwise(function, jnp.float32, 1),
        [values.astype(np.float32).reshape(8, 128)],
        compare="ulp",
        ulp=1,
        check=rounded(exact),
    )
add("is_finite_f32", pointwise(lax.is_finite, jnp.bool_, 1), [odd_floats("finite")])

BINARY: dict[str, F] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "max": lax.max,
    "min": lax.min,
    "rem": lax.rem,
    "nextafter": lax.nextafter,
    "atan2": lax.atan2,
    "pow": lax.pow,
}
for name, function in BINARY.items():
    wide = name not in ("rem", "pow")
    left = odd_floats(name + "a") if wide else odd_floats(name + "a", 5.0, -50, 50)
    right = odd_floats(name + "b") if wide else odd_floats(name + "b", 5.0, -5, 5)
    if name == "nextafter":
        left = np.where(left == 0, np.float32(1), left)  # the neighbours of 0 are subnormal
    exact = name not in ("atan2", "pow")
    add(
        f"{name}_f32",
        pointwise(function, jnp.float32, 2),
        [left, right],
        compare="exact" if exact else "ulp",
    )

COMPARE: dict[str, F] = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}
for name, function in COMPARE.items():
    add(f"{name}_f32", pointwise(function, jnp.bool_, 2), [odd_floats("a"), odd_floats("b")])
add("lt_i32", pointwise(lax.lt, jnp.bool_, 2), [odd_integers("a"), odd_integers("b")])
add("ge_u32", pointwise(lax.ge, jnp.bool_, 2), [odd_integers("a", np.uint32), odd_integers("b", np.uint32)])

WHOLE: dict[str, F] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
}
for name, function in WHOLE.items():
    for kind in ("int32", "uint32", "int8", "uint8", "int16", "uint16"):
        if kind in ("uint16", "uint8") and name in ("sub", "max", "min", "or"):
            continue
        dtype = np.dtype(kind)
        add(
            f"{name}_{kind}",
            pointwise(function, dtype, 2),
            [odd_integers(name + "a", dtype), odd_integers(name + "b", dtype)],
        )
for name, function in {
    "not": lax.bitwise_not,
    "population_count": lax.population_count,
    "clz": lax.clz,
}.items():
    for kind in ("int32", "uint8"):
        add(f"{name}_{kind}", pointwise(function, np.dtype(kind), 1), [odd_integers(name, np.dtype(kind))])
for name, function in {"neg": lax.neg, "abs": lax.abs, "sign": lax.sign}.items():
    for kind in ("int32", "int8"):
        add(f"{name}_{kind}", pointwise(function, np.dtype(kind), 1), [odd_integers(name, np.dtype(kind))])
add("integer_pow_i32", pointwise(lambda x: lax.integer_pow(x, 3), jnp.int32, 1), [odd_integers("pow")])
add(
    "floor_divide_i32", pointwise(lambda x, y: x // y, jnp.int32, 2), [odd_integers("fa"), odd_integers("fb")]
)
add("modulo_i32", pointwise(lambda x, y: x % y, jnp.int32, 2), [odd_integers("ma"), odd_integers("mb")])
for name, function in {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}.items():
    add(f"{name}_bool", pointwise(function, jnp.bool_, 2), [floats(8, 128) > 0, floats(8, 128, seed="b") > 0])
add("not_bool", pointwise(lax.bitwise_not, jnp.bool_, 1), [floats(8, 128) > 0])

add("clamp_f32", pointwise(lambda x: lax.clamp(-1.5, x, 2.0), jnp.float32, 1), [odd_floats("clamp")])
add(
    "clamp_crossed_i32",
    pointwise(lambda x, lo, hi: lax.clamp(lo, x, hi), jnp.int32, 3),
    [integers(8, 128), integers(8, 128, seed="lo"), integers(8, 128, seed="hi")],
)
add(
    "select_f32",
    pointwise(lambda c, x, y: lax.select_n(c, x, y), jnp.float32, 3),
    [floats(8, 128) > 0, odd_floats("sa"), odd_floats("sb")],
)
add(
    "select_three_i32",
    pointwise(lambda w, x, y, z: lax.select_n(w, x, y, z), jnp.int32, 4),
    [integers(8, 128, low=0, high=3), *(integers(8, 128, seed=seed) for seed in "xyz")],
)
add("where_scalar", pointwise(lambda x: jnp.where(x > 0, x, 0.0), jnp.float32, 1), [odd_floats("where")])
add(
    "relu_custom_jvp",
    pointwise(lambda x: jax.nn.relu(x) + 1, jnp.float32, 1),
    [odd_floats("relu", 5, -1e9, 1e9)],
)
add(
    "gelu",
    pointwise(lambda x: jax.nn.gelu(x, approximate=False), jnp.float32, 1),
    [floats(8, 128)],
    compare="ulp",
    ulp=16,
)

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "bool": np.bool_,
}
CASTS = """
    f32:i32 f32:u32 f32:i8 f32:u8 f32:i16 f32:bf16 f32:f16 f32:bool i32:f32 u32:f32 i32:i8 i32:u8 i32:i16
    i32:bool i32:bf16 i32:u32 i8:f32 u8:f32 bf16:f32 f16:f32 bool:f32 bool:i32 i8:i32 u8:i32 u16:i32 bf16:i32
    bf16:f16
""".split()


def cast(target: Any) -> F:
    """Return a conversion."""
    return lambda x: lax.convert_element_type(x, target)


for pair in CASTS:
    source, target = (TYPES[part] for part in pair.split(":"))
    if np.issubdtype(source, np.integer):
        data = odd_integers(pair, source)
    elif source is np.bool_:
        data = floats(8, 128) > 0
    else:
        with np.errstate(over="ignore"):
            data = odd_floats(pair).astype(source)
    add("cast_" + pair.replace(":", "_"), pointwise(cast(target), target, 1), [data])
add(
    "bitcast_convert_f32_i32",
    pointwise(lambda x: lax.bitcast_convert_type(x, jnp.int32), jnp.int32, 1),
    [floats(8, 128)],
)
add(
    "bitcast_convert_u32_f32",
    pointwise(lambda x: lax.bitcast_convert_type(x, jnp.float32), jnp.float32, 1),
    [floats(8, 128).view(np.uint32)],
)
for kind in ("bf16", "f16"):
    dtype = TYPES[kind]
    small = [floats(8, 128).astype(dtype), floats(8, 128, seed="second").astype(dtype)]
    add(f"add_{kind}", pointwise(lax.add, dtype, 2), small)
    add(f"mul_{kind}", pointwise(lax.mul, dtype, 2), small)
    add(f"max_{kind}", pointwise(lax.max, dtype, 2), small)
    add(f"exp_{kind}", pointwise(lax.exp, dtype, 1), small[:1], compare="ulp", ulp=2)
