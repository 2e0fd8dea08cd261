"""The kernels, by name: `CASES`."""

from kernels import (  # noqa: F401  (enter their cases)
    algorithms,
    blocks,
    control,
    copies,
    elementwise,
    shapes,
)
from kernels.case import CASES, Case

__all__ = ["CASES", "Case"]
