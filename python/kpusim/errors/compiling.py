"""Models that cannot be compiled: what `kpusim.kpu` and `kpusim.torch` raise."""

from __future__ import annotations

from kpusim.errors import KpusimError, UserError


class KPUError(KpusimError):
    """Base of the errors of a KPU."""


class CompilationError(KPUError, UserError):
    """A model that cannot be compiled."""


class UnsupportedOpError(CompilationError):
    """A model with operators that cannot be compiled; ``ops`` are their names."""

    def __init__(self, ops: list[str], text: str = "") -> None:
        self.ops = ops
        super().__init__(text or f"Unsupported operators: {', '.join(ops)}")

    def __reduce__(self) -> tuple[type[UnsupportedOpError], tuple[list[str], str]]:
        """Pickle with the names."""
        return type(self), (self.ops, str(self))
