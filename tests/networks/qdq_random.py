"""A random graph by its seed."""

from __future__ import annotations

import numpy as np
import qdq_edges
import qdq_operators
import qdq_products
from onnxruntime.capi import onnxruntime_pybind11_state as refusals
from qdq_graph import QdqGraph, UnsuitableError

PARTS = {
    part.__name__: (part, share)
    for m in (qdq_edges, qdq_operators, qdq_products)
    for part, share in m.PARTS.items()
}
REFUSED = (
    UnsuitableError,
    refusals.Fail,
    refusals.InvalidArgument,
    refusals.InvalidGraph,
    refusals.NotImplemented,
    refusals.RuntimeException,
)

TRIES = 40  #: of parts that the opset or the device does not have


def random_graph(seed: int, *, half: bool, only_i8: bool, names: list[str]) -> QdqGraph:
    """Return some parts, of these names, each of which may use what others made. A single name: one part."""
    rng = np.random.default_rng(seed)
    g = QdqGraph(rng, int(rng.integers(10, 22)), half, only_i8)
    shares = np.array([PARTS[name][1] for name in names])
    left = g.pick([3, 4, 5, 5]) if len(names) > 1 else 1
    for _ in range(TRIES):
        try:
            with g.part():
                PARTS[names[int(rng.choice(len(names), p=shares / shares.sum()))]][0](g)
            left -= 1
        except REFUSED:
            g.opset = max(g.opset, 16) if len(names) == 1 else g.opset  # a part that needs it
        if left == 0:
            break
    return g
