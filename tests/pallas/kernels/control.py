"""Control flow inside kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

I32 = jnp.int32
X = integers(8, 128)
N = np.array([[5]], np.int32)


@kernel(
    "when",
    [X],
    shape(8, 128, dtype=I32),
    grid=(4,),
    in_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0))],
    out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
)
def when(x: Any, o: Any) -> None:
    step = pl.program_id(0)

    @pl.when(step == 0)
    def _() -> None:
        o[...] = x[...]

    @pl.when(step > 1)
    def _() -> None:
        o[...] += step


@kernel("cond_value", [X, N], shape(8, 128, dtype=I32))
def cond_value(x: Any, n: Any, o: Any) -> None:
    o[...] = lax.cond(n[0, 0] > 3, lambda v: v * 2, lambda v: v - 1, x[...])


@kernel("switch", [X, N], shape(8, 128, dtype=I32))
def switch(x: Any, n: Any, o: Any) -> None:
    branches = [lambda v: v, lambda v: v + 1, lambda v: v * 3, lambda v: -v]
    o[...] = lax.switch(n[0, 0], branches, x[...])


@kernel("fori_static", [X], shape(8, 128, dtype=I32))
def fori_static(x: Any, o: Any) -> None:
    o[...] = lax.fori_loop(0, 5, lambda i, v: v * 3 + i, x[...])


@kernel("fori_dynamic", [X, N], shape(8, 128, dtype=I32))
def fori_dynamic(x: Any, n: Any, o: Any) -> None:
    o[...] = lax.fori_loop(1, n[0, 0], lambda i, v: v * 3 + i, x[...])


@kernel("loop_over_rows", [floats(8, 128)], shape(8, 128))
def loop_rows(x: Any, o: Any) -> None:
    @pl.loop(0, 8)
    def _(i: Any) -> None:
        o[pl.ds(7 - i, 1), :] = x[pl.ds(i, 1), :]


@kernel("nested_loops", [floats(8, 128)], shape(8, 128))
def nested(x: Any, o: Any) -> None:
    @pl.loop(0, 4)
    def _(i: Any) -> None:
        @pl.loop(0, 2)
        def _(j: Any) -> None:
            @pl.when((i + j) % 2 == 0)
            def _() -> None:
                o[2 * i + j, :] = x[2 * i + j, :] * 2

            @pl.when((i + j) % 2 == 1)
            def _() -> None:
                o[2 * i + j, :] = -x[2 * i + j, :]


@kernel("while_value", [X, N], shape(8, 128, dtype=I32))
def while_value(x: Any, n: Any, o: Any) -> None:
    limit = n[0, 0] * 100

    def more(state: Any) -> Any:
        return (state[0] < 20) & (jnp.max(state[1]) < limit)

    o[...] = lax.while_loop(more, lambda s: (s[0] + 1, s[1] * 2 + n[0, 0]), (jnp.int32(0), x[...]))[1]


@kernel("while_of_rows", [floats(8, 16)], shape(8, 16))
def while_of_rows(x: Any, o: Any) -> None:
    def doubled(row: Any) -> Any:
        return lax.while_loop(lambda v: v.max() < 50, lambda v: v * 2, jnp.abs(row) + 1)

    o[...] = jax.vmap(doubled)(x[...])


@kernel("for_of_rows", [X], [shape(8, 128, dtype=I32), shape(8, dtype=I32)])
def for_of_rows(x: Any, o: Any, trips: Any) -> None:
    def grown(row: Any) -> Any:
        return lax.fori_loop(0, row[0] % 5, lambda i, c: (c[0] + i, c[1] + 1), (row, jnp.int32(0)))

    o[...], trips[...] = jax.vmap(grown)(x[...])


@kernel("while_reads_ref", [X, N], shape(8, 128, dtype=I32))
def while_reads(x: Any, n: Any, o: Any) -> None:
    o[...] = x[...]

    def body(value: Any) -> Any:
        o[...] += value
        return value + 2

    total = lax.while_loop(lambda v: v < n[0, 0], body, jnp.int32(0))
    o[...] += total * 1000


@kernel("scan_stacks", [X], [shape(8, 128, dtype=I32), shape(8, 128, dtype=I32)])
def scan_stacks(x: Any, o: Any, last: Any) -> None:
    carry, rows = lax.scan(lambda c, row: (c + row, c * 2 + row), jnp.zeros(128, I32), x[...])
    o[...] = rows
    last[...] = jnp.broadcast_to(carry, (8, 128))


@kernel("scan_reverse", [X], shape(8, 128, dtype=I32))
def scan_reverse(x: Any, o: Any) -> None:
    o[...] = lax.scan(lambda c, row: (c + row, c), jnp.ones(128, I32), x[...], reverse=True)[1]


@kernel("scan_consts", [X, integers(128, seed="c")], shape(8, 128, dtype=I32))
def scan_consts(x: Any, y: Any, o: Any) -> None:
    outside = y[...]
    o[...] = lax.scan(lambda c, row: (c + 1, row * c + outside), jnp.int32(2), x[...])[1]


@kernel("run_scoped", [floats(8, 128)], shape(8, 128))
def run_scoped(x: Any, o: Any) -> None:
    def body(memory: Any) -> None:
        memory[...] = x[...] * 2
        o[...] = memory[...] + 1

    pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))


@kernel("run_scoped_result", [floats(8, 128)], shape(8, 128))
def run_scoped_result(x: Any, o: Any) -> None:
    def body(first: Any, second: Any) -> Any:
        first[...] = x[...] * 2
        second[0] = 3
        return first[...] + second[0].astype(jnp.float32)

    o[...] = pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((1,), I32))


@kernel("nested_jit", [X], shape(8, 128, dtype=I32))
def nested_jit(x: Any, o: Any) -> None:
    twice = jax.jit(lambda v: v * 2)
    o[...] = twice(twice(x[...]) + 1)


@kernel("custom_vjp", [floats(8, 128)], shape(8, 128))
def custom_vjp(x: Any, o: Any) -> None:
    @jax.custom_vjp
    def double(v: Any) -> Any:
        return v * 2

    double.defvjp(lambda v: (v * 2, None), lambda _, g: (g * 2,))
    o[...] = double(x[...])


@kernel("xor_is_bitwise", [np.arange(1024, dtype=np.int32).reshape(8, 128)], shape(8, 128, dtype=I32))
def xor(x: Any, o: Any) -> None:
    o[...] = (x[...] ^ (1 << 2)) | (x[...] & 3)


@kernel("collatz", [np.array([[27]], np.int32)], shape(1, 1, dtype=I32))
def collatz(x: Any, o: Any) -> None:
    def step(state: Any) -> Any:
        value, count = state
        return jnp.where(value % 2 == 0, value // 2, value * 3 + 1), count + 1

    value, count = lax.while_loop(lambda s: s[0] != 1, step, (x[0, 0], jnp.int32(0)))
    o[0, 0] = count * value
