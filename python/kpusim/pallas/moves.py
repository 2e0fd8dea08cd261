"""Equations between calls that only move data, as strided copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kpusim.pallas.body import Json, Refused

#: Primitives that change nothing but the shape.
RESHAPES = {"reshape", "squeeze"}
#: From the words of random keys to these and back: keys are their words.
KEYS = {"random_wrap", "random_unwrap"}
#: Primitives that change nothing.
HINTS = {"copy", "stop_gradient", "optimization_barrier", "with_memory_space_constraint"}


@dataclass(frozen=True)
class Move:
    """A strided copy, in elements.

    Attributes
    ----------
    size : tuple of int
        Elements along each dimension.
    from_stride, to_stride : tuple of int
        How far apart they stand.
    from_offset, to_offset : int
        Of the first.
    """

    size: tuple[int, ...]
    from_stride: tuple[int, ...]
    to_stride: tuple[int, ...]
    from_offset: int = 0
    to_offset: int = 0

    def form(self) -> Json:
        """Return it as the file has it."""
        return {
            "from_offset": int(self.from_offset),
            "to_offset": int(self.to_offset),
            "size": [int(size) for size in self.size],
            "from_stride": [int(apart) for apart in self.from_stride],
            "to_stride": [int(apart) for apart in self.to_stride],
        }


@dataclass(frozen=True)
class Part:
    """A part of a result, and the operand that it comes from."""

    operand: int
    move: Move


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the elements between neighbours of a dimension, row-major."""
    found = [1]
    for size in reversed(shape[1:]):
        found.append(found[-1] * int(size))
    return tuple(reversed(found)) if shape else ()


def plain(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as whole numbers."""
    return tuple(int(size) for size in shape)


def whole(shape: Sequence[int]) -> Move:
    """Move all of an array."""
    return Move(plain(shape), strides(shape), strides(shape))


def sliced(shape: Sequence[int], start: Sequence[int], step: Sequence[int], size: Sequence[int]) -> Move:
    """Return a part of an array of `shape`, as an array of its own."""
    of = strides(shape)
    offset = sum(first * stride for first, stride in zip(start, of, strict=True))
    apart = tuple(int(one * stride) for one, stride in zip(step, of, strict=True))
    return Move(plain(size), apart, strides(size), int(offset))


def placed(shape: Sequence[int], start: Sequence[int], size: Sequence[int]) -> Move:
    """Return an array as a part of one of `shape`."""
    there = sliced(shape, start, [1] * len(start), size)
    return Move(there.size, there.to_stride, there.from_stride, 0, there.from_offset)


def into_row(shape: Sequence[int], index: int) -> Move:
    """Return an array as one row of a larger one."""
    return Move(plain(shape), strides(shape), strides(shape), 0, index * product(shape))


def out_of_row(shape: Sequence[int], index: int) -> Move:
    """Move one row out of an array."""
    row = shape[1:]
    return Move(plain(row), strides(row), strides(row), index * product(row))


def product(shape: Sequence[int]) -> int:
    """Return the elements."""
    found = 1
    for size in shape:
        found *= int(size)
    return found


def shape_in(equation: Any, operand: int = 0) -> tuple[int, ...]:
    """Shape of an operand."""
    return plain(equation.invars[operand].aval.shape)


def shape_out(equation: Any) -> tuple[int, ...]:
    """Shape of the result."""
    return plain(equation.outvars[0].aval.shape)


def transpose(equation: Any) -> list[Part]:
    """Dimensions in another order."""
    of, out = strides(shape_in(equation)), shape_out(equation)
    return [Part(0, Move(out, tuple(of[dim] for dim in equation.params["permutation"]), strides(out)))]


def broadcast(equation: Any) -> list[Part]:
    """Repeating: a stride of 0."""
    shape, out = shape_in(equation), shape_out(equation)
    apart = [0] * len(out)
    for dim, size, stride in zip(equation.params["broadcast_dimensions"], shape, strides(shape), strict=True):
        apart[dim] = stride if size == out[dim] else 0
    return [Part(0, Move(out, tuple(apart), strides(out)))]


def part(equation: Any) -> list[Part]:
    """Return a slice."""
    params = equation.params
    shape = shape_in(equation)
    step = params["strides"] or [1] * len(shape)
    return [Part(0, sliced(shape, params["start_indices"], step, shape_out(equation)))]


def rev(equation: Any) -> list[Part]:
    """Backwards along some dimensions."""
    shape = shape_in(equation)
    back = set(equation.params["dimensions"])
    start = [size - 1 if dim in back else 0 for dim, size in enumerate(shape)]
    step = [-1 if dim in back else 1 for dim in range(len(shape))]
    return [Part(0, sliced(shape, start, step, shape))]


def concatenate(equation: Any) -> list[Part]:
    """Move the operands one after another."""
    axis = equation.params["dimension"]
    of = strides(shape_out(equation))
    shapes = [shape_in(equation, operand) for operand in range(len(equation.invars))]
    begins = itertools.accumulate((shape[axis] for shape in shapes), initial=0)
    return [
        Part(operand, Move(shape, strides(shape), of, 0, begin * of[axis]))
        for operand, (shape, begin) in enumerate(zip(shapes, begins, strict=False))
    ]


def stack(equation: Any) -> list[Part]:
    """Move them along a new dimension."""
    axis = equation.params["axis"]
    of = strides(shape_out(equation))
    inner = of[:axis] + of[axis + 1 :]
    return [
        Part(operand, Move(shape_in(equation), strides(shape_in(equation)), inner, 0, operand * of[axis]))
        for operand in range(len(equation.invars))
    ]


def pad(equation: Any) -> list[Part]:
    """Return a value all over, and then what is inside."""
    config = equation.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        raise Refused("`pad` that cuts, outside of the kernels")
    shape, out = shape_in(equation), shape_out(equation)
    of = strides(out)
    offset = sum(low * stride for (low, _, _), stride in zip(config, of, strict=True))
    apart = tuple(stride * (inner + 1) for (_, _, inner), stride in zip(config, of, strict=True))
    fill = Part(1, Move(out, (0,) * len(out), of))
    return [fill, Part(0, Move(shape, strides(shape), apart, 0, offset))]


#: Primitives whose places are operands, and how many operands stand before these.
AT = {"dynamic_slice": 1, "dynamic_update_slice": 2}
#: Moves of each primitive.
MOVES: dict[str, Callable[[Any], list[Part]]] = {
    "transpose": transpose,
    "broadcast_in_dim": broadcast,
    "slice": part,
    "rev": rev,
    "concatenate": concatenate,
    "stack": stack,
    "pad": pad,
}
