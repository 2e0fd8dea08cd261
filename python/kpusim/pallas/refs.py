"""Refs, semaphores and control flow in the exported form."""

from __future__ import annotations

import copy as copy_module
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation, Json, Refused, is_slice, literal
from kpusim.pallas.handlers import handles, ints

FLAG = [((), np.bool_)]


def word(value: int) -> Atom:
    """Return a constant."""
    return literal(value, np.int32)


@dataclass
class Stretch:
    """A slice of a size that is known when the kernel runs; only copies have it.

    Attributes
    ----------
    item : list
        It in the chain of transforms: start and size are filled in for each part.
    start : Atom
        The first element.
    size : Atom
        The number of elements.
    most : int
        Elements of the dimension.
    """

    item: list[Any]
    start: Atom
    size: Atom
    most: int


def ref_of(
    equation: Equation, ref: Any, transforms: Sequence[Any], stretches: list[Stretch] | None = None
) -> Json:
    """Return a ref with its chain of transforms; slices of unknown size go to `stretches`."""
    if isinstance(ref, tuple):
        raise Refused("`pl.select_ref`; copy each in its own branch of pl.when")
    var = equation.atom(ref)
    found: Json = {"ref": var}
    steps = [transform(equation, one, stretches) for one in transforms]
    if isinstance(var, int) and var in equation.body.windows:
        steps.insert(0, copy_module.deepcopy(equation.body.windows[var]))
    if steps:
        found["at"] = steps
    inner = ref.aval.inner_aval
    for step in found.get("at", ()):
        if step[0] == "index":  # a key has words, which no index names
            step[1] += [["slice", word(0), size, 1] for size in jx.physical((), inner.dtype)[0]]
    return found


def transform(equation: Equation, one: Any, stretches: list[Stretch] | None) -> list[Any]:
    """Export one step of the chain."""
    if stretches:
        raise Refused("a slice of a size that is not static, which is not the last of the ref's transforms")
    if isinstance(one, jx.NDIndexer):
        items = zip(one.indices, one.shape, strict=True)
        return ["index", [index(equation, item, size, stretches) for item, size in items]]
    if isinstance(one, jx.BitcastTransform):
        return ["bitcast", jx.element_type(one.dtype)]
    if isinstance(one, jx.ReshapeTransform):
        return ["reshape", ints(one.shape)]
    if isinstance(one, jx.TransposeTransform):
        return ["transpose", ints(one.permutation)]
    raise Refused(f"a ref transform {type(one).__name__}")


def index(equation: Equation, item: Any, most: Any, stretches: list[Stretch] | None) -> Any:
    """Return the index of one dimension, which has `most` elements."""
    if not isinstance(item, jx.Slice):
        return counted(equation, item, most)
    start = counted(equation, item.start, most)
    if not item.is_dynamic_size:
        return ["slice", start, int(item.size), int(item.stride)]
    if stretches is None:
        raise Refused("a slice of a size that is not static, which copies alone have")
    size = equation.atom(item.size)
    if item.size.aval.dtype != np.int32:
        (size,) = equation.emit("convert_element_type", [size], [((), np.int32)])
    if isinstance(item.start, jx.Var) and item.start.aval.dtype != np.int32:  # it is added to
        (start,) = equation.emit("convert_element_type", [start], [((), np.int32)])
    found = ["slice", start, 0, int(item.stride)]
    stretches.append(Stretch(found, start, size, int(most)))
    return found


def counted(equation: Equation, place: Any, most: Any) -> Atom:
    """Return a place of a dimension, or several; one that is known to be negative counts from the end."""
    atom = known = equation.atom(place)
    shape = np.shape(place) if not isinstance(place, jx.Var) else place.aval.shape
    if shape and isinstance(atom, int):  # a number beside arrays stands in one of their shape
        maker = next((one for one in reversed(equation.into) if atom in one.get("out", ())), None)
        if maker is not None and maker["op"] == "broadcast_in_dim":
            known = maker["in"][0]
    if isinstance(known, int) or known[0][0] != "i":
        return atom
    bits = int(known[0][1:])
    if not -most <= (value := known[1] - (1 << bits)) < 0 or not known[1] >> (bits - 1):
        return atom
    found = word(value + int(most))
    return equation.emit("broadcast_in_dim", [found], [(shape, np.int32)], dims=[])[0] if shape else found


def direct(equation: Equation, ref: Json) -> list[Json]:
    """Return a ref that the kernel itself reads or writes: it may not be in DDR."""
    if equation.body.spaces[ref["ref"]] in ("any", "hbm"):
        raise Refused(
            f"`{equation.source.primitive.name}` of a ref in HBM or ANY, which cannot be referenced "
            "directly; copy it to VMEM by pltpu.async_copy"
        )
    return [ref]


