"""Kernels of JAX Pallas, with what NumPy makes of the same operands.

usage: python kernels.py [NAME ...]

Runs each on a simulated device, checks its values, and prints its cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sorting import argsort, bitonic_sort, large_sort

Array = Any
F32 = jnp.float32


def blocks(*shape: int, at: Callable[..., Any]) -> pl.BlockSpec:
    """Blocks of a shape, at the places that an index map gives."""
    return pl.BlockSpec(shape, at)


def add(x: Array, y: Array, interpret: Any = False) -> Array:
    """x + y, 8 rows at a time."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = blocks(8, 128, at=lambda i: (i, 0))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 8,),
        in_specs=[spec, spec],
        out_specs=spec,
        out_shape=out,
        interpret=interpret,
    )(x, y)


def multiply(x: Array, y: Array, interpret: Any = False) -> Array:
    """x * y in one block."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * y_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x, y)


def matmul(x: Array, y: Array, interpret: Any = False, block: int = 64) -> Array:
    """x @ y; sums over the last axis of the grid stand in scratch memory."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, sums: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            sums[...] = jnp.zeros_like(sums)

        sums[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = sums[...]

    m, k, n = x.shape[0], x.shape[1], y.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(m // block, n // block, k // block),
        in_specs=[
            blocks(block, block, at=lambda i, j, k: (i, k)),
            blocks(block, block, at=lambda i, j, k: (k, j)),
        ],
        out_specs=blocks(block, block, at=lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), F32),
        scratch_shapes=[pltpu.VMEM((block, block), F32)],
        interpret=interpret,
    )(x, y)


