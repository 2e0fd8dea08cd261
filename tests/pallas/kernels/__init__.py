"""The kernels, by name: `CASES`."""

from kernels import (  # noqa: F401  (enter their cases)
    algorithms,
    blocks,
    callers,
    control,
    copies,
    elementwise,
    narrow,
    nests,
    networks,
    places,
    shapes,
    transfers,
    tutorials,
    windows,
)
from kernels.case import CASES, Case

__all__ = ["CASES", "Case"]
