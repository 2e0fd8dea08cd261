"""Operations on values in NumPy, with the rules that jax has on a host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

Json = dict[str, Any]


def is_float(x: Any) -> bool:
    """Return whether it is a float of any width; those of ml_dtypes are no NumPy types."""
    return "float" in x.dtype.name


def whole_bits(dtype: Any) -> int:
    """Bits of a whole number; 0 of anything else."""
    digits = re.fullmatch(r"u?int(\d+)", dtype.name)
    return int(digits[1]) if digits else 0


def limits_of(dtype: Any) -> tuple[int, int]:
    """Return the least and the greatest whole number."""
    bits = whole_bits(dtype)
    return (0, (1 << bits) - 1) if dtype.name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def flushed(x: Any) -> Any:
    """Subnormal f32 numbers as zeros of their sign."""
    if x.dtype != np.float32:
        return x
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Computed in binary64 and rounded once."""

    def operation(form: Json, kind: Json, *values: Any) -> Any:
        del form, kind
        dtype = values[0].dtype
        found = function(*(flushed(value).astype(np.float64) for value in values))
        if dtype.name.startswith("float8"):
            found = np.asarray(found).astype(np.float16)
        return flushed(np.asarray(found).astype(np.float32 if dtype == np.float32 else dtype))

    return operation


def simple(function: Callable[..., Any]) -> Callable[..., Any]:
    """In the type of the operands, subnormals flushed."""

    def operation(form: Json, kind: Json, *values: Any) -> Any:
        del form, kind
        return flushed(np.asarray(function(*map(flushed, values))))

    return operation


def divided(x: Any, y: Any) -> Any:
    """Return whole numbers toward zero; by zero all ones."""
    if is_float(x):
        return x / y
    x, y = np.broadcast_arrays(x, y)
    safe = np.where(y == 0, 1, y).astype(np.int64)
    left = x.astype(np.int64)
    found = np.sign(left) * np.sign(safe) * (np.abs(left) // np.abs(safe))
    return np.where(y == 0, -1, found).astype(x.dtype)


def remainder(x: Any, y: Any) -> Any:
    """With the sign of the dividend; by zero the dividend."""
    if is_float(x):
        return np.fmod(x, y)
    x, y = np.broadcast_arrays(x, y)
    left, safe = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
    return np.where(y == 0, left, np.fmod(left, safe)).astype(x.dtype)


def shifted(kind: str) -> Callable[..., Any]:
    """Shifts; an amount beyond the width, as an unsigned number, leaves nothing, or the sign."""

    def function(x: Any, amount: Any) -> Any:
        bits = whole_bits(x.dtype)
        below = (1 << bits) - 1
        count = np.asarray(amount).astype(np.int64) & below
        inside = np.minimum(count, bits - 1)
        value = x.astype(np.int64) & below
        if kind == "arithmetic":
            signed = value - ((value >> bits - 1) << bits)
            return (signed >> inside).astype(x.dtype)
        moved = value << inside if kind == "left" else value >> inside
        return np.where(count >= bits, 0, moved & below).astype(x.dtype)

    return function


def largest(x: Any, y: Any) -> Any:
    """NaN if either is; +0 above -0."""
    if not is_float(x):
        return np.maximum(x, y)
    return np.where((x == y) & (x == 0), x + y, np.maximum(x, y)).astype(x.dtype)


def least(x: Any, y: Any) -> Any:
    """NaN if either is; -0 below +0."""
    if not is_float(x):
        return np.minimum(x, y)
    return np.where((x == y) & (x == 0), -(-x - y), np.minimum(x, y)).astype(x.dtype)


def rounded(form: Json, kind: Json, x: Any) -> Any:
    """Halves to even, or away from zero."""
    del kind
    if form["even"]:
        return np.rint(x)
    whole = np.trunc(x)
    far = np.abs(x.astype(np.float64) - whole) >= 0.5
    return np.copysign(np.where(far, np.abs(whole) + 1, np.abs(whole)), x).astype(x.dtype)


def reduced_precision(form: Json, kind: Json, x: Any) -> Any:
    """bf16's numbers only: others are not used here."""
    import ml_dtypes

    del kind
    assert (form["exponent_bits"], form["mantissa_bits"]) == (8, 7)
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def integer_power(form: Json, kind: Json, x: Any) -> Any:
    """Return a product of equal factors."""
    del kind
    y = form["y"]
    if not is_float(x):
        return np.power(x, y)
    return flushed((flushed(x).astype(np.float64) ** y).astype(np.float32))


def converted(form: Json, kind: Json, x: Any) -> Any:
    """Saturated from floats to whole numbers, NaN to 0."""
    from numpy_reference import TYPES

    del form
    target = np.dtype(TYPES[kind["type"]])
    if target == np.bool_:
        return flushed(x) != 0
    if is_float(x) and whole_bits(target):
        number = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
        return np.clip(np.trunc(number), *limits_of(target)).astype(np.int64).astype(target)
    if x.dtype.name not in ("bool", "float32") and target.itemsize == 1:
        x = x.astype(np.float32 if is_float(x) else np.int64)  # some pairs of ml_dtypes have no conversion
    return flushed(x).astype(target)


def bit_counts(x: Any) -> Any:
    """Bits that are set."""
    return np.bitwise_count(x.view(np.dtype(f"u{x.dtype.itemsize}"))).astype(x.dtype)


def leading_zeros(x: Any) -> Any:
    """Zeros above the highest bit that is set."""
    bits = whole_bits(x.dtype)
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.float64)
    return np.where(unsigned == 0, bits, bits - 1 - np.floor(np.log2(np.maximum(unsigned, 1)))).astype(
        x.dtype
    )


