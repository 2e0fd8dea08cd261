"""Scans, selections, sorts of digits, dynamic programming: as public kernel libraries have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

F32, I32, U32, BF16, I8 = jnp.float32, jnp.int32, jnp.uint32, jnp.bfloat16, jnp.int8
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
CLOSE: dict[str, Any] = {"how": {"compare": "close"}}


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


ROWS = spec(8, 128, at=lambda i: (i, 0))


@kernel(
    "affine_scan_by_doubling",
    [np.abs(floats(16, 128, seed="decay")) % 1, floats(16, 128, seed="input")],
    shape(16, 128),
    **CLOSE,
)
def affine_scan(a: Any, b: Any, o: Any) -> None:
    decay, state = a[...], b[...]
    row = lax.broadcasted_iota(I32, (16, 128), 0)
    for step in (1, 2, 4, 8):
        inside = row >= step
        before = jnp.where(inside, jnp.roll(state, step, axis=0), 0.0)
        factor = jnp.where(inside, jnp.roll(decay, step, axis=0), 1.0)
        state, decay = state + decay * before, decay * factor
    o[...] = state


@kernel(
    "associative_scan_of_pairs",
    [integers(8, 128, low=0, high=9, seed="as")],
    [shape(8, 128, dtype=I32), shape(8, 128, dtype=I32)],
)
def associative(x: Any, o: Any, p: Any) -> None:
    def combine(left: Any, right: Any) -> Any:
        return left[0] + right[0], jnp.maximum(left[1] + right[0], right[1])

    o[...], p[...] = lax.associative_scan(combine, (x[...], x[...] * 2 - 7), axis=0)


@kernel(
    "gated_linear_recurrence",
    [floats(4, 8, 32, seed="gate"), floats(4, 8, 32, seed="keys"), floats(4, 8, 32, seed="values")],
    [shape(4, 8, 32), shape(32, 32)],
    grid=(4,),
    in_specs=[spec(None, 8, 32, at=lambda t: (t, 0, 0))] * 3,
    out_specs=[spec(None, 8, 32, at=lambda t: (t, 0, 0)), spec(32, 32, at=lambda t: (0, 0))],
    **CLOSE,
)
def recurrence(gate: Any, key: Any, value: Any, o: Any, state: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        state[...] = jnp.zeros_like(state)

    def token(t: Any, s: Any) -> Any:
        s = s * jax.nn.sigmoid(gate[t, :])[:, None] + key[t, :][:, None] * value[t, :][None, :]
        o[pl.ds(t, 1), :] = jnp.sum(s * key[t, :][:, None], axis=0, keepdims=True)
        return s

    state[...] = lax.fori_loop(0, 8, token, state[...], unroll=2)


@kernel(
    "radix_sort_pass",
    [integers(64, low=0, high=16, seed="digits")],
    [shape(64, dtype=I32), shape(16, dtype=I32)],
    in_specs=[SMEM],
    out_specs=[SMEM, SMEM],
    scratch_shapes=[pltpu.SMEM((16,), I32)],
)
def radix(x: Any, o: Any, counts: Any, start: Any) -> None:
    @pl.loop(0, 16)
    def _(d: Any) -> None:
        counts[d] = 0

    @pl.loop(0, 64)
    def _(i: Any) -> None:
        counts[x[i]] = counts[x[i]] + 1

    def place(d: Any, total: Any) -> Any:
        start[d] = total
        return total + counts[d]

    lax.fori_loop(0, 16, place, 0)

    @pl.loop(0, 64)
    def _(i: Any) -> None:
        o[start[x[i]]] = x[i]
        start[x[i]] += 1


@kernel(
    "top_k_by_masking",
    [floats(8, 128, seed="topk")],
    [shape(8, 8), shape(8, 8, dtype=I32)],
)
def top_k(x: Any, values: Any, places: Any) -> None:
    lane = lax.broadcasted_iota(I32, (8, 128), 1)

    def one(i: Any, left: Any) -> Any:
        best = jnp.argmax(left, axis=1).astype(I32)[:, None]
        here = lane == best
        values[:, pl.ds(i, 1)] = jnp.max(left, axis=1, keepdims=True)
        places[:, pl.ds(i, 1)] = best
        return jnp.where(here, -jnp.inf, left)

    lax.fori_loop(0, 8, one, x[...])


@kernel(
    "experts_gating",
    [floats(16, 8, seed="gates")],
    [shape(16, 2), shape(16, 2, dtype=I32), shape(1, 8, dtype=I32)],
    **CLOSE,
)
def gating(x: Any, weight: Any, expert: Any, load: Any) -> None:
    found, places = lax.top_k(x[...], 2)
    weight[...] = jax.nn.softmax(found, axis=-1)
    expert[...] = places
    load[...] = jnp.sum(jax.nn.one_hot(places, 8, dtype=I32), axis=(0, 1))[None]


@kernel(
    "median_of_columns",
    [floats(5, 128, seed="median")],
    shape(1, 128),
)
def median(x: Any, o: Any) -> None:
    rows = [x[i : i + 1, :] for i in range(5)]
    for end in range(4, 0, -1):
        for i in range(end):
            rows[i], rows[i + 1] = jnp.minimum(rows[i], rows[i + 1]), jnp.maximum(rows[i], rows[i + 1])
    o[...] = rows[2]


@kernel(
    "run_length_lengths",
    [np.sort(integers(128, low=0, high=9, seed="runs"))],
    [shape(16, dtype=I32), shape(16, dtype=I32), shape(1, dtype=I32)],
    in_specs=[SMEM],
    out_specs=[SMEM] * 3,
)
def run_lengths(x: Any, value: Any, length: Any, count: Any) -> None:
    for i in range(16):
        value[i] = -1
        length[i] = 0

    def of_run(state: Any) -> Any:
        i, run = state
        here = x[i]
        end = lax.while_loop(lambda j: (j < 128) & (x[jnp.minimum(j, 127)] == here), lambda j: j + 1, i)
        value[run] = here
        length[run] = end - i
        return end, run + 1

    count[0] = lax.while_loop(lambda state: state[0] < 128, of_run, (jnp.int32(0), jnp.int32(0)))[1]


@kernel(
    "switch_of_five",
    [np.array([4, 0, 2, 9, 1, -3, 3], np.int32), floats(7, 8, 128, seed="switch")],
    shape(7, 8, 128),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(7,),
        in_specs=[spec(None, 8, 128, at=lambda i, t: (i, 0, 0))],
        out_specs=spec(None, 8, 128, at=lambda i, t: (i, 0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), F32)],
    ),
)
def switch(t: Any, x: Any, o: Any, kept: Any) -> None:
    def keep(v: Any) -> Any:
        kept[...] = v
        return -v

    branches = [keep, jnp.abs, lambda v: kept[...] - v, lambda v: v * v, lambda v: jnp.maximum(v, 0.0)]

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        kept[...] = x[...]

    o[...] = lax.switch(t[pl.program_id(0)], branches, x[...])


@kernel(
    "reverse_scan_with_carry_and_rows",
    [floats(8, 128, seed="rs")],
    [shape(8, 128), shape(1, 128)],
)
def reverse_scan(x: Any, o: Any, last: Any) -> None:
    def body(carry: Any, row: Any) -> Any:
        best, n = carry
        best = jnp.maximum(best, row)
        return (best, n + 1), best - n.astype(F32)

    (best, _), rows = lax.scan(body, (jnp.full((128,), -jnp.inf), jnp.int32(0)), x[...], reverse=True)
    o[...] = rows
    last[...] = best[None, :]


@kernel(
    "mixed_precision_accumulate",
    [
        np.asarray(jnp.asarray(floats(16, 128, seed="mp"), BF16)),
        floats(16, 128, seed="mh").astype(np.float16),
        integers(16, 128, dtype=np.int8, seed="mi"),
        integers(16, 128, low=0, high=255, dtype=np.uint8, seed="mu"),
    ],
    [shape(16, 128), shape(16, 128, dtype=I8), shape(16, 128, dtype=BF16)],
    how={"compare": "ulp", "ulp": 1},
)
def mixed(a: Any, b: Any, c: Any, d: Any, o: Any, p: Any, q: Any) -> None:
    total = a[...].astype(F32) + b[...].astype(F32)
    o[...] = total + c[...].astype(F32) - d[...].astype(I32).astype(F32)
    p[...] = c[...] * I8(3) + lax.convert_element_type(d[...], I8)
    q[...] = jnp.maximum(a[...], b[...].astype(BF16))


def halves_of(x: Any) -> Any:
    """Return two rows of 16 bits for each of 32: the low halves above the high ones."""
    return x.view(np.int16).reshape(*x.shape, 2).transpose(0, 2, 1).reshape(-1, x.shape[1])


def of_halves(x: Any) -> Any:
    """Return the opposite."""
    pairs = x.reshape(-1, 2, x.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(pairs).view(np.int32)[..., 0]


@kernel(  # jax's interpreter stores through no bitcast to another width
    "packed_words_by_ref_bitcast",
    [integers(16, 128, low=-(2**31), high=2**31 - 1, seed="pw")],
    [shape(16, 128, dtype=I32), shape(32, 128, dtype=jnp.int16)],
    how={"check": lambda x: (of_halves(halves_of(x) + np.int16(1)), halves_of(x))},
)
def packed_words(x: Any, o: Any, halves: Any) -> None:
    halves[...] = x.bitcast(jnp.int16)[...]
    o.bitcast(jnp.int16)[...] = x.bitcast(jnp.int16)[...] + jnp.int16(1)


@kernel(
    "argsort_rank_inverse",
    [integers(8, 128, low=0, high=40, seed="rank")],
    [shape(8, 128, dtype=I32), shape(8, 128, dtype=I32)],
)
def ranks(x: Any, order: Any, rank: Any) -> None:
    lane = lax.broadcasted_iota(I32, (8, 128), 1)
    _, places = lax.sort((x[...], lane), dimension=1, is_stable=True, num_keys=1)
    order[...] = places
    rank[...] = lax.sort((places, lane), dimension=1, num_keys=1)[1]


@kernel(
    "triangular_solve_rows",
    [np.tril(floats(16, 16, seed="l")) * 0.1 + np.eye(16, dtype=np.float32), floats(16, 128, seed="rhs")],
    shape(16, 128),
    **CLOSE,
)
def solve(l: Any, b: Any, o: Any) -> None:  # noqa: E741
    o[...] = jnp.zeros_like(o)

    @pl.loop(0, 16)
    def _(i: Any) -> None:
        known = jnp.sum(l[pl.ds(i, 1), :].reshape(16, 1) * o[...], axis=0, keepdims=True)
        diagonal = l[i, :][None, :] * (lax.broadcasted_iota(I32, (1, 16), 1) == i)
        o[pl.ds(i, 1), :] = (b[pl.ds(i, 1), :] - known) / jnp.sum(diagonal)


@kernel(
    "strided_rows_and_reversed",
    [integers(16, 128, seed="sr")],
    [shape(8, 128, dtype=I32), shape(16, 64, dtype=I32)],
)
def strided(x: Any, o: Any, p: Any) -> None:
    o[...] = jnp.flip(x[pl.ds(1, 8, stride=2), :], axis=0)
    p[...] = x[:, pl.ds(0, 64)][:, ::-1] + jnp.flip(x[...], (0, 1))[:, 64:]


@kernel(
    "levenshtein_wavefront",
    [integers(32, low=0, high=4, seed="s1"), integers(32, low=0, high=4, seed="s2")],
    shape(1, dtype=I32),
    in_specs=[SMEM, pl.BlockSpec(memory_space=pltpu.VMEM)],
    out_specs=SMEM,
)
def levenshtein(a: Any, b: Any, o: Any) -> None:
    lane = lax.iota(I32, 33)

    def row(i: Any, before: Any) -> Any:
        cost = (b[...] != a[i]).astype(I32)
        best = jnp.minimum(before[1:] + 1, before[:-1] + cost)
        best = jnp.concatenate([jnp.full((1,), i + 1, I32), best])
        return lax.cummin(best - lane) + lane

    o[0] = lax.fori_loop(0, 32, row, lane)[32]


@kernel(
    "checksum_of_bytes",
    [integers(64, 128, low=0, high=256, dtype=np.uint8, seed="crc")],
    [shape(1, dtype=U32), shape(8, 128, dtype=U32)],
    grid=(8,),
    in_specs=[ROWS],
    out_specs=[SMEM, spec(8, 128, at=lambda i: (0, 0))],
)
def checksum(x: Any, o: Any, state: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        state[...] = jnp.full((8, 128), 2166136261, U32)

    state[...] = (state[...] ^ x[...].astype(U32)) * np.uint32(16777619)
    o[0] = jnp.sum(state[...], dtype=U32)


@kernel(
    "polynomial_and_norms",
    [floats(8, 128, seed="poly"), floats(6, seed="coefficients")],
    [shape(8, 128), shape(8, 1), shape(1, 1)],
    in_specs=[pl.BlockSpec((8, 128)), SMEM],
    **CLOSE,
)
def polynomial(x: Any, c: Any, o: Any, norm: Any, largest: Any) -> None:
    value = jnp.full((8, 128), c[5])
    for i in range(4, -1, -1):
        value = value * x[...] + c[i]
    o[...] = value
    norm[...] = jnp.linalg.norm(value, axis=1, keepdims=True)
    largest[...] = jnp.max(jnp.abs(value)).reshape(1, 1)
