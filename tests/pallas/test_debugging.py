"""A debugger stops at lines of the Python file that a kernel stands in."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax.experimental import pallas as pl
from kernels.case import floats

pytestmark = pytest.mark.device

X = floats(32, 128)


def body(x: Any, o: Any) -> None:
    """A step of the grid."""
    part = x[...]
    highest = jnp.max(part, axis=1, keepdims=True)
    power = jnp.exp(part - highest)
    o[...] = power / jnp.sum(power, axis=1, keepdims=True)


def softmax(x: Any) -> Any:
    """Four steps."""
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, grid=(4,), in_specs=[block], out_specs=block, out_shape=out)(x)


def line_with(text: str) -> int:
    """Return the line of the body with this text."""
    lines, first = inspect.getsourcelines(body)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("mode", ["values+timing", "functional"])
def test_lines(mode: kpusim.Mode) -> None:
    """Each step of the grid stops once, with its values; the run is the same as without."""
    program = kpusim.pallas.export(softmax, jax.ShapeDtypeStruct(X.shape, X.dtype))
    simulation = kpusim.Simulation(program, "tile32", mode=mode)
    simulation.set_inputs({"x": X})
    alone = simulation.run()
    stop = f"test_debugging.py:{line_with('highest = ')}"
    verbs = [f"break line {stop}", *["continue", "print v2[0, 0..128]", "step 2"] * 4, "continue"]
    answers = simulation.debug(verbs)
    assert answers[0] == f"1: line {stop}"
    for step in range(4):
        where, part = answers[1 + 3 * step : 3 + 3 * step]
        assert f"{stop} (body), kernel `body_0`" in where
        shown = np.array(part.split(" = ")[1].split(), np.float32)
        assert np.array_equal(shown, X[8 * step])
    assert answers[-1] == f"the program is finished at cycle {alone.cycles}"
    assert np.array_equal(simulation.read("out"), alone.outputs["out"])


def test_a_line_without_statements() -> None:
    """It says where there are some."""
    program = kpusim.pallas.export(softmax, jax.ShapeDtypeStruct(X.shape, X.dtype))
    simulation = kpusim.Simulation(program, "tile32")
    simulation.set_inputs({"x": X})
    [answer] = simulation.debug(["break line test_debugging.py:1"])
    assert answer.startswith(
        "error: no statement of a kernel is at test_debugging.py:1. Fix: there are some at "
    )
    assert f"test_debugging.py:{line_with('part = ')} to " in answer
