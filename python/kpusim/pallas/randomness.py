"""Random numbers in the exported form: the generator of a call, and jax's keys as their words."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kpusim.pallas import equations  # noqa: F401  (keys take its handlers for moves)
from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation, Handler, Json, Refused, literal
from kpusim.pallas.handlers import HANDLERS, handles

WORD = np.dtype(np.uint32)
#: Types that `stochastic_round` gives, as on a TPU.
ROUNDED = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
#: Primitives that keys stand in as other elements do.
MOVES = """
    broadcast_in_dim reshape squeeze transpose concatenate rev slice split unstack stack tile dynamic_slice
    dynamic_update_slice gather select_n
""".split()

# A generator is three words of scratch: a key, and how many draws there were since then. Its bits are
# jax.random.bits(fold_in(key, draws), shape); each seed beyond the first is folded into the key.


@handles("threefry2x32")
def threefry2x32(equation: Equation) -> Sequence[Atom]:
    """Make two random words of a key and a counter of two each, which jax broadcasts."""
    shape = equation.source.outvars[0].aval.shape
    operands: list[Atom] = []
    for atom, var in zip(equation.atoms, equation.source.invars, strict=True):
        own = var.aval.shape
        dims = list(range(len(shape) - len(own), len(shape)))
        if own and own != shape:
            (atom,) = equation.emit("broadcast_in_dim", [atom], [(shape, WORD)], dims=dims)
        operands.append(atom)
    return equation.emit("threefry2x32", operands)


@handles("prng_seed")
def prng_seed(equation: Equation) -> Sequence[Atom]:
    """Return a new key for the call's generator."""
    seeds = [
        part
        for atom, var in zip(equation.atoms, equation.source.invars, strict=True)
        for part in words_of(equation, atom, var.aval)
    ]
    key: list[Atom] = [literal(0, WORD), seeds[0]]
    for seed in seeds[1:]:
        key = mixed(equation, key, [literal(0, WORD), seed])
    for place, word in enumerate([*key, literal(0, WORD)]):
        equation.emit("swap", [word], [], refs=[state(equation, place)])
    return []


@handles("prng_random_bits")
def prng_random_bits(equation: Equation) -> Sequence[Atom]:
    """Bits that the call's generator did not give before."""
    shape = tuple(int(size) for size in equation.params["shape"])
    first, second, draws = (
        equation.emit("get", [], [((), WORD)], refs=[state(equation, place)])[0] for place in range(3)
    )
    after = equation.emit("add", [draws, literal(1, WORD)], [((), WORD)])
    equation.emit("swap", after, [], refs=[state(equation, 2)])
    key = mixed(equation, [first, second], [literal(0, WORD), draws])
    bits = equation.emit("xor", mixed(equation, key, counted(equation, shape), shape), [(shape, WORD)])
    return equation.emit("bitcast_convert_type", bits)


def state(equation: Equation, place: int) -> Json:
    """A word of the call's generator."""
    return {
        "ref": equation.body.own("generator", (3,), WORD, "smem"),
        "at": [["index", [literal(place, np.int32)]]],
    }


def mixed(
    equation: Equation, key: Sequence[Atom], counter: Sequence[Atom], shape: Sequence[int] = ()
) -> list[Atom]:
    """Mix two random words, or arrays of them."""
    return equation.emit("threefry2x32", [*key, *counter], [(shape, WORD)] * 2)


def counted(equation: Equation, shape: Sequence[int]) -> list[Atom]:
    """Return the numbers of the elements, row-major: their upper and lower words."""
    flat = equation.emit("iota", [], [((math.prod(shape),), WORD)], dimension=0)
    return [literal(0, WORD), *equation.emit("reshape", flat, [(shape, WORD)])]


@handles("iota_2x32_shape")
def iota_2x32_shape(equation: Equation) -> Sequence[Atom]:
    """Return the same for jax's own generators."""
    shape = equation.source.outvars[0].aval.shape
    high, low = counted(equation, shape)
    return [*equation.emit("broadcast_in_dim", [high], [(shape, WORD)], dims=[]), low]


def words_of(equation: Equation, atom: Atom, aval: Any) -> list[Atom]:
    """Return the scalars of a seed: a whole number, or a key of Pallas."""
    shape, dtype = jx.physical(aval.shape, aval.dtype)
    if not jx.is_whole(dtype) or (shape and aval.dtype == dtype):
        raise Refused(f"a seed that is {aval.str_short()}; use scalars of whole numbers")
    if not shape:
        return equation.emit("convert_element_type", [atom], [((), WORD)])
    flat = equation.emit("reshape", [atom], [((math.prod(shape),), WORD)])
    return [
        equation.emit(
            "reshape",
            equation.emit("slice", flat, [((1,), WORD)], start=[i], limit=[i + 1], stride=[1]),
            [((), WORD)],
        )[0]
        for i in range(math.prod(shape))
    ]


