"""Statements that primitives on values become in the exported form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation, Json, Refused, literal
from kpusim.pallas.handlers import handles, ints

#: Primitives that have the same name, and no parameter that changes values.
ELEMENTWISE = """
    add sub mul div rem max min pow atan2 nextafter and or xor not shift_left shift_right_arithmetic
    shift_right_logical eq ne lt le gt ge neg sign abs sqrt rsqrt cbrt sin cos tan tanh exp exp2 expm1
    log log1p logistic asin acos atan sinh cosh asinh acosh atanh erf erfc erf_inv lgamma is_finite
    population_count clz floor ceil select_n convert_element_type bitcast_convert_type bitcast
    dynamic_slice dynamic_update_slice
""".split()

#: Least bits of the elements of some of them.
WIDER = {"nextafter": 16, "population_count": 8, "clz": 8}


@handles(*ELEMENTWISE)
def plain(equation: Equation) -> Sequence[Atom]:
    """Return the same operation here."""
    name = equation.source.primitive.name
    if equation.params.get("accuracy") is not None:
        raise Refused(f"`{name}` with a chosen accuracy")
    if name in WIDER and jx.bits_of(equation.dtype(0)) < WIDER[name]:
        raise Refused(f"`{name}` of {equation.dtype(0).name}; convert to a wider type")
    return equation.emit(jx.PRIMITIVES[equation.source.primitive], equation.atoms)


@handles("add_any")
def add_any(equation: Equation) -> Sequence[Atom]:
    """Sum of two values in a transposed computation."""
    return equation.emit("add", equation.atoms)


@handles("stop_gradient", "copy", "optimization_barrier", "multiple_of", "add_dependency", "name")
def same(equation: Equation) -> Sequence[Atom]:
    """Return a hint: its results are its operands."""
    return equation.atoms[: len(equation.source.outvars)]


@handles("empty", "empty2")
def empty(equation: Equation) -> Sequence[Atom]:
    """Any values at all, as before a scan that writes each: zeros, as on a host."""
    var = equation.source.outvars[0]
    zero = literal(0, var.aval.dtype)
    return equation.emit("broadcast_in_dim", [zero], dims=[]) if var.aval.shape else [zero]


@handles("platform_index")
def platform_index(equation: Equation) -> Sequence[Atom]:
    """Choose the branch of the platform: that of a host, whose values are ours."""
    names = equation.params["platforms"]
    found = next(i for i, some in enumerate(names) if some is None or "cpu" in some)
    return [literal(found, np.dtype(np.int32))]


@handles("eq_to", "le_to", "lt_to")
def total_order(equation: Equation) -> Sequence[Atom]:
    """Comparison of floats by sign and bits: -NaN, -inf .. -0, 0 .. inf, NaN."""
    op = equation.source.primitive.name.removesuffix("_to")
    return equation.emit(op, [ordered(equation, i) for i in range(2)])


def ordered(equation: Equation, operand: int) -> Atom:
    """A whole number in the place of a float: bits, below those of positive ones where the sign is set."""
    atom, dtype = equation.atoms[operand], np.dtype(equation.dtype(operand))
    if jx.is_whole(dtype) or dtype == np.bool_:
        return atom
    whole = np.dtype(f"int{8 * dtype.itemsize}")
    kind = [(equation.shape(operand), whole)]
    bits = equation.emit("bitcast_convert_type", [atom], kind)[0]
    sign = equation.emit("shift_right_arithmetic", [bits, literal(8 * dtype.itemsize - 1, whole)], kind)
    mask = equation.emit("shift_right_logical", [*sign, literal(1, whole)], kind)
    return equation.emit("xor", [bits, *mask], kind)[0]


@handles("pack_elementwise")
def pack_elementwise(equation: Equation) -> Sequence[Atom]:
    """Narrow elements of several arrays in one, the first in the lowest bits."""
    shape = equation.shape(0)
    packed, bits, unsigned = packing(equation, equation.dtype(0))
    whole = np.dtype(f"uint{bits}")
    change = "convert_element_type" if jx.is_whole(packed) else "bitcast_convert_type"
    parts: list[Atom] = []
    for number, atom in enumerate(equation.atoms):
        narrow = equation.emit("convert_element_type", [atom], [(shape, packed)])
        if packed != whole:
            narrow = equation.emit(change, narrow, [(shape, whole)])
        wide = equation.emit("convert_element_type", narrow, [(shape, unsigned)])
        parts += equation.emit("shift_left", [*wide, literal(number * bits, unsigned)], [(shape, unsigned)])
    while len(parts) > 1:
        parts = [*equation.emit("or", parts[:2], [(shape, unsigned)]), *parts[2:]]
    return parts


@handles("unpack_elementwise")
def unpack_elementwise(equation: Equation) -> Sequence[Atom]:
    """Widen one of the arrays that were packed."""
    packed, bits, unsigned = packing(equation, equation.params["unpacked_dtype"])
    shape, atoms = equation.shape(0), equation.atoms
    if equation.dtype(0) != unsigned:
        atoms = equation.emit("convert_element_type", atoms, [(shape, unsigned)])
    place = literal(int(equation.params["index"]) * bits, unsigned)
    moved = equation.emit("shift_right_logical", [*atoms, place], [(shape, unsigned)])
    narrow = equation.emit("convert_element_type", moved, [(shape, np.dtype(f"uint{bits}"))])
    change = "convert_element_type" if jx.is_whole(packed) else "bitcast_convert_type"
    return equation.emit("convert_element_type", equation.emit(change, narrow, [(shape, packed)]))


def packing(equation: Equation, unpacked: Any) -> tuple[Any, int, Any]:
    """Return the narrow type, its bits, and the type of what holds several."""
    packed = np.dtype(equation.params["packed_dtype"])
    jx.element_type(packed)
    return packed, jx.bits_of(packed), np.dtype(f"uint{8 * np.dtype(unpacked).itemsize}")


@handles("square")
def square(equation: Equation) -> Sequence[Atom]:
    """x * x."""
    return equation.emit("mul", equation.atoms * 2)


@handles("integer_pow")
def integer_pow(equation: Equation) -> Sequence[Atom]:
    """Return a power with a constant exponent."""
    return equation.emit("integer_pow", equation.atoms, y=int(equation.params["y"]))


@handles("clamp")
def clamp(equation: Equation) -> Sequence[Atom]:
    """min(max(x, low), high)."""
    low, value, high = equation.atoms
    return equation.emit("min", [*equation.emit("max", [value, low]), high])


@handles("reciprocal")
def reciprocal(equation: Equation) -> Sequence[Atom]:
    """1 / x; the approximate one is computed on x rounded to bf16, as jax's interpreter does."""
    if not equation.params["approx"]:
        return equation.emit("div", [literal(1, equation.dtype(0)), *equation.atoms])
    import ml_dtypes

    narrow = [(equation.shape(0), np.dtype(ml_dtypes.bfloat16))]
    rounded = equation.emit("convert_element_type", equation.atoms, narrow)
    inverse = equation.emit("div", [literal(1, narrow[0][1]), *rounded], narrow)
    return equation.emit("convert_element_type", inverse)


