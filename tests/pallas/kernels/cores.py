"""Kernels of `pl.kernel`, on one TensorCore or several, and grids whose axes have names."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, integers, shape

X, Y = integers(16, 128, seed="core"), integers(16, 128, seed="other core")
ROWS = pl.BlockSpec((4, 128), lambda i: (i, 0))


def enter(name: str, body: Any, count: int, operands: Any, **how: Any) -> None:
    """A kernel on so many cores; jax 0.9.2 makes a `core_map` of it, with refs around it."""

    def called(*arrays: Any, interpret: Any = False) -> Any:
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=count)
        return pl.kernel(body, shape(16, 128, dtype=jnp.int32), mesh=mesh, interpret=interpret)(*arrays)

    add(name, called, operands, **how)


def of_each_core(x: Any, o: Any) -> None:
    """Its part, of an axis that has a name."""
    core = lax.axis_index("core")
    rows = pl.ds(core * 8, 8)

    def doubled(memory: Any) -> None:
        pltpu.sync_copy(x.at[rows], memory)
        memory[...] = memory[...] * 2 + core
        pltpu.sync_copy(memory, o.at[rows])

    pl.run_scoped(doubled, pltpu.VMEM((8, 128), jnp.int32))


def whole(x: Any, o: Any) -> None:
    """Only a copy."""
    pltpu.sync_copy(x, o)


enter("one_core", whole, 1, [X], interpreter="tpu")
enter("two_cores", of_each_core, 2, [X], interpreter="tpu")


def pipelined(x: Any, y: Any, o: Any) -> None:
    """Steps of a pipeline that the cores share. jax describes no TPU on a host: NumPy says what is right."""

    def step(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] * y[...]

    pltpu.emit_pipeline(
        step,
        grid=(4,),
        in_specs=[ROWS, ROWS],
        out_specs=[ROWS],
        core_axis_name="core",
        dimension_semantics=(pltpu.PARALLEL,),
    )(x, y, o)


enter("pipeline_of_cores", pipelined, 2, [X, Y], check=np.multiply)


def of_refs(x: Any, interpret: Any = False) -> Any:
    """`core_map` with refs of `run_state`, one of them for both kernels, and refs that are made around it."""
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    rows = [pltpu.VMEM((16, 128), jnp.int32), pltpu.SemaphoreType.DMA]

    def doubled(source: Any, target: Any) -> None:
        @pl.core_map(mesh, interpret=interpret, scratch_shapes=rows)
        def _(memory: Any, semaphore: Any) -> None:
            pltpu.async_copy(source, memory, semaphore).wait()
            memory[...] = memory[...] * 2
            pltpu.async_copy(memory, target, semaphore).wait()

    def twice(refs: Any) -> None:
        doubled(*refs)
        doubled(refs[1], refs[1])

    @jax.jit
    def once(x: Any) -> Any:
        source, target = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))
        doubled(source, target)
        return target[...]

    return once(pl.run_state(twice)((x, jnp.zeros_like(x)))[1])


add("core_map_of_refs", of_refs, [X], check=lambda x: x * 8)


def with_names(x: Any, interpret: Any = False) -> Any:
    """Call by name and by number; rows of vmap are an axis without one."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + lax.axis_index("rows") * 10 + lax.axis_index("again") + pl.program_id(0)

    block = pl.BlockSpec((4, 128), lambda i, j: (i, j))
    return pl.pallas_call(
        body,
        grid=(("rows", 4), ("again", 1)),
        in_specs=[block],
        out_specs=block,
        out_shape=shape(16, 128, dtype=jnp.int32),
        interpret=interpret,
    )(x)


def expected(x: Any) -> Any:
    """Return what is expected of one array or several."""
    return x + (np.arange(16) // 4 * 11).astype(np.int32)[:, None]


add("axes_with_names", with_names, [X], check=expected)
add("axes_with_names_and_rows", lambda x: jax.vmap(with_names)(x), [np.stack([X, Y])], check=expected)
