"""Random cases of operators that ONNX Runtime's optimizer writes (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import Draft, Operand, case
from graph_run import Array, Case

Generator = Callable[[Draft], Case]


def fused(name: str, operands: list[Operand], outputs: int = 1, **attributes: object) -> Case:
    """A model of one such node; trailing operands that are left out are none."""
    while operands[-1] is None:
        operands.pop()
    domain = "" if name == "SimplifiedLayerNormalization" else "com.microsoft"
    return case(name, 17, operands, outputs, domain=domain, **attributes)


def fused_matmul(d: Draft) -> Case:
    """Both sides turned or not, batches, a factor."""
    m, k, n = (d.integer(1, 9) for _ in range(3))
    batch = [d.integer(1, 3) for _ in range(d.integer(0, 2))]
    turns = [int(d.chance()), int(d.chance())]
    a, b = ([k, m] if turns[0] else [m, k]), ([n, k] if turns[1] else [k, n])
    return fused(
        "FusedMatMul",
        [d.floats([*batch, *a]), d.weight(d.floats([*batch, *b]))],
        transA=turns[0],
        transB=turns[1],
        alpha=float(d.rng.uniform(-2, 2)),
    )


def gelu(name: str) -> Generator:
    """With a bias, or without where it may be left out."""

    def make(d: Draft) -> Case:
        x = d.floats(d.shape(2, 3))
        bias = d.weight(d.floats([x.shape[-1]])) if name == "BiasGelu" or d.chance() else None
        return fused(name, [x, None if name == "Gelu" else bias])

    return make


def quick_gelu(d: Draft) -> Case:
    """The factor of the sigmoid."""
    return fused("QuickGelu", [d.floats(d.shape())], alpha=float(d.pick([1.702, 1.0, 0.5])))


def skip_norm(name: str) -> Generator:
    """Optional shift and bias; the sum as a result."""

    def make(d: Draft) -> Case:
        shape = [d.integer(1, 2), d.integer(1, 5), d.integer(2, 24)]
        layer = name == "SkipLayerNormalization"
        vectors = [d.weight(d.floats([shape[2]])) for _ in range(3 if layer else 2)]
        shift = [vectors[2] if d.chance(0.7) else None] if layer else []
        operands: list[Operand] = [d.floats(shape), d.floats(shape), vectors[0], *shift]
        operands.append(vectors[1] if d.chance() else None)
        made = fused(name, operands, epsilon=float(d.pick([1e-12, 1e-5, 1e-2])))
        if d.chance():
            made.model.graph.node[0].output.extend(["", "", "sum"])
            made.model.graph.output.add().name = "sum"
        return made

    return make


def simplified_norm(d: Draft) -> Case:
    """Over the last dimension."""
    x = d.floats(d.shape(2, 4))
    epsilon = float(d.pick([1e-5, 1e-3]))
    return fused(
        "SimplifiedLayerNormalization", [x, d.weight(d.floats([x.shape[-1]]))], axis=-1, epsilon=epsilon
    )


def embed(d: Draft) -> Case:
    """Tables of words, positions and perhaps segments; a mask; which positions."""
    batch, rows, width = d.integer(1, 3), d.integer(1, 6), d.integer(2, 12)
    segments = d.chance()
    operands: list[Operand] = [
        d.ints([batch, rows], 0, 8, np.int32),
        d.ints([batch, rows], 0, 1, np.int32) if segments else None,
        *(d.weight(d.floats([count, width])) for count in (9, 8)),
        d.weight(d.floats([2, width])) if segments else None,
        *(d.weight(d.floats([width])) for _ in range(2)),
        padding(d, batch, rows) if d.chance() else None,
        d.ints([batch, rows], 0, 7, np.int32) if d.chance(0.3) else None,
    ]
    made = fused("EmbedLayerNormalization", operands, 3, epsilon=float(d.pick([1e-12, 1e-5])))
    for output, type_ in zip(made.model.graph.output, (1, 6, 1), strict=True):
        output.type.tensor_type.elem_type = type_
    return made


def lengths(d: Draft, batch: int, keys: int) -> Array:
    """How many keys count."""
    return d.ints([batch], 1, keys, np.int32)


def padding(d: Draft, batch: int, keys: int) -> Array:
    """Which keys count; the first always does."""
    mask = d.ints([batch, keys], 0, 1, np.int32)
    mask[:, 0] = 1
    return mask


def multi_head(d: Draft) -> Case:
    """Bias, masks and shapes of queries and keys."""
    batch, heads, size, queries, keys = (d.integer(1, n) for n in (2, 3, 5, 4, 6))
    deep = d.integer(1, 4) if d.chance(0.3) else size
    of_q, of_v = heads * size, heads * deep
    return fused(
        "MultiHeadAttention",
        [
            d.floats([batch, queries, of_q]),
            d.floats([batch, keys, of_q]),
            d.floats([batch, keys, of_v]),
            d.weight(d.floats([2 * of_q + of_v])) if d.chance() else None,
            d.pick([padding, lengths])(d, batch, keys) if d.chance(0.4) else None,
            d.floats([batch, heads, queries, keys]) if d.chance(0.3) else None,
        ],
        num_heads=heads,
        scale=float(d.rng.uniform(0.1, 1)) if d.chance() else None,
    )


def joined_attention(d: Draft) -> Case:
    """Weights of queries, keys and values side by side; masks, causal or not."""
    batch, heads, size, rows, width = (d.integer(1, n) for n in (2, 3, 4, 5, 8))
    hidden = heads * size
    return fused(
        "Attention",
        [
            d.floats([batch, rows, width]),
            d.weight(d.floats([width, 3 * hidden], -1, 1)),
            d.weight(d.floats([3 * hidden])),
            d.pick([padding, lengths])(d, batch, rows) if d.chance(0.5) else None,
        ],
        num_heads=heads,
        unidirectional=int(d.chance(0.4)),
        scale=float(d.rng.uniform(0.1, 1)) if d.chance() else None,
    )


GENERATORS: dict[str, Generator] = {
    "FusedMatMul": fused_matmul,
    "MS Gelu": gelu("Gelu"),
    "BiasGelu": gelu("BiasGelu"),
    "FastGelu": gelu("FastGelu"),
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_norm("SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization": skip_norm("SkipSimplifiedLayerNormalization"),
    "SimplifiedLayerNormalization": simplified_norm,
    "EmbedLayerNormalization": embed,
    "MultiHeadAttention": multi_head,
    "MS Attention": joined_attention,
}
