"""Architecture of a language model, as far as time depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Activation = Literal["silu", "gelu", "gelu_tanh", "relu"]
Norm = Literal["rms", "layer", "layer_plain"]


@dataclass(frozen=True)
class Attention:
    """Attention of a layer.

    Attributes
    ----------
    heads, kv_heads, head_dim : int
        Heads of queries, those of keys and values, and the numbers of one.
    rotary : int
        Numbers of a head that are rotated by the position; 0: none.
    window : int or None
        Positions that a token sees at most, itself included; None: all.
    bias, out_bias : bool
        Whether the products of queries, keys and values have one, and that after the attention.
    norms : {"", "head", "all"}
        Norms of queries and keys: none, of each head, of all heads together.
    softcap : bool
        Whether scores are bounded by a hyperbolic tangent.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rotary: int
    window: int | None = None
    bias: bool = False
    out_bias: bool = False
    norms: Literal["", "head", "all"] = ""
    softcap: bool = False

    @property
    def group(self) -> int:
        """Heads of queries for one of keys and values."""
        return self.heads // self.kv_heads

    def cached(self, positions: int) -> int:
        """Count, of so many positions before a token, those that it reads."""
        return positions if self.window is None else min(positions, self.window - 1)


@dataclass(frozen=True)
class Feed:
    """Feed-forward part of a layer; with experts, one of them.

    Attributes
    ----------
    width : int
        Numbers between its products.
    gated : bool
        Whether a second product is multiplied with the activated one.
    experts, chosen : int
        How many experts there are, and how many a token takes; 0: no experts.
    """

    width: int
    activation: Activation
    gated: bool = True
    bias: bool = False
    experts: int = 0
    chosen: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer: attention and feed-forward, with norms before or after each, in a row or side by side.

    Attributes
    ----------
    parallel : bool
        Whether both read the layer's input.
    shared_norm : bool
        Of such a layer: whether they share the norm, too.
    """

    attention: Attention
    feed: Feed
    norm: Norm = "rms"
    norm_before: bool = True
    norm_behind: bool = False
    parallel: bool = False
    shared_norm: bool = False

    def name(self) -> str:
        """Return what tells it from the other layers of its model."""
        reach = "full" if self.attention.window is None else f"window {self.attention.window}"
        kind = f", {self.feed.experts} experts" if self.feed.experts else ""
        return f"{reach}{kind}"


@dataclass(frozen=True)
class Model:
    """A decoder: layers between a table of embeddings and a head.

    Attributes
    ----------
    name, family : str
        What reports call it, and its ``model_type``.
    tied : bool
        Whether the head's weights are those of the table.
    softcap : bool
        Whether the head's numbers are bounded by a hyperbolic tangent.
    remarks : tuple of str
        What of the configuration is not modelled.
    """

    name: str
    family: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    norm: Norm = "rms"
    tied: bool = False
    head_bias: bool = False
    softcap: bool = False
    remarks: tuple[str, ...] = field(default=())

    def kinds(self) -> dict[Layer, int]:
        """Layers that are unlike, with how many there are of each."""
        counts: dict[Layer, int] = {}
        for layer in self.layers:
            counts[layer] = counts.get(layer, 0) + 1
        return counts
