"""Places within refs: slices, steps, whole numbers, arrays of them, chains."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from kernels.case import floats, integers, kernel, shape

I32 = jnp.int32
F32 = jnp.float32
X = floats(8, 128)
XI = integers(8, 128)


@kernel("index_none_newaxis", [XI], shape(8, 1, 128, dtype=I32))
def index_none_newaxis(x: Any, o: Any) -> None:
    o[:, 0, :] = x[...]
    o[2:4, 0] = x[4:6]


@kernel("index_strided_dyn", [XI, np.array([1, 2], np.int32)], shape(4, 32, dtype=I32))
def index_strided_dyn(x: Any, i: Any, o: Any) -> None:
    o[...] = x[pl.ds(i[0], 4, stride=2), pl.ds(i[1], 32, stride=3)]


@kernel("index_strided_store", [XI], shape(16, 256, dtype=I32))
def index_strided_store(x: Any, o: Any) -> None:
    o[...] = jnp.full((16, 256), -1, I32)
    o[pl.ds(1, 8, stride=2), pl.ds(0, 128, stride=2)] = x[...]


@kernel(
    "index_array_rows_cols",
    [XI, integers(5, low=0, high=8, seed="ir"), integers(5, low=0, high=128, seed="ic")],
    [shape(5, dtype=I32), shape(5, 128, dtype=I32), shape(8, 5, dtype=I32)],
)
def index_array_rows_cols(x: Any, r: Any, c: Any, o: Any, p: Any, q: Any) -> None:
    o[...] = x[r[...], c[...]]
    p[...] = x[r[...]]
    q[...] = x[:, c[...]]


@kernel(
    "index_array_slice_mix",
    [integers(8, 16, 12), integers(5, low=0, high=8, seed="ir"), integers(5, low=0, high=12, seed="ic")],
    [shape(5, 4, dtype=I32), shape(5, 16, dtype=I32)],
)
def index_array_slice_mix(x: Any, r: Any, c: Any, o: Any, p: Any) -> None:
    o[...] = x[r[...], 2:6, c[...]]
    p[...] = x[r[...], :, 3]


@kernel(
    "index_array_2d",
    [integers(8, 16), integers(2, 3, low=0, high=8, seed="ir")],
    [shape(2, 3, 16, dtype=I32)],
)
def index_array_2d(x: Any, r: Any, o: Any) -> None:
    o[...] = x[r[...]]


@kernel("index_scatter_add", [integers(8, 16), np.array([3, 1, 5], np.int32)], shape(8, 16, dtype=I32))
def index_scatter_add(x: Any, r: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)
    o[r[...]] = x[r[...]] * 2
    o[2, :] += x[0]
    o[4:6, 3] += jnp.int32(9)


@kernel("index_loop_scalar_store", [integers(8, 16)], shape(8, 16, dtype=I32))
def index_loop_scalar_store(x: Any, o: Any) -> None:
    def row(i: Any, c: Any) -> Any:
        def col(j: Any, c: Any) -> Any:
            o[i, j] = x[7 - i, j] + c
            return c + 1

        return lax.fori_loop(0, 16, col, c)

    lax.fori_loop(0, 8, row, 0)


@kernel("index_at_nested", [integers(4, 8, 16)], shape(4, 2, 3, dtype=I32))
def index_at_nested(x: Any, o: Any) -> None:
    a = x.at[1:3].at[:, 2:6].at[0, pl.ds(1, 2)]
    o[0] = a[:, 3:6]
    o[1] = a[:, 0:3]
    o.at[2:4].at[0][...] = a[:, 6:9]
    o.at[3].at[pl.ds(0, 1)][...] = a[0:1, 9:12]
    o.at[3].at[1][...] = a[1, 9:12]


def _(x: Any, o: Any) -> None:
    r = o.reshape(4, 2, 16)
    r[...] = x[...].reshape(4, 2, 16) * 2
    r[1, :, 2:4] = jnp.zeros((2, 2), I32)


def _(x: Any, o: Any) -> None:
    o[...] = x.transpose(1, 0)[...]


def _(x: Any, o: Any) -> None:
    o.bitcast(I32)[...] = x[...] & 0x3FFFFFFF


@kernel("index_bitcast_narrow_slice", [integers(8, 128)], shape(4, 128, dtype=jnp.int16))
def index_bitcast_narrow_slice(x: Any, o: Any) -> None:
    o[...] = x.bitcast(jnp.int16)[3:7, :]


@kernel("index_bitcast_i8", [integers(8, 128)], shape(32, 128, dtype=jnp.int8))
def index_bitcast_i8(x: Any, o: Any) -> None:
    o[...] = x.bitcast(jnp.int8)[...]


@kernel("index_swap", [integers(8, 16), integers(8, 16, seed="q")], [shape(8, 16, dtype=I32)] * 2)
def index_swap(x: Any, y: Any, o: Any, p: Any) -> None:
    o[...] = x[...]
    p[...] = y[...]
    t = o[2:4]
    o[2:4] = p[0:2]
    p[0:2] = t
