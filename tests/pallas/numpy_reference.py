"""The exported form, executed by NumPy: what it means, apart from any device, and without jax.

Slow and strict: an index outside of a ref, a block outside of its array, and a semaphore that is not 0 at
the end are errors. Memory that nobody wrote holds 170 in every byte.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Json = dict[str, Any]
TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "i2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
    "f8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "dma_semaphore": np.int64,
    "semaphore": np.int64,
}


def fresh(kind: str, shape: Sequence[int]) -> np.ndarray:
    """Memory that nobody wrote; semaphores are 0."""
    dtype = np.dtype(TYPES[kind])
    count = math.prod(shape)
    if "semaphore" in kind:
        return np.zeros(shape, dtype)
    data = np.full(count * dtype.itemsize, 1 if kind == "bool" else 170, np.uint8)
    return data.view(dtype).reshape(shape)


def run(document: Json, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of a document."""
    arrays = []
    given = iter(inputs)
    for row in document["arrays"]:
        dtype = TYPES[row["type"]]
        if row["role"] == "input":
            arrays.append(np.array(next(given), dtype).reshape(row["shape"]))
        elif row["role"] == "constant":
            data = np.frombuffer(base64.b64decode(row["data"]), dtype)
            arrays.append(data.reshape(row["shape"]).copy())
        else:
            arrays.append(fresh(row["type"], row["shape"]))
    for step in document["steps"]:
        if "move" in step:
            move(step["move"], arrays)
        else:
            Call(step["call"], arrays).run()
    return [array for array, row in zip(arrays, document["arrays"], strict=True) if row["role"] == "output"]


def move(form: Json, arrays: list[np.ndarray]) -> None:
    """A strided copy."""
    grid = np.indices(form["size"]).reshape(len(form["size"]), math.prod(form["size"]))
    places = []
    for side in ("from", "to"):
        apart = np.array(form[side + "_stride"], np.int64)
        place = form[side + "_offset"] + (apart[:, None] * grid).sum(axis=0)
        assert place.min() >= 0
        assert place.max() < arrays[form[side]].size
        places.append(place.astype(np.int64))
    assert len(set(places[1].tolist())) == places[1].size, "a destination written twice"
    arrays[form["to"]].reshape(-1)[places[1]] = arrays[form["from"]].reshape(-1)[places[0]]


@dataclass
class Ref:
    """A view of memory: where each of its elements stands."""

    memory: np.ndarray  #: flat
    places: np.ndarray

    def read(self) -> np.ndarray:
        """Return its elements."""
        return self.memory[self.places]

    def write(self, value: np.ndarray) -> None:
        """Set them."""
        self.memory[self.places] = np.broadcast_to(value, self.places.shape)


def whole(array: np.ndarray) -> Ref:
    """Return a ref of all of an array."""
    return Ref(array.reshape(-1), np.arange(array.size).reshape(array.shape))