def selected(form: Json, kind: Json, which: Any, *cases: Any) -> Any:
    """Return one of several values for each element."""
    del form, kind
    return np.choose(np.broadcast_to(which, cases[0].shape).astype(np.int64), cases)


def broadcast(form: Json, kind: Json, x: Any) -> Any:
    """Repeated."""
    shape = [1] * len(kind["shape"])
    for dim, size in zip(form["dims"], x.shape, strict=True):
        shape[dim] = size
    return np.broadcast_to(x.reshape(shape), kind["shape"])


def iota(form: Json, kind: Json) -> Any:
    """Counting."""
    shape = [1] * len(kind["shape"])
    shape[form["dimension"]] = -1
    return np.broadcast_to(np.arange(kind["shape"][form["dimension"]]).reshape(shape), kind["shape"])


def padded(form: Json, kind: Json, x: Any, value: Any) -> Any:
    """Around and between; negative ones cut."""
    low, high, inner = (np.array(form[key]) for key in ("low", "high", "interior"))
    inside = [(size - 1) * (between + 1) + 1 for size, between in zip(x.shape, inner, strict=True)]
    big = np.full([max(a, 0) + size + max(b, 0) for a, size, b in zip(low, inside, high, strict=True)], value)
    big[tuple(slice(max(a, 0), max(a, 0) + n, s + 1) for a, n, s in zip(low, inside, inner, strict=True))] = x
    return big[
        tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, big.shape, strict=True))
    ]


def dynamic_start(starts: Any, shape: Any, size: Any) -> Any:
    """Starts moved inside."""
    return [min(max(int(start), 0), n - m) for start, n, m in zip(starts, shape, size, strict=True)]


def dynamic_slice(form: Json, kind: Json, x: Any, *starts: Any) -> Any:
    """Return a part at places that are values."""
    del form
    first = dynamic_start(starts, x.shape, kind["shape"])
    return x[tuple(slice(a, a + n) for a, n in zip(first, kind["shape"], strict=True))]


def dynamic_update(form: Json, kind: Json, x: Any, part: Any, *starts: Any) -> Any:
    """With such a part replaced."""
    del form, kind
    found = x.copy()
    first = dynamic_start(starts, x.shape, part.shape)
    found[tuple(slice(a, a + n) for a, n in zip(first, part.shape, strict=True))] = part
    return found


