"""Copies of slices whose sizes are known when the kernel runs, and of reshaped refs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kpusim import SimulationError, UserError

pytestmark = pytest.mark.device
ROWS, MOST, WIDTH = 40, 16, 128
X = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
Call = Callable[..., Any]


def call(kernel: Call, scratch: tuple[int, ...] = (MOST, WIDTH), shape: tuple[int, ...] = X.shape) -> Call:
    """Return the numbers in SMEM, operand and result in HBM, a window in VMEM."""
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.VMEM(scratch, jnp.float32), pltpu.SemaphoreType.DMA(())],
    )
    out = jax.ShapeDtypeStruct(shape, jnp.float32)
    return kpusim.pallas.run(pl.pallas_call(kernel, grid_spec=spec, out_shape=out), "tile32")


def there_and_back(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Rows n[1] to n[1] + n[0], to the same place."""
    size, first = n[0], n[1]
    pltpu.sync_copy(x.at[pl.ds(first, size)], window.at[pl.ds(0, size)])
    back = pltpu.make_async_copy(window.at[pl.ds(0, size)], o.at[pl.ds(first, size)], sem)
    back.start()
    back.wait()


@pytest.mark.parametrize(
    ("size", "first"), [(0, 3), (1, 0), (2, 38), (5, 7), (11, 29), (13, 0), (15, 25), (16, 24)]
)
def test_sizes(size: int, first: int) -> None:
    """Every number of rows; the others stay what they were."""
    found = np.asarray(call(there_and_back)(jnp.asarray([size, first], jnp.int32), X))
    run = kpusim.pallas.last_run()
    assert run is not None
    assert [hazard.kind for hazard in run.hazards] == ["kernel"]
    assert "does not write all of output `a_out`" in run.hazards[0].message
    assert np.array_equal(found[first : first + size], X[first : first + size])
    assert not found[:first].any()
    assert not found[first + size :].any()


@pytest.mark.parametrize(("size", "first"), [(17, 0), (16, 25), (-1, 3), (64, 0), (15, 26), (2**31 - 1, 0)])
def test_outside(size: int, first: int) -> None:
    """A part beyond either ref, or a size that is negative, is an error."""
    with pytest.raises(SimulationError, match=r"test_copies\.py:.*index \d+ of"):
        call(there_and_back)(jnp.asarray([size, first], jnp.int32), X)


def two_sizes(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Every second row, and some of its columns."""
    rows, columns = n[0], n[1]
    inside = window.at[pl.ds(2, rows), pl.ds(0, columns)]
    pltpu.sync_copy(x.at[pl.ds(1, rows, 2), pl.ds(3, columns)], inside)
    pltpu.sync_copy(inside, o.at[pl.ds(0, rows), pl.ds(5, columns)])
    del sem


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 100), (14, 7), (9, 123), (0, 4), (4, 0)])
def test_two_sizes(rows: int, columns: int) -> None:
    """With a stride."""
    found = np.asarray(call(two_sizes)(jnp.asarray([rows, columns], jnp.int32), X))
    right = np.zeros_like(X)
    right[:rows, 5 : 5 + columns] = X[1 : 1 + 2 * rows : 2, 3 : 3 + columns]
    assert np.array_equal(found, right)


def one_wait(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Four copies, and a wait for the bytes of all of them, which a ref of that many rows would have."""
    total = 0
    for i in range(4):
        pltpu.make_async_copy(x.at[pl.ds(10 * i, n[i])], window.at[i, pl.ds(0, n[i])], sem).start()
        total += n[i]
    everything = window.at[0, pl.ds(0, total)]
    pltpu.make_async_copy(everything, everything, sem).wait()
    pltpu.sync_copy(window, o)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4), (8, 8, 8, 8), (0, 0, 0, 5), (0, 0, 0, 0)])
def test_a_wait_counts_bytes(sizes: tuple[int, ...]) -> None:
    """It does not matter whether they would fit into its ref."""
    shape = (4, 8, WIDTH)
    found = np.asarray(call(one_wait, shape, shape)(jnp.asarray(sizes, jnp.int32), X))
    for i, size in enumerate(sizes):
        assert np.array_equal(found[i, :size], X[10 * i : 10 * i + size])