class Call:
    """One call."""

    def __init__(self, form: Json, arrays: list[np.ndarray]) -> None:
        self.form = form
        self.arrays = arrays
        self.values: dict[int, Any] = {}
        self.step: tuple[int, ...] = ()

    def run(self) -> None:
        """All steps of the grid: blocks in, body, blocks out."""
        rows = self.form["operands"]
        bounds = [self.arrays[row["array"]].item() for row in rows if row["role"] == "bound"]
        self.grid = [size if isinstance(size, int) else bounds[size["bound"]] for size in self.form["grid"]]
        for row in rows:
            if row["role"] != "bound" and "block" not in row:
                self.values[row["ref"]] = whole(self.arrays[row["array"]].reshape(row["shape"]))
        semaphores = []
        for var in self.form["scratch"]:
            self.values[var] = self.memory(var)
            if "semaphore" in self.type(var)["type"]:
                semaphores.append(self.values[var])
        blocks = [Block(self, row) for row in rows if "block" in row]
        steps = list(itertools.product(*(range(size) for size in self.grid)))
        for number, self.step in enumerate(steps):
            for block in blocks:
                block.enter()
            self.block(self.form["body"])
            for block in blocks:
                block.leave(None if number + 1 == len(steps) else steps[number + 1])
        assert all(not ref.memory.any() for ref in semaphores), "a semaphore is not 0 at the end"

    def type(self, var: int) -> Json:
        """Type of a variable."""
        found: Json = self.form["types"][self.form["vars"][var]]
        return found

    def memory(self, var: int) -> Ref:
        """New memory for a ref."""
        kind = self.type(var)
        return whole(fresh(kind["type"], kind["shape"]))

    def atom(self, atom: Any) -> Any:
        """Value of a variable or a literal."""
        if isinstance(atom, int):
            return self.values[atom]
        kind, bits = atom
        dtype = np.dtype(TYPES[kind])
        return np.frombuffer(int(bits).to_bytes(dtype.itemsize, "little"), dtype)[0].reshape(())

    def block(self, form: Json, inputs: Sequence[Any] = ()) -> list[Any]:
        """Results of a block."""
        self.values.update(zip(form["inputs"], inputs, strict=True))
        for equation in form["equations"]:
            self.equation(equation)
        return [self.atom(atom) for atom in form["results"]]

    def equation(self, form: Json) -> None:
        """One equation: a method for what touches refs or has blocks, else a function of values."""
        out = form.get("out", [])
        values = [self.atom(atom) for atom in form.get("in", [])]
        method = getattr(self, "do_" + form["op"], None)
        if method is not None:
            results = method(form, *values)
        else:
            from numpy_operations import OPERATIONS

            with np.errstate(all="ignore"):
                results = OPERATIONS[form["op"]](form, self.type(out[0]), *values)
        if not isinstance(results, list):
            results = [results]
        for var, value in zip(out, results, strict=False):
            kind = self.type(var)
            assert list(np.shape(value)) == kind["shape"], (form, np.shape(value))
            self.values[var] = np.asarray(value).astype(TYPES[kind["type"]])

    def ref(self, form: Json) -> Ref:
        """Return a ref with its transforms."""
        found: Ref = self.values[form["ref"]]
        for kind, argument in form.get("at", []):
            if kind == "reshape":
                found = Ref(found.memory, found.places.reshape(argument))
            elif kind == "transpose":
                found = Ref(found.memory, found.places.transpose(argument))
            elif kind == "bitcast":
                found = bitcast(found, np.dtype(TYPES[argument]))
            else:
                found = Ref(found.memory, indexed(found.places, [self.index(item) for item in argument]))
        return found

    def index(self, item: Any) -> Any:
        """Return a slice or numbers."""
        if isinstance(item, list) and item[0] == "slice":
            start = int(self.atom(item[1]))
            return start + np.arange(item[2]) * item[3], True
        return np.asarray(self.atom(item)), False

    def do_program_id(self, form: Json) -> Any:
        return np.int32(self.step[form["axis"]])

    def do_num_programs(self, form: Json) -> Any:
        return np.int32(self.grid[form["axis"]])

    def do_get(self, form: Json) -> Any:
        return self.ref(form["refs"][0]).read()

    def do_swap(self, form: Json, value: Any) -> Any:
        ref = self.ref(form["refs"][0])
        old = ref.read()
        ref.write(value)
        return old

    def do_addupdate(self, form: Json, value: Any) -> Any:
        ref = self.ref(form["refs"][0])
        ref.write(ref.read() + value)
        return []

    def do_masked_load(self, form: Json, mask: Any, other: Any = None) -> Any:
        found = self.ref(form["refs"][0]).read()
        return np.where(mask, found, found if other is None else other)

    def do_masked_swap(self, form: Json, value: Any, mask: Any) -> Any:
        ref = self.ref(form["refs"][0])
        old = ref.read()
        ref.write(np.where(mask, value, old))
        return np.where(mask, old, value)

    def do_dma_start(self, form: Json) -> Any:
        source, target, semaphore = (self.ref(row) for row in form["refs"])
        target.write(source.read())
        semaphore.memory[semaphore.places] += source.places.size
        return []

    def do_dma_wait(self, form: Json) -> Any:
        _, target, semaphore = (self.ref(row) for row in form["refs"])
        semaphore.memory[semaphore.places] -= target.places.size
        assert semaphore.read() >= 0, "a wait that nothing satisfies"
        return []

    def do_semaphore_signal(self, form: Json, count: Any) -> Any:
        semaphore = self.ref(form["refs"][0])
        semaphore.memory[semaphore.places] += count
        return []

    def do_semaphore_wait(self, form: Json, count: Any) -> Any:
        semaphore = self.ref(form["refs"][0])
        assert semaphore.read() >= count, "a wait that nothing satisfies"
        if form["decrement"]:
            semaphore.memory[semaphore.places] -= count
        return []

    def do_semaphore_read(self, form: Json) -> Any:
        return self.ref(form["refs"][0]).read()

    def do_run_scoped(self, form: Json) -> Any:
        (block,) = form["blocks"]
        memory = [self.memory(var) for var in block["inputs"]]
        results = self.block(block, memory)
        for var, ref in zip(block["inputs"], memory, strict=True):
            assert "semaphore" not in self.type(var)["type"] or not ref.memory.any()
        return results

    def do_cond(self, form: Json, which: Any) -> Any:
        blocks = form["blocks"]
        return self.block(blocks[min(max(int(which), 0), len(blocks) - 1)])

    def do_while(self, form: Json, *state: Any) -> Any:
        condition, body = form["blocks"]
        values = list(state)
        while np.any(going := np.asarray(self.block(condition, values)[0])):
            changed = self.block(body, values)
            if going.ndim == 0:
                values = list(changed)
                continue
            for i, (new, old) in enumerate(zip(changed, values, strict=True)):  # each row ends by itself
                rows = going.reshape(going.shape + (1,) * (np.ndim(new) - going.ndim))
                values[i] = np.where(rows, new, old)
        return values

    def do_scan(self, form: Json, *values: Any) -> Any:
        (body,) = form["blocks"]
        count, length = form["carries"], form["length"]
        state, slices = list(values[:count]), values[count:]
        rows: list[Any] = [None] * length
        for index in reversed(range(length)) if form["reverse"] else range(length):
            results = self.block(body, [*state, *(value[index] for value in slices)])
            state, rows[index] = results[:count], results[count:]
        return [*state, *(np.stack(column) for column in zip(*rows, strict=True))]