def gathered(form: Json, kind: Json, x: Any, indices: Any) -> Any:
    """Slices at places that are values: each element of the result by its own index."""
    from numpy_reference import TYPES

    shape, sizes, offsets = kind["shape"], form["slice_sizes"], form["offset_dims"]
    batches = [dim for dim in range(len(shape)) if dim not in offsets]
    grid = np.indices(shape)
    batch = [grid[dim] for dim in batches]
    gone = form["collapsed_slice_dims"] + form["operand_batching_dims"]
    place = np.zeros((x.ndim, *shape), np.int64)
    inside = np.ones(shape, bool)
    for number, dim in enumerate(form["start_index_map"]):
        start = indices[(*batch, number)].astype(np.int64)
        limit = x.shape[dim] - sizes[dim]
        inside &= (start >= 0) & (start <= limit)
        place[dim] += np.clip(start, 0, limit)
    pairs = zip(form["operand_batching_dims"], form["start_indices_batching_dims"], strict=True)
    for dim, of_indices in pairs:
        place[dim] += batch[of_indices]
    for dim, out in zip((d for d in range(x.ndim) if d not in gone), offsets, strict=True):
        place[dim] += grid[out]
    found = x[tuple(place)]
    if form["mode"] == "clip":
        return found
    dtype = np.dtype(TYPES[form["fill"][0]])
    fill = np.frombuffer(int(form["fill"][1]).to_bytes(dtype.itemsize, "little"), dtype)[0]
    return np.where(inside, found, fill)


def reduced(name: str) -> Callable[..., Any]:
    """Fewer dimensions; sums of floats in binary64."""
    functions: dict[str, Any] = {
        "sum": np.sum,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
        "and": np.bitwise_and.reduce,
        "or": np.bitwise_or.reduce,
    }

    def operation(form: Json, kind: Json, x: Any) -> Any:
        del kind
        axes = tuple(form["axes"])
        if name in ("sum", "prod"):
            total = functions[name](x.astype(np.float64 if is_float(x) else np.int64), axis=axes)
            return np.asarray(total).astype(x.dtype)
        return functions[name](x, axis=axes)

    return operation


def arg_reduced(sign: int) -> Callable[..., Any]:
    """Return the first of the largest or least; the first NaN before all."""

    def operation(form: Json, kind: Json, x: Any) -> Any:
        del kind
        return (np.argmax if sign > 0 else np.argmin)(x, axis=form["axis"])

    return operation


def cumulated(function: Any) -> Callable[..., Any]:
    """Running results."""

    def operation(form: Json, kind: Json, x: Any) -> Any:
        del kind
        turned = np.flip(x, form["axis"]) if form["reverse"] else x
        between = x.dtype if is_float(x) else np.int64
        found = function.accumulate(turned, axis=form["axis"], dtype=between).astype(x.dtype)
        return np.flip(found, form["axis"]) if form["reverse"] else found

    return operation


def sort_key(x: Any) -> Any:
    """Return the numbers in order: -0 and subnormals are 0, any NaN is last."""
    if not is_float(x):
        return x.astype(np.int64)
    key = flushed(x).astype(np.float64) + 0.0
    return np.where(np.isnan(key), np.nan, key)


def sorted_values(form: Json, kind: Json, *values: Any) -> Any:
    """Return all operands in the order of the first ones."""
    del kind
    axis = form["dimension"]
    order = np.lexsort([sort_key(value) for value in reversed(values[: form["keys"]])], axis=axis)
    return [np.take_along_axis(value, order, axis=axis) for value in values]


def top(form: Json, kind: Json, x: Any) -> Any:
    """Return the largest by sign and bits, and where they stand; the first of equals."""
    del kind
    key = by_bits(x) if is_float(x) else x.astype(np.int64)
    order = np.argsort(-key, axis=-1, kind="stable")[..., : form["k"]]
    return [np.take_along_axis(x, order, axis=-1), order]


def by_bits(x: Any) -> Any:
    """Return whole numbers in the total order of floats: -NaN, -inf .. -0, 0 .. inf, NaN."""
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{x.dtype.itemsize}").min - bits - 1, bits)


