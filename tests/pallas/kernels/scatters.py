"""Values with parts replaced, by jax's ``at`` and by scatters with any dimension numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from kernels.case import floats, integers, kernel, shape

X = floats(8, 128)
N = integers(8, 128)
ROWS = np.array([3, 0, 3, 7, -1, 9], np.int32)


@kernel("at_known_places", [X], shape(8, 128))
def known(x: Any, o: Any) -> None:
    y = x[...].at[0].set(1.5).at[:, 3].add(1.0)
    o[...] = y.at[2:4, 5:9].multiply(2.0).at[-1, -1].min(-9.0)


@kernel("at_rows", [N, ROWS], [shape(8, 128, dtype=jnp.int32)] * 4)
def rows(x: Any, i: Any, first: Any, second: Any, third: Any, fourth: Any) -> None:
    """Some twice, one counted from the end, one outside."""
    first[...] = x[...].at[i[...]].add(lax.broadcasted_iota(jnp.int32, (6, 128), 0))
    second[...] = x[...].at[i[...]].set(7)
    third[...] = x[...].at[i[...]].max(0, mode="clip")
    fourth[...] = x[...].at[i[...]].multiply(-3, mode="drop")


@kernel("at_elements", [N, ROWS[:3], np.array([100, 127, 5], np.int32)], shape(8, 128, dtype=jnp.int32))
def elements(x: Any, i: Any, j: Any, o: Any) -> None:
    o[...] = x[...].at[i[...], j[...]].set(jnp.arange(3, dtype=jnp.int32)).at[i[0], 1].add(5)


@kernel("at_columns_of_rows", [N, ROWS[:2]], shape(8, 128, dtype=jnp.int32))
def columns(x: Any, i: Any, o: Any) -> None:
    o[...] = x[...].at[i[...], 16:20].subtract(1000)


@kernel("put_along_axis", [N, integers(8, 4, low=0, high=128)], shape(8, 128, dtype=jnp.int32))
def along(x: Any, places: Any, o: Any) -> None:
    """Batch dimensions."""
    o[...] = jnp.put_along_axis(x[...], places[...], jnp.int32(-1), axis=1, inplace=False)


@kernel(
    "scatter_windows",
    [N, np.array([[1, 3], [6, 126], [-2, 0]], np.int32)],
    [shape(8, 128, dtype=jnp.int32)] * 2,
)
def windows(x: Any, places: Any, clipped: Any, dropped: Any) -> None:
    """Scatter windows of (3, 2) elements, in another order of dimensions."""
    numbers = lax.ScatterDimensionNumbers((0, 1), (), (1, 0))
    updates = jnp.arange(18, dtype=jnp.int32).reshape(3, 2, 3)
    for o, mode in ((clipped, "clip"), (dropped, "fill")):
        o[...] = lax.scatter(x[...], places[...][:, ::-1], updates, numbers, mode=mode)


@kernel("touched", [X], shape(8, 128), how={"check": lambda x: x})
def touched(x: Any, o: Any) -> None:
    """jax's interpreters have no rule for it."""
    o[...] = x[...]
    pltpu.touch(o)
