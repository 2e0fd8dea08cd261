"""Operations on shapes, reductions, products, sorting, indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, odd_floats


def whole(name: str, function: Any, *operands: Any, **how: Any) -> None:
    """A call whose kernel applies a function to whole operands."""
    out = jax.eval_shape(function, *operands)
    single = not isinstance(out, tuple | list)
    outs = [out] if single else list(out)

    def body(*refs: Any) -> None:
        found = function(*(ref[...] for ref in refs[: len(operands)]))
        for ref, value in zip(refs[len(operands) :], [found] if single else found, strict=True):
            ref[...] = value

    def call(*arrays: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(body, out_shape=out if single else outs, interpret=interpret)(*arrays)

    add(name, call, operands, **how)


X = floats(8, 128)
I32 = integers(8, 128)

whole("iota_rows", lambda x: x + lax.broadcasted_iota(jnp.int32, (8, 128), 0), I32)
whole("iota_lanes", lambda x: x * lax.broadcasted_iota(jnp.int32, (8, 128), 1), I32)
whole("iota_f32", lambda x: x + lax.broadcasted_iota(jnp.float32, (8, 128), 1), X)
whole("broadcast_row", lambda x, y: x + y[None, :], X, floats(128, seed="row"))
whole("broadcast_column", lambda x, y: x - y, X, floats(8, 1, seed="column"))
whole("broadcast_scalar", lambda x: jnp.full((4, 8, 128), 2.5, jnp.float32) + x, X)
whole("reshape", lambda x: x.reshape(16, 64), X)
whole("reshape_rank_3", lambda x: x.reshape(2, 4, 128), X)
whole("squeeze", lambda x: jnp.squeeze(x, (0, 2)), floats(1, 8, 1, 128))
whole("expand_dims", lambda x: jnp.expand_dims(x, (0, 2)), X)
whole("transpose", lambda x: x.T, X)
whole("transpose_rank_3", lambda x: x.transpose(2, 0, 1), floats(4, 8, 16))
whole("concatenate", lambda x, y: jnp.concatenate([x, y, x], axis=1), X, floats(8, 64, seed="c"))
whole("stack", lambda x, y: jnp.stack([x, y], axis=1), X, floats(8, 128, seed="s"))
whole("unstack", lambda x: tuple(jnp.unstack(x, axis=1)), floats(8, 3, 128))
whole("pad", lambda x: lax.pad(x, np.float32(3), ((1, 2, 0), (0, 4, 1))), X)
whole("pad_negative", lambda x: lax.pad(x, np.float32(3), ((-1, 2, 0), (4, -8, 0))), X)
whole("rev", lambda x: lax.rev(x, (1,)), X)
whole("rev_both", lambda x: lax.rev(x, (0, 1)), I32)
whole("slice", lambda x: x[2:6, 16:80], X)
whole("slice_strided", lambda x: x[1::2, 3:100:5], X)
whole("split", lambda x: tuple(lax.split(x, (32, 64, 32), axis=1)), X)
whole("tile", lambda x: jnp.tile(x, (2, 3)), X)
whole("repeat", lambda x: jnp.repeat(x, 2, axis=0), X)
whole(
    "dynamic_slice",
    lambda x, i: lax.dynamic_slice(x, (i[0, 0], i[0, 1]), (4, 32)),
    X,
    np.array([[3, 90]], np.int32),
)
whole(
    "dynamic_slice_clamped",
    lambda x, i: lax.dynamic_slice(x, (i[0, 0], i[0, 1]), (4, 32)),
    X,
    np.array([[7, 120]], np.int32),
)
whole(
    "dynamic_update_slice",
    lambda x, y, i: lax.dynamic_update_slice(x, y, (i[0, 0], i[0, 1])),
    X,
    floats(2, 16, seed="u"),
    np.array([[5, 120]], np.int32),
)
PLACES = integers(8, 128, low=0, high=128, seed="places")
whole("take_along_lanes", lambda x, i: jnp.take_along_axis(x, i, axis=1), X, PLACES)
whole(
    "take_along_negative",
    lambda x, i: jnp.take_along_axis(x, i, axis=1),
    X,
    integers(8, 128, low=-140, high=140, seed="wrap"),
)
whole(
    "take_along_rows",
    lambda x, i: jnp.take_along_axis(x, i, axis=0),
    X,
    integers(8, 128, low=0, high=8, seed="r"),
)
whole("take_rows", lambda x, i: jnp.take(x, i, axis=0), X, np.array([3, 1, 7, 0, 9], np.int32))
whole("take_clip", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), X, np.array([3, 11, -2, 0], np.int32))
whole("take_fill_i32", lambda x, i: jnp.take(x, i, axis=1, mode="fill"), I32, np.array([3, 200, 5], np.int32))
whole("permute_xor", lambda x: jnp.take_along_axis(x, lax.broadcasted_iota(jnp.int32, (8, 128), 1) ^ 4, 1), X)

whole("sum_lanes", lambda x: jnp.sum(x, axis=1), X, compare="sum")
whole("sum_rows", lambda x: jnp.sum(x, axis=0), X, compare="sum")
whole("sum_all", lambda x: jnp.sum(x, keepdims=True), X, compare="sum", terms=1024)
whole("sum_i32", lambda x: jnp.sum(x, axis=1), I32)
whole("mean_keepdims", lambda x: jnp.mean(x, axis=1, keepdims=True), X, compare="sum")
whole("max_lanes", lambda x: jnp.max(x, axis=1), odd_floats("max"))
whole("max_without_nan", lambda x: jnp.max(x, axis=0), X)
whole("min_both", lambda x: jnp.min(x, axis=(0, 1), keepdims=True), X)
whole("max_i32", lambda x: jnp.max(x, axis=0), I32)
whole("prod", lambda x: jnp.prod(x, axis=0), X, compare="ulp", ulp=8)
whole("prod_i32", lambda x: jnp.prod(x, axis=1), integers(8, 16, low=-9, high=9))
whole("all_any", lambda x: (jnp.all(x > -2, axis=1), jnp.any(x > 2, axis=1)), X)
whole(
    "reduce_and_or_i32",
    lambda x: (lax.reduce_and_p.bind(x, axes=(1,)), lax.reduce_or_p.bind(x, axes=(0,))),
    I32,
)
whole("argmax", lambda x: jnp.argmax(x, axis=1), integers(8, 128, low=0, high=9).astype(np.float32))
whole("argmax_nan", lambda x: jnp.argmax(x, axis=1), odd_floats("argmax"))
whole("argmin_rows", lambda x: jnp.argmin(x, axis=0), I32)
whole("cumsum_i32", lambda x: lax.cumsum(x, axis=1), I32)
whole(
    "cumlogsumexp",
    lambda x: lax.cumlogsumexp(x, axis=1, reverse=True),
    floats(8, 128),
    compare="close",
)
whole("cumsum_f32", lambda x: lax.cumsum(x, axis=0), integers(8, 128).astype(np.float32))
whole("cumprod", lambda x: lax.cumprod(x, axis=0), integers(8, 128, low=-3, high=4).astype(np.float32))
whole("cummax_reverse", lambda x: lax.cummax(x, axis=1, reverse=True), X)
whole("cummin", lambda x: lax.cummin(x, axis=0), I32)

whole("sort_f32", lambda x: jnp.sort(x, axis=1), odd_floats("sort"))
whole("sort_rows_i32", lambda x: jnp.sort(x, axis=0), I32)
whole("argsort", lambda x: jnp.argsort(x, axis=1, stable=True), integers(8, 128, low=0, high=9))
whole(
    "sort_pairs",
    lambda x, y: tuple(lax.sort((x, y), dimension=1, num_keys=1)),
    integers(8, 128, low=0, high=9),
    X,
)
whole(
    "sort_two_keys",
    lambda x, y: tuple(lax.sort((x, y), dimension=1, num_keys=2)),
    integers(8, 128, low=0, high=5),
    integers(8, 128, low=0, high=9, seed="k"),
)
whole("top_k", lambda x: tuple(lax.top_k(x, 5)), integers(8, 128, low=0, high=50))

A, B = floats(64, 96, seed="a"), floats(96, 32, seed="b")
BF = ml_dtypes.bfloat16
whole("dot", lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32), A, B, compare="sum")
whole(
    "dot_rhs_transposed",
    lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((), ()))),
    A,
    floats(32, 96, seed="t"),
    compare="sum",
)
whole(
    "dot_lhs_transposed",
    lambda a, b: lax.dot_general(a, b, (((0,), (0,)), ((), ()))),
    floats(96, 64, seed="l"),
    B,
    compare="sum",
)
whole(
    "dot_batched",
    lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))),
    floats(3, 8, 16, seed="ba"),
    floats(3, 16, 24, seed="bb"),
    compare="sum",
)
whole(
    "dot_two_contracted",
    lambda a, b: lax.dot_general(a, b, (((1, 2), (0, 1)), ((), ()))),
    floats(8, 4, 16, seed="2a"),
    floats(4, 16, 24, seed="2b"),
    compare="sum",
)
whole("dot_vector", lambda a, b: jnp.dot(a, b), A, floats(96, seed="v"), compare="sum")
whole(
    "dot_bf16",
    lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32),
    A.astype(BF),
    B.astype(BF),
    compare="sum",
)
whole(
    "dot_i8",
    lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
    integers(16, 32, dtype=np.int8),
    integers(32, 16, dtype=np.int8, seed="i8"),
)
whole("dot_i32", lambda a, b: jnp.dot(a, b), integers(16, 32), integers(32, 16, seed="i32"))

whole("roll", lambda x: pltpu.roll(x, 3, 1), X)
whole("roll_rows_dynamic", lambda x, s: pltpu.roll(x, s[0, 0], 0), X, np.array([[5]], np.int32))
whole("roll_strided", lambda x: pltpu.roll(x, 1, 1, stride=2, stride_axis=0), X)
whole("bitcast_narrow", lambda x: pltpu.bitcast(x, jnp.int16), I32)
whole("bitcast_same", lambda x: pltpu.bitcast(x, jnp.int32), X)
whole("einshape", lambda x: pltpu.einshape("(ab)c->b(ac)", x, a=2), X)


def many_dimensions(x: Any, interpret: Any = False) -> Any:
    """More than a copy has, in blocks and as whole arrays; around the call, too."""

    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] * 2 + y[1]

    block = pl.BlockSpec((None, 1, 2, 2, 2, 3, 2, 5), lambda i, j: (i, j, 0, 0, 0, 0, 0, 0))
    whole = pl.BlockSpec(memory_space=pltpu.VMEM)
    made = pl.pallas_call(
        body,
        grid=(2, 2),
        in_specs=[block, whole],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )
    return made(x, x[:, 0])


add("many_dimensions", many_dimensions, [integers(2, 2, 2, 2, 2, 3, 2, 5)])
add(
    "many_dimensions_of_rows",
    lambda x, **how: jax.vmap(lambda x: many_dimensions(x, **how))(x),
    [integers(2, 2, 2, 2, 2, 2, 3, 2, 5)],
)
