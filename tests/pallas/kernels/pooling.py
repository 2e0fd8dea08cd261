"""Convolutions, pooling, reductions by functions, triangular systems; and places that count from the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

Function = Callable[..., Any]
IMAGE, WEIGHTS = floats(2, 5, 7, 6, seed="image"), floats(3, 2, 6, 4, seed="weights")
X, WHOLE = floats(8, 16, seed="pool"), integers(8, 16, seed="pool")
NHWC = ("NHWC", "HWIO", "NHWC")


def enter(name: str, operands: Sequence[Any], functions: Sequence[Function], **how: Any) -> None:
    """A kernel with an output for each of the functions of the operands."""
    outs = [
        shape(*aval.shape, dtype=aval.dtype)
        for aval in (jax.eval_shape(function, *operands) for function in functions)
    ]

    def body(*refs: Any) -> None:
        values = [ref[...] for ref in refs[: len(operands)]]
        for function, ref in zip(functions, refs[len(operands) :], strict=True):
            ref[...] = function(*values)

    def called(*arrays: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(body, out_shape=outs, interpret=interpret)(*arrays)

    add(name, called, operands, **how)


def conv(x: Any, w: Any, strides: Any = (1, 1), padding: Any = "SAME", **options: Any) -> Any:
    """With the dimensions of images."""
    return lax.conv_general_dilated(x, w, strides, padding, **{"dimension_numbers": NHWC, **options})


def transposed_conv(x: Any, w: Any) -> Any:
    """With steps between the elements of x."""
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=NHWC)


def of_x(x: Any, w: Any) -> Any:
    """Return a gradient."""
    return jax.grad(lambda x: jnp.sum(conv(x, w, (2, 1)) ** 2))(x)


def of_w(x: Any, w: Any) -> Any:
    """Return the other gradient."""
    return jax.grad(lambda w: jnp.sum(conv(x, w, (2, 1)) ** 2))(w)


def each(x: Any, w: Any) -> Any:
    """Images with weights of their own: groups of the batch."""
    return jax.vmap(lambda x, w: conv(x[None], w))(x, jnp.stack([w, w * 2]))


enter(
    "convolutions",
    [IMAGE, WEIGHTS],
    [
        lambda x, w: conv(x, w, (1, 2), ((-1, 1), (2, 0)), dimension_numbers=("NHWC", "HWIO", "NCHW")),
        transposed_conv,
        of_x,
        of_w,
        each,
    ],
    compare="close",
)
enter(
    "convolution_of_groups",
    [IMAGE, floats(3, 3, 3, 8)],
    [
        lambda x, w: conv(
            x, w, (2, 1), ((1, 2), (0, 3)), lhs_dilation=(1, 2), rhs_dilation=(2, 1), feature_group_count=2
        )
    ],
    compare="close",
)
enter(
    "convolution_depthwise",
    [IMAGE, floats(3, 3, 1, 6)],
    [lambda x, w: conv(x, w, feature_group_count=6)],
    compare="close",
)
enter(
    "convolution_1d",
    [floats(2, 4, 32), floats(8, 4, 3)],
    [lambda x, w: lax.conv_general_dilated(x, w, (2,), [(1, 1)], rhs_dilation=(2,))],
    compare="close",
)
enter(
    "convolution_int8",
    [integers(2, 5, 7, 6, dtype=np.int8), integers(3, 2, 6, 4, dtype=np.int8)],
    [lambda x, w: conv(x, w, preferred_element_type=jnp.int32)],
)


def least_place(x: Any, places: Any) -> Any:
    """Find where the least of each window stands."""

    def less(a: Any, b: Any) -> Any:
        keep = a[0] <= b[0]
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    first = (np.float32(np.inf), np.int32(0))
    return lax.reduce_window((x, places), first, less, (2, 2), (2, 2), "VALID")


def gradient(first: float, operation: Function, round_to: int) -> Function:
    """Return the gradient of pooling, of values that are often the same."""

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, first, operation, (3, 3), (2, 2), "SAME")

    return lambda x: jax.grad(lambda x: jnp.sum(pooled(x) ** 2))(jnp.round(x * round_to) / round_to)


def tangent(operation: Function, first: float, x: Any) -> Any:
    """Return the tangent of pooling, forwards."""

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, first, operation, (2, 3), (2, 2), "SAME")

    return jax.jvp(pooled, (x,), (lax.broadcasted_iota(jnp.float32, x.shape, 1) + 16 * x,))[1]


enter(
    "pooling",
    [X],
    [
        lambda x: lax.reduce_window(
            x,
            -jnp.inf,
            lax.max,
            (3, 2),
            (2, 1),
            ((1, 1), (0, 1)),
            base_dilation=(1, 2),
            window_dilation=(2, 3),
        ),
        gradient(-jnp.inf, lax.max, 1),
        gradient(jnp.inf, lax.min, 1),
        lambda x: tangent(lax.max, -jnp.inf, jnp.round(x)),
        lambda x: tangent(lax.min, jnp.inf, jnp.round(x)),
        lambda x: lax.reduce_window(x > 0, np.False_, lax.bitwise_or, (1, 4), (1, 4), "VALID"),
    ],
)
enter(
    "pooling_sums",
    [X],
    [
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), "SAME"),
        gradient(0.0, lax.add, 256),
    ],
    compare="close",
)
enter(
    "pooling_by_functions",
    [X, WHOLE],
    [
        lambda x, y: least_place(x, y)[0],
        lambda x, y: least_place(x, y)[1],
        lambda x, y: least_place(jnp.round(x), y)[1],
        lambda x, y: lax.reduce_window(y, np.int32(1), lambda a, b: a * b, (1, 3), (1, 1), "SAME"),
        lambda x, y: lax.reduce_window(y, np.int32(5), lax.add, (2, 2), (1, 2), "SAME"),
        lambda x, y: lax.reduce_window(y, np.int32(7), lax.max, (2, 2), (2, 2), "VALID"),
        lambda x, y: lax.reduce_window(y.astype(jnp.uint8), np.uint8(255), lax.min, (8, 1), (1, 1), "VALID"),
    ],
)


def greatest_place(x: Any) -> Any:
    """Find where the greatest stands, by a reduction of two operands."""

    def greater(a: Any, b: Any) -> Any:
        keep = a[0] >= b[0]
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    places = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return lax.reduce((x, places), (np.float32(-np.inf), np.int32(0)), greater, (1,))[1]


enter(
    "reductions_by_functions",
    [integers(7, 5, 9)],
    [
        lambda y: lax.reduce_xor(y, (0, 1, 2)).reshape(1, 1),
        lambda y: lax.reduce_xor(y > 0, (1,)),
        lambda y: lax.reduce(y, np.int32(3), lambda a, b: jnp.maximum(a, b) | 1, (0, 2)),
        lambda y: greatest_place(y[0].astype(jnp.float32)),
    ],
)


def of_triangle(left: bool, lower: bool, transposed: bool, unit: bool) -> Function:
    """Return a system, of either side and triangle."""

    def solved(a: Any, b: Any) -> Any:
        b = b if left else jnp.swapaxes(b, -1, -2)
        return lax.linalg.triangular_solve(
            a, b, left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit
        )

    return solved


enter(
    "triangular_systems",
    [
        floats(2, 6, 6, scale=0.3, seed="triangle") + 3 * np.eye(6, dtype=np.float32),
        floats(2, 6, 3, seed="right"),
    ],
    [of_triangle(*flags) for flags in itertools.product((False, True), repeat=4)],
    compare="close",
)
enter(
    "cholesky_factors",
    [floats(3, 6, 12, seed="factor")],
    [
        lambda a: jnp.linalg.cholesky(jnp.einsum("bij,bkj->bik", a, a)),
        lambda a: jnp.isnan(jnp.linalg.cholesky(jnp.einsum("bij,bkj->bik", a, a) - 9 * jnp.eye(6))),
    ],
    compare="close",
)


@kernel("from_the_end", [integers(4, 8, 128)], [shape(4, 8, 128, dtype=jnp.int32), shape(6, dtype=jnp.int32)])
def from_the_end(x: Any, o: Any, scalars: Any) -> None:
    """Negative places of refs."""
    o[-1] = x[0] + x.at[-2].at[...][...]
    o[0] = x[-1, jnp.arange(8)]
    o[1:3, :-1] = x[-3:-1, 1:]
    o[1:3, -1] = x[1:3, -8]
    o[0, pl.ds(-4, 4)] += x[1, pl.ds(-6, 4)]
    scalars[0:5] = jnp.zeros(5, jnp.int32)
    scalars[-1] = x[-1, -1, -1]


@kernel(
    "copied_from_the_end",
    [integers(4, 8, 128)],
    shape(2, 8, 128, dtype=jnp.int32),
    in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
    out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
)
def copied_from_the_end(x: Any, o: Any) -> None:
    """In copies, too."""
    pltpu.sync_copy(x.at[-1], o.at[-2])
    pltpu.sync_copy(x.at[-3, pl.ds(-4, 4)], o.at[-1, pl.ds(0, 4)])
    pltpu.sync_copy(x.at[-4, pl.ds(-4, 4)], o.at[-1, pl.ds(-4, 4)])


@custom_vmap
def with_rule(x: Any) -> Any:
    """Return a function with a rule for `vmap`."""
    return x * 3


@with_rule.def_vmap
def _(size: int, batched: Any, x: Any) -> Any:
    """Return the same for many."""
    del size, batched
    return x * 3, True


enter(
    "names_and_rules",
    [WHOLE],
    [
        lambda x: checkpoint_name(x + 1, "kept"),
        lambda x: lax.composite(lambda y: y * y - 1, "tests.squared")(x),
        with_rule,
        jax.vmap(with_rule),
        lambda x: lax.reshape(x, (16, 8), (1, 0)),
    ],
)


def of_factor(x: Any) -> Any:
    """Return the gradient of a determinant's logarithm; jax 0.10.2 begins it with an empty array."""
    return jax.grad(lambda x: jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(x @ x.T)))))(x)


def of_nothing(x: Any) -> Any:
    """Return an array without values, of which 0.9.2 has none."""
    return x + (lax.empty(x.shape, x.dtype) if hasattr(lax, "empty") else 0)


SQUARE = floats(8, 8, scale=0.3, seed="square") + 3 * np.eye(8, dtype=np.float32)
enter("gradient_of_a_factor", [SQUARE], [of_factor, of_nothing], compare="close")