@handles("round")
def rounded(equation: Equation) -> Sequence[Atom]:
    """Halves away from zero, or to even."""
    even = int(equation.params["rounding_method"]) == 1
    return equation.emit("round", equation.atoms, even=even)


@handles("reduce_precision")
def reduce_precision(equation: Equation) -> Sequence[Atom]:
    """Rounding to a narrower float, kept in its type."""
    params = equation.params
    return equation.emit(
        "reduce_precision",
        equation.atoms,
        exponent_bits=int(params["exponent_bits"]),
        mantissa_bits=int(params["mantissa_bits"]),
    )


@handles("iota")
def iota(equation: Equation) -> Sequence[Atom]:
    """Counting along a dimension."""
    return equation.emit("iota", [], dimension=int(equation.params["dimension"]))


@handles("broadcast_to")
def broadcast_to(equation: Equation) -> Sequence[Atom]:
    """Return the same, the dimensions that there are being the last ones."""
    rank, own = len(equation.params["shape"]), len(equation.shape(0))
    return equation.emit("broadcast_in_dim", equation.atoms, dims=list(range(rank - own, rank)))


@handles("broadcast_in_dim")
def broadcast_in_dim(equation: Equation) -> Sequence[Atom]:
    """Repeating along new or single dimensions."""
    return equation.emit(
        "broadcast_in_dim", equation.atoms[:1], dims=ints(equation.params["broadcast_dimensions"])
    )


@handles("reshape")
def reshape(equation: Equation) -> Sequence[Atom]:
    """Return another shape, row-major; of dimensions in another order if one is given."""
    atoms, order = equation.atoms[:1], equation.params.get("dimensions")
    if order is not None:
        turned = [equation.shape(0)[axis] for axis in order]
        atoms = equation.emit("transpose", atoms, [(turned, equation.dtype(0))], permutation=ints(order))
    return equation.emit("reshape", atoms)


