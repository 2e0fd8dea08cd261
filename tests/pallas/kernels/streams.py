"""Rings, nested pipelines and calls around: copies as public kernel libraries have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

F32, I32 = jnp.float32, jnp.int32
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
TPU = {"interpreter": "tpu"}
SEMAPHORES: Any = pl if hasattr(pl, "semaphore_wait") else pltpu  # before jax 0.10


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


ROWS = spec(8, 128, at=lambda i: (i, 0))


@kernel(
    "ring_of_three_slots",
    [integers(64, 128, seed="ring")],
    shape(64, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[pltpu.VMEM((3, 8, 128), I32), pltpu.VMEM((3, 8, 128), I32), DMA((3,)), DMA((3,))],
)
def ring(x: Any, o: Any, given: Any, made: Any, arrived: Any, left: Any) -> None:
    def load(step: Any) -> Any:
        slot = lax.rem(step, 3)
        return pltpu.make_async_copy(x.at[pl.ds(step * 8, 8)], given.at[slot], arrived.at[slot])

    def store(step: Any) -> Any:
        slot = lax.rem(step, 3)
        return pltpu.make_async_copy(made.at[slot], o.at[pl.ds((7 - step) * 8, 8), :], left.at[slot])

    load(0).start()
    load(1).start()

    def body(step: Any, total: Any) -> Any:
        pl.when(step + 2 < 8)(lambda: load(step + 2).start())
        load(step).wait()
        pl.when(step >= 3)(lambda: store(step - 3).wait())
        slot = step % 3
        made[slot] = given[slot] * 3 + total
        store(step).start()
        return total + jnp.max(given[slot])

    lax.fori_loop(0, 8, body, jnp.int32(0))
    for step in (5, 6, 7):
        store(step).wait()


@kernel(
    "credits_by_regular_semaphore",
    [integers(32, 128, seed="credit")],
    shape(32, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    scratch_shapes=[pltpu.VMEM((2, 8, 128), I32), DMA((2,)), REGULAR],
)
def credits(x: Any, o: Any, slots: Any, arrived: Any, free: Any) -> None:
    SEMAPHORES.semaphore_signal(free, 2)
    for step in range(5):
        if step < 4:
            SEMAPHORES.semaphore_wait(free, 1)
            pltpu.async_copy(x.at[pl.ds(step * 8, 8)], slots.at[step % 2], arrived.at[step % 2])
        if step > 0:
            last = step - 1
            rows = pl.ds(last * 8, 8)
            pltpu.make_async_copy(x.at[rows], slots.at[last % 2], arrived.at[last % 2]).wait()
            o[rows, :] = slots[last % 2] - 1
            SEMAPHORES.semaphore_signal(free)
    SEMAPHORES.semaphore_wait(free, 2)


def inner_product(x: Any, y: Any, o: Any) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)


@kernel(
    "pipelines_one_after_the_other",
    [floats(32, 64, seed="pa"), floats(64, 128, seed="pb")],
    [shape(32, 128), shape(32, 128)],
    how={"interpreter": "tpu", "compare": "close"},
    in_specs=[ANY, ANY],
    out_specs=[ANY, ANY],
)
def two_pipelines(x: Any, y: Any, product: Any, doubled: Any) -> None:
    pltpu.emit_pipeline(
        inner_product,
        grid=(2, 1, 2),
        in_specs=[spec(16, 32, at=lambda i, j, k: (i, k)), spec(32, 128, at=lambda i, j, k: (k, j))],
        out_specs=[spec(16, 128, at=lambda i, j, k: (i, j))],
    )(x, y, product)

    def double(p: Any, o: Any) -> None:
        o[...] = p[...] * 2.0

    pltpu.emit_pipeline(double, grid=(4,), in_specs=[ROWS], out_specs=[ROWS])(product, doubled)


@kernel(
    "pipeline_in_pipeline",
    [integers(4, 32, 128, seed="pp")],
    shape(4, 32, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
    out_specs=ANY,
    scratch_shapes=[pltpu.SMEM((1,), I32)],
)
def nested_pipeline(x: Any, o: Any, steps: Any) -> None:
    steps[0] = 0

    def outer(_: Any) -> None:
        n = steps[0]

        def inner(a: Any, b: Any) -> None:
            b[...] = a[...] + n + pl.program_id(0)

        pltpu.emit_pipeline(inner, grid=(4,), in_specs=[spec(8, 128, at=lambda j: (j, 0))], out_specs=[ROWS])(
            x.at[n], o.at[n]
        )
        steps[0] = n + 1

    lax.fori_loop(0, 4, lambda i, _: outer(i), None)


@kernel(
    "pipeline_in_a_grid_with_prefetch",
    [np.array([2, 0, 3], np.int32), integers(4, 32, 128, seed="pg")],
    shape(3, 8, 128, dtype=I32),
    how=TPU,
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[ANY],
        out_specs=spec(None, 8, 128, at=lambda i, t: (i, 0, 0)),
    ),
)
def pipeline_in_grid(table: Any, x: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)

    def body(block: Any) -> None:
        o[...] += block[...]

    pltpu.emit_pipeline(body, grid=(4,), in_specs=[ROWS], out_specs=[])(x.at[table[pl.program_id(0)]])


@kernel(
    "gather_rows_in_flight",
    [np.array([9, 1, 14, 3, 3, 0, 15, 7], np.int32), floats(16, 128, seed="table")],
    shape(8, 128),
    in_specs=[SMEM, ANY],
    scratch_shapes=[pltpu.VMEM((4, 1, 128), F32), DMA((4,))],
    how={"check": lambda ids, table: np.sqrt(np.abs(table[ids]))},
)
def rows_in_flight(ids: Any, table: Any, o: Any, slots: Any, arrived: Any) -> None:
    def copy(i: Any) -> Any:
        row = table.at[pl.ds(ids[i], 1), :]
        return pltpu.make_async_copy(row, slots.at[i & 3], arrived.at[jnp.bitwise_and(i, 3)])

    @pl.loop(0, 3)
    def _(i: Any) -> None:
        copy(i).start()

    @pl.loop(0, 8)
    def _(i: Any) -> None:
        pl.when(i < 5)(lambda: copy(i + 3).start())
        copy(i).wait()
        o[pl.ds(i, 1), :] = jnp.sqrt(jnp.abs(slots[i & 3]))


@kernel(
    "scatter_rows_to_alias",
    [np.array([3, 7, 1], np.int32), floats(3, 128, seed="new"), floats(8, 128, seed="old")],
    shape(8, 128),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[spec(1, 128, at=lambda i, p: (i, 0)), ANY],
        out_specs=spec(1, 128, at=lambda i, p: (p[i], 0)),
    ),
    input_output_aliases={2: 0},
)
def scatter_rows(place: Any, new: Any, old: Any, o: Any) -> None:
    del place, old
    o[...] = new[...]


@kernel(
    "scoped_memory_and_semaphores",
    [integers(16, 128, seed="scoped")],
    shape(8, 128, dtype=I32),
    how=TPU,
    in_specs=[ANY],
)
def scoped(x: Any, o: Any) -> None:
    def outer(half: Any, done: Any) -> None:
        pltpu.make_async_copy(x.at[pl.ds(8, 8)], half, done).start()

        def inner(other: Any, at_once: Any) -> Any:
            pltpu.async_copy(x.at[pl.ds(0, 8)], other, at_once).wait()
            return other[...] * 2

        doubled = pl.run_scoped(inner, pltpu.VMEM((8, 128), I32), DMA(()))
        pltpu.make_async_copy(x.at[pl.ds(8, 8)], half, done).wait()
        o[...] = doubled - half[...]

    pl.run_scoped(outer, pltpu.VMEM((8, 128), I32), DMA)


def batched_prefetch(tables: Any, x: Any, *, interpret: Any = False) -> Any:
    """vmap of a call whose index map reads a table, with a table for each row."""

    def body(table: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + table[pl.program_id(0)]

    def call(table: Any, x: Any) -> Any:
        return pl.pallas_call(
            body,
            out_shape=shape(16, 128, dtype=I32),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(2,),
                in_specs=[spec(8, 128, at=lambda i, t: ((t[i] * 2 + 1) % 3, 0))],
                out_specs=spec(8, 128, at=lambda i, t: (1 - i, 0)),
            ),
            interpret=interpret,
        )(table, x)

    return jax.vmap(call, in_axes=(None, 1), out_axes=1)(tables, x)


add(
    "around_vmap_table_shared_axis_1",
    batched_prefetch,
    [np.array([2, 1], np.int32), integers(24, 3, 128, seed="vt")],
)


def element_halo(x: Any, taps: Any, *, interpret: Any = False) -> Any:
    """vmap of overlapping Element windows with padding that no output needs."""

    def body(x: Any, taps: Any, o: Any) -> None:
        o[...] = sum(x[pl.ds(k, 8), :] * taps[k] for k in range(3))

    def call(x: Any) -> Any:
        return pl.pallas_call(
            body,
            out_shape=shape(16, 128),
            grid=(2,),
            in_specs=[pl.BlockSpec((pl.Element(10), pl.Element(128)), lambda i: (i * 8, 0)), SMEM],
            out_specs=ROWS,
            interpret=interpret,
        )(x, taps)

    return jax.vmap(call)(x)


add(
    "around_vmap_element_halo",
    element_halo,
    [floats(2, 18, 128, seed="halo"), floats(3, seed="t3")],
    compare="close",
)


def unique_rows(x: Any, *, interpret: Any = False) -> Any:
    """Two calls in a scan whose carry the first one makes, and a cond around a third."""

    def body(x: Any, o: Any) -> None:
        o[...] = lax.bitwise_xor(x[...], lax.shift_left(x[...], 3))

    def less(x: Any, o: Any) -> None:
        o[...] = x[...] - 1

    def call(kernel: Any, x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=shape(8, 128, dtype=I32), interpret=interpret)(x)

    def step(carry: Any, row: Any) -> Any:
        made = call(body, carry)
        return made, call(less, jnp.broadcast_to(row, (8, 128)))

    final, rows = lax.scan(step, x, x[:4, None, :], length=4)
    return final, rows


add("around_scan_two_kernels", unique_rows, [integers(8, 128, seed="ur")])
