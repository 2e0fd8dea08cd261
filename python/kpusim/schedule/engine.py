"""Engines that execute tile schedules, on an arena and on tensors in DRAM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.base.arrays import Array, host_array
from kpusim.errors import UserError
from kpusim.schedule.files import SchedOp

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: NumPy types of tensors; bf16 travels as its bit patterns.
_DTYPES: dict[str, npt.DTypeLike] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "i8": np.int8,
    "i32": np.int32,
}


@dataclass
class EngineConfig:
    """Settings of an engine.

    Attributes
    ----------
    sram_bytes : int
        Size of the arena, bytes.
    trace : bool
        Keep a line of text for each op of the last execute (`Engine.trace`).
    tile : int
        Rows and columns of a tile.
    elem : str
        Type of the operands: f32, f16, bf16 or i8. Accumulators are f32, of i8 i32.
    platform : str
        Name or path of the platform whose cycles `EngineStats` tells.
    """

    sram_bytes: int = 256 * 1024
    trace: bool = False
    tile: int = 32
    elem: str = "f32"
    platform: str = "tile32"


class EngineStats:
    """Counts of what an engine has executed so far.

    Counts are those of the moment when the statistics were taken. Cycles come from the model, which simulates
    when one of them is read first, and include every execute until then, as if one ran after the other.

    Attributes
    ----------
    loads, executes, stores : int
        Ops of each kind.
    """

    def __init__(self, core: _core.ScheduleEngine) -> None:
        self._core = core
        self.loads, self.executes, self.stores = core.counts()
        self._timing: tuple[int, int, int, float] | None = None

    def __call__(self) -> EngineStats:
        """Give the statistics themselves: ``engine.stats()`` and ``engine.stats`` are the same."""
        return self

    def _timed(self) -> tuple[int, int, int, float]:
        if self._timing is None:
            self._timing = self._core.timing()
        return self._timing

    @property
    def cycles(self) -> int:
        """Core cycles on the platform.

        Raises
        ------
        UserError
            When the platform cannot run the schedule.
        """
        return self._timed()[0]

    @property
    def dma_busy(self) -> int:
        """Core cycles in which a transfer between DRAM and SRAM is executed."""
        return self._timed()[1]

    @property
    def compute_busy(self) -> int:
        """Core cycles in which a systolic array executes."""
        return self._timed()[2]

    @property
    def overlap(self) -> float:
        """(dma_busy + compute_busy) / cycles: 1 one after the other, 2 both all the time."""
        return self._timed()[3]

    def __repr__(self) -> str:
        """Show the counts; cycles only when they are known."""
        timing = f", cycles={self._timing[0]}, overlap={self._timing[3]:.2f}" if self._timing else ""
        return f"EngineStats(loads={self.loads}, executes={self.executes}, stores={self.stores}{timing})"


def _as_type(name: str, value: npt.ArrayLike, elem: str, shape: tuple[int, int]) -> Array:
    """Bring values into a tensor's type and shape; floats are rounded once, integers must fit."""
    array, _ = host_array(name, value)
    if array.size != shape[0] * shape[1] or (array.ndim != 1 and array.shape != shape):
        raise UserError(
            f"tensor `{name}` is {shape[0]} x {shape[1]}, the array has shape {array.shape}. "
            "Fix: give that shape, or as many elements in one dimension."
        )
    dtype = np.dtype(_DTYPES[elem])
    if elem == "bf16":
        if array.dtype.kind == "u":
            return array.astype(np.uint16, casting="safe" if array.dtype.itemsize <= 2 else "same_kind")
        return _bf16_bits(array.astype(np.float64))
    if dtype.kind == "f":
        return np.ascontiguousarray(array, dtype)
    if array.dtype.kind == "f":
        raise UserError(f"tensor `{name}` is {elem}, the array has dtype {array.dtype}. Fix: give integers.")
    info = np.iinfo(dtype)
    if array.size > 0 and (array.min() < info.min or array.max() > info.max):
        raise UserError(f"tensor `{name}` is {elem}, the array has values outside [{info.min}, {info.max}].")
    return np.ascontiguousarray(array, dtype)


def _bf16_bits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Bit patterns of the nearest bf16, ties to even, of values that f32 holds; every NaN is 0x7fc0."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


