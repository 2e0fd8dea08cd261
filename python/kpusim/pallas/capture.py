"""A function of jax as calls and moves of data."""

from __future__ import annotations

import base64
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from kpusim.errors import UserError
from kpusim.pallas import internals as jx
from kpusim.pallas import moves
from kpusim.pallas.body import Json, Notes, Refused
from kpusim.pallas.call import call_form, name_of

#: Steps that an export may have: scans around calls are unrolled.
MOST_STEPS = 100_000
#: Elements of a value that the export computes itself; a larger one is repeated by a move where it can be.
MOST_KNOWN = 1 << 16
#: Dimensions that arrays of a program may have.
MOST_DIMENSIONS = 6
NO_GRADIENT = (
    "kpusim computes no gradients of kernels. Fix: give the function around the call a jax.custom_vjp "
    "whose backward pass is a kernel of its own, and take kpusim.pallas.run(jax.grad(function))."
)


@dataclass
class View:
    """A value in an array of the program: all of it, in another shape perhaps."""

    array: int
    shape: tuple[int, ...]


@dataclass
class Known:
    """A value that is known while the function is captured; `empty` if nobody cares which it is."""

    value: Any
    empty: bool = False


Value = View | Known


@dataclass
class Capture:
    """The document, as it grows."""

    notes: Notes = field(default_factory=Notes)
    arrays: list[Json] = field(default_factory=list)
    steps: list[Json] = field(default_factory=list)
    calls: int = 0
    names: dict[str, int] = field(default_factory=dict)  #: taken, and how often each was wished again

    def array(self, role: str, shape: Sequence[int], dtype: Any, name: str = "") -> int:
        """Return a new array."""
        if 0 in shape:
            raise UserError(
                f"an array without elements, of shape {tuple(shape)}. "
                "Fix: leave it out of the call, and the call out if no result of it has any."
            )
        name = self.free_name(name or "t")
        self.arrays.append(
            {
                "name": name,
                "type": jx.element_type(dtype),
                "shape": declared(shape),
                "role": role,
            }
        )
        return len(self.arrays) - 1

    def inputs(self, variables: Sequence[Any], names: Sequence[str], what: str = "argument") -> list[Value]:
        """Arrays of the arguments. `what` they are is said of those that cannot be."""
        found: list[Value] = []
        for number, (var, name) in enumerate(zip(variables, names, strict=True)):
            shape, dtype = jx.physical(var.aval.shape, var.aval.dtype)
            try:
                found.append(View(self.array("input", shape, dtype, name or "x"), shape))
            except UserError as error:
                raise UserError(f"{what} `{name or number}`: {error}") from None
        return found

    def free_name(self, wished: str) -> str:
        """Return an identifier that no other array has."""
        plain = re.sub(r"\W+", "_", wished, flags=re.ASCII).strip("_") or "x"
        name = plain = plain if plain[0].isalpha() else "x" + plain
        while name in self.names:
            self.names[plain] += 1
            name = f"{plain}_{self.names[plain]}"
        self.names[name] = 0
        return name

    def stored(self, value: Value) -> View:
        """Return a value in an array; what is known becomes a constant."""
        if isinstance(value, View):
            return value
        data = np.ascontiguousarray(value.value)
        number = self.array("constant", data.shape, data.dtype, "constant")
        self.arrays[number]["data"] = base64.b64encode(data.tobytes()).decode()
        return View(number, data.shape)

    def step(self, kind: str, form: Json) -> None:
        """Append a step."""
        if len(self.steps) == MOST_STEPS:
            raise UserError(
                f"the function has more than {MOST_STEPS} calls and moves: scans around calls are unrolled. "
                "Fix: put the loop into the kernel's grid."
            )
        self.steps.append({kind: form})

    def move(self, move: moves.Move, source: View, target: int, place: str) -> None:
        """Append a copy."""
        self.step("move", {"from": source.array, "to": target, **move.form(), "line": self.notes.line(place)})

    def run(self, closed: Any, values: Sequence[Value]) -> list[Value]:
        """Run all equations of a jaxpr."""
        jaxpr, constants = jx.opened(closed)
        scope: dict[Any, Value] = dict(zip(jaxpr.invars, values, strict=True))
        scope |= {var: Known(np.asarray(c)) for var, c in zip(jaxpr.constvars, constants, strict=True)}
        for equation in jaxpr.eqns:
            results = self.results(equation, [value_of(var, scope) for var in equation.invars])
            scope.update(zip(equation.outvars, results, strict=True))
        return [value_of(var, scope) for var in jaxpr.outvars]

    def results(self, equation: Any, values: list[Value]) -> Sequence[Value]:
        """Return what one equation gives; anything at all if it is not supported, which is noted."""
        place = jx.place_of(equation) or "unknown line"
        try:
            return self.equation(equation, values, place)
        except (Refused, UserError) as error:
            self.notes.refuse(str(error), place)
            return [View(0, tuple(var.aval.shape)) for var in equation.outvars]

    def equation(self, equation: Any, values: list[Value], place: str) -> Sequence[Value]:
        """Export one equation outside of kernels."""
        equation = jx.as_call(equation) or equation
        primitive = equation.primitive
        if primitive is jx.pallas_call_p:
            return self.call(equation, values, place)
        if primitive in jx.INLINED:
            return self.run(equation.params[jx.INLINED[primitive]], values)
        if (closed := jx.expanded(equation)) is not None:
            return self.run(closed, values)
        if primitive is jx.shard_map_p:
            if equation.params["mesh"].size > 1:
                raise Refused("`shard_map` over several devices; export what one of them does")
            return self.run(equation.params["jaxpr"], values)
        name = jx.PRIMITIVES.get(primitive)
        if name in ("empty", "empty2"):
            out = equation.outvars[0].aval
            return [Known(np.zeros(out.shape, out.dtype), empty=True)]
        if folds(equation, values):
            return folded(equation, values)
        if name == "scan":
            return self.scan(equation, values, place)
        if name in moves.KEYS:
            return values
        if any(jx.is_key(var.aval.dtype) for var in equation.invars):
            raise Refused(
                f"`{primitive.name}` of random keys outside of the kernels; give it keys as operands"
            )
        if name in moves.RESHAPES and isinstance(values[0], View):
            return [View(values[0].array, tuple(equation.outvars[0].aval.shape))]
        same = (
            name == "convert_element_type" and equation.invars[0].aval.dtype == equation.params["new_dtype"]
        )
        if same or name in moves.HINTS:
            return values[: len(equation.outvars)]
        if name == "split":
            return self.split(equation, values, place)
        if name in moves.AT and all(isinstance(value, Known) for value in values[moves.AT[name] :]):
            return [self.at_place(equation, values, place)]
        if name in moves.MOVES:
            return [self.moved(equation, moves.MOVES[name](equation), values, place)]
        kernel = jx.kernel_in(equation)
        if kernel is not None and kernel.primitive in jx.MESH_KERNELS:
            raise Refused(f"{on_mesh(kernel)}; call it by pl.pallas_call or pl.kernel")
        raise Refused(
            f"`{primitive.name}` outside of the kernels: between calls data only move; do it in a kernel, "
            "or let kpusim.pallas.run leave it to jax"
        )

    def moved(self, equation: Any, parts: Sequence[moves.Part], values: list[Value], place: str) -> View:
        """Return a new array, made of parts of others."""
        out = equation.outvars[0].aval
        target = self.array("between", out.shape, out.dtype)
        for part in parts:
            self.move(part.move, self.stored(values[part.operand]), target, place)
        return View(target, tuple(out.shape))

    def at_place(self, equation: Any, values: list[Value], place: str) -> View:
        """Return a part taken or replaced at a place that is known, as loops of jax around calls do it."""
        arrays = moves.AT[equation.primitive.name]
        whole, part = self.stored(values[0]), equation.invars[arrays - 1].aval.shape
        out = equation.outvars[0].aval
        size = out.shape if arrays == 1 else part
        room = [dim - count for dim, count in zip(whole.shape, size, strict=True)]
        starts = [
            min(max(int(start.value), 0), most)  # clamped, as jax does
            for start, most in zip(values[arrays:], room, strict=True)
            if isinstance(start, Known)
        ]
        target = self.array("between", out.shape, out.dtype)
        if arrays == 1:
            self.move(moves.sliced(whole.shape, starts, [1] * len(starts), size), whole, target, place)
        else:
            self.move(moves.whole(whole.shape), whole, target, place)
            self.move(moves.placed(whole.shape, starts, size), self.stored(values[1]), target, place)
        return View(target, tuple(out.shape))

    def split(self, equation: Any, values: list[Value], place: str) -> list[Value]:
        """Several slices."""
        found: list[Value] = []
        axis, begin = equation.params["axis"], 0
        for var, size in zip(equation.outvars, map(int, equation.params["sizes"]), strict=True):  # of NumPy
            shape = equation.invars[0].aval.shape
            start = [begin if dim == axis else 0 for dim in range(len(shape))]
            target = self.array("between", var.aval.shape, var.aval.dtype)
            move = moves.sliced(shape, start, [1] * len(shape), var.aval.shape)
            self.move(move, self.stored(values[0]), target, place)
            found.append(View(target, tuple(var.aval.shape)))
            begin += size
        return found

    def scan(self, equation: Any, values: list[Value], place: str) -> list[Value]:
        """A loop around calls: each of its rounds."""
        params = equation.params
        outside, carried, length = params["num_consts"], params["num_carry"], params["length"]
        state, slices = values[outside : outside + carried], values[outside + carried :]
        stacked: list[int] = []
        for var in equation.outvars[carried:]:
            stacked.append(self.array("between", var.aval.shape, var.aval.dtype))
        rounds = range(length)
        for index in reversed(rounds) if params["reverse"] else rounds:
            part = [self.row(value, index, place) for value in slices]
            results = self.run(params["jaxpr"], [*values[:outside], *state, *part])
            state = results[:carried]
            for target, value in zip(stacked, results[carried:], strict=True):
                row = self.stored(value)
                self.move(moves.into_row(row.shape, index), row, target, place)
        shapes = [tuple(var.aval.shape) for var in equation.outvars[carried:]]
        return [*state, *(View(array, shape) for array, shape in zip(stacked, shapes, strict=True))]

    def row(self, value: Value, index: int, place: str) -> Value:
        """Take one row of what a scan goes through."""
        if isinstance(value, Known):
            return Known(value.value[index])
        kind = self.arrays[value.array]["type"]
        target = self.array("between", value.shape[1:], np.float32)
        self.arrays[target]["type"] = kind
        self.move(moves.out_of_row(value.shape, index), value, target, place)
        return View(target, value.shape[1:])

    def call(self, equation: Any, values: list[Value], place: str) -> list[Value]:
        """A Pallas call. What is aliased to a result is copied to it before."""
        self.calls += 1
        results = []
        for var in equation.outvars:
            results.append(self.array("between", var.aval.shape, var.aval.dtype))
        bounds = equation.params["grid_mapping"].num_dynamic_grid_bounds
        aliases = {
            bounds + first: results[second] for first, second in equation.params["input_output_aliases"]
        }
        empty = {
            operand
            for operand in aliases
            if isinstance(value := values[operand], Known)
            and value.empty
            and jx.is_only_copied(equation.params["jaxpr"].invars[operand - bounds].aval)
        }
        used = []
        for operand, value in enumerate(values):
            view = View(aliases[operand], ()) if operand in empty else self.stored(value)
            if operand in aliases and operand not in empty:
                self.move(moves.whole(view.shape), view, aliases[operand], place)
            used.append(aliases.get(operand, view.array))
        form = call_form(equation, used, results, self.notes)
        for operand in empty:
            form["operands"][operand]["role"] = "output"  # nothing is there to read
        self.step("call", form)
        return [
            View(array, tuple(var.aval.shape)) for array, var in zip(results, equation.outvars, strict=True)
        ]

    def outputs(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """Name the results. What is an input, or a result twice, is copied."""
        for value, name in zip(values, names, strict=True):
            view = self.stored(value)
            row = self.arrays[view.array]
            if row["role"] != "between":
                number = self.array("between", view.shape, np.float32)
                self.arrays[number]["type"] = row["type"]
                self.move(moves.whole(view.shape), view, number, "result of the function")
                row = self.arrays[number]
            row |= {
                "role": "output",
                "shape": declared(view.shape),
                "name": self.free_name(name),
                "order": name,
            }

    def document(self, name: str, version: str, results: Sequence[str]) -> Json:
        """Return the document: inputs, outputs, and the other arrays."""
        ranks = {"input": 0, "output": 1, "between": 2, "constant": 3}
        order = sorted(
            range(len(self.arrays)),
            key=lambda number: (
                ranks[self.arrays[number]["role"]],
                results.index(self.arrays[number]["order"]) if "order" in self.arrays[number] else number,
            ),
        )
        new = {number: position for position, number in enumerate(order)}
        rows = [{k: v for k, v in self.arrays[number].items() if k != "order"} for number in order]
        for step in self.steps:
            if "move" in step:
                step["move"] |= {key: new[step["move"][key]] for key in ("from", "to")}
            else:
                for operand in step["call"]["operands"]:
                    operand["array"] = new[operand["array"]]
        return {
            "format": "kpusim-pallas",
            "version": 1,
            "jax": version,
            "name": name,
            "lines": list(self.notes.lines),
            "arrays": rows,
            "steps": self.steps,
        }


def declared(shape: Sequence[int]) -> list[int]:
    """Return the shape that a program says of an array: of too many dimensions the first ones are one."""
    sizes = [int(size) for size in shape]
    ahead = max(len(sizes) - MOST_DIMENSIONS + 1, 1)
    return [math.prod(sizes[:ahead]), *sizes[ahead:]] if sizes else []


def value_of(var: Any, scope: dict[Any, Value]) -> Value:
    """Return what stands for a variable or a literal."""
    if isinstance(var, jx.Literal):
        return Known(np.asarray(var.val, dtype=var.aval.dtype))
    return scope[var]


def folds(equation: Any, values: Sequence[Value]) -> bool:
    """Return whether all is known and small, so that the results can be computed now."""
    if not all(isinstance(value, Known) for value in values) or equation.effects:
        return False
    if any("jaxpr" in name or name == "branches" for name in equation.params):
        return False
    return all(math.prod(var.aval.shape) <= MOST_KNOWN for var in equation.outvars)


def folded(equation: Any, values: Sequence[Value]) -> list[Value]:
    """Results of an equation whose operands are known."""
    given = [value.value for value in values if isinstance(value, Known)]
    operands = [jx.as_key(x, var.aval.dtype) for x, var in zip(given, equation.invars, strict=True)]
    found = equation.primitive.bind(*operands, **equation.params)
    results = found if equation.primitive.multiple_results else [found]
    return [Known(np.asarray(jx.words(result))) for result in results]


def on_mesh(kernel: Any) -> str:
    """Say what is missing for a call that is no `pallas_call`."""
    return (
        f"`{kernel.primitive.name}`: a kernel on a mesh of cores other than those of pl.kernel on TensorCores"
    )


def traced(
    function: Callable[..., Any], shapes: Sequence[Any], keywords: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    """Return the jaxpr of a function and the tree of its results; nothing is run."""
    jx.release()
    named = keywords or {}
    for leaf in jax.tree_util.tree_leaves((shapes, named)):
        shape: tuple[Any, ...] = np.shape(leaf)
        if not all(isinstance(size, (int, np.integer)) for size in shape):
            raise UserError(f"an argument of shape {shape}. Fix: give shapes of plain numbers.")
    with jx.tpu_described:
        try:
            closed, tree = jax.make_jaxpr(function, return_shape=True)(*shapes, **named)
            return jx.without_refs(closed), tree
        except (AssertionError, ValueError, NotImplementedError) as error:
            if "captures constants" in str(error):
                raise UserError(f"{error} Fix: give them to the kernel as operands.") from error
            if "dynamically-shaped" in str(error):
                raise UserError(f"{error} Fix: give shapes of plain numbers.") from error
            if jx.is_of_computed_size(error):
                raise UserError(
                    f"{jx.place_of_error(error)}: a slice of a size that is computed, which copies alone "
                    "have. Fix: take one of a known size, with a mask, or copy it by pltpu.async_copy."
                ) from error
            if "Linearization failed" in str(error):
                raise UserError(f"{jx.place_of_error(error)}: {NO_GRADIENT}") from error
            raise


def captured(function: Callable[..., Any], shapes: Sequence[Any]) -> tuple[Json, Notes]:
    """A function as the document of its export, complete or with what is not supported in the notes."""
    closed, tree = traced(function, shapes)
    capture = Capture()
    inputs = capture.inputs(closed.jaxpr.invars, jx.argument_names(closed.jaxpr))
    results = capture.run(closed, inputs)
    if not capture.calls and not capture.notes.unsupported:
        raise UserError("the function holds no pallas_call. Fix: give a function that calls one.")
    labels = result_names(tree)
    if not capture.notes.unsupported:
        capture.outputs(results, labels)
    named = getattr(function, "func", function)  # of a partial
    name = re.sub(r"\W+", "_", getattr(named, "__name__", "pallas"), flags=re.ASCII).strip("_") or "pallas"
    return capture.document(name, jax.__version__, labels), capture.notes


def captured_call(equation: Any) -> tuple[Json, Notes]:
    """Return the same of one `pallas_call` that jax has traced: its operands are the arguments."""
    capture = Capture()
    names = ["bound"] * equation.params["grid_mapping"].num_dynamic_grid_bounds
    names += jx.argument_names(equation.params["jaxpr"])[: len(equation.invars) - len(names)]
    what = f"{jx.place_of(equation) or 'unknown line'}: operand"
    results = capture.results(equation, capture.inputs(equation.invars, names, what))
    labels = ["out"] if len(results) == 1 else [f"out{i}" for i in range(len(results))]
    if not capture.notes.unsupported:
        capture.outputs(results, labels)
    return capture.document(name_of(equation), jax.__version__, labels), capture.notes


def result_names(tree: Any) -> list[str]:
    """Return the names of the results: `out`, or numbered, or by their keys."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    if len(leaves) == 1:
        return ["out"]
    names: list[str] = []
    for path, _ in leaves:
        parts = re.sub(r"\W+", "_", jax.tree_util.keystr(path)).strip("_")
        names.append(parts if parts and parts[0].isalpha() else f"out{parts}")
    return [name if names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(names)]


def text_of(document: Json) -> str:
    """Return the file."""
    head = f'{{"format": "{document["format"]}", '
    return head + json.dumps({k: v for k, v in document.items() if k != "format"}, separators=(",", ":"))[1:]


def check(notes: Notes, name: str) -> None:
    """Raise for what is not supported, warn for what has no effect.

    Raises
    ------
    UserError
        With every line.
    """
    if notes.unsupported:
        rows = "\n".join(f"{place}: {what}" for what, place in notes.unsupported)
        raise UserError(
            f"{name} cannot be exported:\n{rows}\nFix: write these lines with what docs/pallas.md lists."
        )
    for primitive, place in notes.dropped.items():
        warnings.warn(f"{place}: `{primitive}` has no effect here", stacklevel=4)
