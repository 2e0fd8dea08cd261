"""Operands that are aliased to results, under vmap too: values are those of jax's interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels.case import integers

pytestmark = pytest.mark.device

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
SAME = pl.BlockSpec((8, 128), lambda i: (0, 0))
COPIED = pl.BlockSpec(memory_space=pl.ANY)


def adds_to_result(x: Any, t: Any, o: Any) -> None:
    """Never touches the operand, but what the result has of it."""
    o[...] = o[...] + x[...]


def writes_a_row(x: Any, t: Any, o: Any) -> None:
    """The other rows stay."""
    o[0:1, :] = x[0:1, :]


def writes_nothing(x: Any, t: Any, o: Any) -> None:
    """All stays."""


def writes_sometimes(x: Any, t: Any, o: Any) -> None:
    """In a branch."""

    @pl.when(x[0, 0] > 0)
    def _() -> None:
        o[...] = x[...]


def sums_up(x: Any, t: Any, o: Any) -> None:
    """In one block, over the steps."""
    o[...] += x[...]


def overwrites(x: Any, t: Any, o: Any) -> None:
    """Needs no load."""
    o[...] = x[...] - t[...]


def copies(x: Any, t: Any, o: Any, buffer: Any, semaphore: Any) -> None:
    """Parts by explicit copies, of the result too."""
    pltpu.async_copy(o.at[pl.ds(8, 8)], buffer, semaphore).wait()
    buffer[...] += x[0:8]
    pltpu.async_copy(buffer, o.at[pl.ds(0, 8)], semaphore).wait()


def call(kernel: Any, x_spec: Any, t_spec: Any, steps: int, scratch: Any = ()) -> Callable[..., Any]:
    """Return a kernel whose second operand is aliased to its result."""

    def function(x: Any, t: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            grid=(steps,),
            in_specs=[x_spec, t_spec],
            out_specs=t_spec,
            out_shape=jax.ShapeDtypeStruct(t.shape, t.dtype),
            scratch_shapes=scratch,
            input_output_aliases={1: 0},
            interpret=interpret,
        )(x, t)

    return function


CALLS = {
    "adds": call(adds_to_result, ROWS, ROWS, 3),
    "adds_in_one_step": call(adds_to_result, ROWS, ROWS, 1),
    "a_row": call(writes_a_row, ROWS, ROWS, 3),
    "nothing": call(writes_nothing, ROWS, ROWS, 3),
    "sometimes": call(writes_sometimes, ROWS, ROWS, 3),
    "sums": call(sums_up, ROWS, SAME, 3),
    "overwrites": call(overwrites, ROWS, ROWS, 2),
    "one_buffer": call(
        adds_to_result, ROWS, pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)), 3
    ),
    "copies": call(
        copies,
        pl.BlockSpec((24, 128), lambda i: (0, 0)),
        COPIED,
        1,
        [pltpu.VMEM((8, 128), jnp.int32), pltpu.SemaphoreType.DMA],
    ),
}
X = np.asarray(integers(2, 3, 24, 128), np.int32)
T = np.asarray(integers(3, 24, 128, seed="t"), np.int32)
#: Axes of both operands, from the outermost vmap to the innermost.
AXES: dict[str, tuple[Any, Any, list[tuple[Any, Any]]]] = {
    "none": (X[0, 0], T[0], []),
    "operand_is_not_batched": (X[0], T[0], [(0, None)]),
    "only_operand_is_batched": (X[0, 0], T, [(None, 0)]),
    "one_row": (X[0, :1], T[0], [(0, None)]),
    "another_axis": (X[0].transpose(1, 0, 2), T[0], [(1, None)]),
    "nested": (X, T[0], [(0, None), (0, None)]),
    "nested_inside": (X, T, [(0, None), (0, 0)]),
    "nested_apart": (X[0], T[:2], [(None, 0), (0, None)]),
}


def mapped(function: Any, axes: list[tuple[Any, Any]]) -> Any:
    """Under so many vmaps."""
    for pair in reversed(axes):
        function = jax.vmap(function, in_axes=pair)
    return function


@pytest.mark.filterwarnings("error::kpusim.HazardWarning")
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str, axes: str) -> None:
    """Values are those of jax, and nothing unwritten is used; vmap around the run, and inside of it."""
    function = CALLS[name]
    x, t, pairs = AXES[axes]
    expected = np.asarray(mapped(functools.partial(function, interpret=True), pairs)(x, t))
    assert np.array_equal(mapped(kpusim.pallas.run(function), pairs)(x, t), expected)
    assert np.array_equal(kpusim.pallas.run(mapped(function, pairs))(x, t), expected)


def test_scalars() -> None:
    """Without dimensions and without a grid."""

    def kernel(x: Any, _: Any, o: Any) -> None:
        o[()] = x[()] + o[()] + 10

    def function(x: Any, t: Any) -> Any:
        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((), jnp.int32), input_output_aliases={1: 0}
        )(x, t)

    found = jax.vmap(kpusim.pallas.run(function), in_axes=(0, None))(jnp.arange(4), jnp.int32(7))
    assert list(found) == [17, 18, 19, 20]


def test_what_is_overwritten_is_not_loaded() -> None:
    """A load costs time, so it is made only where the kernel needs it."""

    def read_bytes(name: str) -> int:
        kpusim.pallas.run(CALLS[name])(X[0, 0], T[0])
        return int(kpusim.pallas.last_run().stats["bytes.dram.read"])

    block = 8 * 128 * 4
    # both operands of two steps, and the copy of the aliased one before the call
    assert read_bytes("overwrites") == 2 * 2 * block + T[0].nbytes
    assert read_bytes("adds") == 3 * 3 * block + T[0].nbytes


@pytest.mark.parametrize("buffers", [1, 2])
def test_table_written_by_the_kernel(buffers: int) -> None:
    """An index map is evaluated before the step ahead of its own runs, as in jax's TPU interpreter."""

    def kernel(table: Any, x: Any, o: Any) -> None:
        for step in range(1, 6):
            table[step] = 3
        o[...] = x[...]

    def function(table: Any, x: Any, interpret: Any = False) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(6,),
            in_specs=[
                pl.BlockSpec(
                    (None, 8, 128),
                    lambda i, table: (table[i], 0, 0),
                    pipeline_mode=pl.Buffered(buffers),
                )
            ],
            out_specs=pl.BlockSpec((None, 8, 128), lambda i, table: (i, 0, 0)),
        )
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=out, interpret=interpret)(table, x)

    table = np.arange(6, dtype=np.int32)
    x = np.broadcast_to(np.arange(6, dtype=np.float32)[:, None, None], (6, 8, 128)).copy()
    found = np.asarray(kpusim.pallas.run(function)(table, x))
    assert list(found[:, 0, 0]) == [0, 1, 3, 3, 3, 3]
    assert np.array_equal(found, function(table, x, interpret=pltpu.InterpretParams()))
