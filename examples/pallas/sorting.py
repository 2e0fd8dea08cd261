"""Sorting networks: rows in one block, and an array that is larger than L1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

Array = Any


def sorted_keys(x: Array) -> Array:
    """Return whole numbers in the order of the keys: -0 is 0, and any NaN comes last."""
    if x.dtype == jnp.int32:
        return x
    bits = lax.bitcast_convert_type(x, jnp.int32)
    bits = jnp.where(x == 0, 0, bits)
    ordered = jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return jnp.where(x != x, jnp.int32(0x7FFFFFFF), ordered)


def bitonic_network(keys: Array, places: Array, width: int) -> tuple[Array, Array]:
    """Sort rows by keys, equal ones by their places: compare and exchange with lane XOR distance."""
    lane = lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    for size in (2 << stage for stage in range((width - 1).bit_length())):
        distance = size // 2
        while distance:
            other = lane ^ distance
            their_keys = jnp.take_along_axis(keys, other, axis=1, mode="promise_in_bounds")
            their_places = jnp.take_along_axis(places, other, axis=1, mode="promise_in_bounds")
            after = (keys > their_keys) | ((keys == their_keys) & (places > their_places))
            first = (lane & distance) == 0
            ascending = (lane & size) == 0
            keep = (after ^ first) == ascending
            keys = jnp.where(keep, keys, their_keys)
            places = jnp.where(keep, places, their_places)
            distance //= 2
    return keys, places


def bitonic_sort(x: Array, interpret: Any = False, rows: int = 8) -> tuple[Array, Array]:
    """Return each row sorted, stable, with the places that its elements came from."""
    width = x.shape[1]

    def kernel(x_ref: Any, values_ref: Any, places_ref: Any) -> None:
        values = x_ref[...]
        places = lax.broadcasted_iota(jnp.int32, values.shape, 1)
        _, places = bitonic_network(sorted_keys(values), places, width)
        values_ref[...] = jnp.take_along_axis(values, places, axis=1, mode="promise_in_bounds")
        places_ref[...] = places

    spec = pl.BlockSpec((rows, width), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // rows,),
        in_specs=[spec],
        out_specs=[spec, spec],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape, jnp.int32)],
        interpret=interpret,
    )(x)


def argsort(x: Array, interpret: Any = False) -> Array:
    """Return where the elements of each sorted row came from."""
    return bitonic_sort(x, interpret)[1]


def exchange(keys: Array, distance: int, ascending: Array) -> Array:
    """Keys of each row in order with those at a distance; `ascending` by row and group of 2 * distance."""
    pairs = keys.reshape(len(keys), -1, 2, distance)
    one, other = pairs[:, :, 0], pairs[:, :, 1]
    low, high = jnp.minimum(one, other), jnp.maximum(one, other)
    either = [jnp.where(ascending, low, high), jnp.where(ascending, high, low)]
    return jnp.stack(either, axis=2).reshape(keys.shape)


def merged(keys: Array, ascending: Array) -> Array:
    """Return the rows that are bitonic in order."""
    distance = keys.shape[1] // 2
    while distance:
        keys = exchange(keys, distance, ascending)
        distance //= 2
    return keys


def in_order(keys: Array, ascending: Array) -> Array:
    """Any rows in order."""
    size = 2
    while size < keys.shape[1]:
        distance = size // 2
        while distance:
            group = lax.broadcasted_iota(jnp.int32, (1, keys.shape[1] // (2 * distance), 1), 1)
            keys = exchange(keys, distance, (group * (2 * distance) & size) == 0)
            distance //= 2
        size *= 2
    return merged(keys, ascending)


def as_bits(keys: Array, dtype: Any) -> Array:
    """Return the same bits under another type."""
    return keys if keys.dtype == dtype else lax.bitcast_convert_type(keys, dtype)


def of_keys(keys: Array, dtype: Any) -> Array:
    """Return what `sorted_keys` was made of."""
    if dtype == jnp.int32:
        return keys
    return lax.bitcast_convert_type(jnp.where(keys < 0, keys ^ 0x7FFFFFFF, keys), dtype)


def large_sort(x: Array, interpret: Any = False, rows: int = 32) -> Array:
    """Return all elements sorted, in row-major order; both numbers of rows are powers of 2.

    The array stays in HBM. Blocks come two at a time into L1, the next two while these are compared: first
    each is sorted, then blocks that are far apart are compared element by element, then each is merged.
    """
    shape, dtype, blocks = (rows, x.shape[1]), x.dtype, x.shape[0] // rows

    def kernel(x_ref: Any, o_ref: Any, into: Any, out: Any, arrived: Any, left: Any) -> None:
        def sweep(source: Any, pair: Callable[[Any], Any], work: Callable[..., Any]) -> None:
            """Every pair of blocks by way of one of two slots; ends when all of it is back in HBM."""

            def load(step: Any, slot: Any, part: int) -> Any:
                at = pl.ds(pair(step)[part] * rows, rows)
                return pltpu.make_async_copy(source.at[at], into.at[slot, part], arrived.at[slot, part])

            def store(step: Any, slot: Any, part: int) -> Any:
                at = pl.ds(pair(step)[part] * rows, rows)
                return pltpu.make_async_copy(out.at[slot, part], o_ref.at[at], left.at[slot, part])

            steps = blocks // 2
            for part in (0, 1):
                load(0, 0, part).start()

            @pl.loop(0, steps)
            def _(step: Any) -> None:
                slot = lax.rem(step, 2)
                for part in (0, 1):

                    @pl.when(step + 1 < steps)
                    def _(part: int = part) -> None:
                        load(step + 1, 1 - slot, part).start()

                    load(step, slot, part).wait()

                    @pl.when(step >= 2)
                    def _(part: int = part) -> None:
                        store(step - 2, slot, part).wait()

                out[slot] = work(pair(step)[0], into[slot].reshape(2, -1)).reshape(2, *shape)
                for part in (0, 1):
                    store(step, slot, part).start()

            for step in range(max(steps - 2, 0), steps):
                for part in (0, 1):
                    store(step, step % 2, part).wait()

        def sort_both(_: Any, values: Any) -> Any:
            first_of_two = lax.broadcasted_iota(jnp.int32, (2, 1, 1), 0) == 0
            return as_bits(in_order(sorted_keys(values), first_of_two), dtype)

        sweep(x_ref, lambda step: (2 * step, 2 * step + 1), sort_both)
        size = 2
        while size <= blocks:
            distance = size // 2
            while distance:

                def apart(step: Any, distance: int = distance) -> Any:
                    first = step // distance * (2 * distance) + step % distance
                    return first, first + distance

                def compare(place: Any, values: Any, size: int = size) -> Any:
                    keys = as_bits(values, jnp.int32)
                    found = exchange(keys.reshape(1, -1), keys.shape[1], (place & size) == 0)
                    return as_bits(found.reshape(keys.shape), dtype)

                sweep(o_ref, apart, compare)
                distance //= 2

            def merge(place: Any, values: Any, size: int = size) -> Any:
                found = merged(as_bits(values, jnp.int32), (place & size) == 0)
                return of_keys(found, dtype) if size == blocks else as_bits(found, dtype)

            sweep(o_ref, lambda step: (2 * step, 2 * step + 1), merge)
            size *= 2

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    slots, semaphores = pltpu.VMEM((2, 2, *shape), dtype), pltpu.SemaphoreType.DMA((2, 2))
    return pl.pallas_call(
        kernel,
        in_specs=[hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct(x.shape, dtype),
        scratch_shapes=[slots, slots, semaphores, semaphores],
        interpret=interpret,
    )(x)
