"""Attention, normalisation and backward passes, quantized products: as public kernel libraries have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

F32, I32, BF16, F16, I8 = jnp.float32, jnp.int32, jnp.bfloat16, jnp.float16, jnp.int8
CLOSE: dict[str, Any] = {"how": {"compare": "close"}}
NEVER = -1e30


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


Q, K, V = (floats(2, 64, 32, seed=seed) for seed in "qkv")
HEAD_Q = spec(None, 16, 32, at=lambda h, i, j: (h, i, 0))
HEAD_K = spec(None, 16, 32, at=lambda h, i, j: (h, j, 0))
STATE = [pltpu.VMEM((16, 1), F32), pltpu.VMEM((16, 1), F32), pltpu.VMEM((16, 32), F32)]


def online(q: Any, k: Any, v: Any, mask: Any, best: Any, total: Any, sums: Any) -> None:
    """One block of keys, with the running maximum and sum of the softmax."""
    scores = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=F32) * 0.17677669
    scores = jnp.where(mask, scores, NEVER)
    top = jnp.maximum(best[...], scores.max(axis=1, keepdims=True))
    powers, shrink = jnp.exp(scores - top), jnp.exp(best[...] - top)
    total[...] = total[...] * shrink + powers.sum(axis=1, keepdims=True)
    sums[...] = sums[...] * shrink + jnp.dot(powers, v, preferred_element_type=F32)
    best[...] = top


def restart(best: Any, total: Any, sums: Any) -> None:
    best[...] = jnp.full_like(best, NEVER)
    total[...] = jnp.zeros_like(total)
    sums[...] = jnp.zeros_like(sums)


@kernel(
    "flash_causal_with_logsumexp",
    [Q, K, V],
    [shape(2, 64, 32), shape(2, 64, 1)],
    grid=(2, 4, 4),
    in_specs=[HEAD_Q, HEAD_K, HEAD_K],
    out_specs=[HEAD_Q, spec(None, 16, 1, at=lambda h, i, j: (h, i, 0))],
    scratch_shapes=STATE,
    **CLOSE,
)
def flash_causal(q: Any, k: Any, v: Any, o: Any, lse: Any, best: Any, total: Any, sums: Any) -> None:
    i, j = pl.program_id(1), pl.program_id(2)
    pl.when(j == 0)(lambda: restart(best, total, sums))

    @pl.when(j <= i)
    def _() -> None:
        rows = i * 16 + lax.broadcasted_iota(I32, (16, 16), 0)
        columns = j * 16 + lax.broadcasted_iota(I32, (16, 16), 1)
        online(q[...], k[...], v[...], columns <= rows, best, total, sums)

    @pl.when(j == pl.num_programs(2) - 1)
    def _() -> None:
        o[...] = sums[...] / total[...]
        lse[...] = best[...] + jnp.log(total[...])


@kernel(
    "flash_sliding_window_segments",
    [Q, K, V, np.repeat(np.arange(4, dtype=np.int32), 16)[None], floats(1, 64, seed="bias")],
    shape(2, 64, 32),
    grid=(2, 4, 4),
    in_specs=[
        HEAD_Q,
        HEAD_K,
        HEAD_K,
        spec(1, 64, at=lambda h, i, j: (0, 0)),
        spec(1, 16, at=lambda h, i, j: (0, j)),
    ],
    out_specs=HEAD_Q,
    scratch_shapes=STATE,
    **CLOSE,
)
def flash_window(q: Any, k: Any, v: Any, segment: Any, bias: Any, o: Any, *state: Any) -> None:
    i, j = pl.program_id(1), pl.program_id(2)
    pl.when(j == 0)(lambda: restart(*state))
    of_rows = segment[0, pl.ds(i * 16, 16)]
    of_columns = segment[0, pl.ds(j * 16, 16)]
    distance = (i - j) * 16 + lax.broadcasted_iota(I32, (16, 16), 0) - lax.broadcasted_iota(I32, (16, 16), 1)
    near = (jnp.abs(distance) < 20) & (of_rows[:, None] >= of_columns[None, :])
    online(q[...] + bias[0, 0], k[...], v[...], near, *state)

    @pl.when(j == 3)
    def _() -> None:
        _, total, sums = state
        o[...] = sums[...] * pl.reciprocal(jnp.where(total[...] == 0.0, 1.0, total[...]), approx=False)


@kernel(
    "flash_backward_dq",
    [Q[0], K[0], V[0], floats(64, 32, seed="do"), np.full((64, 1), 4.0, np.float32), floats(64, 1, seed="d")],
    shape(64, 32),
    grid=(4,),
    in_specs=[
        spec(16, 32, at=lambda i: (i, 0)),
        spec(64, 32, at=lambda i: (0, 0)),
        spec(64, 32, at=lambda i: (0, 0)),
        spec(16, 32, at=lambda i: (i, 0)),
        spec(16, 1, at=lambda i: (i, 0)),
        spec(16, 1, at=lambda i: (i, 0)),
    ],
    out_specs=spec(16, 32, at=lambda i: (i, 0)),
    **CLOSE,
)
def flash_dq(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, dq: Any) -> None:
    def block(j: Any, sums: Any) -> Any:
        rows = pl.ds(pl.multiple_of(j * 16, 16), 16)
        scores = q[...] @ k[rows, :].T
        p = jnp.exp(scores - lse[...])
        ds = p * (do[...] @ v[rows, :].T - delta[...])
        return sums + ds @ k[rows, :]

    upper = lax.div(pl.program_id(0) * 16 + 31, 16)
    dq[...] = lax.fori_loop(0, jnp.minimum(upper, 4), block, jnp.zeros((16, 32), F32))


@kernel(
    "multi_query_decode_soft_cap",
    [
        np.array([37, 64, 5], np.int32),
        floats(3, 8, 32, seed="mq"),
        floats(3, 64, 32, seed="mk"),
        floats(3, 64, 32, seed="mv"),
    ],
    shape(3, 8, 32),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3, 4),
        in_specs=[
            spec(None, 8, 32, at=lambda b, j, n: (b, 0, 0)),
            # blocks beyond the length are not fetched: the last one stays
            spec(None, 16, 32, at=lambda b, j, n: (b, jnp.minimum(j, (n[b] - 1) // 16), 0)),
            spec(None, 16, 32, at=lambda b, j, n: (b, jnp.minimum(j, (n[b] - 1) // 16), 0)),
        ],
        out_specs=spec(None, 8, 32, at=lambda b, j, n: (b, 0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 1), F32), pltpu.VMEM((8, 1), F32), pltpu.VMEM((8, 32), F32)],
    ),
    **CLOSE,
)
def decode(n: Any, q: Any, k: Any, v: Any, o: Any, best: Any, total: Any, sums: Any) -> None:
    b, j = pl.program_id(0), pl.program_id(1)
    pl.when(j == 0)(lambda: restart(best, total, sums))

    @pl.when(j * 16 < n[b])
    def _() -> None:
        scores = 30.0 * jnp.tanh(jnp.einsum("hd,kd->hk", q[...], k[...]) / 30.0)
        inside = j * 16 + lax.broadcasted_iota(I32, scores.shape, 1) < n[b]
        scores = jnp.where(inside, scores, NEVER)
        top = jnp.maximum(best[...], scores.max(axis=-1, keepdims=True))
        powers, shrink = jnp.exp(scores - top), jnp.exp(best[...] - top)
        total[...] = total[...] * shrink + powers.sum(axis=-1, keepdims=True)
        sums[...] = sums[...] * shrink + powers @ v[...]
        best[...] = top

    @pl.when(j == 3)
    def _() -> None:
        o[...] = sums[...] / total[...]


@kernel(
    "layer_norm_backward",
    [floats(32, 128, seed="x"), floats(1, 128, seed="g"), floats(32, 128, seed="dy")],
    [shape(32, 128), shape(1, 128), shape(1, 128)],
    grid=(4,),
    in_specs=[
        spec(8, 128, at=lambda i: (i, 0)),
        spec(1, 128, at=lambda i: (0, 0)),
        spec(8, 128, at=lambda i: (i, 0)),
    ],
    out_specs=[
        spec(8, 128, at=lambda i: (i, 0)),
        spec(1, 128, at=lambda i: (0, 0)),
        spec(1, 128, at=lambda i: (0, 0)),
    ],
    **CLOSE,
)
def layer_norm_backward(x: Any, g: Any, dy: Any, dx: Any, dg: Any, db: Any) -> None:
    centred = x[...] - x[...].mean(axis=-1, keepdims=True)
    scale = lax.rsqrt(jnp.var(x[...], axis=-1, keepdims=True) + 1e-5)
    normal, weighted = centred * scale, dy[...] * g[...]
    c1 = (normal * weighted).mean(axis=-1, keepdims=True)
    dx[...] = scale * (weighted - weighted.mean(axis=-1, keepdims=True) - normal * c1)

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        dg[...] = jnp.zeros(dg.shape, dg.dtype)
        db[...] = jnp.zeros(db.shape, db.dtype)

    dg[...] += (dy[...] * normal).sum(axis=0, keepdims=True)
    db[...] += dy[...].sum(axis=0, keepdims=True)


@kernel(
    "group_norm_silu",
    [floats(2, 64, 32, seed="gn"), floats(32, seed="gg")],
    shape(2, 64, 32),
    grid=(2,),
    in_specs=[spec(None, 64, 32, at=lambda n: (n, 0, 0)), spec(32, at=lambda n: (0,))],
    out_specs=spec(None, 64, 32, at=lambda n: (n, 0, 0)),
    **CLOSE,
)
def group_norm(x: Any, g: Any, o: Any) -> None:
    groups = x[...].reshape(64, 4, 8)
    mean = jnp.mean(groups, axis=(0, 2), keepdims=True)
    spread = jnp.mean(jnp.square(groups - mean), axis=(0, 2), keepdims=True)
    normal = ((groups - mean) * lax.rsqrt(spread + 1e-6)).reshape(64, 32) * g[...][None, :]
    o[...] = jax.nn.silu(normal)


@kernel(
    "quantized_product_per_block",
    [
        floats(16, 128, seed="qa"),
        integers(128, 64, dtype=np.int8, seed="qw"),
        np.abs(floats(4, 64, seed="qs")),
    ],
    shape(16, 64),
    grid=(4,),
    in_specs=[
        spec(16, 32, at=lambda k: (0, k)),
        spec(32, 64, at=lambda k: (k, 0)),
        spec(1, 64, at=lambda k: (k, 0)),
    ],
    out_specs=spec(16, 64, at=lambda k: (0, 0)),
    scratch_shapes=[pltpu.VMEM((16, 64), F32)],
    **CLOSE,
)
def quantized(x: Any, w: Any, scale: Any, o: Any, sums: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        sums[...] = jnp.zeros((16, 64), F32)

    largest = jnp.max(jnp.abs(x[...]), axis=1, keepdims=True)
    step = jnp.where(largest == 0, 1.0, largest / 127.0)
    rounded = jnp.clip(jnp.round(x[...] / step), -127, 127).astype(I8)
    product = lax.dot_general(rounded, w[...], (((1,), (0,)), ((), ())), preferred_element_type=I32)
    sums[...] += product.astype(F32) * step * scale[...]
    o[...] = sums[...]


@kernel(
    "weights_of_int4_in_int8",
    [floats(8, 64, seed="x4"), integers(32, 128, low=-128, high=128, dtype=np.int8, seed="w4")],
    shape(8, 128),
    **CLOSE,
)
def int4(x: Any, w: Any, o: Any) -> None:
    packed = w[...].astype(I32)
    low, high = (packed << 28) >> 28, packed >> 4
    weights = jnp.stack([low, high], axis=1).reshape(64, 128).astype(F32)
    o[...] = jnp.dot(x[...], weights)


GROUPS = np.array([0, 0, 1, 2, 2], np.int32)
TILES = np.array([0, 1, 1, 2, 3], np.int32)
EDGES = np.array([0, 12, 16, 32], np.int32)


def grouped_matmul(groups: Any, tiles: Any, edges: Any, x: Any, w: Any, *, interpret: Any = False) -> Any:
    """Rows of ragged groups: a tile that two groups share is visited by both, next to each other."""

    def body(group: Any, tile: Any, edge: Any, x: Any, w: Any, o: Any, sums: Any) -> None:
        t = pl.program_id(1)
        first = jnp.logical_or(t == 0, tile[jnp.maximum(t - 1, 0)] != tile[t])

        @pl.when(first)
        def _() -> None:
            sums[...] = jnp.zeros_like(sums)

        row = tile[t] * 8 + lax.broadcasted_iota(I32, (8, 64), 0)
        mine = (row >= edge[group[t]]) & (row < edge[group[t] + 1])
        sums[...] = jnp.where(mine, jnp.dot(x[...], w[...], preferred_element_type=F32), sums[...])
        o[...] = sums[...].astype(o.dtype)

    return pl.pallas_call(
        body,
        out_shape=shape(32, 128),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(2, 5),
            in_specs=[
                spec(8, 32, at=lambda n, t, group, tile, edge: (tile[t], 0)),
                spec(None, 32, 64, at=lambda n, t, group, tile, edge: (group[t], 0, n)),
            ],
            out_specs=spec(8, 64, at=lambda n, t, group, tile, edge: (tile[t], n)),
            scratch_shapes=[pltpu.VMEM((8, 64), F32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        cost_estimate=pl.CostEstimate(flops=1000, bytes_accessed=1000, transcendentals=0),
        interpret=interpret,
    )(groups, tiles, edges, x, w)


add(
    "grouped_product_shared_tiles",
    grouped_matmul,
    [GROUPS, TILES, EDGES, floats(32, 32, seed="gx"), floats(3, 32, 128, seed="gw")],
    compare="close",
)


@kernel(
    "rope_halves_f16",
    [floats(4, 16, 64, seed="rope").astype(np.float16), np.arange(16, dtype=np.int32)[:, None]],
    shape(4, 16, 64, dtype=F16),
    grid=(4,),
    in_specs=[spec(1, 16, 64, at=lambda h: (h, 0, 0)), spec(16, 1, at=lambda h: (0, 0))],
    out_specs=spec(1, 16, 64, at=lambda h: (h, 0, 0)),
    how={"compare": "close"},
)
def rope(x: Any, position: Any, o: Any) -> None:
    rate = jnp.exp(lax.broadcasted_iota(F32, (1, 32), 1) * (-np.log(10000.0) / 32))
    angle = position[...].astype(F32) * rate
    a, b = jnp.split(x[0].astype(F32), 2, axis=-1)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    o[0] = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(F16)


@kernel(
    "cross_entropy_backward_blocks",
    [floats(8, 256, seed="logits"), integers(8, 1, low=0, high=256, seed="label")],
    [shape(8, 1), shape(8, 256)],
    grid=(2, 2),
    in_specs=[spec(8, 128, at=lambda p, j: (0, j)), spec(8, 1, at=lambda p, j: (0, 0))],
    out_specs=[spec(8, 1, at=lambda p, j: (0, 0)), spec(8, 128, at=lambda p, j: (0, p * j))],
    scratch_shapes=[pltpu.VMEM((8, 1), F32)] * 3,
    **CLOSE,
)
def cross_entropy(x: Any, label: Any, loss: Any, dx: Any, best: Any, total: Any, chosen: Any) -> None:
    phase, j = pl.program_id(0), pl.program_id(1)
    here = j * 128 + lax.broadcasted_iota(I32, (8, 128), 1) == label[...]

    @pl.when((phase == 0) & (j == 0))
    def _() -> None:
        best[...] = jnp.full((8, 1), -jnp.inf)
        total[...] = jnp.zeros((8, 1))
        chosen[...] = jnp.zeros((8, 1))

    @pl.when(phase == 0)
    def _() -> None:
        top = jnp.maximum(best[...], x[...].max(axis=1, keepdims=True))
        total[...] = total[...] * jnp.exp(best[...] - top) + jnp.exp(x[...] - top).sum(axis=1, keepdims=True)
        best[...] = top
        chosen[...] += jnp.where(here, x[...], 0.0).sum(axis=1, keepdims=True)
        dx[...] = jnp.zeros_like(dx)

    @pl.when(phase == 1)
    def _() -> None:
        dx[...] = jnp.exp(x[...] - best[...]) / total[...] - here.astype(F32)
        loss[...] = jnp.log(total[...]) + best[...] - chosen[...]


@kernel(
    "dropout_by_hash",
    [floats(8, 128, seed="drop"), np.array([1234], np.int32)],
    shape(8, 128),
    in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pltpu.SMEM)],
)
def dropout(x: Any, seed: Any, o: Any) -> None:
    place = lax.broadcasted_iota(jnp.uint32, x.shape, 0) * np.uint32(128) + lax.broadcasted_iota(
        jnp.uint32, x.shape, 1
    )
    h = place * np.uint32(0x9E3779B1) ^ lax.convert_element_type(seed[0], jnp.uint32)
    h = (h ^ lax.shift_right_logical(h, np.uint32(15))) * np.uint32(0x85EBCA77)
    keep = (h >> 8).astype(F32) * np.float32(2.0**-24) >= 0.25
    o[...] = jnp.where(keep, x[...] * np.float32(1 / 0.75), 0)
