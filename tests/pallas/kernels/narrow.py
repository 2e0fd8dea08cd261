"""Every type of elements in arithmetic, comparisons, reductions, orders and conversions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, odd_floats, odd_integers
from kernels.shapes import whole

I32, F32 = jnp.int32, jnp.float32
BF16 = ml_dtypes.bfloat16


def enter_integers(name: str, dtype: Any) -> None:
    a = odd_integers(name, dtype)
    b = np.roll(a, 5, 1)
    by = np.where(b == 0, 1, b).astype(dtype)
    both = lambda x, y: (x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), jnp.maximum(x, y), -x)  # noqa: E731
    whole(f"{name}_arithmetic", both, a, b)
    whole(
        f"{name}_bits",
        lambda x, y: (
            x << (y & 7),
            lax.shift_right_logical(x, y),
            lax.shift_right_arithmetic(x, y),
            lax.population_count(x),
            lax.clz(x),
            ~x,
            x ^ y,
        ),
        a,
        b,
    )
    whole(f"{name}_floors", lambda x, y: (x // y, x % y, jnp.sign(x), jnp.abs(x)), a, by)
    whole(
        f"{name}_reductions",
        lambda x: (
            jnp.max(x, axis=1),
            jnp.argmin(x, axis=0),
            jnp.sum(x, axis=1),
            jnp.prod(x, axis=0),
            lax.cumsum(x, axis=1),
            lax.cummax(x, axis=0, reverse=True),
            lax.cumprod(x, axis=1),
        ),
        a,
    )
    whole(
        f"{name}_orders",
        lambda x: (
            jnp.sort(x, axis=1),
            jnp.argsort(x, axis=0),
            jnp.sort(x, descending=True),
            *lax.top_k(x, 7),
        ),
        a,
    )
    targets = (F32, I32, jnp.bool_, jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint16)
    whole(f"{name}_conversions", lambda x: tuple(x.astype(target) for target in targets), a)


def enter_floats(name: str, dtype: Any) -> None:
    a, b = (np.clip(odd_floats(name + part), -6e4, 6e4).astype(dtype) for part in "ab")
    few = integers(8, 128, low=-4, high=5, seed=name).astype(dtype)
    whole(f"{name}_arithmetic", lambda x, y: (x + y, x - y, x * y, x / y, jnp.maximum(x, y), -x), a, b)
    whole(
        f"{name}_comparisons",
        lambda x, y: (x < y, x == y, jnp.isnan(x), jnp.isfinite(x), x >= y),
        a,
        b,
    )
    whole(f"{name}_next", lax.nextafter, a, b)
    whole(f"{name}_rounding", lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.clip(x, -1, 2)), a)
    whole(f"{name}_orders", lambda x: (jnp.sort(x, axis=1), jnp.argsort(x, axis=1), jnp.argmax(x, axis=1)), a)
    whole(f"{name}_sums", lambda x: (jnp.sum(x, axis=1), lax.cumsum(x, axis=0), lax.cummax(x, axis=1)), few)
    whole(f"{name}_dot", lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), few, few)
    targets = (F32, I32, jnp.int8, jnp.uint8, jnp.bool_, jnp.bfloat16, jnp.float16)
    whole(f"{name}_conversions", lambda x: tuple(x.astype(target) for target in targets), a)
    whole(f"{name}_patterns", lambda x: lax.bitcast_convert_type(x, jnp.uint16), a)


for one in (np.int8, np.uint8, np.int16, np.uint16, np.uint32):
    enter_integers(np.dtype(one).name, one)
for one in (np.float16, BF16):
    enter_floats(np.dtype(one).name, one)

B, C = (integers(8, 128, low=0, high=2, seed=seed).astype(np.bool_) for seed in "bc")
whole("bool_logic", lambda a, b: (a & b, a | b, a ^ b, ~a, jnp.where(a, b, ~b)), B, C)
whole(
    "bool_comparisons",
    lambda a, b: (a == b, a != b, a < b, a >= b, jnp.maximum(a, b), jnp.minimum(a, b)),
    B,
    C,
)
whole(
    "bool_reductions",
    lambda a: (jnp.all(a, axis=0), jnp.any(a, axis=1), jnp.max(a, axis=1), jnp.sum(a, axis=0)),
    B,
)
whole("bool_orders", lambda a: (jnp.sort(a, axis=1), jnp.argmax(a, axis=1), jnp.argmin(a, axis=0)), B)
whole(
    "bool_moves",
    lambda a, b: (jnp.concatenate([a, b], 0), jnp.pad(a, ((1, 0), (0, 2))), a.T, jnp.roll(a, 3, 1)),
    B,
    C,
)
whole(
    "bool_gather",
    lambda a, i: jnp.take_along_axis(a, i, axis=1),
    B,
    integers(8, 128, low=0, high=128, seed="g"),
)

# orders
TIES = np.array(
    [[1, np.nan, np.nan, 2], [3, 3, 3, 3], [-0.0, 0.0, 0.0, -0.0], [np.inf, -np.inf, np.inf, 1]], np.float32
)
for one in (np.float32, np.float16, BF16):
    whole(f"top_k_by_bits_{np.dtype(one).name}", lambda x: tuple(lax.top_k(x, 4)), TIES.astype(one))
whole("argmax_ties", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.argmax(x, 0), jnp.nanmax(x, 1)), TIES)
whole("argmax_types", lambda x: (lax.argmax(x, 1, jnp.uint32), lax.argmax(x, 0, jnp.int8)), TIES)
whole("top_k_rows", lambda x: tuple(lax.top_k(x, 3, axis=0)), floats(20, 4, seed="tk"))
whole("top_k_middle", lambda x: tuple(lax.top_k(x, 2, axis=1)), integers(3, 5, 4))
whole("top_k_vector", lambda x: tuple(lax.top_k(x, 3)), floats(20, seed="tv"))
whole(
    "sort_three",
    lambda a, b, c: tuple(lax.sort((a, b, c), dimension=0, num_keys=2)),
    integers(16, 8, low=0, high=3),
    integers(16, 8, low=0, high=3, seed="k2").astype(np.float32),
    integers(16, 8, dtype=np.int8, seed="k3"),
)
whole(
    "sort_by_bool",
    lambda a, b: tuple(lax.sort((a, b), dimension=1, num_keys=1)),
    B,
    odd_integers("sb", np.int8),
)
whole("sort_middle", lambda a: jnp.sort(a, axis=1), floats(3, 7, 5, seed="s3"))
whole(
    "lexsort",
    lambda a, b: jnp.lexsort((a, b)),
    integers(33, low=0, high=4),
    integers(33, low=0, high=4, seed="l"),
)
whole("searchsorted", jnp.searchsorted, np.sort(floats(33, seed="ss")), floats(10, seed="sv"))
whole("trace", lambda a: jnp.trace(a).reshape(1), integers(7, 7))

whole(
    "total_order",
    lambda x, y: tuple(primitive.bind(x, y) for primitive in (lax.lt_to_p, lax.le_to_p, lax.eq_to_p)),
    odd_floats("to"),
    np.roll(odd_floats("to"), 1, 1),
)

# products with odd dimensions
whole(
    "dot_batch_last",
    lambda a, b: lax.dot_general(a, b, (((0,), (1,)), ((2,), (2,)))),
    floats(5, 7, 3, seed="q"),
    floats(4, 5, 3, seed="w"),
    compare="sum",
)
whole(
    "dot_two_batches",
    lambda a, b: lax.dot_general(a, b, (((3,), (1,)), ((0, 2), (3, 0)))),
    floats(2, 3, 4, 5, seed="q1"),
    floats(4, 5, 6, 2, seed="w1"),
    compare="sum",
)
whole(
    "dot_crossed",
    lambda a, b: lax.dot_general(a, b, (((2, 0), (0, 1)), ((), ()))),
    floats(3, 4, 5, seed="q2"),
    floats(5, 3, 6, seed="w2"),
    compare="sum",
)
whole(
    "dot_outer",
    lambda a, b: lax.dot_general(a, b, (((), ()), ((), ()))),
    floats(3, 4, seed="q3"),
    floats(5, seed="w3"),
    compare="sum",
)
whole(
    "dot_mixed_signs",
    lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=I32),
    integers(4, 8, low=0, high=255, dtype=np.uint8, seed="m"),
    integers(8, 4, dtype=np.int8, seed="m8"),
)
for name, kind in (("f32", F32), ("bf16", BF16)):
    whole(
        f"dot_i8_{name}",  # as of weights that are quantised; which side is whole does not matter
        lambda a, b, c: tuple(
            lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=F32)
            for x, y in ((a, b), (b, a), (a, c))
        ),
        integers(4, 16, dtype=np.int8, seed="mixed"),
        floats(6, 16, seed="mixed").astype(kind),
        integers(2, 16, seed="mixed wide").astype(np.float32),
        compare="sum",
    )

# several narrow elements in a wide one: no interpreter of jax has these
PACKED = integers(8, 128, low=-(2**31), high=2**31 - 1, seed="packed").view(np.uint32)


def parts(x: np.ndarray, bits: int) -> list[np.ndarray]:
    return [(x >> np.uint32(bits * i)).astype(f"u{bits // 8}") for i in range(32 // bits)]


def packed(*values: np.ndarray) -> np.ndarray:
    bits = 32 // len(values)
    wide = [
        value.view(f"u{bits // 8}").astype(np.uint32) << np.uint32(bits * i) for i, value in enumerate(values)
    ]
    return np.bitwise_or.reduce(wide)


whole(
    "pack_bf16",
    lambda *x: pltpu.pack_elementwise(list(x), packed_dtype=jnp.bfloat16),
    floats(8, 128),
    floats(8, 128, seed="p2"),
    check=lambda *x: packed(*(value.astype(BF16) for value in x)),
)
whole(
    "pack_int8",
    lambda *x: pltpu.pack_elementwise(list(x), packed_dtype=jnp.int8),
    *(integers(8, 128, low=-200, high=200, seed=seed) for seed in "pqrs"),
    check=lambda *x: packed(*(value.astype(np.int8) for value in x)),
)
whole(
    "unpack_int8",
    lambda x: tuple(
        pltpu.unpack_elementwise(x, index=i, packed_dtype=jnp.int8, unpacked_dtype=I32) for i in range(4)
    ),
    PACKED,
    check=lambda x: [part.view(np.int8).astype(np.int32) for part in parts(x, 8)],
)
whole(
    "unpack_bf16",
    lambda x: tuple(
        pltpu.unpack_elementwise(x, index=i, packed_dtype=jnp.bfloat16, unpacked_dtype=F32) for i in range(2)
    ),
    PACKED,
    check=lambda x: [part.view(BF16).astype(np.float32) for part in parts(x, 16)],
)
if jax.__version__ != "0.9.2":  # which takes uint32 only
    whole(
        "unpack_uint8",
        lambda x: tuple(
            pltpu.unpack_elementwise(x, index=i, packed_dtype=jnp.uint8, unpacked_dtype=jnp.int16)
            for i in range(2)
        ),
        integers(8, 128, low=-(2**15), high=2**15 - 1, seed="packed", dtype=np.int16),
        check=lambda x: [(x.view(np.uint16) >> (8 * i)).astype(np.uint8).astype(np.int16) for i in range(2)],
    )
