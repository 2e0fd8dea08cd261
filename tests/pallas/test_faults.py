"""Faults of a kernel are said with the Python line: unwritten memory, places outside, semaphores."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels.case import floats, integers
from kpusim import SimulationError, UserError
from kpusim.errors import HazardWarning

pytestmark = pytest.mark.device

X = floats(8, 128)
RAGGED = floats(20, 128)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))
ANY = pl.BlockSpec(memory_space=pl.ANY)
F32 = jax.ShapeDtypeStruct((8, 128), jnp.float32)
DMA = pltpu.SemaphoreType.DMA


def line_with(function: Callable[..., Any], text: str) -> str:
    """``test_faults.py:12``: where a text stands in a function."""
    lines, first = inspect.getsourcelines(function)
    return f"test_faults.py:{first + next(i for i, line in enumerate(lines) if text in line)}"


def call(body: Callable[..., None], out: Any = F32, **options: Any) -> Callable[..., Any]:
    """Return the function that calls a kernel."""
    return lambda *operands: pl.pallas_call(body, out_shape=out, **options)(*operands)


def hazards(function: Callable[..., Any], *operands: Any) -> list[str]:
    """Return what a run warns of; the same in both modes, and counted."""
    found = []
    for mode in ("values+timing", "functional"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HazardWarning)
            kpusim.pallas.run(function, mode=mode)(*operands)  # type: ignore[arg-type]
        run = kpusim.pallas.last_run()
        assert run is not None
        found.append([hazard.message for hazard in run.hazards])
        assert bool(found[-1]) == any(issubclass(one.category, HazardWarning) for one in caught)
        assert run.stats.get("hazards.kernel", 0) == sum(hazard.count for hazard in run.hazards)
    assert found[0] == found[1]
    return found[0]


# ---- memory that nobody wrote


def scratch_read(x: Any, o: Any, memory: Any) -> None:
    """Half of it was written; times 0 is no value either."""
    memory[:4] = x[:4]
    o[...] = memory[...] * 0


def scratch_reduced(x: Any, o: Any, memory: Any) -> None:
    """The maximum is of all of it."""
    memory[:4] = x[:4]
    o[...] = x[...] + jnp.max(memory[...])


def scratch_selected(x: Any, o: Any, memory: Any) -> None:
    """The half that was written."""
    memory[:4] = x[:4]
    row = lax.broadcasted_iota(jnp.int32, (8, 128), 0)
    o[...] = jnp.where(row < 4, memory[...], x[...])


def scratch_branch(x: Any, o: Any, memory: Any) -> None:
    """Nobody wrote the condition."""
    o[...] = x[...]

    @pl.when(memory[0, 0] > 0)
    def _() -> None:
        o[...] = x[...] * 2


def scratch_index(x: Any, o: Any, memory: Any) -> None:
    """Nobody wrote the place."""
    o[...] = x[...]
    o[pl.ds(memory[0], 1)] = x[:1]


def output_in_part(x: Any, o: Any) -> None:
    """Half of each block."""
    o[:4] = x[:4]


def ragged_sum(x: Any, o: Any) -> None:
    """Sum a last block that is half outside."""
    o[...] = jnp.broadcast_to(jnp.sum(x[...]), o.shape)


def ragged_masked_sum(x: Any, o: Any) -> None:
    """Sum without what is outside."""
    row = lax.broadcasted_iota(jnp.int32, (8, 128), 0) + pl.program_id(0) * 8
    o[...] = jnp.broadcast_to(jnp.sum(jnp.where(row < 20, x[...], 0)), o.shape)


def ragged_rows(x: Any, o: Any) -> None:
    """Rows outside depend on themselves only, and are cut."""
    o[...] = x[...] - jnp.max(x[...], axis=1, keepdims=True)


def masked_without_other(x: Any, o: Any) -> None:
    """Nothing says what stands where the mask is false."""
    o[...] = pltpu.load(x, mask=x[...] > 0)


def masked_with_other(x: Any, o: Any) -> None:
    """Something does."""
    above = x[...] > 0
    o[...] = jnp.where(above, pltpu.load(x, mask=above), 0)


VMEM = {"scratch_shapes": [pltpu.VMEM((8, 128), jnp.float32)]}
SMEM = {"scratch_shapes": [pltpu.SMEM((4,), jnp.int32)]}
GRID: dict[str, Any] = {"grid": (3,), "in_specs": [BLOCK], "out_specs": BLOCK}


@pytest.mark.parametrize(
    ("body", "read", "options"),
    [
        (scratch_read, "memory[...]", VMEM),
        (scratch_reduced, "memory[...]", VMEM),
        (scratch_selected, "", VMEM),
        (scratch_branch, "memory[0, 0]", VMEM),
        (scratch_index, "memory[0]", SMEM),
        (ragged_sum, "x[...]", {**GRID, "out": jax.ShapeDtypeStruct((24, 128), jnp.float32)}),
        (ragged_masked_sum, "", {**GRID, "out": jax.ShapeDtypeStruct((24, 128), jnp.float32)}),
        (ragged_rows, "", {**GRID, "out": jax.ShapeDtypeStruct((20, 128), jnp.float32)}),
        (masked_without_other, "pltpu.load", {}),
        (masked_with_other, "", {}),
    ],
)
def test_unwritten(body: Callable[..., None], read: str, options: dict[str, Any]) -> None:
    """Reported where it reaches what is written back, a branch or a place; not where it is left out."""
    found = hazards(call(body, **options), RAGGED if "grid" in options else X)
    if not read:
        assert not found
        return
    assert len(found) == 1
    assert line_with(body, read) in found[0]
    assert "nobody wrote" in found[0]
    what = "decides" if body in (scratch_branch, scratch_index) else "writes back"
    assert what in found[0]


def test_output_that_is_not_written() -> None:
    """At each step: the slot still holds an earlier block, which is not this one's."""
    found = hazards(
        call(output_in_part, **GRID, out=jax.ShapeDtypeStruct((24, 128), jnp.float32)), floats(24, 128)
    )
    assert len(found) == 1
    assert "nobody wrote" in found[0]
    run = kpusim.pallas.last_run()
    assert run is not None
    assert run.stats["hazards.kernel"] == 3


