"""A `pallas_call` in the exported form: its grid, its operands with their blocks, and its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpusim.pallas import internals as jx
from kpusim.pallas.body import Body, Json, Notes, Refused, literal, pruned
from kpusim.pallas.primitives import HANDLERS

#: Copies of a block that a call keeps if it does not say how many.
BUFFERS = 2


def call_form(equation: Any, arrays: Sequence[int], results: Sequence[int], notes: Notes) -> Json:
    """A call as the file holds it.

    Parameters
    ----------
    equation : JaxprEqn
        Of the primitive `pallas_call`.
    arrays : sequence of int
        The arrays of its operands, in order.
    results : sequence of int
        Those of its results.
    notes : Notes
        Gets what is not supported.
    """
    return Call(equation, notes).form(arrays, results)


class Call:
    """A call on its way out."""

    def __init__(self, equation: Any, notes: Notes) -> None:
        self.equation = equation
        self.grid_mapping = equation.params["grid_mapping"]
        self.notes = notes
        axes = [
            axis for axis in range(len(self.grid_mapping.grid)) if axis not in self.grid_mapping.vmapped_dims
        ]
        self.place = jx.place_of(equation) or "unknown line"
        names = (self.grid_mapping.grid_names or ())[-len(axes) :]  # vmap may have put axes before them
        self.body = Body(notes, HANDLERS, axes, self.place, options_of(equation.params), names)

    def form(self, arrays: Sequence[int], results: Sequence[int]) -> Json:
        """Return the whole."""
        check_parameters(self.equation.params)
        mapping = self.grid_mapping
        jaxpr = self.equation.params["jaxpr"]
        inputs = [self.body.of_aval(var.aval) for var in jaxpr.invars]
        into: list[Json] = []
        for position, block in enumerate(mapping.block_mappings, mapping.num_index_operands):
            if self.body.spaces[inputs[position]] in ("any", "hbm") and not is_whole(block):
                inputs[position] = self.window(
                    block, inputs[position], inputs[: mapping.num_index_operands], into
                )
        self.body.inline(jaxpr, (), inputs, into)
        bounds = mapping.num_dynamic_grid_bounds
        operands = self.operands(arrays, results, inputs)
        block = pruned({"inputs": [], "equations": into, "results": []}, set())
        scratch = inputs[len(inputs) - mapping.num_scratch_operands :]
        return {
            "name": name_of(self.equation),
            "line": self.notes.line(self.place),
            "grid": self.grid(),
            "types": self.body.table(),
            "vars": self.body.vars,
            "operands": operands,
            "scratch": [*scratch, *self.body.scratch.values()],
            "aliases": [
                [bounds + first, bounds + mapping.num_index_operands + mapping.num_inputs + second]
                for first, second in self.equation.params["input_output_aliases"]
            ],
            "body": block,
        }

    def grid(self) -> list[Any]:
        """Steps along each axis; a bound that is an operand by its number."""
        found: list[Any] = []
        bounds = 0
        for size in self.grid_mapping.grid:
            if isinstance(size, int):
                found.append(size)
            else:
                found.append({"bound": bounds})
                bounds += 1
        return found

    def operands(self, arrays: Sequence[int], results: Sequence[int], variables: Sequence[int]) -> list[Json]:
        """Bounds, prefetched scalars, inputs, outputs."""
        mapping = self.grid_mapping
        bounds, prefetched = mapping.num_dynamic_grid_bounds, mapping.num_index_operands
        rows = []
        for position, (array, var) in enumerate(
            zip([*arrays, *results], [*self.equation.invars, *self.equation.outvars], strict=True)
        ):
            shape, _ = jx.physical(var.aval.shape, var.aval.dtype)
            row: Json = {"array": array, "shape": [int(size) for size in shape]}
            if position < bounds:
                rows.append({**row, "role": "bound"})
                continue
            row["ref"] = variables[position - bounds]
            if position < bounds + prefetched:
                rows.append({**row, "role": "prefetch"})
                continue
            row["role"] = "input" if position < len(arrays) else "output"
            block = mapping.block_mappings[position - bounds - prefetched]
            if self.body.spaces[row["ref"]] not in ("any", "hbm"):
                row["block"] = self.block(block, variables[:prefetched])
            rows.append(row)
        return rows

    def window(self, mapping: Any, var: int, prefetched: Sequence[int], into: list[Json]) -> int:
        """The whole array in place of a block that is only copied: what is copied is a part of the block."""
        line = self.notes.line(self.place)

        def emit(op: str, **keys: Any) -> int:
            found = self.body.variable((), np.int32)
            into.append({"op": op, "line": line, **keys, "out": [found]})
            return found

        closed = mapping.index_map_jaxpr
        steps = [emit("program_id", axis=axis) for axis in range(len(self.grid_mapping.grid))]
        places = self.body.inline(closed.jaxpr, closed.consts, [*steps, *prefetched], into)
        index: list[Any] = []
        for size, place, whole in zip(mapping.block_shape, places, mapping.array_aval.shape, strict=True):
            kind, *sizes = dim(size)
            if kind == "squeezed":
                index.append(place)
                continue
            if any(sizes[1:]) or (kind == "blocked" and whole % sizes[0]):
                raise Refused("a block of an operand in HBM or ANY that goes beyond the array")
            if kind == "blocked":
                place = emit("mul", **{"in": [place, literal(sizes[0], np.int32)]})
            index.append(["slice", place, sizes[0], 1])
        space = self.body.spaces[var]
        found = self.body.variable(mapping.array_aval.shape, mapping.array_aval.dtype, space)
        self.body.windows[found] = ["index", index]
        return found

    def block(self, mapping: Any, prefetched: Sequence[int]) -> Json:
        """Return the sizes of a block and where it stands at each step."""
        if mapping.transforms:
            raise Refused("a block with transforms, which only other dialects have")
        closed = mapping.index_map_jaxpr
        axes = len(self.grid_mapping.grid)
        indices = [self.body.of_aval(var.aval) for var in closed.jaxpr.invars[:axes]]
        into: list[Json] = []
        results = self.body.inline(closed.jaxpr, closed.consts, [*indices, *prefetched], into)
        index_map = {"inputs": indices, "equations": into, "results": results}
        mode = mapping.pipeline_mode
        words, _ = jx.physical((), mapping.array_aval.dtype)  # of a key, or none
        results += [literal(0, np.int32)] * len(words)
        return {
            "dims": [*(dim(size) for size in mapping.block_shape), *(["blocked", size] for size in words)],
            "map": pruned(index_map, set()),
            "buffers": BUFFERS if mode is None else int(mode.buffer_count),
        }


def dim(size: Any) -> list[Any]:
    """Export one dimension of a block."""
    if isinstance(size, jx.Blocked):
        return ["blocked", int(size.block_size)]
    if isinstance(size, jx.Squeezed):
        return ["squeezed"]
    if isinstance(size, jx.Element):
        low, high = size.padding
        return ["element", int(size.block_size), int(low), int(high)]
    more = ", or pltpu.emit_pipeline in the kernel, which has it" if "Bounded" in type(size).__name__ else ""
    raise Refused(f"a block dimension {type(size).__name__}; use Blocked, Element or None{more}")


def is_whole(mapping: Any) -> bool:
    """Return whether a block is the whole array."""
    sizes = [getattr(size, "block_size", None) for size in mapping.block_shape]
    return sizes == list(mapping.array_aval.shape)


def check_parameters(params: Any) -> None:
    """Refuse what other dialects, or several devices, need."""
    if params.get("mesh") is not None:
        raise Refused("a call on a mesh")
    options = params.get("compiler_params")
    if options is not None and not isinstance(options, jx.TpuParams | dict):
        dialect = type(options).__module__.removesuffix(".core").rpartition(".")[2]
        raise Refused(f"compiler_params of {dialect}: only those of the TPU dialect")


def options_of(params: Any) -> dict[str, Any]:
    """The call's compiler_params by name."""
    options = params.get("compiler_params")
    return dict(options if isinstance(options, dict) else getattr(options, "__dict__", {}))


def name_of(equation: Any) -> str:
    """Name of a call, else that of its function."""
    params = equation.params
    name = params.get("name") or params["jaxpr"].debug_info.func_name or "kernel"
    return "".join(c if c.isalnum() or c == "_" else "_" for c in str(name)).strip("_") or "kernel"
