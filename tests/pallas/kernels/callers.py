"""Functions around calls: vmap, scan, moves, derivatives, trees of results."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, shape

I32 = jnp.int32
F32 = jnp.float32


# functions around calls
def twice(x: Any, interpret: Any) -> Any:
    def kern(x: Any, o: Any) -> None:
        o[...] = x[...] * 2 + 1

    return pl.pallas_call(kern, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


add("around_vmap", lambda x, interpret=False: jax.vmap(lambda r: twice(r, interpret))(x), [integers(3, 4, 8)])
add(
    "around_vmap_axis1",
    lambda x, interpret=False: jax.vmap(lambda r: twice(r, interpret), in_axes=1, out_axes=2)(x),
    [integers(3, 4, 8)],
)
add(
    "around_vmap_vmap",
    lambda x, interpret=False: jax.vmap(jax.vmap(lambda r: twice(r, interpret)))(x),
    [integers(3, 4, 8)],
)


def product(x: Any, y: Any, interpret: Any) -> Any:
    def kern(x: Any, y: Any, o: Any) -> Any:
        o[...] = jnp.dot(x[...], y[...])

    return pl.pallas_call(
        kern, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype), interpret=interpret
    )(x, y)


add(
    "around_vmap_one_arg",
    lambda x, y, interpret=False: jax.vmap(lambda r: product(r, y, interpret))(x),
    [integers(3, 4, 8), integers(8, 5, seed="v1")],
)


def gridk(x: Any, interpret: Any) -> Any:
    def kern(x: Any, o: Any) -> None:
        o[...] = x[...] + pl.program_id(0) * 10 + pl.program_id(1)

    return pl.pallas_call(
        kern,
        grid=(2, 2),
        in_specs=[pl.BlockSpec((4, 8), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((4, 8), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )(x)


add(
    "around_vmap_grid",
    lambda x, interpret=False: jax.vmap(lambda r: gridk(r, interpret))(x),
    [integers(3, 8, 16)],
)


def pre(t: Any, x: Any, interpret: Any) -> Any:
    def kern(t: Any, x: Any, o: Any) -> Any:
        o[...] = x[...] + t[pl.program_id(0)]

    return pl.pallas_call(
        kern,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((4, 8), lambda i, t: (t[i], 0))],
            out_specs=pl.BlockSpec((4, 8), lambda i, t: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((8, 8), x.dtype),
        interpret=interpret,
    )(t, x)


add(
    "around_vmap_prefetch_x",
    lambda t, x, interpret=False: jax.vmap(lambda r: pre(t, r, interpret))(x),
    [np.array([1, 0], np.int32), integers(3, 8, 8)],
)
add(
    "around_vmap_prefetch_t",
    lambda t, x, interpret=False: jax.vmap(lambda r: pre(r, x, interpret))(t),
    [np.array([[1, 0], [0, 0], [1, 1]], np.int32), integers(8, 8)],
)


def scr(x: Any, interpret: Any) -> Any:
    def kern(x: Any, o: Any, m: Any) -> Any:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            m[...] = jnp.zeros_like(m)

        m[...] += x[...]
        o[...] = m[...]

    return pl.pallas_call(
        kern,
        grid=(4,),
        in_specs=[pl.BlockSpec((2, 8), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((2, 8), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((2, 8), I32)],
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )(x)


add(
    "around_vmap_scratch",
    lambda x, interpret=False: jax.vmap(lambda r: scr(r, interpret))(x),
    [integers(3, 8, 8)],
)


def alias(x: Any, y: Any, interpret: Any) -> Any:
    def kern(x: Any, y: Any, o: Any) -> Any:
        o[...] = x[...] + y[...]

    return pl.pallas_call(
        kern,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        interpret=interpret,
    )(x, y)


add("around_alias_twice", lambda x, interpret=False: alias(x, x, interpret), [integers(4, 8)])
add(
    "around_alias_chain",
    lambda x, y, interpret=False: alias(alias(x, y, interpret), x, interpret),
    [integers(4, 8), integers(4, 8, seed="ac")],
)


def outer_scan(x: Any, interpret: Any = False) -> Any:
    def f(c: Any, r: Any) -> Any:
        n = twice(c, interpret)
        return n, alias(n, r, interpret)

    return lax.scan(f, x[0], x, reverse=True)


add("around_scan_reverse", outer_scan, [integers(3, 4, 8)])


def pytree(x: Any, y: Any, interpret: Any = False) -> Any:
    def kern(x: Any, y: Any, o: Any, p: Any, q: Any) -> Any:
        o[...] = x[...] + y[...]
        p[...] = x[...] > y[...]
        q[...] = x[...].astype(F32)

    o, p, q = pl.pallas_call(
        kern,
        out_shape=(shape(4, 8, dtype=I32), shape(4, 8, dtype=jnp.bool_), shape(4, 8)),
        interpret=interpret,
    )(x, y)
    return {"a": o, "b": (p, [q, x])}


add("around_pytree", pytree, [integers(4, 8), integers(4, 8, seed="pt")])


def moves(x: Any, interpret: Any = False) -> Any:
    y = twice(x, interpret)
    y = jnp.transpose(y)[::-1, 1:3]
    y = jnp.pad(y, ((1, 0), (2, 1)), constant_values=5)
    y = jnp.concatenate([y, y[:, :1]], 1).reshape(-1)
    y = jnp.broadcast_to(y[None], (2, y.size))
    return twice(y, interpret)


add("around_moves", moves, [integers(4, 8)])


def consts(x: Any, interpret: Any = False) -> Any:
    c = jnp.arange(8, dtype=I32) * 3
    return alias(x, jnp.broadcast_to(c, (4, 8)), interpret)


add("around_consts", consts, [integers(4, 8)])


def cj(x: Any, interpret: Any = False) -> Any:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return twice(x, interpret)

    def fw(x: Any) -> Any:
        return f(x), None

    def bw(_: Any, g: Any) -> Any:
        return (twice(g, interpret),)

    f.defvjp(fw, bw)
    return f(x)


add("around_custom_vjp", cj, [floats(4, 8)])


def gr(x: Any, interpret: Any = False) -> Any:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return twice(x, interpret)

    f.defvjp(lambda x: (f(x), None), lambda _, g: (twice(g, interpret),))
    _, back = jax.vjp(f, x)
    return back(x)[0]


add("around_vjp_through", gr, [floats(4, 8)])


def uses(x: Any, interpret: Any = False) -> Any:
    return twice(x, interpret), x, twice(x, interpret).T


add("around_returns_input", uses, [integers(4, 8)])


def named(x: Any, interpret: Any = False) -> Any:
    def kern(x: Any, o: Any) -> None:
        o[...] = x[...]

    return pl.pallas_call(kern, out_shape=shape(4, 8, dtype=I32), name="my-odd name!", interpret=interpret)(x)


add("around_name", named, [integers(4, 8)])


def partialk(x: Any, interpret: Any = False) -> Any:
    def kern(x: Any, o: Any, *, s: Any) -> Any:
        o[...] = x[...] * s

    return pl.pallas_call(
        functools.partial(kern, s=3), out_shape=shape(4, 8, dtype=I32), interpret=interpret
    )(x)


add("around_partial", partialk, [integers(4, 8)])


def zerod(x: Any, interpret: Any = False) -> Any:
    def kern(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    return pl.pallas_call(kern, out_shape=shape(dtype=I32), interpret=interpret)(x)


add("around_0d", zerod, [np.int32(4)])


def in_hbm(x: Any, interpret: Any = False) -> Any:
    return twice(pltpu.with_memory_space_constraint(x, pltpu.HBM), interpret)


add("around_memory_space", in_hbm, [integers(4, 8)], check=lambda x: x * 2 + 1)  # jax's interpreter fails


def dyn(n: Any, x: Any, interpret: Any = False) -> Any:
    def kern(x: Any, o: Any) -> None:
        o[...] = x[...] + pl.num_programs(0)

    return pl.pallas_call(
        kern,
        grid=(n[0], 2),
        in_specs=[pl.BlockSpec((2, 4), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((2, 4), lambda i, j: (i, j)),
        out_shape=shape(8, 8, dtype=I32),
        interpret=interpret,
    )(x)


add("around_dyn_full", dyn, [np.array([4], np.int32), integers(8, 8)])