def test_memory_of_a_scope_is_new_each_time() -> None:
    """Memory of a scope has nothing that an earlier trip left there."""

    def body(x: Any, o: Any) -> None:
        @pl.loop(0, 2)
        def _(step: Any) -> None:
            def scope(memory: Any) -> None:
                @pl.when(step == 0)
                def _() -> None:
                    memory[...] = x[...]

                o[...] = memory[...]  # the second time unwritten

            pl.run_scoped(scope, pltpu.VMEM((8, 128), jnp.float32))

    found = hazards(call(body), X)
    assert len(found) == 1
    assert line_with(body, "the second time unwritten") in found[0]
    assert np.array_equal(np.asarray(kpusim.pallas.run(call(body), mode="functional")(X)), np.zeros((8, 128)))


# ---- faults


def failing(function: Callable[..., Any], *operands: Any) -> str:
    """Return what a run that fails says, in both modes."""
    texts = []
    for mode in ("values+timing", "functional"):
        with pytest.raises(SimulationError, match="Fix: ") as error:
            kpusim.pallas.run(function, mode=mode)(*operands)  # type: ignore[arg-type]
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    return texts[0]


def far_row(rows: Any, x: Any, o: Any) -> None:
    """A store."""
    o[...] = x[...]
    o[pl.ds(rows[0], 4)] = x[:4]


def far_copy(rows: Any, x: Any, o: Any) -> None:
    """A copy."""
    pltpu.sync_copy(x.at[pl.ds(rows[0], 8)], o)


