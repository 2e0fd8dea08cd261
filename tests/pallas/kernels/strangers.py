"""Kernels as somebody writes them who does not know what is tested: several parts of jax in each."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

X = floats(8, 128, seed="stranger")
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
CLOSE: dict[str, Any] = {"how": {"compare": "close"}}


@kernel(
    "sums_of_segments",
    [integers(32, low=0, high=4), floats(32, 128)],
    shape(4, 128),
    grid=(4,),
    in_specs=[pl.BlockSpec((8,), lambda i: (i,)), ROWS],
    out_specs=pl.BlockSpec((4, 128), lambda i: (0, 0)),
    **CLOSE,
)
def segments(segment: Any, x: Any, o: Any) -> None:
    """Sum segments by a product with which row is of which segment."""

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    chosen = segment[...][:, None] == lax.broadcasted_iota(jnp.int32, (8, 4), 1)
    o[...] += chosen.astype(jnp.float32).T @ x[...]


@kernel(
    "welford",
    [floats(32, 64)],
    shape(2, 64),
    grid=(4,),
    in_specs=[pl.BlockSpec((8, 64), lambda i: (i, 0))],
    out_specs=pl.BlockSpec((2, 64), lambda i: (0, 0)),
    scratch_shapes=[pltpu.VMEM((1, 64), jnp.float32)] * 3,
    **CLOSE,
)
def welford(x: Any, o: Any, mean: Any, squares: Any, count: Any) -> None:
    """Mean and variance in one pass."""

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        for memory in (mean, squares, count):
            memory[...] = jnp.zeros_like(memory)

    for row in range(8):
        value = x[row : row + 1, :]
        count[...] += 1.0
        change = value - mean[...]
        mean[...] += change / count[...]
        squares[...] += change * (value - mean[...])

    @pl.when(pl.program_id(0) == 3)
    def _() -> None:
        o[0:1] = mean[...]
        o[1:2] = squares[...] / count[...]


@kernel("triangular_solve", [floats(64, 64)], shape(64), **CLOSE)
def triangular(x: Any, o: Any) -> None:
    """Row by row, with rows and places that move."""
    a = jnp.tril(x[...]) + 64 * jnp.eye(64)

    def step(i: Any, y: Any) -> Any:
        row = lax.dynamic_slice(a, (i, 0), (1, 64))
        value = (1.0 - jnp.sum(row * y[None, :])) / row[0, i]
        return lax.dynamic_update_slice(y, value[None], (i,))

    o[...] = lax.fori_loop(0, 64, step, jnp.zeros(64))


@kernel(
    "sum_of_ragged_edges",
    [floats(20, 130)],
    shape(3, 2),
    grid=(3, 2),
    in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
    out_specs=pl.BlockSpec((1, 1), lambda i, j: (i, j), memory_space=pltpu.SMEM),
    **CLOSE,
)
def edges(x: Any, o: Any) -> None:
    """A scalar for each block, of what is inside."""
    row = pl.program_id(0) * 8 + lax.broadcasted_iota(jnp.int32, (8, 128), 0)
    column = pl.program_id(1) * 128 + lax.broadcasted_iota(jnp.int32, (8, 128), 1)
    inside = (row < 20) & (column < 130)
    o[0, 0] = jnp.sum(jnp.where(inside, pltpu.load(x, mask=inside), 0.0))


@kernel(
    "nibbles",
    [integers(8, 128, low=-8, high=8, dtype=np.int8)],
    [shape(4, 128, dtype=jnp.uint8), shape(8, 128, dtype=jnp.int8)],
)
def nibbles(x: Any, packed: Any, back: Any) -> None:
    """Two whole numbers of 4 bits in a byte, and out again."""
    value = x[...].astype(jnp.int32)
    word = (value[:4] & 15) | ((value[4:] & 15) << 4)
    packed[...] = word.astype(jnp.uint8)
    back[...] = jnp.concatenate([word << 28 >> 28, word << 24 >> 28]).astype(jnp.int8)


@kernel(
    "halo_of_rows",
    [floats(64, 128)],
    shape(56, 128),
    grid=(7,),
    in_specs=[pl.BlockSpec((pl.Element(10), pl.Element(128)), lambda i: (i * 8, 0))],
    out_specs=ROWS,
    **CLOSE,
)
def halo(x: Any, o: Any) -> None:
    """Blocks that overlap."""
    o[...] = x[0:8] + x[1:9] + x[2:10]


@kernel(
    "back_and_forth",
    [floats(64, 64, seed="a"), floats(64, 64, seed="b")],
    shape(64, 64),
    grid=(16,),
    in_specs=[
        pl.BlockSpec((16, 64), lambda p: (p // 4, 0)),
        pl.BlockSpec((64, 16), lambda p: (0, jnp.where(p // 4 % 2 == 0, p % 4, 3 - p % 4))),
    ],
    out_specs=pl.BlockSpec((16, 16), lambda p: (p // 4, jnp.where(p // 4 % 2 == 0, p % 4, 3 - p % 4))),
    **CLOSE,
)
def swizzled(a: Any, b: Any, o: Any) -> None:
    """A product whose blocks follow a path, so that one operand stays at each turn."""
    o[...] = a[...] @ b[...]


@kernel("functions_of_numpy", [X], [shape(8, 128), shape(8, 1), shape(8, 1, dtype=jnp.int32)], **CLOSE)
def of_numpy(x: Any, first: Any, second: Any, third: Any) -> None:
    value = x[...]
    first[...] = jnp.hypot(value, 1.0) + jnp.mod(value, 0.7) + jnp.logaddexp(value, 0.0) + jnp.sinc(value)
    first[...] += jnp.tril(value) + jnp.repeat(value[:, :64], 2, axis=1) + jnp.diff(value, axis=1, append=0.0)
    second[...] = jnp.median(value, axis=1, keepdims=True) + jnp.std(value, axis=1, keepdims=True)
    third[...] = jnp.count_nonzero(value > 0, axis=1, keepdims=True).astype(jnp.int32)


@kernel("functions_of_nn", [X], shape(8, 128), **CLOSE)
def of_nn(x: Any, o: Any) -> None:
    value, nn = x[...], jax.nn
    o[...] = nn.elu(value) + nn.selu(value) + nn.mish(value) + nn.hard_swish(value) + nn.log_sigmoid(value)
    o[...] += nn.log_softmax(value) + nn.squareplus(value) + nn.one_hot(jnp.argmax(value, 1), 128)


@kernel("transformed_inside", [X], shape(8, 128), **CLOSE)
def transformed(x: Any, o: Any) -> None:
    """vmap, a gradient, an associative scan and a map within the kernel."""
    rows = jax.vmap(lambda row: lax.cumsum(row) / jnp.max(row))(x[...])
    slope = jax.grad(lambda value: jnp.sum(jax.nn.sigmoid(value) * jnp.tanh(value)))(x[...])
    o[...] = rows + slope + lax.associative_scan(jnp.maximum, x[...], axis=1) + lax.map(jnp.sin, x[...])
