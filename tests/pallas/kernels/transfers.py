"""Copies by hand, pipelines, semaphores: as a kernel of a user has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

I32 = jnp.int32
F32 = jnp.float32
X = floats(8, 128)
XI = integers(8, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
HBM = pl.BlockSpec(memory_space=pltpu.HBM)
DMA = pltpu.SemaphoreType.DMA
TPU = {"interpreter": "tpu"}


@kernel(
    "copy_hbm_to_hbm",
    [XI],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[DMA],
)
def copy_hbm_to_hbm(x: Any, o: Any, s: Any) -> None:
    c = pltpu.make_async_copy(x, o, s)
    c.start()
    c.wait()


@kernel(
    "copy_rows_permuted",
    [XI, np.array([3, 1, 7, 0, 2, 5, 4, 6], np.int32)],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY, pl.BlockSpec(memory_space=pltpu.SMEM)],
    out_specs=ANY,
    scratch_shapes=[DMA((8,))],
)
def copy_rows_permuted(x: Any, p: Any, o: Any, s: Any) -> None:
    for i in range(8):
        pltpu.make_async_copy(x.at[p[i]], o.at[i], s.at[i]).start()
    for i in range(8):
        pltpu.make_async_copy(x.at[p[i]], o.at[i], s.at[i]).wait()


@kernel(
    "copy_one_sem_many",
    [XI],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[DMA],
)
def copy_one_sem_many(x: Any, o: Any, s: Any) -> None:
    cs = [pltpu.make_async_copy(x.at[pl.ds(i * 2, 2)], o.at[pl.ds(6 - i * 2, 2)], s) for i in range(4)]
    for c in cs:
        c.start()
    for c in cs:
        c.wait()


@kernel(
    "copy_int8_column",
    [integers(16, 128, dtype=np.int8)],
    shape(16, 128, dtype=jnp.int8),
    how=TPU,
    in_specs=[ANY],
    out_specs=pl.BlockSpec(),
    scratch_shapes=[pltpu.VMEM((16, 64), jnp.int8), DMA],
)
def copy_int8_column(x: Any, o: Any, m: Any, s: Any) -> None:
    for h in range(2):
        pltpu.async_copy(x.at[:, pl.ds(h * 64, 64)], m, s).wait()
        o[:, pl.ds((1 - h) * 64, 64)] = m[...] + 1


@kernel(
    "copy_bool_bf16",
    [integers(8, 128, low=0, high=2).astype(bool), X.astype(ml_dtypes.bfloat16)],
    [shape(8, 128, dtype=jnp.bool_), shape(8, 128, dtype=jnp.bfloat16)],
    how=TPU,
    in_specs=[ANY, ANY],
    scratch_shapes=[pltpu.VMEM((8, 128), jnp.bool_), pltpu.VMEM((8, 128), jnp.bfloat16), DMA((2,))],
)
def copy_bool_bf16(x: Any, y: Any, o: Any, p: Any, m: Any, n: Any, s: Any) -> None:
    a = pltpu.async_copy(x, m, s.at[0])
    b = pltpu.async_copy(y, n, s.at[1])
    b.wait()
    p[...] = n[...] * 2
    a.wait()
    o[...] = ~m[...]


@kernel(
    "copy_ring",
    [integers(40, 128)],
    shape(40, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[pltpu.VMEM((3, 8, 128), I32), pltpu.VMEM((2, 8, 128), I32), DMA((3,)), DMA((2,))],
)
def copy_ring(x: Any, o: Any, inb: Any, outb: Any, si: Any, so: Any) -> None:
    def ld(i: Any) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(i * 8, 8)], inb.at[lax.rem(i, 3)], si.at[lax.rem(i, 3)])

    def st(i: Any) -> Any:
        return pltpu.make_async_copy(outb.at[lax.rem(i, 2)], o.at[pl.ds(i * 8, 8)], so.at[lax.rem(i, 2)])

    ld(0).start()
    ld(1).start()

    def body(i: Any, c: Any) -> Any:
        @pl.when(i + 2 < 5)
        def _() -> None:
            ld(i + 2).start()

        ld(i).wait()

        @pl.when(i >= 2)
        def _() -> None:
            st(i - 2).wait()

        outb[lax.rem(i, 2)] = inb[lax.rem(i, 3)] * 2 + i
        st(i).start()
        return c

    lax.fori_loop(0, 5, body, 0)
    st(3).wait()
    st(4).wait()


@kernel(
    "copy_grid_dma",
    [integers(32, 128)],
    shape(32, 128, dtype=I32),
    how=TPU,
    grid=(4,),
    in_specs=[ANY],
    out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    scratch_shapes=[pltpu.VMEM((2, 8, 128), I32), DMA((2,))],
)
def copy_grid_dma(x: Any, o: Any, m: Any, s: Any) -> None:
    i = pl.program_id(0)
    n = pl.num_programs(0)

    def c(j: Any, slot: Any) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(j * 8, 8)], m.at[slot], s.at[slot])

    @pl.when(i == 0)
    def _() -> None:
        c(0, 0).start()

    slot = lax.rem(i, 2)

    @pl.when(i + 1 < n)
    def _() -> None:
        c(i + 1, 1 - slot).start()

    c(i, slot).wait()
    o[...] = m[slot] + 100 * i


@kernel(
    "copy_sem_signal_loop",
    [XI],
    shape(8, 128, dtype=I32),
    how=TPU,
    scratch_shapes=[pltpu.SemaphoreType.REGULAR((4,))],
)
def copy_sem_signal_loop(x: Any, o: Any, s: Any) -> None:
    def f(i: Any, c: Any) -> Any:
        pl.semaphore_signal(s.at[lax.rem(i, 4)], i + 1) if hasattr(
            pl, "semaphore_signal"
        ) else pltpu.semaphore_signal(s.at[lax.rem(i, 4)], i + 1)
        return c

    lax.fori_loop(0, 8, f, 0)
    wait = getattr(pl, "semaphore_wait", None) or pltpu.semaphore_wait
    wait(s.at[0], 6)
    wait(s.at[1], 8)
    wait(s.at[2], 5)
    wait(s.at[2], 5)
    wait(s.at[3], 12)
    o[...] = x[...] + 1


@kernel(
    "copy_emit_acc",
    [integers(32, 128)],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=pl.BlockSpec(),
)
def copy_emit_acc(x: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)

    def body(a: Any) -> Any:
        o[...] += a[...]

    pltpu.emit_pipeline(body, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))])(x)


@kernel(
    "copy_emit_two_out",
    [integers(32, 128)],
    [shape(32, 128, dtype=I32), shape(32, 128, dtype=I32)],
    how=TPU,
    in_specs=[ANY],
    out_specs=[ANY, ANY],
)
def copy_emit_two_out(x: Any, o: Any, p: Any) -> None:
    def body(a: Any, b: Any, c: Any) -> Any:
        b[...] = a[...] * 2
        c[...] = a[...] - 1

    s = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(
        body, grid=(4,), in_specs=[s], out_specs=[s, pl.BlockSpec((8, 128), lambda i: (3 - i, 0))]
    )(x, o, p)


@kernel(
    "copy_emit_matmul",
    [
        integers(32, 256, low=-4, high=5).astype(np.float32),
        integers(256, 128, low=-4, high=5, seed="em").astype(np.float32),
    ],
    shape(32, 128),
    how=TPU,
    in_specs=[ANY, ANY],
    out_specs=ANY,
    scratch_shapes=[pltpu.VMEM((16, 128), F32)],
)
def copy_emit_matmul(x: Any, y: Any, o: Any, acc: Any) -> None:
    def body(a: Any, b: Any, c: Any) -> Any:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(a[...], b[...], preferred_element_type=F32)

        @pl.when(pl.program_id(1) == 3)
        def _() -> None:
            c[...] = acc[...]

    pltpu.emit_pipeline(
        body,
        grid=(2, 4),
        in_specs=[pl.BlockSpec((16, 64), lambda i, j: (i, j)), pl.BlockSpec((64, 128), lambda i, j: (j, 0))],
        out_specs=[pl.BlockSpec((16, 128), lambda i, j: (i, 0))],
    )(x, y, o)


@kernel(
    "copy_scoped_in_loop",
    [integers(32, 128)],
    shape(32, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
)
def copy_scoped_in_loop(x: Any, o: Any) -> None:
    @pl.loop(0, 4)
    def _(i: Any) -> None:
        def f(m: Any, s: Any) -> Any:
            pltpu.async_copy(x.at[pl.ds(i * 8, 8)], m, s).wait()
            m[...] = m[...] * (i + 1)
            pltpu.async_copy(m, o.at[pl.ds((3 - i) * 8, 8)], s).wait()

        pl.run_scoped(f, pltpu.VMEM((8, 128), I32), DMA)


@kernel(
    "copy_3d_window",
    [integers(4, 8, 128)],
    shape(2, 8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    scratch_shapes=[pltpu.VMEM((2, 4, 128), I32), DMA],
)
def copy_3d_window(x: Any, o: Any, m: Any, s: Any) -> None:
    for h in range(2):
        pltpu.async_copy(x.at[pl.ds(1, 2), pl.ds(h * 4, 4)], m, s).wait()
        o[:, h * 4 : h * 4 + 4] = m[...]


@kernel(
    "copy_partial_dst",
    [integers(8, 128)],
    shape(16, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    scratch_shapes=[pltpu.VMEM((16, 128), I32), DMA],
)
def copy_partial_dst(x: Any, o: Any, m: Any, s: Any) -> None:
    m[...] = jnp.full((16, 128), 7, I32)
    pltpu.async_copy(x.at[2:6], m.at[pl.ds(9, 4)], s).wait()
    o[...] = m[...]


@kernel(
    "copy_alias_hbm",
    [integers(16, 128)],
    shape(16, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    input_output_aliases={0: 0},
    scratch_shapes=[pltpu.VMEM((8, 128), I32), DMA],
)
def copy_alias_hbm(x: Any, o: Any, m: Any, s: Any) -> None:
    pltpu.async_copy(x.at[0:8], m, s).wait()
    m[...] = m[...] * 3
    pltpu.async_copy(m, o.at[0:8], s).wait()


@kernel(
    "copy_smem_dma",
    [integers(1, 128)],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    scratch_shapes=[pltpu.SMEM((1, 128), I32), DMA],
)
def copy_smem_dma(x: Any, o: Any, m: Any, s: Any) -> None:
    pltpu.async_copy(x, m, s).wait()
    o[...] = jnp.full((8, 128), m[0, 5] + m[0, 127])


@kernel(
    "copy_hbm_spec",
    [integers(16, 128)],
    shape(16, 128, dtype=I32),
    how=TPU,
    in_specs=[HBM],
    out_specs=HBM,
    scratch_shapes=[pltpu.VMEM((16, 128), I32)],
)
def copy_hbm_spec(x: Any, o: Any, m: Any) -> None:
    pltpu.sync_copy(x, m)
    m[...] += 1
    pltpu.sync_copy(m, o)


def mapped_copies(x: Any, y: Any, table: Any, interpret: Any = False) -> Any:
    """Return the rows of vmap, whose kernel copies from blocks of refs in ANY and to them."""

    def body(table: Any, x: Any, y: Any, o: Any, memory: Any, semaphore: Any) -> None:
        part = pl.ds(table[pl.program_id(0)] * 2, 2)
        pltpu.async_copy(x.at[part], memory.at[0], semaphore).wait()
        pltpu.async_copy(y.at[part, pl.ds(64, 64)], memory.at[1, :, :64], semaphore).wait()
        memory[0, :, :64] += memory[1, :, :64]
        pltpu.async_copy(memory.at[0], o.at[pl.ds(2, 2)], semaphore).wait()
        pltpu.async_copy(x.at[-2:], o.at[:2], semaphore).wait()

    def call(x: Any, y: Any) -> Any:
        block = pl.BlockSpec((4, 128), lambda i, table: (table[i], 0), memory_space=pl.ANY)
        return pl.pallas_call(
            body,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(2,),
                in_specs=[block, pl.BlockSpec(memory_space=pl.ANY)],
                out_specs=pl.BlockSpec((None, 4, 128), lambda i, table: (1 - i, 0, 0), memory_space=pl.ANY),
                scratch_shapes=[pltpu.VMEM((2, 2, 128), jnp.int32), pltpu.SemaphoreType.DMA],
            ),
            out_shape=shape(2, 4, 128, dtype=jnp.int32),
            interpret=interpret,
        )(table, x, y)

    return jax.vmap(call, in_axes=(1, None))(x, y)


add(
    "mapped_copies",
    mapped_copies,
    [integers(8, 3, 128, seed="x"), integers(8, 128, seed="y"), np.array([1, 0], np.int32)],
)
