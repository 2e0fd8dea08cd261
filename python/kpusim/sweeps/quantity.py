"""Numbers with units, as people write them in a sweep: ``512KiB``, ``2 W``, ``5ms``, ``6``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kpusim.errors import UserError

#: Units by what they measure, each with its size in the first one of its row.
DIMENSIONS: dict[str, dict[str, float]] = {
    "bytes": {
        "byte": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
        "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    },
    "time": {"ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12},
    "frequency": {"Hz": 1, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "data rate": {"MT/s": 1, "GT/s": 1e3},
    "energy": {"pJ": 1, "nJ": 1e3, "uJ": 1e6, "mJ": 1e9, "J": 1e12},
    "power": {"uW": 1, "mW": 1e3, "W": 1e6},
    "area": {"um2": 1, "mm2": 1e6},
    "length": {"nm": 1, "um": 1e3},
    "share": {"%": 1},
    "voltage": {"mV": 1, "V": 1e3},
    "temperature": {"C": 1},
    "cycles": {"cycle": 1, "cycles": 1},
}  # fmt: skip
DIMENSION_OF = {unit: name for name, units in DIMENSIONS.items() for unit in units}
_BY_LENGTH = sorted(map(re.escape, DIMENSION_OF), key=len, reverse=True)
NUMBER = r"(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
#: A number and its unit, if it has one; letters must not follow it. In `9 % 2` there is a remainder.
QUANTITY = re.compile(rf"({NUMBER})\s*((?:{'|'.join(_BY_LENGTH)})(?![\w/]|(?<=%)\s*[\w.(]))?")


@dataclass(frozen=True)
class Quantity:
    """A number, in a unit or in that of whatever it meets.

    Attributes
    ----------
    value : float
        An int where it is whole, so that large ones stay exact.
    unit : str
        A key of ``DIMENSION_OF``, another one that only equals itself (``byte/cycle``), or empty: bare.
    """

    value: float
    unit: str = ""

    def in_unit(self, unit: str) -> Quantity:
        """The same in another unit. A bare number is one of it; a UserError for a unit of another kind."""
        if not self.unit or self.unit == unit:
            return Quantity(self.value, unit)
        kind = DIMENSION_OF.get(self.unit)
        if not unit and kind is None:  # byte/cycle: nobody can write it, so nobody has meant another one
            return Quantity(self.value)
        if not unit:
            raise UserError(f"`{self}` is needed as a plain number. Fix: leave the unit out.")
        if kind is None or kind != DIMENSION_OF.get(unit):
            raise UserError(f"`{self}` is needed in {unit}. Fix: give {_units_like(unit)}.")
        sizes = DIMENSIONS[kind]
        return Quantity(whole(self.value * sizes[self.unit] / sizes[unit]), unit)

    def __str__(self) -> str:
        """Write it as one would."""
        number = f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
        return f"{number} {self.unit}".rstrip()


def _units_like(unit: str) -> str:
    """Return the units that a value of this one can be given in."""
    kind = DIMENSION_OF.get(unit)
    return f"a number of {unit}" if kind is None else f"one of {', '.join(DIMENSIONS[kind])}"


def whole(value: float) -> float:
    """Return an int where it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def number_of(text: str) -> float:
    """Return a number as it is written; an int where it is whole."""
    plain = text.replace("_", "")
    return int(plain) if plain.isdigit() else whole(float(plain))


def quantity_of(text: str) -> Quantity | None:
    """Return the quantity that a text is, signed or not; None when it is something else."""
    stripped = text.strip()
    sign = -1 if stripped.startswith("-") else 1
    match = QUANTITY.fullmatch(stripped.lstrip("+-").strip())
    if match is None or stripped[:2] in ("--", "+-", "-+", "++"):
        return None
    value = number_of(match[1])
    return Quantity(sign * value, match[2] or "") if math.isfinite(value) else None
