"""Convolutions, pooling and reductions by functions in the exported form: slices, products, halves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation, Refused
from kpusim.pallas.handlers import handles, ints

Array = Any
Several = Sequence[Array]
#: Function of accumulated values and others; operands that belong together are combined at once.
Combine = Callable[[Several, Several], Several]
#: Reductions of windows, and what stands around the operand.
POOLS: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Any], Any]]] = {
    "reduce_window_sum": (lax.add, lambda dtype: 0),
    "reduce_window_max": (lax.max, jx.least),
    "reduce_window_min": (lax.min, jx.greatest),
}


@handles(*jx.WRITTEN)
def written(equation: Equation) -> Sequence[Atom]:
    """Export what jax itself writes with others where a platform has no such operation."""
    function = jx.WRITTEN[equation.source.primitive.name]
    return equation.inlined(lambda *operands: [function(*operands, **equation.params)])


@handles("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def pool(equation: Equation) -> Sequence[Atom]:
    """Windows by one operation."""
    operation, edge = POOLS[equation.source.primitive.name]
    value = edge(equation.dtype(0))

    def combine(left: Several, right: Several) -> Several:
        return [operation(left[0], right[0])]

    return equation.inlined(
        lambda x: windowed(equation.params, combine, [x], [jnp.full((), value, x.dtype)])[0]
    )


@handles("reduce_window")
def pool_by_function(equation: Equation) -> Sequence[Atom]:
    """Windows of one or several operands by a function, which has to be associative."""
    combine = each_by(equation, equation.params["consts"])
    count = len(equation.source.outvars)

    def of_inside(left: Several, right: Several) -> Several:
        both = combine(left[:-1], right[:-1])
        found = [
            jnp.where(left[-1], jnp.where(right[-1], *some), other)
            for *some, other in zip(both, left[:-1], right[:-1], strict=True)
        ]
        return [*found, left[-1] | right[-1]]

    def pooled(*arrays: Array) -> Several:
        # what is added around the operands is left out, and not combined as the first value once more
        inside = jnp.ones(arrays[0].shape, jnp.bool_)
        edges = [*arrays[count:], jnp.zeros((), jnp.bool_)]
        *found, some = windowed(equation.params, of_inside, [*arrays[:count], inside], edges)
        first = [jnp.broadcast_to(value, some.shape) for value in arrays[count:]]
        whole = combine(first, found)
        return [jnp.where(some, *pair) for pair in zip(whole, first, strict=True)]

    return equation.inlined(pooled)


def windowed(params: Any, combine: Combine, arrays: Several, edges: Several) -> Several:
    """Reduce one dimension after another; the first counts fastest, as in windows of XLA on a host."""
    dilations = ints(params["base_dilation"])
    around = [(*pair, step - 1) for pair, step in zip(params["padding"], dilations, strict=True)]
    arrays = [lax.pad(array, edge, around) for array, edge in zip(arrays, edges, strict=True)]
    for axis, size in enumerate(ints(params["window_dimensions"])):
        step, stride = int(params["window_dilation"][axis]), int(params["window_strides"][axis])
        room = arrays[0].shape[axis] - (size - 1) * step
        taps = [
            [lax.slice_in_dim(array, tap * step, tap * step + room, stride, axis) for array in arrays]
            for tap in range(size)
        ]
        arrays = taps[0]
        for tap in taps[1:]:
            arrays = combine(arrays, tap)
    return arrays


@handles("reduce")
def reduce_by_function(equation: Equation) -> Sequence[Atom]:
    """Fewer dimensions by a function of one or several operands, which has to be associative."""
    combine, count = each_by(equation, ()), len(equation.source.outvars)

    def reduced(*arrays: Array) -> Several:
        found = folded(combine, arrays[:count], ints(equation.params["dimensions"]))
        return combine([jnp.broadcast_to(first, found[0].shape) for first in arrays[count:]], found)

    if 0 in equation.shape(0):
        raise Refused("`reduce` of no elements")
    return equation.inlined(reduced)


@handles("reduce_xor")
def reduce_xor(equation: Equation) -> Sequence[Atom]:
    """Fewer dimensions by `xor`."""
    if 0 in equation.shape(0):
        raise Refused("`reduce_xor` of no elements")
    axes = ints(equation.params["axes"])
    return equation.inlined(lambda x: folded(lambda a, b: [lax.bitwise_xor(a[0], b[0])], [x], axes)[0])


def each_by(equation: Equation, constants: Sequence[Any]) -> Combine:
    """Return the function of scalars that an equation has, on every element."""
    function = jx.function_of(equation.params["jaxpr"], constants)

    def combine(left: Several, right: Several) -> Several:
        shape = left[0].shape
        found = jax.vmap(function)(*(array.reshape(-1) for array in (*left, *right)))
        return [array.reshape(shape) for array in found]

    return combine


def folded(combine: Combine, arrays: Several, axes: Sequence[int]) -> Several:
    """Neighbours are combined until one is left, so that their order stays."""
    for axis in sorted(axes, reverse=True):
        while (size := arrays[0].shape[axis]) > 1:
            even = size // 2 * 2
            pairs = combine(
                [lax.slice_in_dim(array, 0, even, 2, axis) for array in arrays],
                [lax.slice_in_dim(array, 1, even, 2, axis) for array in arrays],
            )
            rest = [lax.slice_in_dim(array, even, size, 1, axis) for array in arrays]
            arrays = [lax.concatenate(both, axis) for both in zip(pairs, rest, strict=True)]
        arrays = [lax.squeeze(array, (axis,)) for array in arrays]
    return arrays


@handles("select_and_gather_add")
def select_and_gather_add(equation: Equation) -> Sequence[Atom]:
    """Return the tangent of pooling: of each window that of the chosen element."""

    def combine(left: Several, right: Several) -> Several:
        keep = equation.params["select_prim"].bind(left[0], right[0])
        return [jnp.where(keep, *pair) for pair in zip(left, right, strict=True)]

    def gathered(tangents: Array, x: Array) -> Array:
        edges = [edge_of(equation.params, x), jnp.zeros((), tangents.dtype)]
        return windowed(equation.params, combine, [x, tangents], edges)[1]

    return equation.inlined(gathered)


def edge_of(params: Any, x: Array) -> Array:
    """Return what is never chosen, unless there is nothing else."""
    edge = (jx.least if params["select_prim"] is lax.ge_p else jx.greatest)(x.dtype)
    return jnp.full((), edge, x.dtype)


@handles("select_and_scatter_add")
def select_and_scatter_add(equation: Equation) -> Sequence[Atom]:
    """The gradient of pooling: each element of the first operand goes where its window has the chosen one."""
    return equation.inlined(lambda source, x: scattered_to_chosen(equation.params, source, x))


def scattered_to_chosen(params: Any, source: Array, x: Array) -> Array:
    """The first of equals is chosen."""
    around = [(*pair, 0) for pair in params["padding"]]
    padded = lax.pad(x, edge_of(params, x), around)
    strides = ints(params["window_strides"])
    taps = list(itertools.product(*(range(size) for size in ints(params["window_dimensions"]))))
    spans = [(count - 1) * stride + 1 for count, stride in zip(source.shape, strides, strict=True)]

    best = chosen = None
    for number, tap in enumerate(taps):
        ends = [first + span for first, span in zip(tap, spans, strict=True)]
        value = lax.slice(padded, tap, ends, strides)
        if best is None:
            best, chosen = value, jnp.zeros(source.shape, jnp.int32)
            continue
        keep = params["select_prim"].bind(best, value)
        best, chosen = jnp.where(keep, best, value), jnp.where(keep, chosen, number)

    nothing = jnp.zeros((), source.dtype)
    total = jnp.zeros(padded.shape, source.dtype)
    for number, tap in enumerate(taps):
        room = [
            (first, whole - first - span, stride - 1)
            for first, whole, span, stride in zip(tap, padded.shape, spans, strides, strict=True)
        ]
        total += lax.pad(jnp.where(chosen == number, source, nothing), nothing, room)
    return lax.pad(total, nothing, [(-low, -high, 0) for low, high, _ in around])


@handles("conv_general_dilated")
def convolution(equation: Equation) -> Sequence[Atom]:
    """Export one product: what each place of the kernel meets stands side by side."""
    return equation.inlined(lambda lhs, rhs: convolved(equation.params, lhs, rhs))


def convolved(params: Any, lhs: Array, rhs: Array) -> Array:
    """Convolve with groups of channels or of the batch, which are batches of the product."""
    numbers = params["dimension_numbers"]
    lhs_spec, rhs_spec, out_spec = (
        ints(spec) for spec in (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)
    )
    lhs = lhs.transpose(lhs_spec[0], *lhs_spec[2:], lhs_spec[1])  # batch, places, channels
    rhs = rhs.transpose(*rhs_spec[2:], rhs_spec[1], rhs_spec[0])  # places, channels in, channels out
    rank = lhs.ndim - 2
    dilations, strides = ints(params["rhs_dilation"]), ints(params["window_strides"])
    spread = [
        (*pair, step - 1) for pair, step in zip(params["padding"], ints(params["lhs_dilation"]), strict=True)
    ]
    lhs = lax.pad(lhs, jnp.zeros((), lhs.dtype), [(0, 0, 0), *spread, (0, 0, 0)])
    of_channels, of_batch = int(params["feature_group_count"]), int(params["batch_group_count"])
    groups, batch = of_channels * of_batch, lhs.shape[0] // of_batch
    deep, wide = rhs.shape[-2], rhs.shape[-1] // groups

    sizes = rhs.shape[:-2]
    room = [
        lhs.shape[1 + axis] - (size - 1) * dilation
        for axis, (size, dilation) in enumerate(zip(sizes, dilations, strict=True))
    ]
    parts = []
    for tap in itertools.product(*(range(size) for size in sizes)):
        start = [place * dilation for place, dilation in zip(tap, dilations, strict=True)]
        limit = [first + count for first, count in zip(start, room, strict=True)]
        part = lax.slice(lhs, (0, *start, 0), (lhs.shape[0], *limit, lhs.shape[-1]), (1, *strides, 1))
        places = part.shape[1:-1]
        if groups > 1:  # the group first, whichever of both it is of
            part = part.reshape(of_batch, batch, *places, of_channels, deep)
            parts.append(jnp.moveaxis(part, -2, 1).reshape(groups, -1, deep))
        else:
            parts.append(part.reshape(-1, deep))
    patches = lax.concatenate(parts, parts[0].ndim - 1)
    kind = params["preferred_element_type"]
    if groups > 1:
        weights = rhs.reshape(-1, groups, wide).transpose(1, 0, 2)
        product = lax.dot_general(patches, weights, (((2,), (1,)), ((0,), (0,))), preferred_element_type=kind)
        product = product.transpose(1, 0, 2)
    else:
        product = lax.dot(patches, rhs.reshape(-1, wide), preferred_element_type=kind)
    product = product.reshape(batch, *places, groups * wide)
    order = [0] * (rank + 2)
    for position, axis in enumerate([out_spec[0], *out_spec[2:], out_spec[1]]):
        order[axis] = position
    return product.transpose(order)
