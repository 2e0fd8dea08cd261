"""The kernels, by name: `CASES`."""

from kernels import (  # noqa: F401  (enter their cases)
    algorithms,
    blocks,
    control,
    copies,
    elementwise,
    networks,
    shapes,
    tutorials,
)
from kernels.case import CASES, Case

__all__ = ["CASES", "Case"]
