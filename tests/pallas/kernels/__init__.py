"""The kernels, by name: `CASES`."""

from kernels import elementwise, shapes  # noqa: F401  (enter their cases)
from kernels.case import CASES, Case

__all__ = ["CASES", "Case"]
