"""The smallest part of a wrong graph that is still wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qdq_graph import QdqGraph


def without(g: QdqGraph, leave: set[str]) -> QdqGraph:
    """Return the graph without some nodes; what others read of theirs are inputs."""
    nodes = [node for node in g.nodes if node.output[0] not in leave]
    made = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in node.input if name}
    inputs = {name: g.values[name] for name in sorted(read) if name not in made and name not in g.constants}
    return replace(g, nodes=nodes, inputs=inputs, outputs=[name for name in g.outputs if name in made])


def reduced(g: QdqGraph, is_wrong: Callable[[QdqGraph], bool]) -> QdqGraph:
    """Leaves out nodes as long as it stays wrong."""
    size = 0
    while size != len(g.nodes):
        size = len(g.nodes)
        for node in reversed(list(g.nodes)):
            if len(g.nodes) > 1 and is_wrong(smaller := without(g, {node.output[0]})):
                g = smaller
    return g
