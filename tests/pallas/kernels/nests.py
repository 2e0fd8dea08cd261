"""Control flow in control flow, derivatives and scans within kernels."""

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
F32 = jnp.float32
X = floats(8, 128)
XI = integers(8, 128)


@kernel("nest_while_nest", [XI], shape(8, 128, dtype=I32))
def nest_while_nest(x: Any, o: Any) -> None:
    def outer(s: Any) -> Any:
        i, v = s

        def inner(t: Any) -> Any:
            j, w = t
            return j + 1, w + j * i

        _, v = lax.while_loop(lambda t: t[0] < i, inner, (0, v))
        return i + 1, lax.cond(i % 2 == 0, lambda v: v * 2, lambda v: v - 1, v)

    o[...] = lax.while_loop(lambda s: s[0] < 5, outer, (0, x[...]))[1]


@kernel("nest_scan_in_cond", [XI, np.array([1], np.int32)], shape(8, 128, dtype=I32))
def nest_scan_in_cond(x: Any, n: Any, o: Any) -> None:
    def yes(v: Any) -> Any:
        c, ys = lax.scan(lambda c, r: (c + r, c * 2), jnp.zeros(128, I32), v)
        return ys + c

    o[...] = lax.cond(n[0] > 0, yes, lambda v: v, x[...])


