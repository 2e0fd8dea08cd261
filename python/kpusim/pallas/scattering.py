"""Scatters in the exported form: a window is taken out, combined and put back, one after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation
from kpusim.pallas.handlers import handles

Array = Any
#: Combinations of the old elements of a window and the updates.
COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "scatter": lambda old, new: new,
    "scatter-add": lambda old, new: old + new,
    "scatter-sub": lambda old, new: old - new,
    "scatter-mul": lambda old, new: old * new,
    "scatter-min": jnp.minimum,
    "scatter-max": jnp.maximum,
}


@handles(*COMBINE)
def scatter(equation: Equation) -> Sequence[Atom]:
    """Updates of windows at places that values name."""
    combine = COMBINE[equation.source.primitive.name]
    return equation.inlined(lambda *arrays: scattered(equation.params, combine, *arrays))


def scattered(
    params: Any, combine: Callable[[Array, Array], Array], x: Array, places: Array, updates: Array
) -> Array:
    """Scatter in order, so that of equal places the last one stays."""
    numbers, rank = params["dimension_numbers"], x.ndim
    dropped = (
        *numbers.inserted_window_dims,
        *numbers.operand_batching_dims,
    )  # of the windows, whose size is 1
    window_dims = numbers.update_window_dims
    batch_dims = [dim for dim in range(updates.ndim) if dim not in window_dims]
    batch = [updates.shape[dim] for dim in batch_dims]
    count = math.prod(batch)
    window = iter(updates.shape[dim] for dim in window_dims)
    sizes = [1 if dim in dropped else next(window) for dim in range(rank)]
    rows = updates.transpose(*batch_dims, *window_dims).reshape(count, *sizes)

    # starts of each window: what the indices say, the place in the batch, or 0
    starts = [jnp.zeros((count,), jnp.int32)] * rank
    for position, dim in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[dim] = places[..., position].reshape(count).astype(jnp.int32)
    for dim, of_batch in zip(
        numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
    ):
        starts[dim] = lax.broadcasted_iota(jnp.int32, batch, of_batch).reshape(count)
    room = [whole - size for whole, size in zip(x.shape, sizes, strict=True)]
    inside = jnp.ones((count,), jnp.bool_)
    if jx.GatherScatterMode.from_any(params["mode"]) == jx.GatherScatterMode.FILL_OR_DROP:
        for start, most in zip(starts, room, strict=True):
            inside &= (start >= 0) & (start <= most)
    starts = [jnp.clip(start, 0, most) for start, most in zip(starts, room, strict=True)]

    def put(number: Array, whole: Array) -> Array:
        at = [lax.dynamic_index_in_dim(start, number, keepdims=False) for start in starts]
        old = lax.dynamic_slice(whole, at, sizes)
        new = combine(old, lax.dynamic_index_in_dim(rows, number, keepdims=False))
        keep = lax.dynamic_index_in_dim(inside, number, keepdims=False)
        return lax.dynamic_update_slice(whole, jnp.where(keep, new, old), at)

    return put(0, x) if count == 1 else lax.fori_loop(0, count, put, x)
