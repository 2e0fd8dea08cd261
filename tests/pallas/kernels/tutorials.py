"""Kernels of signal processing, statistics and the like, as a stranger would bring them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

F32, I32, U32 = jnp.float32, jnp.int32, jnp.uint32
CLOSE: dict[str, Any] = {"how": {"compare": "close"}}
X = floats(32, 128)


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


ROWS = spec(8, 128, at=lambda i: (i, 0))


@kernel("conv1d_shifted", [floats(8, 136), floats(8, 9, seed="taps")], shape(8, 128), **CLOSE)
def conv1d(x: Any, taps: Any, o: Any) -> None:
    sums = jnp.zeros((8, 128), F32)
    for tap in range(9):
        sums += x[:, pl.ds(tap, 128)] * taps[:, tap : tap + 1]
    o[...] = sums


@kernel(
    "conv2d_3x3",
    [floats(2, 18, 18, 4), floats(3, 3, 4, 8, seed="w")],
    shape(2, 16, 16, 8),
    grid=(2,),
    in_specs=[spec(None, 18, 18, 4, at=lambda b: (b, 0, 0, 0)), spec(3, 3, 4, 8, at=lambda b: (0, 0, 0, 0))],
    out_specs=spec(None, 16, 16, 8, at=lambda b: (b, 0, 0, 0)),
    **CLOSE,
)
def conv2d(x: Any, w: Any, o: Any) -> None:
    sums = jnp.zeros((256, 8), F32)
    for i in range(3):
        for j in range(3):
            patch = x[pl.ds(i, 16), pl.ds(j, 16), :].reshape(256, 4)
            sums += jnp.dot(patch, w[i, j], preferred_element_type=F32)
    o[...] = sums.reshape(16, 16, 8)


@kernel(
    "conv_causal_over_grid",
    [X, floats(4, 128, seed="taps")],
    shape(32, 128),
    grid=(4,),
    in_specs=[ROWS, spec(4, 128, at=lambda i: (0, 0))],
    out_specs=ROWS,
    scratch_shapes=[pltpu.VMEM((11, 128), F32)],
    **CLOSE,
)
def causal(x: Any, taps: Any, o: Any, history: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        history[...] = jnp.zeros_like(history)

    history[pl.ds(3, 8), :] = x[...]
    o[...] = sum(history[pl.ds(k, 8), :] * taps[pl.ds(k, 1), :] for k in range(4))
    history[pl.ds(0, 3), :] = x[pl.ds(5, 3), :]


@kernel(
    "stencil_element_blocks",
    [floats(34, 130)],
    shape(32, 128),
    grid=(4,),
    in_specs=[pl.BlockSpec((pl.Element(10), pl.Element(130)), lambda i: (i * 8, 0))],
    out_specs=ROWS,
    **CLOSE,
)
def stencil(x: Any, o: Any) -> None:
    around = x[0:8, 1:129] + x[2:10, 1:129] + x[1:9, 0:128] + x[1:9, 2:130]
    o[...] = 0.25 * around - x[1:9, 1:129]


@kernel("heat_steps", [floats(16, 128)], shape(16, 128), how={"interpreter": "tpu", "compare": "close"})
def heat(x: Any, o: Any) -> None:
    def step(_: Any, u: Any) -> Any:
        around = sum(pltpu.roll(u, shift, axis) for axis, n in ((0, 16), (1, 128)) for shift in (1, n - 1))
        return u + 0.1 * (around - 4 * u)

    o[...] = lax.fori_loop(0, 10, step, x[...])


@kernel("game_of_life", [integers(16, 128, low=0, high=2)], shape(16, 128, dtype=I32))
def life(x: Any, o: Any) -> None:
    cells = x[...]
    turns = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    around = sum(jnp.roll(cells, turn, (0, 1)) for turn in turns)
    o[...] = ((around == 3) | ((around == 2) & (cells == 1))).astype(I32)


@kernel("mandelbrot", [], shape(16, 128, dtype=I32))
def mandelbrot(o: Any) -> None:
    re = lax.broadcasted_iota(F32, (16, 128), 1) * 0.0234375 - 2
    im = lax.broadcasted_iota(F32, (16, 128), 0) * 0.125 - 1

    def step(_: Any, state: Any) -> Any:
        a, b, count = state
        inside = a * a + b * b < 4
        return (
            jnp.where(inside, a * a - b * b + re, a),
            jnp.where(inside, 2 * a * b + im, b),
            count + inside.astype(I32),
        )

    o[...] = lax.fori_loop(0, 12, step, (re * 0, im * 0, jnp.zeros((16, 128), I32)))[2]


@kernel(
    "cumsum_over_grid",
    [integers(32, 128)],
    shape(32, 128, dtype=I32),
    grid=(4,),
    in_specs=[ROWS],
    out_specs=ROWS,
    scratch_shapes=[pltpu.VMEM((1, 128), I32)],
)
def cumsum(x: Any, o: Any, carried: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        carried[...] = jnp.zeros_like(carried)

    sums = jnp.cumsum(x[...], axis=0) + carried[...]
    o[...] = sums
    carried[...] = sums[7:8, :]


@kernel("prefix_by_doubling", [integers(8, 128)], shape(8, 128, dtype=I32), how={"interpreter": "tpu"})
def doubling(x: Any, o: Any) -> None:
    values, lane = x[...], lax.broadcasted_iota(I32, (8, 128), 1)
    for step in (1, 2, 4, 8, 16, 32, 64):
        values += jnp.where(lane >= step, pltpu.roll(values, step, 1), 0)
    o[...] = values


@kernel(
    "histogram_one_hot",
    [integers(32, 128, low=0, high=16, seed="h")],
    shape(1, 16, dtype=I32),
    grid=(4,),
    in_specs=[ROWS],
    out_specs=spec(1, 16, at=lambda i: (0, 0)),
)
def histogram(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    bins = lax.broadcasted_iota(I32, (1, 1, 16), 2)
    o[...] += (x[...][:, :, None] == bins).astype(I32).sum(axis=(0, 1))[None]


@kernel(
    "histogram_scalars",
    [integers(64, low=0, high=8, seed="s")],
    shape(8, dtype=I32),
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
    out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
)
def histogram_scalars(x: Any, o: Any) -> None:
    for i in range(8):
        o[i] = 0

    @pl.loop(0, 64)
    def _(i: Any) -> None:
        o[x[i]] += 1


@kernel(
    "embedding_by_prefetch",
    [np.array([5, 2, 2, 7], np.int32), floats(8, 1, 128)],
    shape(4, 1, 128),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[spec(1, 1, 128, at=lambda i, ids: (ids[i], 0, 0))],
        out_specs=spec(1, 1, 128, at=lambda i, ids: (i, 0, 0)),
    ),
)
def embedding(ids: Any, table: Any, o: Any) -> None:
    del ids
    o[...] = table[...]


@kernel(
    "embedding_by_copies",
    [np.array([5, 2, 2, 7], np.int32), floats(8, 128)],
    shape(4, 128),
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
    scratch_shapes=[pltpu.SemaphoreType.DMA],
    how={"check": lambda ids, table: table[ids]},  # the interpreter of jax 0.9.2 loses the table
)
def embedding_copies(ids: Any, table: Any, o: Any, semaphore: Any) -> None:
    def row(i: Any) -> Any:
        return pltpu.make_async_copy(table.at[pl.ds(ids[i], 1)], o.at[pl.ds(i, 1)], semaphore)

    for i in range(4):
        row(i).start()
    for i in range(4):
        row(i).wait()


@kernel(
    "mean_and_variance_over_grid",
    [X],
    [shape(1, 128), shape(1, 128)],
    grid=(4,),
    in_specs=[ROWS],
    out_specs=[spec(1, 128, at=lambda i: (0, 0))] * 2,
    **CLOSE,
)
def welford(x: Any, mean: Any, squares: Any) -> None:
    step = pl.program_id(0)

    @pl.when(step == 0)
    def _() -> None:
        mean[...] = jnp.zeros_like(mean)
        squares[...] = jnp.zeros_like(squares)

    count = (step * 8).astype(F32)
    block_mean = x[...].mean(axis=0, keepdims=True)
    delta = block_mean - mean[...]
    mean[...] += delta * (8 / (count + 8))
    squares[...] += jnp.sum((x[...] - block_mean) ** 2, axis=0, keepdims=True) + delta**2 * (
        8 * count / (count + 8)
    )


@kernel("max_pool_2x2", [floats(16, 32, 8)], shape(8, 16, 8))
def max_pool(x: Any, o: Any) -> None:
    o[...] = x[...].reshape(8, 2, 16, 2, 8).max(axis=(1, 3))


@kernel("upsample_nearest", [floats(8, 64)], shape(16, 128))
def upsample(x: Any, o: Any) -> None:
    o[...] = jnp.repeat(jnp.repeat(x[...], 2, axis=0), 2, axis=1)


@kernel(
    "ragged_softmax",
    [np.array([5, 128, 1, 77], np.int32), X],
    shape(32, 128),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[spec(8, 128, at=lambda i, n: (i, 0))],
        out_specs=spec(8, 128, at=lambda i, n: (i, 0)),
    ),
    **CLOSE,
)
def ragged_softmax(lengths: Any, x: Any, o: Any) -> None:
    inside = lax.broadcasted_iota(I32, (8, 128), 1) < lengths[pl.program_id(0)]
    scores = jnp.where(inside, x[...], -jnp.inf)
    powers = jnp.exp(scores - scores.max(axis=1, keepdims=True))
    o[...] = powers / powers.sum(axis=1, keepdims=True)


@kernel(
    "ragged_shapes",
    [floats(10, 200), floats(10, 200, seed="y")],
    shape(10, 200),
    grid=(2, 2),
    in_specs=[spec(8, 128, at=lambda i, j: (i, j))] * 2,
    out_specs=spec(8, 128, at=lambda i, j: (i, j)),
)
def ragged_add(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] * 2 + y[...]


@kernel(
    "ragged_sum_masked",
    [floats(20, 128)],
    shape(1, 128),
    grid=(3,),
    in_specs=[ROWS],
    out_specs=spec(1, 128, at=lambda i: (0, 0)),
    **CLOSE,
)
def ragged_sum(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    row = lax.broadcasted_iota(I32, (8, 128), 0) + pl.program_id(0) * 8
    o[...] += jnp.sum(jnp.where(row < 20, x[...], 0.0), axis=0, keepdims=True)


@kernel("pairwise_distances", [floats(16, 8), floats(32, 8, seed="c")], shape(16, 32), **CLOSE)
def distances(x: Any, y: Any, o: Any) -> None:
    o[...] = jnp.sqrt(((x[...][:, None, :] - y[...][None, :, :]) ** 2).sum(axis=-1))


@kernel(
    "k_means_step", [floats(64, 8), floats(4, 8, seed="c")], [shape(64, 1, dtype=I32), shape(4, 8)], **CLOSE
)
def k_means(x: Any, centres: Any, nearest: Any, sums: Any) -> None:
    squares = ((x[...][:, None, :] - centres[...][None]) ** 2).sum(axis=-1)
    chosen = jnp.argmin(squares, axis=1)
    nearest[...] = chosen[:, None]
    one_hot = (chosen[:, None] == jnp.arange(4)[None, :]).astype(F32)
    sums[...] = one_hot.T @ x[...]


@kernel("segment_sum", [floats(32, 64), integers(1, 32, low=0, high=4, seed="g")], shape(4, 64), **CLOSE)
def segment_sum(x: Any, segment: Any, o: Any) -> None:
    one_hot = (lax.broadcasted_iota(I32, (4, 32), 0) == segment[...]).astype(F32)
    o[...] = jnp.dot(one_hot, x[...], preferred_element_type=F32)


@kernel("dft_by_matmul", [floats(8, 32)], [shape(8, 32), shape(8, 32)], **CLOSE)
def dft(x: Any, re: Any, im: Any) -> None:
    turns = lax.broadcasted_iota(I32, (32, 32), 0) * lax.broadcasted_iota(I32, (32, 32), 1) % 32
    angle = turns.astype(F32) * (2 * np.pi / 32)
    re[...], im[...] = x[...] @ jnp.cos(angle), -(x[...] @ jnp.sin(angle))


@kernel("complex_product", [floats(2, 8, 128), floats(2, 8, 128, seed="z")], shape(2, 8, 128), **CLOSE)
def complex_product(x: Any, y: Any, o: Any) -> None:
    o[0] = x[0] * y[0] - x[1] * y[1]
    o[1] = x[0] * y[1] + x[1] * y[0]


@kernel("hash_murmur", [integers(8, 128, low=0, high=2**32 - 1, dtype=np.uint32)], shape(8, 128, dtype=U32))
def murmur(x: Any, o: Any) -> None:
    h = x[...]
    h = (h ^ (h >> 16)) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
    o[...] = h ^ (h >> 16)


@kernel("count_characters", [integers(8, 128, low=0, high=256, dtype=np.uint8)], shape(8, 1, dtype=I32))
def characters(x: Any, o: Any) -> None:
    letter = ((x[...] >= 65) & (x[...] <= 90)) | ((x[...] >= 97) & (x[...] <= 122))
    o[...] = letter.astype(I32).sum(axis=1, keepdims=True)


@kernel(
    "binary_search",
    [np.sort(floats(128, seed="t")), floats(8, 128, seed="q")],
    shape(8, 128, dtype=I32),
)
def search(table: Any, wanted: Any, o: Any) -> None:
    values = jnp.broadcast_to(table[...][None], (8, 128))
    low, high = jnp.zeros((8, 128), I32), jnp.full((8, 128), 128, I32)

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) // 2
        found = jnp.take_along_axis(values, jnp.minimum(middle, 127), axis=1)
        above = (found < wanted[...]) & (middle < 128)
        return jnp.where(above, middle + 1, low), jnp.where(above, high, jnp.minimum(middle, high))

    o[...] = lax.fori_loop(0, 8, halve, (low, high))[0]


@kernel("newton_while", [np.abs(floats(8, 128)) + 0.1], shape(8, 128), **CLOSE)
def newton(x: Any, o: Any) -> None:
    def go_on(state: Any) -> Any:
        return (state[0] < 30) & (jnp.max(jnp.abs(state[1] ** 2 - x[...])) > 1e-3)

    o[...] = lax.while_loop(go_on, lambda s: (s[0] + 1, 0.5 * (s[1] + x[...] / s[1])), (0, x[...] + 1))[1]


@kernel("run_starts", [integers(8, 128, low=0, high=3)], shape(8, 128, dtype=I32))
def run_starts(x: Any, o: Any) -> None:
    before = jnp.concatenate([jnp.full((8, 1), -1, I32), x[:, :127]], axis=1)
    o[...] = jnp.cumsum((x[...] != before).astype(I32), axis=1)


@kernel(
    "axpy_scalar",
    [np.array([2.5], np.float32), X, floats(32, 128, seed="y")],
    shape(32, 128),
    grid=(4,),
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ROWS, ROWS],
    out_specs=ROWS,
)
def axpy(a: Any, x: Any, y: Any, o: Any) -> None:
    o[...] = a[0] * x[...] + y[...]
