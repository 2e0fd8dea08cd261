"""The kernels, by name: `CASES`."""

from kernels import (  # noqa: F401  (enter their cases)
    algorithms,
    attention,
    blocks,
    callers,
    control,
    copies,
    cores,
    eighths,
    elementwise,
    library,
    narrow,
    nests,
    networks,
    places,
    pooling,
    randoms,
    scans,
    scatters,
    shapes,
    strangers,
    streams,
    transfers,
    tutorials,
    windows,
)
from kernels.case import CASES, Case

__all__ = ["CASES", "Case"]