def softmax(x: Array, interpret: Any = False) -> Array:
    """Softmax of each row, 8 rows at a time."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        values = x_ref[...]
        powers = jnp.exp(values - jnp.max(values, axis=1, keepdims=True))
        o_ref[...] = powers / jnp.sum(powers, axis=1, keepdims=True)

    spec = blocks(8, x.shape[1], at=lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 8,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )(x)


def layer_norm(x: Array, scale: Array, shift: Array, interpret: Any = False) -> Array:
    """Return each row with mean 0 and variance 1, scaled and shifted."""

    def kernel(x_ref: Any, scale_ref: Any, shift_ref: Any, o_ref: Any) -> None:
        values = x_ref[...]
        centred = values - jnp.mean(values, axis=1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=1, keepdims=True)
        o_ref[...] = centred * lax.rsqrt(variance + 1e-5) * scale_ref[...] + shift_ref[...]

    spec = blocks(8, x.shape[1], at=lambda i: (i, 0))
    row = blocks(1, x.shape[1], at=lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 8,),
        in_specs=[spec, row, row],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )(x, scale, shift)


def attend(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, most: Any, total: Any, sums: Any) -> None:
    """A step of attention whose scores are never stored: running maximum and sum in scratch memory."""
    step = pl.program_id(1)

    @pl.when(step == 0)
    def _() -> None:
        most[...] = jnp.full_like(most, -jnp.inf)
        total[...] = jnp.zeros_like(total)
        sums[...] = jnp.zeros_like(sums)

    contract_last = (((1,), (1,)), ((), ()))
    scores = (
        lax.dot_general(q_ref[...], k_ref[...], contract_last, preferred_element_type=F32)
        * q_ref.shape[-1] ** -0.5
    )
    above = jnp.maximum(most[...], jnp.max(scores, axis=1, keepdims=True))
    correction = jnp.exp(most[...] - above)
    powers = jnp.exp(scores - above)
    total[...] = total[...] * correction + jnp.sum(powers, axis=1, keepdims=True)
    sums[...] = sums[...] * correction + jnp.dot(powers, v_ref[...], preferred_element_type=F32)
    most[...] = above

    @pl.when(step == pl.num_programs(1) - 1)
    def _() -> None:
        o_ref[...] = sums[...] / total[...]


def flash_attention(q: Array, k: Array, v: Array, interpret: Any = False, block: int = 32) -> Array:
    """Attention whose scores are never stored: running maximum and sum in scratch memory."""
    length, size = q.shape

    rows = blocks(block, size, at=lambda i, j: (i, 0))
    columns = blocks(block, size, at=lambda i, j: (j, 0))
    return pl.pallas_call(
        attend,
        grid=(length // block, length // block),
        in_specs=[rows, columns, columns],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(q.shape, F32),
        scratch_shapes=[
            pltpu.VMEM((block, 1), F32),
            pltpu.VMEM((block, 1), F32),
            pltpu.VMEM((block, size), F32),
        ],
        interpret=interpret,
    )(q, k, v)


def paged_attention(pages: Array, q: Array, k: Array, v: Array, interpret: Any = False) -> Array:
    """Attention of one query per sequence to keys and values in pages; the table of pages is prefetched."""
    sequences, count = pages.shape
    page, size = k.shape[1:]

    def kernel(table: Any, *refs: Any) -> None:
        del table
        attend(*refs)

    query = pl.BlockSpec((None, 1, size), lambda i, j, table: (i, 0, 0))
    of_page = pl.BlockSpec((None, page, size), lambda i, j, table: (table[i, j], 0, 0))
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(sequences, count),
            in_specs=[query, of_page, of_page],
            out_specs=query,
            scratch_shapes=[pltpu.VMEM((1, 1), F32), pltpu.VMEM((1, 1), F32), pltpu.VMEM((1, size), F32)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, F32),
        interpret=interpret,
    )(pages, q, k, v)


def hbm_pipeline(x: Array, interpret: Any = False, rows: int = 8) -> Array:
    """x * 2 + 1 of an array that stays in HBM: while one block is computed, the next one comes."""
    steps = x.shape[0] // rows

    def kernel(x_ref: Any, o_ref: Any, into: Any, out: Any, arrived: Any, left: Any) -> None:
        def load(step: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(x_ref.at[pl.ds(step * rows, rows)], into.at[slot], arrived.at[slot])

        def store(step: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(out.at[slot], o_ref.at[pl.ds(step * rows, rows)], left.at[slot])

        load(0, 0).start()

        @pl.loop(0, steps)
        def _(step: Any) -> None:
            slot = lax.rem(step, 2)

            @pl.when(step + 1 < steps)
            def _() -> None:
                load(step + 1, 1 - slot).start()

            load(step, slot).wait()

            @pl.when(step >= 2)
            def _() -> None:
                store(step - 2, slot).wait()

            out[slot] = into[slot] * 2 + 1
            store(step, slot).start()

        store(steps - 2, steps % 2).wait()
        store(steps - 1, (steps - 1) % 2).wait()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    slots = pltpu.VMEM((2, rows, x.shape[1]), x.dtype)
    return pl.pallas_call(
        kernel,
        in_specs=[hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[slots, slots, pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.DMA((2,))],
        interpret=interpret,
    )(x)


def numpy_attention(q: Array, k: Array, v: Array) -> Array:
    """Softmax of scaled products, times values."""
    scores = q.astype(np.float64) @ k.T.astype(np.float64) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True) @ v


def numpy_paged(pages: Array, q: Array, k: Array, v: Array) -> Array:
    """Return the same for each sequence, its pages put together."""
    size = q.shape[-1]
    rows = [
        numpy_attention(query, k[table].reshape(-1, size), v[table].reshape(-1, size))
        for table, query in zip(pages, q, strict=True)
    ]
    return np.stack(rows)


def numpy_softmax(x: Array) -> Array:
    """Compute a softmax in binary64."""
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def numpy_layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    """Compute a layer norm in binary64."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * scale + shift


def numpy_sort(x: Array) -> tuple[Array, Array]:
    """Stable."""
    places = np.argsort(x, axis=1, kind="stable").astype(np.int32)
    return np.take_along_axis(x, places, axis=1), places


def numpy_sort_all(x: Array) -> Array:
    """Return all elements, in the shape that they had."""
    return np.sort(x, axis=None).reshape(x.shape)