class Block:
    """A block of an operand, and the memory that it is copied to."""

    def __init__(self, call: Call, row: Json) -> None:
        self.call, self.row = call, row
        self.array = call.arrays[row["array"]].reshape(row["shape"])
        self.form = row["block"]
        self.start: list[int] | None = None
        self.done: set[tuple[int, ...]] = set()
        place = call.form["operands"].index(row)
        self.is_aliased = any(output == place for _, output in call.form["aliases"])

    def at(self, step: tuple[int, ...]) -> list[int]:
        """Return where it stands at a step, in elements."""
        indices = [np.int32(index) for index in step]
        found = self.call.block(self.form["map"], indices)
        start = []
        for index, dim, size in zip(found, self.form["dims"], self.row["shape"], strict=True):
            place = int(index) * (dim[1] if dim[0] == "blocked" else 1) - (
                dim[2] if dim[0] == "element" else 0
            )
            high = dim[3] if dim[0] == "element" else 0
            low = -dim[2] if dim[0] == "element" else 0
            assert low <= place < size + high, f"block at {place} of {size}"
            start.append(place)
        return start

    def parts(self) -> tuple[Any, Any]:
        """Return what of the array, and of the block, is there."""
        assert self.start is not None
        of_array, of_block = [], []
        for start, dim, size in zip(self.start, self.form["dims"], self.row["shape"], strict=True):
            count = 1 if dim[0] == "squeezed" else dim[1]
            first, end = max(start, 0), min(start + count, size)
            of_array.append(slice(first, end))
            of_block.append(slice(first - start, end - start))
        return tuple(of_array), tuple(of_block)

    def full(self, ref: Ref) -> np.ndarray:
        """Return the block with its squeezed dimensions."""
        return ref.memory.reshape([1 if dim[0] == "squeezed" else dim[1] for dim in self.form["dims"]])

    def enter(self) -> None:
        """Copy an input, give an output memory, if the start changed."""
        start = self.at(self.call.step)
        if start == self.start:
            return
        self.start = start
        ref = self.call.values[self.row["ref"]] = self.call.memory(self.row["ref"])
        if self.row["role"] == "input":
            of_array, of_block = self.parts()
            self.full(ref)[of_block] = self.array[of_array]
        else:
            assert tuple(start) not in self.done, "an output block is visited again"
            self.done.add(tuple(start))
            if self.is_aliased:
                of_array, of_block = self.parts()
                self.full(ref)[of_block] = self.array[of_array]

    def leave(self, after: tuple[int, ...] | None) -> None:
        """Write an output back if its start changes."""
        if self.row["role"] == "input" or (after is not None and self.at(after) == self.start):
            return
        of_array, of_block = self.parts()
        self.array[of_array] = self.full(self.call.values[self.row["ref"]])[of_block]


def bitcast(ref: Ref, dtype: np.dtype) -> Ref:
    """Return the same bytes as another type; a narrower one has more rows."""
    old = ref.memory.dtype.itemsize
    memory = ref.memory.view(dtype)
    if old == dtype.itemsize:
        return Ref(memory, ref.places)
    if old > dtype.itemsize:
        parts = old // dtype.itemsize
        places = ref.places[..., :, None, :] * parts + np.arange(parts)[:, None]
        shape = (*ref.places.shape[:-2], ref.places.shape[-2] * parts, ref.places.shape[-1])
        return Ref(memory, places.reshape(shape))
    raise NotImplementedError("a bitcast to a wider type")


def indexed(places: np.ndarray, items: Sequence[tuple[np.ndarray, bool]]) -> np.ndarray:
    """NumPy's rules of indices, each of which is checked."""
    for (values, _), size in zip(items, places.shape, strict=True):
        assert values.size == 0 or (values.min() >= 0 and values.max() < size), "an index outside of a ref"
    numbers = [dim for dim, (_, is_slice) in enumerate(items) if not is_slice]
    if not numbers:
        return places[np.ix_(*(values for values, _ in items))] if items else places
    # numbers first; then to where they stand, if they are adjacent
    order = numbers + [dim for dim in range(len(items)) if dim not in numbers]
    moved = places.transpose(order)[tuple(np.broadcast_arrays(*(items[dim][0] for dim in numbers)))]
    rank = moved.ndim - (len(items) - len(numbers))
    for axis, dim in enumerate(dim for dim in range(len(items)) if dim not in numbers):
        moved = moved.take(items[dim][0], axis=rank + axis)
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        moved = np.moveaxis(moved, range(rank), range(numbers[0], numbers[0] + rank))
    return moved