def with_tree(equation: Equation, skip: int) -> Json:
    """The ref of get, swap and addupdate."""
    leaves = equation.source.invars[skip:]
    transforms = jax.tree_util.tree_unflatten(equation.params["tree"], leaves)
    return ref_of(equation, equation.source.invars[0], transforms)


@handles("get")
def get(equation: Equation) -> Sequence[Atom]:
    """Read a ref."""
    return equation.emit("get", [], refs=direct(equation, with_tree(equation, 1)))


@handles("swap")
def swap(equation: Equation) -> Sequence[Atom]:
    """Write a ref; its old value if that is used."""
    refs = direct(equation, with_tree(equation, 2))
    return equation.emit("swap", equation.atoms[1:2], refs=refs)


@handles("addupdate")
def addupdate(equation: Equation) -> Sequence[Atom]:
    """Add to a ref."""
    return equation.emit("addupdate", equation.atoms[1:2], [], refs=direct(equation, with_tree(equation, 2)))


@handles("masked_load")
def masked_load(equation: Equation) -> Sequence[Atom]:
    """Read where a mask says so."""
    ref, transforms, mask, other = arguments(equation)
    refs = direct(equation, ref_of(equation, ref, transforms))
    if mask is None:
        return equation.emit("get", [], refs=refs)
    atoms = [equation.atom(value) for value in (mask, other) if value is not None]
    return equation.emit("masked_load", atoms, refs=refs)


@handles("masked_swap")
def masked_swap(equation: Equation) -> Sequence[Atom]:
    """Write where a mask says so."""
    ref, transforms, value, mask = arguments(equation)
    refs = direct(equation, ref_of(equation, ref, transforms))
    atoms = [equation.atom(item) for item in (value, mask) if item is not None]
    op = "swap" if mask is None else "masked_swap"
    return equation.emit(op, atoms, refs=refs)


def arguments(equation: Equation) -> Sequence[Any]:
    """Operands in the tree that they came from."""
    found: Sequence[Any] = jax.tree_util.tree_unflatten(equation.params["args_tree"], equation.source.invars)
    return found


@handles("dma_start", "dma_wait")
def copy(equation: Equation) -> Sequence[Atom]:
    """Begin or await a copy."""
    source, target, semaphore, other, device = jx.copy_parts(equation.source)
    if device is not None or other is not None:
        raise Refused("a copy to another device")
    if equation.params.get("add"):
        raise Refused("a copy that adds to its destination")
    sides: tuple[list[Stretch], list[Stretch]] = ([], [])
    sides_of = zip((source, target, semaphore), (*sides, None), strict=True)
    refs = [ref_of(equation, part[0], part[1], side) for part, side in sides_of if part is not None]
    if len(sides[0]) != len(sides[1]):
        raise Refused("a copy of which one side alone has a slice of a size that is not static")
    if equation.source.primitive.name == "dma_wait" and sides[1]:
        return wait_for_bytes(equation, target, sides[1], refs)
    in_parts(equation, list(zip(*sides, strict=True)), refs)
    return []


def wait_for_bytes(
    equation: Equation, target: tuple[Any, Sequence[Any]], stretches: Sequence[Stretch], refs: Sequence[Json]
) -> Sequence[Atom]:
    """A wait touches no memory: all that counts are the bytes that its destination would have."""
    ref, transforms = target
    types = [one.dtype for one in transforms if isinstance(one, jx.BitcastTransform)]
    _, kind = jx.physical((), types[-1] if types else ref.aval.inner_aval.dtype)
    fixed = [item[2] for item in refs[1]["at"][-1][1] if is_slice(item) and item[2]]
    count = word(math.prod(fixed) * np.dtype(kind).itemsize)
    for stretch in stretches:
        (count,) = equation.emit("mul", [count, stretch.size], [((), np.int32)])
    return equation.emit("semaphore_wait", [count], [], refs=refs[2:], decrement=True)


