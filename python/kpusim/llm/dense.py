"""Feed-forward parts without experts, and of one."""

from __future__ import annotations

from kpusim.llm.architecture import Feed
from kpusim.llm.graph import Graph


def dense(graph: Graph, x: str, hidden: int, one: Feed, name: str) -> str:
    """Products to the inner width and back."""
    inner = graph.linear(x, hidden, one.width, f"{name}gate" if one.gated else f"{name}up", bias=one.bias)
    if one.activation == "silu":
        inner = graph.node("Mul", [inner, graph.node("Sigmoid", [inner], f"{name}sigmoid")], f"{name}silu")
    elif one.activation == "relu":
        inner = graph.node("Relu", [inner], f"{name}relu")
    else:
        form = "tanh" if one.activation == "gelu_tanh" else "none"
        inner = graph.node("Gelu", [inner], f"{name}gelu", approximate=form)
    if one.gated:
        up = graph.linear(x, hidden, one.width, f"{name}up", bias=one.bias)
        inner = graph.node("Mul", [inner, up], f"{name}gated")
    return graph.linear(inner, one.width, hidden, f"{name}down", bias=one.bias)
