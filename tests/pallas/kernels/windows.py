"""Blocks of every kind, and prefetched scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

I32 = jnp.int32
F32 = jnp.float32
X = floats(8, 128)
XI = integers(8, 128)


@kernel(
    "window_ragged_3",
    [floats(13, 70, seed="r3")],
    shape(13, 70),
    grid=(4, 3),
    in_specs=[pl.BlockSpec((4, 32), lambda i, j: (i, j))],
    out_specs=pl.BlockSpec((4, 32), lambda i, j: (i, j)),
)
def window_ragged_3(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "window_ragged_int8",
    [integers(13, 70, dtype=np.int8)],
    shape(13, 70, dtype=jnp.int8),
    grid=(4, 3),
    in_specs=[pl.BlockSpec((4, 32), lambda i, j: (i, j))],
    out_specs=pl.BlockSpec((4, 32), lambda i, j: (i, j)),
)
def window_ragged_int8(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "window_ragged_bool",
    [integers(13, 70, low=0, high=2).astype(bool)],
    shape(13, 70, dtype=jnp.bool_),
    grid=(4, 3),
    in_specs=[pl.BlockSpec((4, 32), lambda i, j: (i, j))],
    out_specs=pl.BlockSpec((4, 32), lambda i, j: (i, j)),
)
def window_ragged_bool(x: Any, o: Any) -> None:
    o[...] = ~x[...]


@kernel(
    "window_squeeze_many",
    [floats(2, 3, 4, 16, seed="sq")],
    shape(3, 2, 16, 4),
    grid=(2, 3),
    in_specs=[pl.BlockSpec((None, pl.Squeezed(), 4, 16), lambda i, j: (i, j, 0, 0))],
    out_specs=pl.BlockSpec((None, None, 16, 4), lambda i, j: (j, i, 0, 0)),
)
def window_squeeze_many(x: Any, o: Any) -> None:
    o[...] = x[...].T


@kernel(
    "window_squeeze_all",
    [integers(4, 5)],
    shape(4, 5, dtype=I32),
    grid=(4, 5),
    in_specs=[pl.BlockSpec((None, None), lambda i, j: (i, j))],
    out_specs=pl.BlockSpec((None, None), lambda i, j: (i, j)),
)
def window_squeeze_all(x: Any, o: Any) -> None:
    o[...] = x[...] * 3 + pl.program_id(0)


@kernel(
    "window_element_overlap",
    [integers(20, 16)],
    shape(8, 16, dtype=I32),
    grid=(8,),
    in_specs=[pl.BlockSpec((pl.Element(6), pl.Element(16)), lambda i: (i * 2, 0))],
    out_specs=pl.BlockSpec((None, 16), lambda i: (i, 0)),
)
def window_element_overlap(x: Any, o: Any) -> None:
    o[...] = x[...].sum(0)


@kernel(
    "window_element_pad",
    [integers(16, 16)],
    shape(16, 16, dtype=I32),
    grid=(4,),
    in_specs=[pl.BlockSpec((pl.Element(6, (1, 1)), pl.Element(16)), lambda i: (i * 4, 0))],
    out_specs=pl.BlockSpec((4, 16), lambda i: (i, 0)),
)
def window_element_pad(x: Any, o: Any) -> None:
    i = pl.program_id(0)
    rows = i * 4 + lax.broadcasted_iota(I32, (6, 16), 0) - 1
    v = jnp.where((rows >= 0) & (rows < 16), x[...], 0)
    o[...] = v[:4] + v[1:5] * 2 + v[2:6]


@kernel(
    "window_index_min",
    [integers(32, 16)],
    shape(48, 16, dtype=I32),
    grid=(6,),
    in_specs=[pl.BlockSpec((8, 16), lambda i: (jnp.minimum(i, 3), 0))],
    out_specs=pl.BlockSpec((8, 16), lambda i: (i, 0)),
)
def window_index_min(x: Any, o: Any) -> None:
    o[...] = x[...] + pl.program_id(0)


@kernel(
    "window_index_mod",
    [integers(32, 16)],
    shape(64, 16, dtype=I32),
    grid=(2, 4),
    in_specs=[pl.BlockSpec((8, 16), lambda i, j: ((i * 3 + j) % 4, 0))],
    out_specs=pl.BlockSpec((8, 16), lambda i, j: (i * 4 + j, 0)),
)
def window_index_mod(x: Any, o: Any) -> None:
    o[...] = x[...] - pl.program_id(1)


@kernel(
    "window_index_where",
    [integers(32, 16)],
    shape(32, 16, dtype=I32),
    grid=(4,),
    in_specs=[pl.BlockSpec((8, 16), lambda i: (jnp.where(i % 2 == 0, i, 3 - i + 1 - 1), 0))],
    out_specs=pl.BlockSpec((8, 16), lambda i: (3 - i, 0)),
)
def window_index_where(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "window_1d",
    [floats(100, seed="1d")],
    shape(100),
    grid=(4,),
    in_specs=[pl.BlockSpec((32,), lambda i: (i,))],
    out_specs=pl.BlockSpec((32,), lambda i: (i,)),
)
def window_1d(x: Any, o: Any) -> None:
    o[...] = jnp.abs(x[...])


@kernel(
    "window_0d",
    [np.float32(3.5), X],
    [shape(), shape(8, 128)],
)
def window_0d(s: Any, x: Any, o: Any, p: Any) -> None:
    o[...] = s[...] * 2
    p[...] = x[...] * s[...]


@kernel(
    "window_0d_smem",
    [np.int32(3), XI],
    shape(8, 128, dtype=I32),
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()],
)
def window_0d_smem(s: Any, x: Any, o: Any) -> None:
    o[...] = x[...] * s[...]


@kernel(
    "window_smem_blocks",
    [integers(6, 4), integers(6, 16, seed="y")],
    shape(6, 16, dtype=I32),
    grid=(3,),
    in_specs=[
        pl.BlockSpec((2, 4), lambda i: (i, 0), memory_space=pltpu.SMEM),
        pl.BlockSpec((2, 16), lambda i: (i, 0)),
    ],
    out_specs=pl.BlockSpec((2, 16), lambda i: (i, 0)),
)
def window_smem_blocks(s: Any, x: Any, o: Any) -> None:
    for r in range(2):
        o[r, :] = x[r, :] * s[r, 1] + s[r, 3]


@kernel(
    "window_smem_out",
    [XI],
    [shape(1, 4, dtype=I32), shape(8, 128, dtype=I32)],
    out_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()],
)
def window_smem_out(x: Any, s: Any, o: Any) -> None:
    s[0, 0] = jnp.sum(x[...])
    s[0, 1] = jnp.max(x[...])
    s[0, 2] = x[3, 4]
    s[0, 3] = jnp.int32(7)
    o[...] = x[...] + s[0, 1]


@kernel(
    "window_4d_grid",
    [integers(2, 3, 4, 5)],
    shape(2, 3, 4, 5, dtype=I32),
    grid=(2, 3, 4, 5),
    in_specs=[pl.BlockSpec((None, None, None, None), lambda a, b, c, d: (a, b, c, d))],
    out_specs=pl.BlockSpec((None, None, None, 1), lambda a, b, c, d: (a, b, c, d)),
)
def window_4d_grid(x: Any, o: Any) -> None:
    o[0] = x[...] + 1000 * pl.program_id(3) + pl.program_id(0)


@kernel(
    "window_acc_two_axes",
    [integers(12, 16)],
    shape(4, 16, dtype=I32),
    grid=(2, 3),
    in_specs=[pl.BlockSpec((2, 16), lambda i, j: (i * 3 + j, 0))],
    out_specs=pl.BlockSpec((2, 16), lambda i, j: (i, 0)),
)
def window_acc_two_axes(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...] * (pl.program_id(1) + 1)


def _(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "window_buffered1",
    [integers(40, 16), integers(4, 16, seed="w")],
    shape(40, 16, dtype=I32),
    grid=(10,),
    in_specs=[
        pl.BlockSpec((4, 16), lambda i: (9 - i, 0), pipeline_mode=pl.Buffered(1)),
        pl.BlockSpec((4, 16), lambda i: (0, 0)),
    ],
    out_specs=pl.BlockSpec((4, 16), lambda i: (i, 0)),
)
def window_buffered1(x: Any, w: Any, o: Any) -> None:
    o[...] = x[...] * w[...]


@kernel(
    "window_alias_inplace",
    [integers(16, 16), integers(16, 16, seed="z")],
    shape(16, 16, dtype=I32),
    grid=(4,),
    in_specs=[pl.BlockSpec((4, 16), lambda i: (i, 0))] * 2,
    out_specs=pl.BlockSpec((4, 16), lambda i: (i, 0)),
    input_output_aliases={1: 0},
)
def window_alias_inplace(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] - y[...]


@kernel(
    "window_alias_two",
    [integers(16, 16), integers(16, 16, seed="z")],
    [shape(16, 16, dtype=I32)] * 2,
    grid=(4,),
    in_specs=[pl.BlockSpec((4, 16), lambda i: (i, 0))] * 2,
    out_specs=[pl.BlockSpec((4, 16), lambda i: (i, 0))] * 2,
    input_output_aliases={0: 1, 1: 0},
)
def window_alias_two(x: Any, y: Any, o: Any, p: Any) -> None:
    o[...] = x[...]
    p[...] = y[...]


def prefetched(
    name: str,
    operands: Sequence[Any],
    out: Any,
    tables: int,
    grid: tuple[int, ...],
    ins: Sequence[pl.BlockSpec],
    outs: pl.BlockSpec,
    scratch: Sequence[Any] = (),
    **options: Any,
) -> Callable[[Any], Any]:
    def enter(body: Any) -> Any:
        def function(*arrays: Any, interpret: Any = False) -> Any:
            spec = pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=tables, grid=grid, in_specs=ins, out_specs=outs, scratch_shapes=scratch
            )
            return pl.pallas_call(body, out_shape=out, grid_spec=spec, interpret=interpret, **options)(
                *arrays
            )

        add(name, function, operands)
        return body

    return enter


@prefetched(
    "prefetched_gather_blocks",
    [np.array([3, 0, 2, 2, 1], np.int32), integers(16, 16)],
    shape(20, 16, dtype=I32),
    1,
    (5,),
    [pl.BlockSpec((4, 16), lambda i, t: (t[i], 0))],
    pl.BlockSpec((4, 16), lambda i, t: (i, 0)),
)
def prefetched_gather_blocks(t: Any, x: Any, o: Any) -> None:
    o[...] = x[...] + t[pl.program_id(0)]


@prefetched(
    "prefetched_scatter_blocks",
    [np.array([3, 0, 4, 2, 1], np.int32), integers(20, 16)],
    shape(20, 16, dtype=I32),
    1,
    (5,),
    [pl.BlockSpec((4, 16), lambda i, t: (i, 0))],
    pl.BlockSpec((4, 16), lambda i, t: (t[i], 0)),
)
def prefetched_scatter_blocks(t: Any, x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@prefetched(
    "prefetched_2d_table",
    [integers(3, 2, low=0, high=4, seed="t2"), integers(16, 16), integers(16, 16, seed="b")],
    shape(6, 4, 16, dtype=I32),
    1,
    (3, 2),
    [
        pl.BlockSpec((4, 16), lambda i, j, t: (t[i, j], 0)),
        pl.BlockSpec((4, 16), lambda i, j, t: (t[i, 1 - j], 0)),
    ],
    pl.BlockSpec((None, 4, 16), lambda i, j, t: (i * 2 + j, 0, 0)),
)
def prefetched_2d_table(t: Any, x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] - y[...]


@prefetched(
    "prefetched_groups",
    [np.array([0, 0, 1, 1, 1, 2], np.int32), np.array([2, 3, 1], np.int32), integers(24, 16)],
    shape(12, 16, dtype=I32),
    2,
    (6,),
    [pl.BlockSpec((4, 16), lambda i, g, n: (i, 0))],
    pl.BlockSpec((4, 16), lambda i, g, n: (g[i], 0)),
)
def prefetched_groups(g: Any, n: Any, x: Any, o: Any) -> None:
    i = pl.program_id(0)
    first = jnp.logical_or(i == 0, g[jnp.maximum(i - 1, 0)] != g[i])

    @pl.when(first)
    def _() -> None:
        o[...] = x[...] * n[g[i]]

    @pl.when(~first)
    def _() -> None:
        o[...] += x[...]


@prefetched(
    "prefetched_prefetch_scratch",
    [np.array([1, 3, 2], np.int32), integers(4, 16)],
    shape(3, 16, dtype=I32),
    1,
    (3,),
    [pl.BlockSpec((4, 16), lambda i, t: (0, 0))],
    pl.BlockSpec((None, 16), lambda i, t: (i, 0)),
    [pltpu.VMEM((1, 16), I32), pltpu.SMEM((2,), I32)],
)
def prefetched_prefetch_scratch(t: Any, x: Any, o: Any, acc: Any, cnt: Any) -> None:
    i = pl.program_id(0)

    @pl.when(i == 0)
    def _() -> None:
        acc[...] = jnp.zeros_like(acc)
        cnt[0] = 0

    cnt[0] += t[i]
    acc[...] += x[pl.ds(t[i], 1), :] * cnt[0]
    o[...] = acc[0, :]


@prefetched(
    "prefetched_uint8_prefetch_alias",
    [np.array([1, 0], np.int32), integers(8, 16)],
    shape(8, 16, dtype=I32),
    1,
    (2,),
    [pl.BlockSpec((4, 16), lambda i, t: (t[i], 0))],
    pl.BlockSpec((4, 16), lambda i, t: (t[i], 0)),
    input_output_aliases={1: 0},
)
def prefetched_uint8_prefetch_alias(t: Any, x: Any, o: Any) -> None:
    o[...] = x[...] + t[0]


def _(x: Any, o: Any) -> None:
    o[...] = x[...]
    o[-1, :] = x[-2, :]
    o[0:3, -4:] = x[5:8, :4]
