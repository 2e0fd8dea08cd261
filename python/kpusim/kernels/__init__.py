"""Kernels of the vector unit, called with arrays."""

from kpusim.kernels.kernels import Kernel, kernel

__all__ = ["Kernel", "kernel"]