@kernel(
    "nest_scan_multi",
    [XI],
    [shape(128, dtype=I32), shape(8, 128, dtype=I32), shape(8, dtype=I32), shape(8, 128, dtype=jnp.bool_)],
)
def nest_scan_multi(x: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    def f(carry: Any, r: Any) -> Any:
        s, n = carry
        return (s + r, n + 1), (s, n, r > 0)

    (s, n), (y, m, t) = lax.scan(f, (jnp.zeros(128, I32), jnp.int32(0)), x[...], reverse=True)
    a[...] = s + n
    b[...] = y
    c[...] = m
    d[...] = t


@kernel("nest_scan_no_xs", [XI], [shape(5, 8, 128, dtype=I32)])
def nest_scan_no_xs(x: Any, o: Any) -> None:
    o[...] = lax.scan(lambda c, _: (c * 2 + 1, c), x[...], None, length=5)[1]


@kernel("nest_fori_swap_carry", [XI], [shape(8, 128, dtype=I32)] * 2)
def nest_fori_swap_carry(x: Any, o: Any, p: Any) -> None:
    a, b = lax.fori_loop(0, 7, lambda i, ab: (ab[1], ab[0] + ab[1]), (x[...], x[...] * 2))
    o[...] = a
    p[...] = b


@kernel("nest_while_ref_cond", [XI], shape(8, 128, dtype=I32), scratch_shapes=[pltpu.SMEM((1,), I32)])
def nest_while_ref_cond(x: Any, o: Any, s: Any) -> None:
    s[0] = 0
    o[...] = x[...]

    def body(v: Any) -> Any:
        s[0] += 1
        o[...] += s[0]
        return v + s[0]

    lax.while_loop(lambda v: (v < 20) & (s[0] < 100), body, jnp.int32(0))


@kernel("nest_switch_refs", [XI, integers(6, low=-2, high=6, seed="sw")], shape(6, 128, dtype=I32))
def nest_switch_refs(x: Any, n: Any, o: Any) -> None:
    @pl.loop(0, 6)
    def _(i: Any) -> None:
        lax.switch(
            n[i],
            [
                lambda: o.__setitem__(i, x[0]),
                lambda: o.__setitem__(i, x[1] * 2),
                lambda: o.__setitem__(i, -x[2]),
                lambda: o.__setitem__(i, x[3] + i),
            ],
        )


@kernel(
    "nest_cond_3_outputs",
    [XI, np.array([0], np.int32)],
    [shape(8, 128, dtype=I32), shape(8, 128), shape(1, dtype=jnp.bool_)],
)
def nest_cond_3_outputs(x: Any, n: Any, o: Any, p: Any, q: Any) -> None:
    a, b, c = lax.cond(
        n[0] == 1, lambda v: (v, v.astype(F32), True), lambda v: (v * 2, v.astype(F32) / 2, False), x[...]
    )
    o[...] = a
    p[...] = b
    q[...] = jnp.full((1,), c)


@kernel("nest_run_scoped_nest", [XI], shape(8, 128, dtype=I32))
def nest_run_scoped_nest(x: Any, o: Any) -> None:
    def a(m: Any) -> Any:
        m[...] = x[...]

        def b(n: Any, c: Any) -> Any:
            n[...] = m[...] * 2
            c[0] = jnp.int32(3)
            m[...] = n[...] + c[0]

        pl.run_scoped(b, pltpu.VMEM((8, 128), I32), pltpu.SMEM((1,), I32))
        o[...] = m[...]

    pl.run_scoped(a, pltpu.VMEM((8, 128), I32))


@kernel("nest_loop_step_unroll", [XI], shape(8, 128, dtype=I32))
def nest_loop_step_unroll(x: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)

    @pl.loop(1, 8, step=3)
    def _(i: Any) -> None:
        o[i] = x[i - 1]

    @pl.loop(0, 4, unroll=True)
    def _(i: Any) -> None:
        o[i] += i


@kernel("nest_fori_reverse_dyn", [XI, np.array([2, 7], np.int32)], shape(8, 128, dtype=I32))
def nest_fori_reverse_dyn(x: Any, n: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)

    def f(i: Any, c: Any) -> Any:
        o[n[1] - i] = x[i] + c
        return c + x[i, 0]

    lax.fori_loop(n[0], n[1], f, jnp.int32(1))


@kernel("nest_custom_jvp", [X], shape(8, 128), how=dict(compare="ulp", ulp=4))
def nest_custom_jvp(x: Any, o: Any) -> None:
    o[...] = jax.nn.relu(x[...]) + jax.nn.silu(x[...])


@kernel("nest_grad_inside", [X], shape(8, 128), how=dict(compare="close"))
def nest_grad_inside(x: Any, o: Any) -> None:
    o[...] = jax.vmap(jax.vmap(jax.grad(lambda v: v * jnp.tanh(v) + jnp.sin(v))))(x[...])


@kernel("nest_vjp_inside", [X], shape(8, 128), how=dict(compare="close"))
def nest_vjp_inside(x: Any, o: Any) -> None:
    y, b = jax.vjp(lambda v: jax.nn.softmax(v, axis=-1), x[...])
    o[...] = b(y)[0]


@kernel("nest_checkpoint", [X], shape(8, 128), how=dict(compare="close"))
def nest_checkpoint(x: Any, o: Any) -> None:
    o[...] = jax.checkpoint(lambda v: jnp.exp(v) * 2)(x[...])


@kernel("nest_associative_scan", [XI], shape(8, 128, dtype=I32))
def nest_associative_scan(x: Any, o: Any) -> None:
    o[...] = lax.associative_scan(jnp.add, x[...], axis=1)


@kernel("nest_associative_max", [XI], shape(8, 128, dtype=I32))
def nest_associative_max(x: Any, o: Any) -> None:
    o[...] = lax.associative_scan(jnp.maximum, x[...], axis=0, reverse=True)


@kernel("nest_map", [XI], shape(8, 128, dtype=I32))
def nest_map(x: Any, o: Any) -> None:
    o[...] = lax.map(lambda r: jnp.sort(r), x[...])


@kernel("nest_fori_bool", [XI], shape(8, 128, dtype=jnp.bool_))
def nest_fori_bool(x: Any, o: Any) -> None:
    o[...] = lax.fori_loop(0, 3, lambda i, b: b ^ (x[...] > i * 10), jnp.zeros((8, 128), bool))


@kernel("nest_while_u8", [integers(8, 128, low=0, high=200, dtype=np.uint8)], shape(8, 128, dtype=jnp.uint8))
def nest_while_u8(x: Any, o: Any) -> None:
    o[...] = lax.while_loop(lambda v: jnp.any(v < 200), lambda v: jnp.where(v < 200, v + 13, v), x[...])


@kernel("nest_platform", [XI], shape(8, 128, dtype=I32))
def nest_platform(x: Any, o: Any) -> None:
    branches = {"tpu": lambda v: v + 2, "cpu": lambda v: v + 1}
    o[...] = lax.platform_dependent(x[...], **branches, default=lambda v: v)