def in_parts(equation: Equation, stretches: Sequence[tuple[Stretch, ...]], refs: Sequence[Json]) -> None:
    """The copy; along a slice of unknown size a part for each bit of that, the largest first."""
    if not stretches:
        equation.emit(equation.source.primitive.name, [], [], refs=copy_module.deepcopy(refs))
        return
    pair, *others = stretches
    size, most = pair[0].size, min(one.most for one in pair)

    def number(op: str, left: Atom, right: Atom) -> Atom:
        return equation.emit(op, [left, right], [((), np.int32)])[0]

    def part(which: Atom, ahead: Atom, count: int) -> None:
        """Copy `count` elements, `ahead` of them after the start, if `which` is 1."""
        inner = replace(equation, into=[])
        for one in pair:
            step = ahead if one.item[3] == 1 else number("mul", ahead, word(one.item[3]))
            one.item[1:3] = [number("add", one.start, step), count]
        in_parts(inner, others, refs)
        blocks = [{"inputs": [], "equations": into, "results": []} for into in ([], inner.into)]
        equation.emit("cond", [which], [], blocks=blocks)

    bits = most.bit_length()
    wrong = equation.emit("ne", [number("shift_right_arithmetic", size, word(bits)), word(0)], FLAG)
    for one in pair[1:]:
        if one.size != size:
            differs = equation.emit("ne", [size, one.size], FLAG)
            wrong = equation.emit("or", [*wrong, *differs], FLAG)
    (outside,) = equation.emit("convert_element_type", wrong, [((), np.int32)])
    part(outside, word(most), 1)  # an error of the kernel
    for bit in reversed(range(bits)):
        set_to = number("and", number("shift_right_logical", size, word(bit)), word(1))
        part(set_to, number("and", size, word(-(2 << bit))), 1 << bit)


@handles("semaphore_signal")
def signal(equation: Equation) -> Sequence[Atom]:
    """Add to a semaphore."""
    semaphore, transforms, count, device, core = arguments(equation)
    if device is not None or core is not None:
        raise Refused("a signal to another device or core")
    refs = [ref_of(equation, semaphore, transforms)]
    return equation.emit("semaphore_signal", [equation.atom(count)], [], refs=refs)


@handles("semaphore_wait")
def wait(equation: Equation) -> Sequence[Atom]:
    """Wait until a semaphore is as large as a value, and subtract it."""
    semaphore, transforms, count, decrement = arguments(equation)
    if isinstance(decrement, jx.Var):
        raise Refused("`semaphore_wait` whose `decrement` is not known")
    keep = decrement.val if isinstance(decrement, jx.Literal) else decrement
    refs = [ref_of(equation, semaphore, transforms)]
    return equation.emit("semaphore_wait", [equation.atom(count)], [], refs=refs, decrement=bool(keep))


@handles("semaphore_read")
def read(equation: Equation) -> Sequence[Atom]:
    """Value of a semaphore."""
    semaphore, transforms = arguments(equation)
    return equation.emit("semaphore_read", [], refs=[ref_of(equation, semaphore, transforms)])


@handles("get_barrier_semaphore")
def barrier(equation: Equation) -> Sequence[Atom]:
    """The semaphore of the call's collective: on one device one like others."""
    if equation.body.options.get("collective_id") is None:
        raise Refused(
            "`get_barrier_semaphore` in a call without a collective; give it "
            "compiler_params=pltpu.CompilerParams(collective_id=0)"
        )
    return [equation.body.own("barrier", (), equation.source.outvars[0].aval.inner_aval.dtype, "semaphore")]


@handles("run_scoped")
def run_scoped(equation: Equation) -> Sequence[Atom]:
    """Memory of its own for a block."""
    if equation.params.get("collective_axes"):
        raise Refused("`run_scoped` with collective axes")
    body = equation.body
    jaxpr = equation.params["jaxpr"]
    inputs = [body.of_aval(var.aval) for var in jaxpr.invars]
    into: list[Json] = []
    results = body.inline(jaxpr, equation.atoms, inputs, into)
    block = {"inputs": inputs, "equations": into, "results": results}
    return equation.emit("run_scoped", [], blocks=[block])


@handles("cond")
def cond(equation: Equation) -> Sequence[Atom]:
    """Export one of several branches."""
    which, *operands = equation.atoms
    blocks = [equation.body.block(branch, operands) for branch in equation.params["branches"]]
    return equation.emit("cond", [which], blocks=blocks)


@handles("while")
def while_loop(equation: Equation) -> Sequence[Atom]:
    """Export a loop that runs as long as a condition holds."""
    params = equation.params
    first, second = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = equation.atoms[:first], equation.atoms[first : first + second]
    blocks = [
        equation.body.block(params["cond_jaxpr"], of_cond),
        equation.body.block(params["body_jaxpr"], of_body),
    ]
    return equation.emit("while", equation.atoms[first + second :], blocks=blocks)


@handles("scan")
def scan(equation: Equation) -> Sequence[Atom]:
    """Return a known number of times."""
    params = equation.params
    outside = params["num_consts"]
    block = equation.body.block(params["jaxpr"], equation.atoms[:outside])
    return equation.emit(
        "scan",
        equation.atoms[outside:],
        length=int(params["length"]),
        reverse=bool(params["reverse"]),
        carries=int(params["num_carry"]),
        blocks=[block],
    )
