"""Buffers of kernels and the arrays that go in and come out of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kpusim.base.arrays import Array, host_array
from kpusim.errors import UserError

#: Arrays of each element type; those of bf16 are bit patterns.
DTYPES: dict[str, type[np.generic]] = {
    "bool": np.bool_,
    "f32": np.float32,
    "u64": np.uint64,
    "u32": np.uint32,
    "i32": np.int32,
    "u16": np.uint16,
    "i16": np.int16,
    "u8": np.uint8,
    "i8": np.int8,
    "f16": np.float16,
    "bf16": np.uint16,
    "bytes": np.uint8,
}
#: Types that memory holds instead: the element type of a region, and how many of them an element is.
IN_MEMORY = {"bool": ("u32", 1), "u64": ("u32", 2), "bytes": ("u8", 1)}


@dataclass(frozen=True)
class Buffer:
    """A buffer or scalar of a kernel.

    Attributes
    ----------
    name : str
        As in the text.
    access : str
        ``read``, ``write``, ``read_write``, ``uniform``, ``workgroup``, ``output`` or ``scalar``.
    type : str
        Of an element.
    count : int
        Elements; 0: as many as are bound.
    direct : bool
        Whether the kernel loads or stores it; others are only copied, and may stay in L2.
    """

    name: str
    access: str
    type: str
    count: int
    direct: bool

    @property
    def takes_data(self) -> bool:
        """Return whether a call gives an array for it."""
        return self.access in ("read", "uniform", "read_write")

    @property
    def gives_data(self) -> bool:
        """Return whether a call has it as an output."""
        return self.access in ("write", "output", "read_write")

    @property
    def elem(self) -> str:
        """Element type of its regions."""
        return IN_MEMORY.get(self.type, (self.type, 1))[0]

    @property
    def words(self) -> int:
        """Elements of its regions that one of its own is."""
        return IN_MEMORY.get(self.type, (self.type, 1))[1]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of its arrays."""
        if self.type not in DTYPES:
            raise UserError(
                f"buffer `{self.name}`: {self.type} is not a NumPy type. Fix: declare it as i8 or u8."
            )
        return np.dtype(DTYPES[self.type])

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return 4 if self.type == "bool" else self.dtype.itemsize

    def __str__(self) -> str:
        """Write it as the head of the kernel has it."""
        if self.access == "scalar":
            return f"{self.name}: {self.type}"
        return f"{self.name}: {self.access} {self.type}[{self.count or ''}]"

    def to_memory(self, what: str, values: npt.ArrayLike) -> Array:
        """Give an array as its regions hold it; `what` names it in messages.

        Raises
        ------
        UserError
            For another kind of array, and for values that its type does not have.
        """
        given, _ = host_array(f"the array for {what}", values, lambda: self.type)
        if given.size == 0:
            raise UserError(f"{what} has no elements: the array is empty. Fix: give at least one.")
        held = self._converted(what, given.reshape(-1))
        return (
            held.astype(np.uint32)
            if self.type == "bool"
            else held.view(np.uint32)
            if self.type == "u64"
            else held
        )

    def _converted(self, what: str, given: Array) -> Array:
        wanted = self.dtype
        if wanted.kind == "f" and given.dtype.kind == "f":
            with np.errstate(over="ignore"):
                held = given.astype(wanted)
            if not np.array_equal(np.isfinite(given), np.isfinite(held)):
                raise UserError(
                    f"{what} is {self.type}, and the array has values beyond it. Fix: scale them."
                )
            return held
        numbers = given.dtype.kind in "iu" or (given.dtype.kind == "b" and self.type in ("bool", "u8"))
        if wanted.kind == "f" or not numbers or (self.type == "bf16" and given.dtype != wanted):
            how = (
                "give its bits as uint16"
                if self.type == "bf16"
                else f"convert it, as by .astype(np.{wanted.name})"
            )
            raise UserError(f"{what} is {self.type}, the array {given.dtype}. Fix: {how}.")
        limits = np.iinfo(np.uint8 if self.type == "bool" else wanted.name)
        least, most = (0, 1) if self.type == "bool" else (int(limits.min), int(limits.max))
        low, high = int(given.min()), int(given.max())
        if low < least or high > most:
            raise UserError(
                f"{what} is {self.type}, and the array has values from {low} to {high}. "
                f"Fix: keep them in {least} to {most}."
            )
        return given.astype(wanted)

    def from_memory(self, held: Array) -> Array:
        """Give what its regions hold as an array of its type."""
        return held != 0 if self.type == "bool" else held.view(np.uint64) if self.type == "u64" else held
