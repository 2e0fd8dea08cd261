"""Refs, semaphores and control flow in the exported form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Atom, Equation, Json, Refused, literal
from kpusim.pallas.equations import handles, ints


def ref_of(equation: Equation, ref: Any, transforms: Sequence[Any]) -> Json:
    """A ref with its chain of transforms."""
    found: Json = {"ref": equation.atom(ref)}
    if steps := [transform(equation, one) for one in transforms]:
        found["at"] = steps
    inner = ref.aval.inner_aval
    for step in found.get("at", ()):
        if step[0] == "index":  # a key has words, which no index names
            step[1] += [["slice", literal(0, np.int32), size, 1] for size in jx.physical((), inner.dtype)[0]]
    return found


def transform(equation: Equation, one: Any) -> list[Any]:
    """One step of the chain."""
    if isinstance(one, jx.NDIndexer):
        return ["index", [index(equation, item) for item in one.indices]]
    if isinstance(one, jx.BitcastTransform):
        return ["bitcast", jx.element_type(one.dtype)]
    if isinstance(one, jx.ReshapeTransform):
        return ["reshape", ints(one.shape)]
    if isinstance(one, jx.TransposeTransform):
        return ["transpose", ints(one.permutation)]
    raise Refused(f"a ref transform {type(one).__name__}")


def index(equation: Equation, item: Any) -> Any:
    """The index of one dimension."""
    if not isinstance(item, jx.Slice):
        return equation.atom(item)
    if item.is_dynamic_size:
        raise Refused("a slice of a size that is not static")
    return ["slice", equation.atom(item.start), int(item.size), int(item.stride)]


def direct(equation: Equation, ref: Json) -> list[Json]:
    """A ref that the kernel itself reads or writes: it may not be in DDR."""
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
    refs = [ref_of(equation, *part) for part in (source, target, semaphore) if part is not None]
    return equation.emit(equation.source.primitive.name, [], [], refs=refs)


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
    """One of several branches."""
    which, *operands = equation.atoms
    blocks = [equation.body.block(branch, operands) for branch in equation.params["branches"]]
    return equation.emit("cond", [which], blocks=blocks)


@handles("while")
def while_loop(equation: Equation) -> Sequence[Atom]:
    """As long as a condition holds."""
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
    """A known number of times."""
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