def dot(form: Json, kind: Json, a: Any, b: Any) -> Any:
    """Products in binary64."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in a.shape]
    right = [next(letters) for _ in b.shape]
    pairs = zip(
        form["lhs_contract"] + form["lhs_batch"], form["rhs_contract"] + form["rhs_batch"], strict=True
    )
    for of_left, of_right in pairs:
        right[of_right] = left[of_left]
    out = [left[dim] for dim in form["lhs_batch"]]
    gone = set(out) | {left[dim] for dim in form["lhs_contract"]}
    out += [name for name in left if name not in gone] + [name for name in right if name not in gone]
    dtype = np.float64 if is_float(a) else np.int64
    del kind
    formula = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    return np.einsum(formula, a.astype(dtype), b.astype(dtype))


def rolled(form: Json, kind: Json, x: Any, shift: Any) -> Any:
    """Around an axis; rows further and further with a stride."""
    del kind
    if "stride" not in form:
        return np.roll(x, int(shift), form["axis"])
    rows = np.moveaxis(x, form["stride_axis"], 0)
    axis = form["axis"] - (form["axis"] > form["stride_axis"])
    turned = [np.roll(row, int(shift) + number * form["stride"], axis) for number, row in enumerate(rows)]
    return np.moveaxis(np.stack(turned), 0, form["stride_axis"])


def bitcast_rows(form: Json, kind: Json, x: Any) -> Any:
    """Return the same bytes; a narrower type has more rows."""
    from numpy_reference import TYPES

    del form
    dtype = np.dtype(TYPES[kind["type"]])
    bits, to = width(x.dtype), width(dtype)
    if to > bits:
        *outer, rows, columns = x.shape
        x = np.moveaxis(x.reshape(*outer, rows * bits // to, to // bits, columns), -2, -1)
    found = from_digits(digits(x), dtype)
    if to < bits:
        found = np.moveaxis(found.reshape(*x.shape, bits // to), -1, -2)
    return found.reshape(kind["shape"])


def same_bits(form: Json, kind: Json, x: Any) -> Any:
    """Return the same bits; parts of a wider element are a last dimension."""
    from numpy_reference import TYPES

    del form
    return from_digits(digits(x), np.dtype(TYPES[kind["type"]])).reshape(kind["shape"])


def width(dtype: Any) -> int:
    """Bits of an element."""
    return whole_bits(dtype) or 8 * int(dtype.itemsize)


def digits(x: Any) -> Any:
    """Pairs of bits of each element, the lowest first, all in one row."""
    whole = np.ascontiguousarray(x).view(np.uint8).reshape(x.size, x.dtype.itemsize)
    pairs = (whole[:, :, None] >> np.arange(0, 8, 2, dtype=np.uint8)) & 3
    return pairs.reshape(x.size, -1)[:, : width(x.dtype) // 2].reshape(-1)


def from_digits(pairs: Any, dtype: Any) -> Any:
    """Return the way back, in one row."""
    each = width(dtype) // 2
    whole = np.zeros((pairs.size // each, 4 * dtype.itemsize), np.uint8)
    whole[:, :each] = pairs.reshape(-1, each)
    parts = (whole.reshape(-1, 4) << np.arange(0, 8, 2, dtype=np.uint8)).sum(axis=1).astype(np.uint8)
    return parts.astype(dtype) if each < 4 else parts.view(dtype)


def by_element(function: Callable[[float], float]) -> Callable[..., Any]:
    """Functions that NumPy lacks."""
    return np.vectorize(function, otypes=[np.float64])


def inverse_error(y: float) -> float:
    """Return where erf is y, inside of (-1, 1); near 0 it is a line."""
    if abs(y) < 1e-8:
        return y * math.sqrt(math.pi) / 2
    return math.copysign(NormalDist().inv_cdf((1 - abs(y)) / 2) / math.sqrt(2), y)


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Bits as they are: copies, signs, comparisons of whole numbers."""
    return lambda form, kind, *values: function(*values)


