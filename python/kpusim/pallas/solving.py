"""Triangular systems and Cholesky's factors in the exported form: a loop over rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from kpusim.pallas.body import Atom, Equation
from kpusim.pallas.handlers import handles

Array = Any


@handles("triangular_solve")
def triangular_solve(equation: Equation) -> Sequence[Atom]:
    """Return the x of a x = b or x a = b, of which one triangle of a counts."""
    return equation.inlined(lambda a, b: solved(equation.params, a, b))


def solved(params: Any, a: Array, b: Array) -> Array:
    """Transposed and turned around until a is lower and on the left."""
    lower, right = params["lower"], not params["left_side"]
    if right:
        b = jnp.swapaxes(b, -1, -2)
    if params["transpose_a"] != right:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    if not lower:
        a, b = lax.rev(a, (a.ndim - 2, a.ndim - 1)), lax.rev(b, (b.ndim - 2,))
    x = by_rows(a, b, params["unit_diagonal"])
    if not lower:
        x = lax.rev(x, (x.ndim - 2,))
    return jnp.swapaxes(x, -1, -2) if right else x


def by_rows(a: Array, b: Array, unit_diagonal: bool) -> Array:
    """Solve each row from those above it."""
    size = a.shape[-1]
    places = lax.iota(jnp.int32, size)

    def step(i: Array, x: Array) -> Array:
        row = lax.dynamic_slice_in_dim(a, i, 1, -2)
        known = jnp.matmul(jnp.where(places < i, row, 0), x)
        value = lax.dynamic_slice_in_dim(b, i, 1, -2) - known
        if not unit_diagonal:
            value = value / lax.dynamic_slice_in_dim(row, i, 1, -1)
        return lax.dynamic_update_slice_in_dim(x, value, i, -2)

    return lax.fori_loop(0, size, step, jnp.zeros_like(b))


@handles("cholesky")
def cholesky(equation: Equation) -> Sequence[Atom]:
    """Return the lower factor; NaN where there is none."""
    return equation.inlined(factor)


def factor(a: Array) -> Array:
    """Factor each column from those left of it."""
    size = a.shape[-1]
    places = lax.iota(jnp.int32, size)[:, None]

    def step(i: Array, found: Array) -> Array:
        row = lax.dynamic_slice_in_dim(found, i, 1, -2)
        known = jnp.matmul(found, jnp.swapaxes(row, -1, -2))
        column = lax.dynamic_slice_in_dim(a, i, 1, -1) - known
        pivot = jnp.sqrt(lax.dynamic_slice_in_dim(column, i, 1, -2))
        column = jnp.where(places >= i, column / pivot, 0)
        return lax.dynamic_update_slice_in_dim(found, column, i, -1)

    found = lax.fori_loop(0, size, step, jnp.zeros_like(a))
    return jnp.where(jnp.isfinite(found).all((-2, -1), keepdims=True), found, jnp.nan)