@handles("squeeze")
def squeeze(equation: Equation) -> Sequence[Atom]:
    """Fewer dimensions of size 1: a reshape."""
    return equation.emit("reshape", equation.atoms)


@handles("transpose")
def transpose(equation: Equation) -> Sequence[Atom]:
    """Dimensions in another order."""
    return equation.emit("transpose", equation.atoms, permutation=ints(equation.params["permutation"]))


@handles("concatenate")
def concatenate(equation: Equation) -> Sequence[Atom]:
    """Join the operands one after another."""
    return equation.emit("concatenate", equation.atoms, dimension=int(equation.params["dimension"]))


@handles("stack")
def stack(equation: Equation) -> Sequence[Atom]:
    """Join along a new dimension: reshaped, then concatenated."""
    axis = int(equation.params["axis"])
    shape = list(equation.shape(0))
    shape.insert(axis, 1)
    parts = [equation.emit("reshape", [atom], [(shape, equation.dtype(0))])[0] for atom in equation.atoms]
    return equation.emit("concatenate", parts, dimension=axis)


@handles("pad")
def pad(equation: Equation) -> Sequence[Atom]:
    """Return the elements around and between; negative ones cut."""
    low, high, interior = zip(*equation.params["padding_config"], strict=True)
    return equation.emit("pad", equation.atoms, low=ints(low), high=ints(high), interior=ints(interior))


@handles("rev")
def rev(equation: Equation) -> Sequence[Atom]:
    """Dimensions backwards."""
    return equation.emit("rev", equation.atoms, dims=ints(equation.params["dimensions"]))


@handles("slice")
def static_slice(equation: Equation) -> Sequence[Atom]:
    """Return a part, at places that are known."""
    params = equation.params
    start, limit = ints(params["start_indices"]), ints(params["limit_indices"])
    stride = ints(params["strides"] or [1] * len(start))
    return equation.emit("slice", equation.atoms, start=start, limit=limit, stride=stride)


@handles("split", "unstack")
def split(equation: Equation) -> Sequence[Atom]:
    """Several slices; without their dimension for unstack."""
    shape, axis = equation.shape(0), int(equation.params["axis"])
    sizes = equation.params.get("sizes", (1,) * shape[axis])
    found: list[Atom] = []
    begin = 0
    for size, var in zip(ints(sizes), equation.source.outvars, strict=True):
        start, limit = [0] * len(shape), list(shape)
        start[axis], limit[axis] = begin, begin + size
        part_shape = [end - first for first, end in zip(start, limit, strict=True)]
        part = equation.emit(
            "slice",
            equation.atoms,
            [(part_shape, var.aval.dtype)],
            start=start,
            limit=limit,
            stride=[1] * len(shape),
        )
        if tuple(part_shape) != tuple(var.aval.shape):
            part = equation.emit("reshape", part, [(var.aval.shape, var.aval.dtype)])
        found += part
        begin += size
    return found


@handles("tile")
def tile(equation: Equation) -> Sequence[Atom]:
    """Repeated along each dimension: broadcast, then reshaped."""
    shape, dtype = equation.shape(0), equation.dtype(0)
    reps = equation.params["reps"]
    wide = [size for pair in zip(reps, shape, strict=True) for size in pair]
    dims = list(range(1, len(wide), 2))
    return equation.emit(
        "reshape", equation.emit("broadcast_in_dim", equation.atoms, [(wide, dtype)], dims=dims)
    )


@handles("gather")
def gather(equation: Equation) -> Sequence[Atom]:
    """Slices at places that values name."""
    params = equation.params
    numbers = params["dimension_numbers"]
    modes = {
        jx.GatherScatterMode.FILL_OR_DROP: "fill",
        jx.GatherScatterMode.CLIP: "clip",
        jx.GatherScatterMode.PROMISE_IN_BOUNDS: "clip",
    }
    mode = modes.get(jx.GatherScatterMode.from_any(params["mode"]))
    if mode is None:
        raise Refused(f"`gather` with mode {params['mode']}")
    more: Json = {"fill": fill_of(params["fill_value"], equation.dtype(0))} if mode == "fill" else {}
    names = (
        "offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims"
    )
    more |= {name: ints(getattr(numbers, name)) for name in names.split()}
    return equation.emit("gather", equation.atoms, slice_sizes=ints(params["slice_sizes"]), mode=mode, **more)


def fill_of(value: Any, dtype: Any) -> Atom:
    """Return what a gather gives outside: by default NaN, the least signed or the largest unsigned number."""
    if value is not None:
        return literal(value, dtype)
    if dtype == np.bool_:
        return literal(True, dtype)
    if jx.is_whole(dtype):
        limits = jnp.iinfo(dtype)
        return literal(limits.min or limits.max, dtype)
    return literal(math.nan, dtype)


