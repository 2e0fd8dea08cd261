"""Work of a step: pieces that are simulated once, and how often each comes."""

from __future__ import annotations

from dataclasses import dataclass

from kpusim.llm.architecture import Layer, Model
from kpusim.llm.experts import Routing
from kpusim.llm.formats import Formats
from kpusim.llm.graph import Graph
from kpusim.llm.layers import Step, head, layer


@dataclass(frozen=True)
class Piece:
    """A part of a step that is one program: a layer of some kind, the head, or all of the model.

    Attributes
    ----------
    layer : Layer or None
        None: the head, with the last norm.
    whole : bool
        All layers and the head.
    """

    step: Step
    layer: Layer | None = None
    whole: bool = False

    def name(self) -> str:
        """Name it for people."""
        what = "whole" if self.whole else "head" if self.layer is None else f"layer ({self.layer.name()})"
        if self.layer is None and not self.whole:
            return f"{what}, batch {self.step.batch}"
        behind = f"context {self.step.context}"
        length = f"prompt {self.step.tokens}" if self.step.context is None else behind
        return f"{what}, {length}, batch {self.step.batch}"


def pieces_of(model: Model, step: Step, *, whole: bool) -> dict[Piece, int]:
    """Return the pieces of a step, with how often each comes."""
    if whole:
        return {Piece(step, whole=True): 1}
    counts = {Piece(step, kind): count for kind, count in _by_reach(model, step).items()}
    last = Step(step.batch, 1, None)  # of a prompt, the head sees the last token alone
    return {**counts, Piece(last): 1}


def resident_bytes(model: Model, step: Step, formats: Formats) -> float:
    """Count the bytes in DRAM for a step: all weights, of each expert too, and the longer cache."""
    total = graph_of(Piece(Step(1, 1, None)), model, formats, Routing()).weight_bytes
    for one, count in model.kinds().items():
        tokens = 64 * max(one.feed.experts, 1)  # so many that each expert is chosen
        total += graph_of(Piece(Step(1, tokens, None), one), model, formats, Routing()).weight_bytes * count
        attention = one.attention
        seen = step.tokens if step.context is None else step.context + 1
        kept = seen if attention.window is None else min(seen, attention.window)
        row = 2 * attention.kv_heads * attention.head_dim * formats.cache_bytes
        total += step.batch * kept * row * count
    return total


def _by_reach(model: Model, step: Step) -> dict[Layer, int]:
    """Layers that are unlike in this step: before a window is full, those that slide are as the others."""
    counts: dict[Layer, int] = {}
    same: dict[tuple[object, ...], Layer] = {}
    for one, count in model.kinds().items():
        past = None if step.context is None else one.attention.cached(step.context)
        parts = (one.attention.heads, one.attention.kv_heads, one.attention.head_dim, one.attention.rotary)
        options = (one.attention.bias, one.attention.out_bias, one.attention.norms, one.attention.softcap)
        rest = (one.feed, one.norm, one.norm_before, one.norm_behind, one.parallel, one.shared_norm)
        kind = same.setdefault((past, parts, options, rest), one)
        counts[kind] = counts.get(kind, 0) + count
    return counts


def graph_of(piece: Piece, model: Model, formats: Formats, routing: Routing) -> Graph:
    """Return a piece as a model without weights."""
    graph = Graph(model.name, formats)
    step = piece.step
    x = graph.input("x", [step.rows, model.hidden])
    if piece.whole:
        for number, one in enumerate(model.layers):
            graph.prefix = f"layer{number}."
            x = layer(graph, x, model, one, step, routing)
        graph.prefix = ""
    if piece.layer is not None:
        graph.output("y", layer(graph, x, model, piece.layer, step, routing))
    else:
        head(graph, x, model, step)
    return graph