def far_load(rows: Any, x: Any, o: Any) -> None:
    """A load."""
    o[...] = jnp.broadcast_to(x[rows[0]], (8, 128))


@pytest.mark.parametrize(
    ("body", "text", "space"),
    [(far_row, "pl.ds(rows[0], 4)", None), (far_copy, "sync_copy", ANY), (far_load, "x[rows[0]]", None)],
)
def test_places_outside(body: Callable[..., None], text: str, space: Any) -> None:
    """Places outside of a ref are known when the kernel runs only."""
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), space or pl.BlockSpec((8, 128), lambda: (0, 0))]
    message = failing(call(body, in_specs=specs), np.array([9], np.int32), X)
    assert line_with(body, text) in message
    assert "is outside of the buffer's shape" in message


def signals(x: Any, o: Any, semaphore: Any) -> None:
    """One more than is awaited."""
    o[...] = x[...]
    pl.semaphore_signal(semaphore, 2)
    pl.semaphore_wait(semaphore, 1)


def waits(x: Any, o: Any, semaphore: Any) -> None:
    """For one more than was signalled."""
    o[...] = x[...]
    pl.semaphore_signal(semaphore, 1)
    pl.semaphore_wait(semaphore, 2)


def test_semaphores() -> None:
    """Not 0 at the end; never as large as what is waited for."""
    regular = {"scratch_shapes": [pltpu.SemaphoreType.REGULAR]}
    message = failing(call(signals, **regular), X)
    assert line_with(signals, "semaphore_signal") in message
    assert "is 1 at the end of the kernel" in message
    message = failing(call(waits, **regular), X)
    assert line_with(waits, "semaphore_wait") in message
    assert line_with(waits, "semaphore_signal") in message
    assert "deadlock" in message


def touches_hbm(x: Any, o: Any) -> None:
    """Without a copy."""
    o[...] = x[...]


def scratch_in_hbm(x: Any, o: Any, memory: Any) -> None:
    """There is none."""
    pltpu.sync_copy(x, memory)
    pltpu.sync_copy(memory, o)


def copies_bits(x: Any, o: Any) -> None:
    """Copy the same bits."""
    pltpu.sync_copy(x.bitcast(jnp.int32), o)


def test_refused_by_name() -> None:
    """Operations that the device lacks are refused before anything runs."""
    hbm = {"in_specs": [ANY], "out_specs": ANY, "scratch_shapes": [pltpu.HBM((8, 128), jnp.float32)]}
    ints = jax.ShapeDtypeStruct((8, 128), jnp.int32)
    for function, body, text, fix in (
        (
            call(touches_hbm, in_specs=[ANY]),
            touches_hbm,
            "x[...]",
            "cannot be referenced directly",
        ),
        (call(copies_bits, ints, in_specs=[ANY]), copies_bits, "bitcast", "slice the refs only"),
        (call(scratch_in_hbm, **hbm), call, "pallas_call", "scratch in HBM"),
    ):
        with pytest.raises(UserError, match="Fix: ") as error:
            kpusim.pallas.run(function)(X)
        assert line_with(body, text) in str(error.value)
        assert fix in str(error.value)


# ---- masks and conditions


def test_masks_cost_what_they_let_through() -> None:
    """A few words of a window, instead of all."""

    def body(x: Any, mask: Any, o: Any) -> None:
        keep = mask[...] > 0
        o[...] = jnp.zeros_like(o)
        pltpu.store(o, jnp.where(keep, pltpu.load(x, mask=keep), 0), mask=keep)

    moved, cycles = {}, {}
    for name, some in {"none": 0, "few": 8, "all": 1024}.items():
        mask = (np.arange(1024).reshape(8, 128) < some).astype(np.int32)
        result = kpusim.pallas.run(call(body))(X, mask)
        assert np.array_equal(np.asarray(result), np.where(mask, X, 0))
        run = kpusim.pallas.last_run()
        assert run is not None
        assert not run.hazards
        cycles[name] = run.cycles
        moved[name] = run.stats["units.e0_l1.busy.useful"]
    assert cycles["none"] < cycles["few"] < cycles["all"]
    assert moved["none"] < moved["all"]


