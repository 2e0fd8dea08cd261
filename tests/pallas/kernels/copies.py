"""Explicit copies, semaphores, and pipelines."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

X = floats(32, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
HOW: dict[str, Any] = {"how": {"interpreter": "tpu"}}
DMA = pltpu.SemaphoreType.DMA


def vmem(*sizes: int, dtype: Any = jnp.float32) -> Any:
    return pltpu.VMEM(sizes, dtype)


@kernel("sync_copy", [X], shape(32, 128), in_specs=[ANY], out_specs=ANY, **HOW)
def sync_copy(x: Any, o: Any) -> None:
    pltpu.sync_copy(x, o)


@kernel(
    "copy_in_compute_out",
    [X],
    shape(32, 128),
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[vmem(32, 128), DMA],
    **HOW,
)
def in_and_out(x: Any, o: Any, memory: Any, semaphore: Any) -> None:
    copy = pltpu.make_async_copy(x, memory, semaphore)
    copy.start()
    copy.wait()
    memory[...] = memory[...] * 2
    back = pltpu.make_async_copy(memory, o, semaphore)
    back.start()
    back.wait()


@kernel("async_copy_slices", [X], shape(8, 64), in_specs=[ANY], scratch_shapes=[vmem(8, 64), DMA], **HOW)
def slices(x: Any, o: Any, memory: Any, semaphore: Any) -> None:
    pltpu.async_copy(x.at[pl.ds(16, 8), pl.ds(64, 64)], memory, semaphore).wait()
    o[...] = memory[...]


@kernel(
    "two_copies",
    [X, floats(32, 128, seed="y")],
    shape(32, 128),
    in_specs=[ANY, ANY],
    scratch_shapes=[vmem(2, 32, 128), DMA((2,))],
    **HOW,
)
def two_copies(x: Any, y: Any, o: Any, memory: Any, semaphores: Any) -> None:
    first = pltpu.async_copy(x, memory.at[0], semaphores.at[0])
    second = pltpu.async_copy(y, memory.at[1], semaphores.at[1])
    first.wait()
    second.wait()
    o[...] = memory[0] + memory[1]


@kernel(
    "double_buffered",
    [X],
    shape(32, 128),
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[vmem(2, 8, 128), vmem(2, 8, 128), DMA((2,)), DMA((2,))],
    **HOW,
)
def double_buffered(x: Any, o: Any, into: Any, out: Any, arrived: Any, left: Any) -> None:
    def load(step: Any, slot: Any) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(step * 8, 8)], into.at[slot], arrived.at[slot])

    def store(step: Any, slot: Any) -> Any:
        return pltpu.make_async_copy(out.at[slot], o.at[pl.ds(step * 8, 8)], left.at[slot])

    load(0, 0).start()

    @pl.loop(0, 4)
    def _(step: Any) -> None:
        slot = lax.rem(step, 2)

        @pl.when(step + 1 < 4)
        def _() -> None:
            load(step + 1, 1 - slot).start()

        load(step, slot).wait()

        @pl.when(step >= 2)
        def _() -> None:
            store(step - 2, slot).wait()

        out[slot] = into[slot] * 2 + 1
        store(step, slot).start()

    store(2, 0).wait()
    store(3, 1).wait()


@kernel(
    "copy_dynamic_rows",
    [X, np.array([24, 0, 16, 8], np.int32)],
    shape(32, 128),
    grid=(4,),
    in_specs=[ANY, pl.BlockSpec(memory_space=pltpu.SMEM)],
    out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    scratch_shapes=[vmem(8, 128), DMA],
    **HOW,
)
def dynamic_rows(x: Any, rows: Any, o: Any, memory: Any, semaphore: Any) -> None:
    start = rows[pl.program_id(0)]
    pltpu.async_copy(x.at[pl.ds(start, 8)], memory, semaphore).wait()
    o[...] = memory[...]


@kernel("copy_in_run_scoped", [X], shape(32, 128), in_specs=[ANY], **HOW)
def scoped(x: Any, o: Any) -> None:
    def body(memory: Any, semaphore: Any) -> None:
        pltpu.async_copy(x, memory, semaphore).wait()
        o[...] = memory[...] - 1

    pl.run_scoped(body, vmem(32, 128), DMA)


@kernel(
    "regular_semaphore", [floats(8, 128)], shape(8, 128), scratch_shapes=[pltpu.SemaphoreType.REGULAR], **HOW
)
def regular(x: Any, o: Any, semaphore: Any) -> None:
    pl.semaphore_signal(semaphore, 3)
    o[...] = x[...] * 2
    pl.semaphore_wait(semaphore, 2)
    pl.semaphore_wait(semaphore, 1)


@kernel(
    "semaphore_array",
    [floats(8, 128)],
    shape(8, 128),
    scratch_shapes=[pltpu.SemaphoreType.REGULAR((3,))],
    **HOW,
)
def semaphore_array(x: Any, o: Any, semaphores: Any) -> None:
    @pl.loop(0, 3)
    def _(i: Any) -> None:
        pl.semaphore_signal(semaphores.at[i], i + 1)

    o[...] = x[...] + 1

    @pl.loop(0, 3)
    def _(i: Any) -> None:
        pl.semaphore_wait(semaphores.at[2 - i], 3 - i)


@kernel(
    "semaphore_read",
    [integers(8, 128)],
    shape(8, 128, dtype=jnp.int32),
    scratch_shapes=[pltpu.SemaphoreType.REGULAR],
)
def semaphore_read(x: Any, o: Any, semaphore: Any) -> None:
    pl.semaphore_signal(semaphore, 5)
    o[...] = x[...] + pl.semaphore_read(semaphore)
    pl.semaphore_wait(semaphore, 5)


@kernel(
    "emit_pipeline", [X, floats(32, 128, seed="y")], shape(32, 128), in_specs=[ANY, ANY], out_specs=ANY, **HOW
)
def emit_pipeline(x: Any, y: Any, o: Any) -> None:
    def step(a: Any, b: Any, c: Any) -> None:
        c[...] = a[...] + b[...]

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(step, grid=(4,), in_specs=[block, block], out_specs=[block])(x, y, o)


@kernel("emit_pipeline_2d", [floats(32, 256)], shape(32, 256), in_specs=[ANY], out_specs=ANY, **HOW)
def emit_pipeline_2d(x: Any, o: Any) -> None:
    def step(a: Any, b: Any) -> None:
        b[...] = a[...] * 3

    block = pl.BlockSpec((16, 128), lambda i, j: (i, j))
    pltpu.emit_pipeline(step, grid=(2, 2), in_specs=[block], out_specs=[block])(x, o)


@kernel(
    "hbm_space",
    [X],
    shape(32, 128),
    in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
    out_specs=pl.BlockSpec(memory_space=pltpu.HBM),
    scratch_shapes=[vmem(32, 128), DMA],
    **HOW,
)
def hbm_space(x: Any, o: Any, memory: Any, semaphore: Any) -> None:
    pltpu.async_copy(x, memory, semaphore).wait()
    memory[...] += 1
    pltpu.async_copy(memory, o, semaphore).wait()


def with_barrier(x: Any, o: Any) -> None:
    """On one device nobody else signals it; two of them are the same."""
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 2)
    pl.semaphore_wait(barrier, 1)

    @pl.when(pl.program_id(0) > 0)
    def _() -> None:
        pl.semaphore_wait(pltpu.get_barrier_semaphore(), 2)

    o[...] = x[...] + 1


def barrier_call(x: Any, interpret: Any = False) -> Any:
    block = pl.BlockSpec((16, 128), lambda i: (i, 0))
    return pl.pallas_call(
        with_barrier,
        out_shape=shape(32, 128),
        grid=(2,),
        in_specs=[block],
        out_specs=block,
        compiler_params=pltpu.CompilerParams(collective_id=3),
        interpret=interpret,
    )(x)


add("barrier_semaphore", barrier_call, [X], interpreter="tpu")
