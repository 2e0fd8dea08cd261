"""The body of a Pallas call as the plain form that the exported file holds."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from kpusim.errors import UserError
from kpusim.pallas import internals as jx

#: A variable's number, or a literal: its type and its bits.
Atom = int | list[Any]
Json = dict[str, Any]


@dataclass
class Notes:
    """Notes that an export collects beside its form.

    Attributes
    ----------
    lines : dict of str to int
        Places of equations, with their numbers.
    unsupported : list of (str, str)
        What cannot be exported, and its place.
    primitives : Counter
        How often each primitive occurs in kernels.
    dropped : dict of str to str
        Primitives that have no effect here, with a place of each.
    """

    lines: dict[str, int] = field(default_factory=dict)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    primitives: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, str] = field(default_factory=dict)

    def line(self, place: str) -> int:
        """Number of a place."""
        return self.lines.setdefault(place, len(self.lines))

    def refuse(self, what: str, place: str) -> None:
        """Note what cannot be exported."""
        if (what, place) not in self.unsupported:
            self.unsupported.append((what, place))


class Refused(Exception):  # noqa: N818 (an equation is, not a program)
    """An equation that cannot be exported; the text says why."""


@dataclass
class Equation:
    """An equation of jax on its way out.

    Attributes
    ----------
    body : Body
        Where it goes.
    source : JaxprEqn
        As jax has it.
    atoms : list
        Its operands; a ref is its variable.
    scope : dict
        Variables of jax around it.
    into : list
        The equations that its own follow.
    place : str
        Source line.
    """

    body: Body
    source: Any
    atoms: list[Atom]
    scope: dict[Any, Atom]
    into: list[Json]
    place: str

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the primitive."""
        params: Mapping[str, Any] = self.source.params
        return params

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an operand."""
        return tuple(self.source.invars[index].aval.shape)

    def dtype(self, index: int) -> Any:
        """Type of the elements of an operand."""
        return self.source.invars[index].aval.dtype

    def emit(
        self,
        op: str,
        atoms: Sequence[Atom],
        outs: Sequence[tuple[Sequence[int], Any]] | None = None,
        **keys: Any,
    ) -> list[Atom]:
        """Append an equation; its results have these shapes and types, or those of the source."""
        if outs is None:
            outs = [(var.aval.shape, var.aval.dtype) for var in self.source.outvars]
        new = [self.body.variable(shape, dtype) for shape, dtype in outs]
        found: Json = {"op": op, "line": self.body.notes.line(self.place)}
        for name, value in (("in", list(atoms)), ("out", new), *keys.items()):
            if name not in ("in", "out", "refs", "blocks") or value:
                found[name] = value
        self.into.append(found)
        return list(new)

    def inlined(
        self, function: Callable[..., Any], kinds: Sequence[tuple[Sequence[int], Any]] | None = None
    ) -> list[Atom]:
        """Export what jax makes of a function of the operands, taken as of these shapes and types."""
        if kinds is None:
            kinds = [(var.aval.shape, var.aval.dtype) for var in self.source.invars]
        closed = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(*kind) for kind in kinds))
        with self.body.made_of_others(self.place):
            results = self.body.inline(closed.jaxpr, closed.consts, self.atoms, self.into)
        return [
            result
            if jx.physical((), aval.dtype)[1] == jx.physical((), var.aval.dtype)[1]
            else self.emit("bitcast_convert_type", [result])[0]
            for result, aval, var in zip(results, closed.out_avals, self.source.outvars, strict=True)
        ]

    def atom(self, value: Any) -> Atom:
        """Return a variable or literal of jax, or a whole number of the host."""
        return self.body.atom(value, self.scope)


Handler = Callable[[Equation], Sequence[Atom]]


class Body:
    """Variables and types of one call, and what turns its jaxprs into blocks."""

    def __init__(
        self,
        notes: Notes,
        handlers: Mapping[str, Handler],
        axes: Sequence[int],
        place: str,
        options: Mapping[str, Any],
        names: Sequence[Any] = (),
    ) -> None:
        self.notes = notes
        self.places = [place]  #: of the equations around the one that is exported
        self.handlers = handlers
        self.axes = axes  #: of the grid, as the kernel counts them
        self.names = names  #: of these axes, if they have any
        self.options = options  #: compiler_params
        self.made_at = ""  #: place of an equation that is made of others, which have no place of their own
        self.scratch: dict[str, int] = {}  #: refs that equations need and jax does not show
        self.types: dict[tuple[str, tuple[int, ...], str | None], int] = {}
        self.vars: list[int] = []
        self.spaces: dict[int, str] = {}  #: of the refs
        self.windows: dict[
            int, list[Any]
        ] = {}  #: the part that the kernel sees of a ref that is more, an index

    def variable(self, shape: Sequence[int], dtype: Any, space: str | None = None) -> int:
        """Return a new variable; with a space it is a ref."""
        if any(not isinstance(size, int | np.integer) for size in shape):
            raise Refused(f"a shape {tuple(shape)} that is not static")
        shape, dtype = jx.physical(shape, dtype)
        key = (jx.element_type(dtype), tuple(int(size) for size in shape), space)
        self.vars.append(self.types.setdefault(key, len(self.types)))
        if space is not None:
            self.spaces[len(self.vars) - 1] = space
        return len(self.vars) - 1

    @contextlib.contextmanager
    def made_of_others(self, place: str) -> Iterator[None]:
        """Give what an equation is made of its place while that is exported."""
        outer = self.made_at
        self.made_at = outer or place
        try:
            yield
        finally:
            self.made_at = outer

    def own(self, name: str, shape: Sequence[int], dtype: Any, space: str) -> int:
        """A ref of the call beside those that jax knows, made when it is first asked for."""
        if name not in self.scratch:
            self.scratch[name] = self.variable(shape, dtype, space)
        return self.scratch[name]

    def of_aval(self, aval: Any) -> int:
        """Return a new variable for what jax knows of a value or a ref."""
        if not isinstance(aval, jx.AbstractRef):
            return self.variable(aval.shape, aval.dtype)
        inner = aval.inner_aval
        space = str(aval.memory_space)
        if space not in jx.SPACES:
            raise Refused(f"a ref in memory space {space}")
        return self.variable(inner.shape, inner.dtype, jx.SPACES[space])

    def table(self) -> list[Json]:
        """Return the types, as the file lists them."""
        rows = []
        for name, shape, space in self.types:
            row: Json = {"type": name, "shape": list(shape)}
            if space is not None:
                row["space"] = space
            rows.append(row)
        return rows

    def atom(self, value: Any, scope: Mapping[Any, Atom]) -> Atom:
        """Return what stands for a variable, a literal, or a number of the host."""
        if isinstance(value, jx.Literal):
            return literal(value.val, value.aval.dtype)
        if isinstance(value, jx.Var):
            return scope[value]
        return literal(value, np.int32)

    def block(self, closed: Any, given: Sequence[Atom]) -> Json:
        """Return a jaxpr as a block: its first operands are `given`, the others its inputs."""
        jaxpr, constants = jx.opened(closed)
        free = jaxpr.invars[len(given) :]
        inputs = [self.of_aval(var.aval) for var in free]
        into: list[Json] = []
        results = self.inline(jaxpr, constants, [*given, *inputs], into)
        return {"inputs": inputs, "equations": into, "results": results}

    def inline(
        self,
        jaxpr: Any,
        constants: Sequence[Any],
        atoms: Sequence[Atom],
        into: list[Json],
    ) -> list[Atom]:
        """Append the equations of a jaxpr; what stands for its results."""
        scope: dict[Any, Atom] = {}
        for var, value in zip(jaxpr.constvars, constants, strict=True):
            scope[var] = value if isinstance(value, int | list) else literal(value, var.aval.dtype)
        scope.update(zip(jaxpr.invars, atoms, strict=True))
        for equation in jaxpr.eqns:
            results = self.export(equation, scope, into)
            scope.update(zip(equation.outvars, results, strict=False))
        return [self.atom(var, scope) for var in jaxpr.outvars]

    def export(self, source: Any, scope: dict[Any, Atom], into: list[Json]) -> Sequence[Atom]:
        """Append what one equation becomes. What is refused is noted, and the export goes on to find more."""
        name = jx.PRIMITIVES.get(source.primitive)
        place = self.made_at or jx.place_of(source) or self.places[-1]
        self.places.append(place)
        try:
            if source.primitive in jx.INLINED:
                closed = source.params[jx.INLINED[source.primitive]]
                jaxpr, constants = jx.opened(closed)
                atoms = [self.atom(var, scope) for var in source.invars]
                return self.inline(jaxpr, constants, atoms, into)
            if (closed := jx.expanded(source)) is not None:
                atoms = [self.atom(var, scope) for var in source.invars]
                with self.made_of_others(place):
                    return self.inline(closed.jaxpr, closed.consts, atoms, into)
            self.notes.primitives[source.primitive.name] += 1
            if name is None or name not in self.handlers:
                raise Refused(f"primitive `{source.primitive.name}`")
            atoms = [self.atom(var, scope) for var in source.invars]
            return self.handlers[name](Equation(self, source, atoms, scope, into, place))
        except (Refused, UserError) as error:
            self.notes.refuse(str(error), place)
            return [self.stand_in(var.aval) for var in source.outvars]
        finally:
            self.places.pop()

    def stand_in(self, aval: Any) -> int:
        """Return a variable for the result of what was refused: only to go on looking."""
        self.vars.append(0)
        if isinstance(aval, jx.AbstractRef):
            self.spaces[len(self.vars) - 1] = "vmem"
        return len(self.vars) - 1


def literal(value: Any, dtype: Any) -> list[Any]:
    """Return a scalar as its type and its bits."""
    array = np.asarray(value)
    if array.shape:
        raise Refused(f"a constant array of shape {array.shape} inside the kernel; pass it as an operand")
    bits = np.asarray(array.astype(np.dtype(dtype)) if array.dtype != dtype else array)
    return [jx.element_type(dtype), int.from_bytes(bits.tobytes(), "little")]


def pruned(block: Json, used: set[int]) -> Json:
    """Return a block without equations that do nothing: no result of theirs is used, and they touch no ref.

    Old values of writes that nobody uses go, too.
    """
    kept = []
    used |= {atom for atom in block["results"] if isinstance(atom, int)}
    for equation in reversed(block["equations"]):
        if not touches(equation) and not used.intersection(equation.get("out", ())):
            continue
        if equation["op"] in ("swap", "masked_swap") and not used.intersection(equation.get("out", ())):
            equation.pop("out", None)
        if "blocks" in equation:
            equation["blocks"] = [pruned(nested, used) for nested in equation["blocks"]]
        used |= set(variables(equation))
        kept.append(equation)
    return block | {"equations": kept[::-1]}


def touches(equation: Json) -> bool:
    """Return whether it, or an equation inside it, names a ref."""
    return "refs" in equation or any(
        touches(inner) for block in equation.get("blocks", ()) for inner in block["equations"]
    )


def variables(value: Any) -> list[int]:
    """Variables that an equation itself names as operands."""
    found = [atom for atom in value.get("in", ()) if isinstance(atom, int)]
    for ref in value.get("refs", ()):
        found.append(ref["ref"])
        for step in ref.get("at", ()):
            if step[0] == "index":
                starts = [item[1] if is_slice(item) else item for item in step[1]]
                found += [atom for atom in starts if isinstance(atom, int)]
    return found


def is_slice(item: Any) -> bool:
    """Return whether an index is a slice, not an atom."""
    return isinstance(item, list) and item[0] == "slice"