def test_masks_outside_are_not_accessed() -> None:
    """Only what is true has to be inside."""

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        lane = lax.broadcasted_iota(jnp.int32, (8, 128), 0)
        rows = pltpu.load(x.at[pl.ds(4 + pl.program_id(0), 8)], mask=lane < 4)
        o[...] = jnp.where(lane < 4, rows, 0)

    expected = np.zeros((8, 128), np.float32)
    expected[:4] = X[4:]
    assert np.array_equal(np.asarray(kpusim.pallas.run(call(body, grid=(1,)))(X)), expected)


def test_while_that_reads_what_its_body_changes() -> None:
    """The condition is evaluated anew each time."""

    def body(x: Any, o: Any, count: Any) -> None:
        o[...] = x[...]
        count[0] = 0

        def step(total: Any) -> Any:
            count[0] = count[0] + 1
            o[...] = o[...] + 1
            return total + count[0]

        count[1] = lax.while_loop(lambda _: count[0] < 5, step, jnp.int32(0))
        o[...] = o[...] + count[1]

    ints = integers(8, 128)
    out = jax.ShapeDtypeStruct((8, 128), jnp.int32)
    smem = {"scratch_shapes": [pltpu.SMEM((2,), jnp.int32)]}
    for mode in ("values+timing", "functional"):
        result = kpusim.pallas.run(call(body, out, **smem), mode=mode)(ints)  # type: ignore[arg-type]
        assert np.array_equal(np.asarray(result), ints + 5 + 15)


# ---- outputs and blocks


def doubled(x: Any, o: Any) -> None:
    """Double each block."""
    o[...] = x[...] * 2


def half(x: Any, o: Any) -> None:
    """Write half of an output that is no block."""
    pltpu.sync_copy(x.at[pl.ds(0, 16)], o.at[pl.ds(0, 16)])


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (call(doubled, RAGGED_OUT := jax.ShapeDtypeStruct((20, 128), jnp.float32), grid=(2,),
              in_specs=[BLOCK], out_specs=BLOCK), "the block of `out` where its index map says"),
        (call(half, RAGGED_OUT, in_specs=[ANY], out_specs=ANY), "(half)"),
    ],
    ids=["blocks", "rows"],
)  # fmt: skip
def test_outputs_that_are_left(function: Callable[..., Any], line: str) -> None:
    """Elements that no step writes are told, with the first of them."""
    (message,) = hazards(function, RAGGED)
    assert line in message
    assert "does not write all of output `a_out`: element 2048 is the first that nobody wrote" in message


def test_all_of_an_output() -> None:
    """Three blocks of 8 rows cover 20."""
    function = call(doubled, RAGGED_OUT, grid=(3,), in_specs=[BLOCK], out_specs=BLOCK)
    assert not hazards(function, RAGGED)


def test_a_block_outside() -> None:
    """It has the line of its index map, and its operand."""
    beyond = pl.BlockSpec((8, 128), lambda i: (i + 3, 0))
    function = call(doubled, RAGGED_OUT, grid=(3,), in_specs=[beyond], out_specs=BLOCK)
    with pytest.raises(
        SimulationError, match=r"the block of `\w+` where its index map says.*index 24 of dim"
    ):
        kpusim.pallas.run(function)(RAGGED)


def test_blocks_beyond_l1() -> None:
    """The largest buffers are named, with the line of the call."""
    x = floats(1024, 512)
    function = call(doubled, jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(
        UserError, match=r"test_faults\.py:\d+ \(<lambda>\): workgroup memory .* `w_\w+` 2097152"
    ):
        kpusim.pallas.run(function)(x)