class Engine:
    """Executes schedules; one op after the other.

    Parameters
    ----------
    config : EngineConfig, optional
        Size of the arena and more.

    Raises
    ------
    UserError
        For sizes and types that cannot be.
    """

    def __init__(self, config: EngineConfig | None = None) -> None:
        self.config = config or EngineConfig()
        _check_int("sram_bytes", self.config.sram_bytes)
        _check_int("tile", self.config.tile)
        self._core = _core.ScheduleEngine(
            self.config.sram_bytes,
            bool(self.config.trace),
            self.config.tile,
            self.config.elem,
            os.fspath(self.config.platform),
        )

    def register_tensor(
        self, name: str, rows: int, cols: int, elem: str | None = None, scale: float | None = None
    ) -> int:
        """Make a tensor of zeros.

        Parameters
        ----------
        name : str
            Letters, digits, ``_ . : -``.
        rows, cols : int
            Its size; it is padded to whole tiles with zeros.
        elem : str, optional
            Type; the tile type when left out. A STORE converts to it.
        scale : float, optional
            Real value of one step of an i8 tensor; a STORE to i8 needs it.

        Returns
        -------
        int
            The id that ops carry: 0, 1, 2 ...
        """
        _check_int("rows", rows)
        _check_int("cols", cols)
        return self._core.register_tensor(name, rows, cols, elem or "", scale or 0.0)

    def set_tensor(self, name: str, data: npt.ArrayLike) -> None:
        """Set the values of a tensor.

        Parameters
        ----------
        name : str
            Of the tensor.
        data : array_like
            rows x cols values, or as many in one dimension. Floats are rounded to the tensor's type; integer
            tensors take integers that fit; bf16 takes floats, or its bit patterns as uint16.
        """
        rows, cols, elem = self._core.describe(name)
        self._core.set_tensor(name, _as_type(name, data, elem, (rows, cols)))

    def get_tensor(self, name: str, out: Array | None = None) -> Array:
        """Get the values of a tensor.

        Parameters
        ----------
        name : str
            Of the tensor.
        out : ndarray, optional
            Where to put them: a writable array of as many elements.

        Returns
        -------
        ndarray
            `out`, or a new array of rows x cols.
        """
        rows, cols, elem = self._core.describe(name)
        values = np.empty((rows, cols), _DTYPES[elem])
        self._core.get_tensor(name, values)
        if out is None:
            return values
        if not isinstance(out, np.ndarray) or out.size != values.size:
            shape = getattr(out, "shape", type(out).__name__)
            raise UserError(
                f"tensor `{name}` is {rows} x {cols}, the output is {shape}. Fix: give as much room."
            )
        if not out.flags.writeable:
            raise UserError(
                f"the output for tensor `{name}` is read-only. Fix: give an array that can be written."
            )
        if not np.can_cast(values.dtype, out.dtype, "same_kind"):
            raise UserError(
                f"tensor `{name}` is {elem}, the output has dtype {out.dtype}. Fix: give {values.dtype}."
            )
        np.copyto(out, values.reshape(out.shape), casting="same_kind")
        return out

    def execute(self, schedule: Buffer | Sequence[SchedOp]) -> None:
        """Execute a schedule: the arena is cleared, then its ops run.

        Parameters
        ----------
        schedule : bytes or sequence of ops
            The packed form, or SchedLoad, SchedExecute and SchedStore.

        Raises
        ------
        ScheduleError
            When it is not legal; nothing of it has run then.
        """
        self._core.execute(schedule)

    def execute_ops(self, schedule: Sequence[SchedOp]) -> None:
        """Execute a list of ops, as `execute`."""
        self._core.execute(schedule)

    @property
    def stats(self) -> EngineStats:
        """Counts of what was executed so far; may also be called, as a method."""
        return EngineStats(self._core)

    @property
    def trace(self) -> list[str]:
        """A line for each op of the last execute, with ``EngineConfig(trace=True)``."""
        return self._core.trace()


class Runtime:
    """The engine with shapes instead of rows and columns.

    Parameters
    ----------
    sram_bytes : int
        Size of the arena, bytes.
    trace : bool
        As in `EngineConfig`, like the others.
    """

    def __init__(
        self,
        sram_bytes: int = 256 * 1024,
        *,
        trace: bool = False,
        tile: int = 32,
        elem: str = "f32",
        platform: str = "tile32",
    ) -> None:
        self._engine = Engine(EngineConfig(sram_bytes, trace, tile, elem, platform))

    def register_tensor(
        self, name: str, shape: tuple[int, int], elem: str | None = None, scale: float | None = None
    ) -> int:
        """Make a tensor of zeros of a shape (rows, columns); gives its id."""
        if len(shape) != 2:
            raise UserError(f"tensor `{name}` has shape {tuple(shape)}. Fix: give two extents.")
        return self._engine.register_tensor(name, shape[0], shape[1], elem, scale)

    def set_tensor(self, name: str, data: npt.ArrayLike) -> None:
        """Set the values of a tensor, as `Engine.set_tensor`."""
        self._engine.set_tensor(name, data)

    def get_tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        """Get the values of a tensor, in its own shape or another one of as many elements."""
        values = self._engine.get_tensor(name)
        if shape is None:
            return values
        try:
            return values.reshape(shape)
        except ValueError as error:
            raise UserError(f"tensor `{name}` has shape {values.shape}, not {tuple(shape)}.") from error

    def execute(self, schedule: Buffer | Sequence[SchedOp]) -> None:
        """Execute a schedule, as `Engine.execute`."""
        self._engine._core.execute(schedule)

    execute_ops = execute

    @property
    def stats(self) -> EngineStats:
        """Counts of what was executed so far."""
        return self._engine.stats

    @property
    def trace(self) -> list[str]:
        """Lines of `Engine.trace`."""
        return self._engine.trace


def _check_int(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise UserError(f"{name} is {value!r}. Fix: give a whole number.")
