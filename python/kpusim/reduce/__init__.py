"""Networks that fail, cut down to the least that still fails: :func:`reduce` (docs/graph_text.md)."""

from kpusim.reduce.reducing import Reduced, reduce

__all__ = ["Reduced", "reduce"]
