"""Copies run under compute: n steps of copies that take c and work that takes k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

pytestmark = pytest.mark.device

STEPS = 16
ROWS = 32
#: Rows of a block that are used and how often they are multiplied by themselves, so that work takes from a
#: fraction to several times the copy.
Work = tuple[int, int]
WORK = ((1, 0), (8, 0), (16, 0), (24, 0), (32, 0), (32, 1), (32, 2), (32, 4), (32, 8), (32, 16), (32, 40))
Call = Callable[[Any], Any]


def worked(block: Any, work: Work) -> Any:
    """Something that takes as long as is wished."""
    rows, times = work
    values = block[:rows]
    return lax.fori_loop(0, times, lambda _, value: value * value + 0.5, values).sum(axis=0, keepdims=True)


def blocked(steps: int, work: Work, buffers: int) -> Call:
    """Blocks that the grid brings; one small output."""

    def kernel(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += worked(x, work)

    return lambda x: pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
    )(x)


def explicit(steps: int, work: Work, buffers: int) -> Call:
    """Return the same by copies that the kernel starts and awaits itself."""

    def kernel(x: Any, o: Any, slots: Any, arrived: Any) -> None:
        def load(step: Any) -> Any:
            slot = lax.rem(step, buffers)
            rows = x.at[pl.ds(step * ROWS, ROWS)]
            return pltpu.make_async_copy(rows, slots.at[slot], arrived.at[slot])

        def start_next(step: Any) -> None:
            @pl.when(step + 1 < steps)
            def _() -> None:
                load(step + 1).start()

        o[...] = jnp.zeros_like(o)
        load(0).start()
        load(0).wait()  # with all the bandwidth, before the second one starts

        @pl.loop(0, steps)
        def _(step: Any) -> None:
            if buffers > 1:
                start_next(step)

            @pl.when(step > 0)
            def _() -> None:
                load(step).wait()

            o[...] += worked(slots.at[lax.rem(step, buffers)], work)
            if buffers == 1:
                start_next(step)

    return lambda x: pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((1, 128), lambda: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
        scratch_shapes=[pltpu.VMEM((buffers, ROWS, 128), jnp.float32), pltpu.SemaphoreType.DMA((buffers,))],
    )(x)


@dataclass(frozen=True)
class Time:
    """Cycles of a call: all, those in which the vector unit worked, those in which it waited for copies."""

    total: int
    busy: int
    stalled: int


def measured(call: Call, steps: int) -> Time:
    """One run."""
    x = np.linspace(0, 0.5, steps * ROWS * 128, dtype=np.float32).reshape(steps * ROWS, 128)
    kpusim.pallas.run(call, platform="tile32")(x)
    run = kpusim.pallas.last_run()
    assert run is not None
    assert not run.hazards

    def cycles(state: str) -> int:
        prefix = f"units.e0_vpu0.{state}."
        return sum(int(count) for name, count in run.stats.items() if name.startswith(prefix))

    return Time(run.cycles, cycles("busy"), cycles("stalled"))


@pytest.mark.parametrize("make", [blocked, explicit])
def test_overlap(make: Callable[[int, Work, int], Call]) -> None:
    """c is the wait that a further step costs; what a call of one step waits beyond it is for the result."""
    one, more = measured(make(1, (32, 0), 1), 1).stalled, measured(make(9, (32, 0), 1), 9).stalled
    copy = (more - one) / 8
    ratios = []
    for work in WORK:
        for buffers in (1, 2):
            found = measured(make(STEPS, work, buffers), STEPS)
            k = found.busy / STEPS
            alone, together = STEPS * (copy + k), copy + (STEPS - 1) * max(copy, k) + k
            expected = (alone if buffers == 1 else together) + one - copy
            assert abs(found.total - expected) <= 0.05 * expected, (work, buffers, copy, k, found, expected)
        ratios.append(copy / k)
    assert max(ratios) > 2
    assert min(ratios) < 0.1
