"""Kernels of neural networks, as tutorials have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

F32, I32, BF16 = jnp.float32, jnp.int32, jnp.bfloat16
SUM: dict[str, Any] = {"how": {"compare": "sum"}}
CLOSE: dict[str, Any] = {"how": {"compare": "close"}}
X, W, Y = floats(32, 64), floats(64, 128, seed="w"), floats(32, 128, seed="y")


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


ROWS = spec(8, 128, at=lambda i: (i, 0))
ROW = spec(1, 128, at=lambda i: (0, 0))


@kernel(
    "matmul_bias_relu",
    [X, W, floats(1, 128, seed="bias")],
    shape(32, 128),
    grid=(4, 2),
    in_specs=[
        spec(8, 64, at=lambda i, j: (i, 0)),
        spec(64, 64, at=lambda i, j: (0, j)),
        spec(1, 64, at=lambda i, j: (0, j)),
    ],
    out_specs=spec(8, 64, at=lambda i, j: (i, j)),
    **CLOSE,
)
def bias_relu(x: Any, w: Any, bias: Any, o: Any) -> None:
    o[...] = jax.nn.relu(jnp.dot(x[...], w[...], preferred_element_type=F32) + bias[...])


@kernel(
    "matmul_accumulates_in_output",
    [X, W],
    shape(32, 128),
    grid=(2, 4),
    in_specs=[spec(16, 16, at=lambda i, k: (i, k)), spec(16, 128, at=lambda i, k: (k, 0))],
    out_specs=spec(16, 128, at=lambda i, k: (i, 0)),
    **SUM,
)
def in_output(x: Any, w: Any, o: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...] @ w[...]


@kernel(
    "matmul_bf16_sums_in_f32",
    [np.asarray(jnp.asarray(X, BF16)), np.asarray(jnp.asarray(W, BF16))],
    shape(32, 128, dtype=F32),
    grid=(2,),
    in_specs=[spec(32, 32, at=lambda k: (0, k)), spec(32, 128, at=lambda k: (k, 0))],
    out_specs=spec(32, 128, at=lambda k: (0, 0)),
    scratch_shapes=[pltpu.VMEM((32, 128), F32)],
    **CLOSE,
)
def bf16_sums(x: Any, w: Any, o: Any, sums: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        sums[...] = jnp.zeros_like(sums)

    sums[...] += jnp.dot(x[...], w[...], preferred_element_type=F32)

    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _() -> None:
        o[...] = sums[...]


@kernel(
    "matmul_int8_scaled",
    [
        integers(32, 64, dtype=np.int8),
        integers(64, 128, dtype=np.int8, seed="w8"),
        np.abs(floats(1, 128, seed="scale")),
    ],
    shape(32, 128),
)
def int8_scaled(x: Any, w: Any, scale: Any, o: Any) -> None:
    o[...] = lax.dot(x[...], w[...], preferred_element_type=I32).astype(F32) * scale[...]


@kernel(
    "matmul_split_k",
    [X, W],
    shape(4, 32, 128),
    grid=(4,),
    in_specs=[spec(32, 16, at=lambda k: (0, k)), spec(16, 128, at=lambda k: (k, 0))],
    out_specs=spec(None, 32, 128, at=lambda k: (k, 0, 0)),
    **SUM,
)
def split_k(x: Any, w: Any, o: Any) -> None:
    o[...] = jnp.dot(x[...], w[...], preferred_element_type=F32)


@kernel("matmul_gelu_residual", [X, W, Y], shape(32, 128), **CLOSE)
def gelu_residual(x: Any, w: Any, residual: Any, o: Any) -> None:
    o[...] = residual[...] + jax.nn.gelu(x[...] @ w[...], approximate=True)


@kernel(
    "matmul_grouped",
    [np.array([2, 0, 0, 1], np.int32), X, floats(3, 64, 128, seed="experts")],
    shape(32, 128),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[
            spec(8, 64, at=lambda i, group: (i, 0)),
            spec(None, 64, 128, at=lambda i, group: (group[i], 0, 0)),
        ],
        out_specs=spec(8, 128, at=lambda i, group: (i, 0)),
    ),
    **CLOSE,
)
def grouped(group: Any, x: Any, w: Any, o: Any) -> None:
    del group
    o[...] = jnp.dot(x[...], w[...], preferred_element_type=F32)


@kernel(
    "matmul_batched",
    [floats(3, 16, 32), floats(3, 32, 64, seed="b")],
    shape(3, 16, 64),
    grid=(3,),
    in_specs=[
        spec(None, 16, 32, at=lambda b: (b, 0, 0)),
        spec(None, 32, 64, at=lambda b: (b, 0, 0)),
    ],
    out_specs=spec(None, 16, 64, at=lambda b: (b, 0, 0)),
    **SUM,
)
def batched(x: Any, w: Any, o: Any) -> None:
    o[...] = x[...] @ w[...]


@kernel("swiglu", [X, W, floats(64, 128, seed="v")], shape(32, 128), **CLOSE)
def swiglu(x: Any, w: Any, v: Any, o: Any) -> None:
    o[...] = jax.nn.silu(x[...] @ w[...]) * (x[...] @ v[...])


@kernel(
    "rms_norm",
    [Y, floats(1, 128, seed="g")],
    shape(32, 128),
    grid=(4,),
    in_specs=[ROWS, ROW],
    out_specs=ROWS,
    **CLOSE,
)
def rms_norm(x: Any, scale: Any, o: Any) -> None:
    values = x[...]
    o[...] = values * lax.rsqrt(jnp.mean(jnp.square(values), axis=-1, keepdims=True) + 1e-6) * scale[...]


@kernel("group_norm", [Y], shape(32, 128), grid=(4,), in_specs=[ROWS], out_specs=ROWS, **CLOSE)
def group_norm(x: Any, o: Any) -> None:
    groups = x[...].reshape(8, 4, 32)
    centred = groups - groups.mean(axis=-1, keepdims=True)
    o[...] = (centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)).reshape(8, 128)


@kernel(
    "softmax_cross_entropy",
    [Y, integers(32, 1, low=0, high=128, seed="labels")],
    shape(32, 1),
    grid=(4,),
    in_specs=[ROWS, spec(8, 1, at=lambda i: (i, 0))],
    out_specs=spec(8, 1, at=lambda i: (i, 0)),
    **CLOSE,
)
def cross_entropy(x: Any, labels: Any, o: Any) -> None:
    logits = x[...]
    columns = lax.broadcasted_iota(I32, logits.shape, 1)
    chosen = jnp.sum(jnp.where(columns == labels[...], logits, 0.0), axis=1, keepdims=True)
    o[...] = jax.nn.logsumexp(logits, axis=1, keepdims=True) - chosen


@kernel(
    "log_softmax_over_columns",
    [floats(8, 512)],
    [shape(8, 1), shape(8, 1)],
    grid=(4,),
    in_specs=[spec(8, 128, at=lambda j: (0, j))],
    out_specs=[spec(8, 1, at=lambda j: (0, 0))] * 2,
    **CLOSE,
)
def online(x: Any, most: Any, total: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        most[...] = jnp.full_like(most, -jnp.inf)
        total[...] = jnp.zeros_like(total)

    above = jnp.maximum(most[...], x[...].max(axis=1, keepdims=True))
    total[...] = total[...] * jnp.exp(most[...] - above) + jnp.exp(x[...] - above).sum(axis=1, keepdims=True)
    most[...] = above


@kernel("rotary_halves", [floats(16, 64)], shape(16, 64), **CLOSE)
def rotary(x: Any, o: Any) -> None:
    position = lax.broadcasted_iota(F32, (16, 32), 0)
    angle = position * jnp.exp(lax.broadcasted_iota(F32, (16, 32), 1) * (-np.log(10000.0) / 32))
    left, right = x[:, :32], x[:, 32:]
    turned = [left * jnp.cos(angle) - right * jnp.sin(angle), left * jnp.sin(angle) + right * jnp.cos(angle)]
    o[...] = jnp.concatenate(turned, axis=1)


@kernel(
    "rotary_interleaved",
    [floats(16, 128), floats(16, 128, seed="cos"), floats(16, 128, seed="sin")],
    shape(16, 128),
    how={"interpreter": "tpu", "compare": "close"},
)
def interleaved(x: Any, cosine: Any, sine: Any, o: Any) -> None:
    values = x[...]
    even = lax.broadcasted_iota(I32, values.shape, 1) % 2 == 0
    neighbour = jnp.where(even, -pltpu.roll(values, 127, 1), pltpu.roll(values, 1, 1))
    o[...] = values * cosine[...] + neighbour * sine[...]


@kernel(
    "flash_inner_loop",
    [floats(32, 32), floats(64, 32, seed="k"), floats(64, 32, seed="v")],
    shape(32, 32),
    grid=(2,),
    in_specs=[
        spec(16, 32, at=lambda i: (i, 0)),
        spec(64, 32, at=lambda i: (0, 0)),
        spec(64, 32, at=lambda i: (0, 0)),
    ],
    out_specs=spec(16, 32, at=lambda i: (i, 0)),
    **CLOSE,
)
def flash(q: Any, k: Any, v: Any, o: Any) -> None:
    query, first = q[...] * 32**-0.5, pl.program_id(0) * 16

    def body(j: Any, carry: Any) -> Any:
        most, total, sums = carry
        at = pl.ds(j * 16, 16)
        scores = query @ k[at, :].T
        row = lax.broadcasted_iota(I32, scores.shape, 0) + first
        column = lax.broadcasted_iota(I32, scores.shape, 1) + j * 16
        scores = jnp.where(column <= row + 32, scores, -1e30)
        above = jnp.maximum(most, scores.max(axis=1, keepdims=True))
        powers, correction = jnp.exp(scores - above), jnp.exp(most - above)
        total = total * correction + powers.sum(axis=1, keepdims=True)
        return above, total, sums * correction + powers @ v[at, :]

    start = (jnp.full((16, 1), -1e30, F32), jnp.zeros((16, 1), F32), jnp.zeros((16, 32), F32))
    _, total, sums = lax.fori_loop(0, 4, body, start)
    o[...] = sums / total


@kernel(
    "linear_attention_state",
    [floats(32, 16), floats(32, 16, seed="k"), floats(32, 16, seed="v")],
    shape(32, 16),
    grid=(4,),
    in_specs=[spec(8, 16, at=lambda i: (i, 0))] * 3,
    out_specs=spec(8, 16, at=lambda i: (i, 0)),
    scratch_shapes=[pltpu.VMEM((16, 16), F32)],
    **CLOSE,
)
def linear_attention(q: Any, k: Any, v: Any, o: Any, state: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        state[...] = jnp.zeros_like(state)

    scores = jnp.tril(q[...] @ k[...].T)
    o[...] = q[...] @ state[...] + scores @ v[...]
    state[...] += k[...].T @ v[...]


@kernel(
    "ssm_scan",
    [floats(32, 128), jax.nn.sigmoid(floats(32, 128, seed="decay"))],
    shape(32, 128),
    grid=(4,),
    in_specs=[ROWS, ROWS],
    out_specs=ROWS,
    scratch_shapes=[pltpu.VMEM((1, 128), F32)],
    **CLOSE,
)
def ssm(x: Any, decay: Any, o: Any, state: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        state[...] = jnp.zeros_like(state)

    def body(i: Any, h: Any) -> Any:
        h = decay[pl.ds(i, 1), :] * h + x[pl.ds(i, 1), :]
        o[pl.ds(i, 1), :] = h
        return h

    state[...] = lax.fori_loop(0, 8, body, state[...])


@kernel(
    "lstm_cell",
    [floats(8, 32), floats(8, 32, seed="h"), floats(8, 32, seed="c"), floats(64, 128, seed="w", scale=0.2)],
    [shape(8, 32), shape(8, 32)],
    **CLOSE,
)
def lstm(x: Any, h: Any, c: Any, w: Any, new_h: Any, new_c: Any) -> None:
    gates = jnp.concatenate([x[...], h[...]], axis=1) @ w[...]
    into, forget, cell, out = jnp.split(gates, 4, axis=1)
    state = jax.nn.sigmoid(forget) * c[...] + jax.nn.sigmoid(into) * jnp.tanh(cell)
    new_c[...] = state
    new_h[...] = jax.nn.sigmoid(out) * jnp.tanh(state)


@kernel("top_2_routing", [floats(16, 8)], [shape(16, 2), shape(16, 2, dtype=I32)], **CLOSE)
def routing(logits: Any, weights: Any, experts: Any) -> None:
    best, places = lax.top_k(logits[...], 2)
    powers = jnp.exp(best - best[:, :1])
    weights[...] = powers / powers.sum(axis=1, keepdims=True)
    experts[...] = places


@kernel("expert_places", [integers(32, 1, low=0, high=8, seed="e")], shape(32, 8, dtype=I32))
def expert_places(chosen: Any, o: Any) -> None:
    one_hot = (chosen[...] == lax.broadcasted_iota(I32, (32, 8), 1)).astype(I32)
    o[...] = (jnp.cumsum(one_hot, axis=0) - 1) * one_hot


@kernel("dropout", [Y, integers(32, 128, low=0, high=10, seed="d")], shape(32, 128))
def dropout(x: Any, draw: Any, o: Any) -> None:
    o[...] = jnp.where(draw[...] < 5, x[...] * 2, 0.0)


@kernel(
    "quantise_rows",
    [Y],
    [shape(32, 128, dtype=jnp.int8), shape(32, 1)],
    grid=(4,),
    in_specs=[ROWS],
    out_specs=[ROWS, spec(8, 1, at=lambda i: (i, 0))],
    **CLOSE,
)
def quantise(x: Any, o: Any, scale: Any) -> None:
    step = jnp.max(jnp.abs(x[...]), axis=1, keepdims=True) / 127
    scale[...] = step
    o[...] = jnp.clip(jnp.round(x[...] / step), -127, 127).astype(jnp.int8)


@kernel("unpack_int4", [integers(8, 64, low=-(2**31), high=2**31 - 1)], shape(8, 512))
def unpack_int4(x: Any, o: Any) -> None:
    for part in range(8):
        low = lax.shift_right_arithmetic(x[...] << (28 - 4 * part), 28)
        o[:, pl.ds(64 * part, 64)] = low.astype(F32)


@kernel(
    "adam",
    [Y, floats(32, 128, seed="grad"), floats(32, 128, seed="m"), np.abs(floats(32, 128, seed="v"))],
    [shape(32, 128)] * 3,
    grid=(4,),
    in_specs=[ROWS] * 4,
    out_specs=[ROWS] * 3,
    input_output_aliases={0: 0, 2: 1, 3: 2},
    **CLOSE,
)
def adam(w: Any, grad: Any, m: Any, v: Any, new_w: Any, new_m: Any, new_v: Any) -> None:
    mean = 0.9 * m[...] + 0.1 * grad[...]
    square = 0.999 * v[...] + 0.001 * jnp.square(grad[...])
    new_m[...], new_v[...] = mean, square
    new_w[...] = w[...] - 1e-3 * mean / (jnp.sqrt(square) + 1e-8)


@kernel(
    "clip_by_norm_in_two_phases",
    [Y],
    shape(32, 128),
    grid=(2, 4),
    in_specs=[spec(8, 128, at=lambda phase, i: (i, 0))],
    out_specs=spec(8, 128, at=lambda phase, i: (i * phase, 0)),
    scratch_shapes=[pltpu.SMEM((1,), F32)],
    **CLOSE,
)
def clip(x: Any, o: Any, norm: Any) -> None:
    phase, step = pl.program_id(0), pl.program_id(1)

    @pl.when((phase == 0) & (step == 0))
    def _() -> None:
        norm[0] = 0.0

    @pl.when(phase == 0)
    def _() -> None:
        norm[0] += jnp.sum(jnp.square(x[...]))
        o[...] = x[...]

    @pl.when(phase == 1)
    def _() -> None:
        o[...] = x[...] * jnp.minimum(1.0, lax.rsqrt(norm[0]))