def threefry(form: Json, kind: Json, *words: Any) -> Any:
    """Threefry-2x32-20 of Random123: words of a key, then of a counter."""
    del form
    mask = (1 << 32) - 1
    key = [np.asarray(word).astype(object) for word in words[:2]]
    key.append(key[0] ^ key[1] ^ 0x1BD11BDA)
    left, right = (np.broadcast_to(word, kind["shape"]).astype(object) for word in words[2:])
    left, right = (left + key[0]) & mask, (right + key[1]) & mask
    for step, amount in enumerate((13, 15, 26, 6, 17, 29, 16, 24) * 2 + (13, 15, 26, 6)):
        left = (left + right) & mask
        right = (right << amount & mask | right >> 32 - amount) ^ left
        if step % 4 == 3:
            injection = step // 4 + 1
            left = (left + key[injection % 3]) & mask
            right = (right + key[(injection + 1) % 3] + injection) & mask
    return [np.asarray(word).astype(np.uint32) for word in (left, right)]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": simple(np.add),
    "sub": simple(np.subtract),
    "mul": simple(np.multiply),
    "div": simple(divided),
    "rem": simple(remainder),
    "max": simple(largest),
    "min": simple(least),
    "pow": wide(np.power),
    "atan2": wide(np.arctan2),
    "nextafter": bare(np.nextafter),
    "and": bare(np.bitwise_and),
    "or": bare(np.bitwise_or),
    "xor": bare(np.bitwise_xor),
    "not": bare(np.bitwise_not),
    "shift_left": bare(shifted("left")),
    "shift_right_arithmetic": bare(shifted("arithmetic")),
    "shift_right_logical": bare(shifted("logical")),
    "population_count": bare(bit_counts),
    "clz": bare(leading_zeros),
    "neg": bare(np.negative),
    "abs": bare(np.abs),
    "sign": simple(lambda x: np.where(x == 0, x, np.sign(x))),
    "is_finite": bare(np.isfinite),
    "floor": simple(np.floor),
    "ceil": simple(np.ceil),
    "round": rounded,
    "reduce_precision": reduced_precision,
    "integer_pow": integer_power,
    "sqrt": wide(np.sqrt),
    "rsqrt": wide(lambda x: 1 / np.sqrt(x)),
    "cbrt": wide(np.cbrt),
    "logistic": wide(lambda x: 1 / (1 + np.exp(-x))),
    "erf": wide(by_element(math.erf)),
    "erfc": wide(by_element(math.erfc)),
    "erf_inv": wide(by_element(inverse_error)),
    "lgamma": wide(by_element(math.lgamma)),
    "convert_element_type": converted,
    "bitcast_convert_type": same_bits,
    "bitcast": bitcast_rows,
    "select_n": selected,
    "iota": iota,
    "broadcast_in_dim": broadcast,
    "reshape": lambda form, kind, x: x.reshape(kind["shape"]),
    "transpose": lambda form, kind, x: x.transpose(form["permutation"]),
    "concatenate": lambda form, kind, *xs: np.concatenate(xs, axis=form["dimension"]),
    "pad": padded,
    "rev": lambda form, kind, x: np.flip(x, form["dims"]),
    "slice": lambda form, kind, x: x[
        tuple(slice(a, b, s) for a, b, s in zip(form["start"], form["limit"], form["stride"], strict=True))
    ],
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update,
    "gather": gathered,
    "argmax": arg_reduced(1),
    "argmin": arg_reduced(-1),
    "cumsum": cumulated(np.add),
    "cumprod": cumulated(np.multiply),
    "cumlogsumexp": cumulated(np.logaddexp),
    "cummax": cumulated(np.maximum),
    "cummin": cumulated(np.minimum),
    "sort": sorted_values,
    "top_k": top,
    "dot_general": dot,
    "roll": rolled,
}
OPERATIONS["threefry2x32"] = threefry
OPERATIONS |= {"reduce_" + name: reduced(name) for name in ("sum", "max", "min", "prod", "and", "or")}
for name, function in {"eq": np.equal, "ne": np.not_equal, "lt": np.less}.items():
    OPERATIONS[name] = simple(function)
OPERATIONS |= {"le": simple(np.less_equal), "gt": simple(np.greater), "ge": simple(np.greater_equal)}
for name in "sin cos tan tanh exp exp2 expm1 log log1p sinh cosh".split():
    OPERATIONS[name] = wide(getattr(np, name))
for name in "asin acos atan asinh acosh atanh".split():
    OPERATIONS[name] = wide(getattr(np, "arc" + name[1:]))