def reshaped(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Pages of 8 rows as rows, and a slot of the window as a row of all its elements."""
    rows = x.reshape(5, 8, 4, 32).at[n[0]]
    pltpu.sync_copy(rows.reshape(8 * 4, 32).at[pl.ds(n[1], 8)], window.at[1].reshape(8, 32))
    pltpu.sync_copy(window.reshape(2, 4, 64).at[1], o)
    del sem


def test_reshaped_refs() -> None:
    """Where whole dimensions are split and joined."""
    found = np.asarray(call(reshaped, (2, 2, 128), (4, 64))(jnp.asarray([3, 9], jnp.int32), X))
    right = X.reshape(5, 8 * 4, 32)[3, 9:17].reshape(4, 64)
    assert np.array_equal(found, right)


def cut(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Columns of a row are no whole dimension."""
    pltpu.sync_copy(x.at[:, pl.ds(0, 64)].reshape(20, 128).at[pl.ds(0, 16)], window)
    del n, o, sem


def unlike(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """Two sizes that only happen to be the same."""
    pltpu.sync_copy(x.at[pl.ds(0, n[0])], window.at[pl.ds(0, n[1])])
    pltpu.sync_copy(window, o.at[pl.ds(0, MOST)])
    del sem


def test_two_sizes_that_are_equal() -> None:
    """Known when the kernel runs; others are an error."""
    found = np.asarray(call(unlike)(jnp.asarray([6, 6], jnp.int32), X))
    assert np.array_equal(found[:6], X[:6])
    with pytest.raises(SimulationError, match=r"test_copies\.py"):
        call(unlike)(jnp.asarray([6, 5], jnp.int32), X)


def again(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """The first of some rows."""
    pltpu.sync_copy(x.at[pl.ds(0, n[0])].at[0], window.at[0])
    pltpu.sync_copy(x.at[pl.ds(0, n[0])].at[0], window.at[pl.ds(0, n[0])].at[0])
    del o, sem


def one_size(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
    """The other side is as large as it is."""
    pltpu.sync_copy(x.at[pl.ds(0, n[0])], window)
    del o, sem


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [(cut, "reshaped"), (again, "not the last"), (one_size, "one side alone")],
)
def test_refused(kernel: Call, reason: str) -> None:
    """Copies are refused by what they are, with their line."""
    with pytest.raises(UserError, match=reason) as caught:
        call(kernel)(jnp.asarray([2, 2], jnp.int32), X)
    assert "test_copies.py" in str(caught.value)


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    ("shape", "block"), [((40, 200), (16, 128)), ((20, 300), (16, 256)), ((1000,), (384,)), ((3, 20), (2, 8))]
)
def test_ragged_pipeline(shape: tuple[int, ...], block: tuple[int, ...], kind: Any) -> None:
    """The last blocks of `emit_pipeline` end where the array ends, be it within a tile of a TPU."""
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(kind)
    spec = pl.BlockSpec(block, lambda *place: place)

    def step(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + 2 * y[...]

    def body(x: Any, y: Any, o: Any) -> None:
        grid = tuple(pl.cdiv(size, part) for size, part in zip(shape, block, strict=True))
        pltpu.emit_pipeline(step, grid=grid, in_specs=[spec] * 2, out_specs=[spec])(x, y, o)

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    made = pl.pallas_call(
        body, in_specs=[hbm] * 2, out_specs=hbm, out_shape=jax.ShapeDtypeStruct(shape, kind)
    )
    found = np.asarray(kpusim.pallas.run(made, "tile32")(x, x))
    run = kpusim.pallas.last_run()
    assert run is not None
    assert not run.hazards
    assert np.array_equal(found, x * 3)


def test_bounded_slices() -> None:
    """Blocks of a pipeline whose sizes are computed."""
    ends = [0, 5, 21, 22, 38]

    def step(place: Any, x: Any, o: Any) -> None:
        i = pl.program_id(0)
        rows = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
        o[...] = jnp.where(rows < place[i + 1] - place[i], x[...], 0).max(0, keepdims=True)

    def body(place: Any, x: Any, o: Any) -> None:
        rows = pl.BlockSpec(
            (pl.BoundedSlice(16), WIDTH), lambda i: (pl.ds(place[i], place[i + 1] - place[i]), 0)
        )
        one = pl.BlockSpec((1, WIDTH), lambda i: (i, 0))
        pipeline = pltpu.emit_pipeline(
            lambda x, o: step(place, x, o), grid=(4,), in_specs=[rows], out_specs=[one]
        )
        pipeline(x, o)

    found = np.asarray(call(lambda n, x, o, *_: body(n, x, o), shape=(4, WIDTH))(jnp.asarray(ends), X))
    parts = [
        np.maximum(X[first:last].max(0), 0 if last - first < 16 else -9)
        for first, last in itertools.pairwise(ends)
    ]
    assert np.array_equal(found, np.stack(parts))


def test_select_ref() -> None:
    """Refused by its name."""
    if not hasattr(pl, "select_ref"):
        pytest.skip("jax 0.9.2 has none")

    def body(n: Any, x: Any, o: Any, window: Any, sem: Any) -> None:
        pltpu.async_copy(pl.select_ref(n[0], x.at[:MOST], window), o.at[:MOST], sem).wait()

    with pytest.raises(UserError, match=r"`pl\.select_ref`; copy each in its own branch"):
        call(body)(jnp.zeros(1, jnp.int32), X)