@handles("prng_split")
def prng_split(equation: Equation) -> Sequence[Atom]:
    """Return a key of Pallas as its words."""
    return words_of(equation, equation.atoms[0], equation.source.invars[0].aval)


@handles("prng_join")
def prng_join(equation: Equation) -> Sequence[Atom]:
    """Return the words as a key of Pallas."""
    parts = [equation.emit("reshape", [atom], [((1, 1), WORD)])[0] for atom in equation.atoms]
    return equation.emit("concatenate", parts, dimension=1)


@handles("random_wrap", "random_unwrap")
def wrapped(equation: Equation) -> Sequence[Atom]:
    """A key is its words."""
    return equation.atoms


@handles("random_seed", "random_fold_in", "random_split", "random_bits")
def derived(equation: Equation) -> Sequence[Atom]:
    """Export what jax's implementation of the kind of key computes of its words."""
    params, source = equation.params, equation.source
    name = source.primitive.name.removeprefix("random_")
    kind = params["impl"] if name == "seed" else source.invars[0].aval.dtype._impl
    functions: dict[str, Callable[..., Any]] = {
        "seed": kind.seed,
        "fold_in": kind.fold_in,
        "split": lambda key: kind.split(key, params["shape"]),
        "bits": lambda key: kind.random_bits(key, params["bit_width"], params["shape"]),
    }
    function = functions[name]
    for _ in source.invars[0].aval.shape:
        function = jax.vmap(function)
    kinds = [(var.aval.shape, var.aval.dtype) for var in source.invars]
    if not jx.is_pallas_key(kind):
        kinds = [jx.physical(*one) for one in kinds]
    return equation.inlined(function, kinds)


def for_keys(handler: Handler) -> Handler:
    """A handler of moves that knows keys, too."""

    @functools.wraps(handler)
    def either(equation: Equation) -> Sequence[Atom]:
        holds_key = any(jx.is_key(var.aval.dtype) for var in equation.source.invars)
        return moved_keys(equation) if holds_key else handler(equation)

    return either


HANDLERS.update({name: for_keys(HANDLERS[name]) for name in MOVES})


def moved_keys(equation: Equation) -> Sequence[Atom]:
    """Return an operation on arrays of keys, which only moves them: the same for each of their words."""
    source = equation.source
    function = functools.partial(source.primitive.bind, **source.params)
    are_keys = [jx.is_key(var.aval.dtype) for var in source.invars]
    for _ in next(var.aval.dtype for var in source.invars if jx.is_key(var.aval.dtype))._impl.key_shape:
        function = jax.vmap(function, in_axes=[-1 if is_key else None for is_key in are_keys], out_axes=-1)
    return equation.inlined(function, [jx.physical(var.aval.shape, var.aval.dtype) for var in source.invars])


@handles("stochastic_round")
def stochastic_round(equation: Equation) -> Sequence[Atom]:
    """Return the lowest bits of a float rounded by random ones: carried up where their sum overflows them."""
    shape, target = equation.shape(0), np.dtype(equation.params["target_dtype"])
    if equation.dtype(0) != np.float32 or target.name not in ROUNDED:
        raise Refused(f"`stochastic_round` of other types than float32 to {', '.join(ROUNDED)}")
    value, noise = equation.atoms
    floats, words, booleans = ([(shape, np.dtype(kind))] for kind in (np.float32, WORD, np.bool_))
    limits = jnp.finfo(target)
    least, below = literal(limits.smallest_normal, np.float32), (1 << 23 - limits.nmant) - 1
    whole = equation.emit("bitcast_convert_type", [value], words)
    size = equation.emit("abs", [value], floats)
    # beside the least normal number, subnormals have as many bits as it has; those of bf16 are 0, as of f32
    is_small = equation.emit("lt", [*size, least], booleans)
    beside = equation.emit("mul", [*equation.emit("convert_element_type", is_small, floats), least], floats)
    bits = equation.emit("bitcast_convert_type", equation.emit("add", [*size, *beside], floats), words)
    lower = equation.emit("and", [noise, literal(below, WORD)], words)
    moved = equation.emit("add", [*bits, *lower], words)
    cut = equation.emit("and", [*moved, literal(0xFFFFFFFF - below, WORD)], words)
    rest = equation.emit("sub", [*equation.emit("bitcast_convert_type", cut, floats), *beside], floats)
    sign = equation.emit("and", [*whole, literal(1 << 31, WORD)], words)
    signed = equation.emit("or", [*equation.emit("bitcast_convert_type", rest, words), *sign], words)
    finite = equation.emit("is_finite", [value], booleans)
    exact = equation.emit("bitcast_convert_type", signed, floats)
    return equation.emit("convert_element_type", equation.emit("select_n", [*finite, value, *exact], floats))