@handles("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")
def reduce(equation: Equation) -> Sequence[Atom]:
    """Fewer dimensions."""
    return equation.emit(equation.source.primitive.name, equation.atoms, axes=ints(equation.params["axes"]))


@handles("argmax", "argmin")
def arg_reduce(equation: Equation) -> Sequence[Atom]:
    """Find where the largest or least stands, the first of equals."""
    (axis,) = equation.params["axes"]
    return equation.emit(equation.source.primitive.name, equation.atoms, axis=int(axis))


@handles("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def cumulative(equation: Equation) -> Sequence[Atom]:
    """Running results along an axis."""
    params = equation.params
    return equation.emit(
        equation.source.primitive.name,
        equation.atoms,
        axis=int(params["axis"]),
        reverse=bool(params["reverse"]),
    )


@handles("sort")
def sort(equation: Equation) -> Sequence[Atom]:
    """Several operands by the first ones, stable."""
    params = equation.params
    return equation.emit(
        "sort", equation.atoms, dimension=int(params["dimension"]), keys=int(params["num_keys"])
    )


@handles("top_k")
def top_k(equation: Equation) -> Sequence[Atom]:
    """Return the largest of the last axis, with their places."""
    shape, rank, k = list(equation.shape(0)), len(equation.shape(0)), int(equation.params["k"])
    axis = int(equation.params.get("axis", -1)) % rank
    if axis == rank - 1:
        return equation.emit("top_k", equation.atoms, k=k)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]  # there and back
    turned = [shape[i] for i in order]
    last = equation.emit("transpose", equation.atoms, [(turned, equation.dtype(0))], permutation=order)
    turned[-1] = k
    kinds = [(turned, var.aval.dtype) for var in equation.source.outvars]
    shape[axis] = k
    return [
        equation.emit("transpose", [atom], [(shape, kind[1])], permutation=order)[0]
        for atom, kind in zip(equation.emit("top_k", last, kinds, k=k), kinds, strict=True)
    ]


@handles("dot_general")
def dot_general(equation: Equation) -> Sequence[Atom]:
    """Products summed over dimensions; of a whole number and a float, that takes the type of the result."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = equation.params["dimension_numbers"]
    atoms, out = list(equation.atoms), equation.source.outvars[0].aval.dtype
    whole = [jx.is_whole(equation.dtype(i)) for i in range(2)]
    if whole[0] != whole[1]:
        i = whole.index(True)
        (atoms[i],) = equation.emit("convert_element_type", [atoms[i]], [(equation.shape(i), out)])
    return equation.emit(
        "dot_general",
        atoms,
        lhs_contract=ints(lhs_contract),
        rhs_contract=ints(rhs_contract),
        lhs_batch=ints(lhs_batch),
        rhs_batch=ints(rhs_batch),
    )


@handles("program_id", "num_programs")
def program_id(equation: Equation) -> Sequence[Atom]:
    """Return the place in the grid, or how large it is."""
    axis = equation.body.axes[int(equation.params["axis"])]
    return equation.emit(equation.source.primitive.name, [], axis=axis)


@handles("axis_index")
def axis_index(equation: Equation) -> Sequence[Atom]:
    """Return the place along an axis of the grid that has a name, as those of a mesh of cores have."""
    name, names = equation.params["axis_name"], equation.body.names
    if name not in names:
        raise Refused(f"`axis_index` of {name}, which is not an axis of the grid")
    return equation.emit("program_id", [], axis=equation.body.axes[names.index(name)])


@handles("roll")
def roll(equation: Equation) -> Sequence[Atom]:
    """Around an axis; with a stride each row further than the one before."""
    params = equation.params
    more: Json = {}
    if params["stride"] is not None:
        more = {"stride": int(params["stride"]), "stride_axis": int(params["stride_axis"])}
    return equation.emit("roll", equation.atoms, axis=int(params["axis"]), **more)


@handles("debug_print", "debug_callback", "delay", "trace_value")
def dropped(equation: Equation) -> Sequence[Atom]:
    """Export nothing: the caller is told."""
    equation.body.notes.dropped.setdefault(equation.source.primitive.name, equation.place)
    return []


@handles("check")
def check(equation: Equation) -> Sequence[Atom]:
    """`pl.debug_check`: where jax has it check nothing, it is not there at all."""
    if not equation.params["debug"]:
        raise Refused("`checkify.check`; take pl.debug_check")
    return dropped(equation) if jx.checks_are_on() else []