@dataclass(frozen=True)
class Example:
    """A function, its operands, and what NumPy makes of them.

    Attributes
    ----------
    function, check : callable
        Of the operands.
    operands : tuple of array
        Arguments.
    tolerance : float
        Largest difference that is allowed, relative to the largest value; 0: the same bits.
    interpreter : str
        ``tpu`` where there are copies.
    """

    function: Callable[..., Any]
    operands: tuple[Array, ...]
    check: Callable[..., Any]
    tolerance: float = 0.0
    interpreter: str = "hlo"


def examples() -> dict[str, Example]:
    """Return all, by name."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    table = np.array([[3, 0, 5], [1, 4, 2]], np.int32)
    square = (normal(128, 128), normal(128, 128))
    attention = (normal(64, 32), normal(64, 32), normal(64, 32))
    paged = (table, normal(2, 1, 32), normal(6, 16, 32), normal(6, 16, 32))
    rows = (normal(32, 128), normal(1, 128), normal(1, 128))
    pair = (normal(32, 128), normal(32, 128))
    return {
        "add": Example(add, pair, np.add),
        "multiply": Example(multiply, pair, np.multiply),
        "matmul": Example(matmul, square, np.matmul, 1e-5),
        "softmax": Example(softmax, pair[:1], numpy_softmax, 1e-5),
        "layer_norm": Example(layer_norm, rows, numpy_layer_norm, 1e-5),
        "flash_attention": Example(flash_attention, attention, numpy_attention, 1e-5),
        "paged_attention": Example(paged_attention, paged, numpy_paged, 1e-5),
        "hbm_pipeline": Example(hbm_pipeline, pair[:1], lambda x: x * 2 + 1, 1e-6, "tpu"),
        "bitonic_sort_8x128": Example(bitonic_sort, (normal(8, 128),), numpy_sort),
        "bitonic_sort_8x128_i32": Example(
            bitonic_sort, (rng.integers(-50, 50, (8, 128)).astype(np.int32),), numpy_sort
        ),
        "bitonic_sort_8x512": Example(bitonic_sort, (normal(8, 512),), numpy_sort),
        "bitonic_sort_8x512_i32": Example(
            bitonic_sort, (rng.integers(-50, 50, (8, 512)).astype(np.int32),), numpy_sort
        ),
        "large_sort": Example(large_sort, (normal(1024, 128),), numpy_sort_all, interpreter="tpu"),
        "argsort": Example(argsort, (np.round(normal(8, 128), 1),), lambda x: numpy_sort(x)[1]),
    }


def wrong(example: Example, results: Any) -> str:
    """Say what is wrong with the results; empty if nothing is."""
    expected = example.check(*example.operands)
    leaves = jax.tree_util.tree_leaves(results)
    for result, right in zip(leaves, jax.tree_util.tree_leaves(expected), strict=True):
        result = np.asarray(result)
        if example.tolerance == 0 and not np.array_equal(result, right, equal_nan=result.dtype.kind == "f"):
            return f"{np.count_nonzero(result != right)} elements differ"
        if example.tolerance and np.max(np.abs(result - right)) > example.tolerance * np.max(np.abs(right)):
            return f"off by {np.max(np.abs(result - right)):.3g}"
    return ""


def cycle_row(name: str, run: Any) -> str:
    """A line of the table: cycles, and in how many of them the device computed, or waited for memory."""
    cycles = [int(run.stats[f"cycles.{part}"]) for part in ("total", "compute", "memory_stall")]
    return "| " + " | ".join([name, *map(str, cycles)]) + " |"


def main(names: list[str]) -> int:
    """Run the examples of these names, or all."""
    import kpusim.pallas

    failed = 0
    print("| kernel | cycles | compute | waits for memory |\n|---|---|---|---|")
    for name, example in examples().items():
        if names and name not in names:
            continue
        results = kpusim.pallas.run(example.function, platform="tile32")(*example.operands)
        problem = wrong(example, results)
        failed += bool(problem)
        print(cycle_row(name, kpusim.pallas.last_run()) + (problem and f" WRONG: {problem}"))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
