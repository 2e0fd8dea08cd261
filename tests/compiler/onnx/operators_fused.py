"""Random cases of operators that ONNX Runtime's optimizer writes (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import Draft, Operand, case
from graph_run import Array, Case

Generator = Callable[[Draft], Case]


def fused(name: str, operands: list[Operand], outputs: int = 1, **attributes: object) -> Case:
    """Return a model of one such node; trailing operands that are left out are none."""
    while operands[-1] is None:
        operands.pop()
    domain = "" if name == "SimplifiedLayerNormalization" else "com.microsoft"
    return case(name, 17, operands, outputs, domain=domain, **attributes)


def fused_matmul(d: Draft) -> Case:
    """Both sides turned or not, batches where they are or after the rows, a factor."""
    m, k, n = (d.integer(1, 9) for _ in range(3))
    batch = [d.integer(1, 3) for _ in range(d.integer(0, 2))]
    turns = [int(d.chance()), int(d.chance())]
    behind = [int(bool(batch) and d.chance()) for _ in range(2)]
    sides = [[k, m] if turns[0] else [m, k], [n, k] if turns[1] else [k, n]]
    a, b = ([s[0], *batch, s[1]] if late else [*batch, *s] for s, late in zip(sides, behind, strict=True))
    return fused(
        "FusedMatMul",
        [d.floats(a), d.weight(d.floats(b))],
        transA=turns[0],
        transB=turns[1],
        transBatchA=behind[0],
        transBatchB=behind[1],
        alpha=float(d.rng.uniform(-2, 2)),
    )


#: Activations that are joined to products, with their parameters in order.
JOINED: dict[str, list[float]] = {
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
    "LeakyRelu": [0.2],
    "HardSigmoid": [0.25, 0.4],
    "Clip": [-0.5, 1.5],
}


def fused_conv(d: Draft) -> Case:
    """Return a bias, a sum, an activation; each may be left out but the last."""
    name = d.pick(list(JOINED))
    group, each, out, kernel = d.integer(1, 2), d.integer(1, 5), d.integer(1, 4), d.integer(1, 3)
    size = d.integer(kernel, 9)
    operands: list[Operand] = [
        d.floats([2, group * each, size, size]),
        d.weight(d.floats([group * out, each, kernel, kernel])),
    ]
    added = d.chance()
    operands.append(d.weight(d.floats([group * out])) if added or d.chance() else None)
    rest = size - kernel + 1
    operands.append(d.floats([2, group * out, rest, rest]) if added else None)
    parameters = {"activation_params": JOINED[name]} if JOINED[name] else {}
    return fused(
        "FusedConv",
        operands,
        group=group,
        kernel_shape=[kernel, kernel],
        activation=name,
        **parameters,
    )


def fused_gemm(d: Draft) -> Case:
    """Factors, a side that is turned, an activation."""
    name = d.pick(["Relu", "Sigmoid", "Tanh", "LeakyRelu"])
    m, k, n = (d.integer(1, 9) for _ in range(3))
    turned = int(d.chance())
    operands: list[Operand] = [d.floats([m, k]), d.weight(d.floats([n, k] if turned else [k, n]))]
    operands.append(d.weight(d.floats([n])) if d.chance() else None)
    parameters = {"activation_alpha": 0.2} if name == "LeakyRelu" else {}
    return fused(
        "FusedGemm",
        operands,
        transB=turned,
        alpha=float(d.rng.uniform(-2, 2)),
        beta=0.5,
        activation=name,
        **parameters,
    )


def gelu(name: str) -> Generator:
    """With a bias, or without where it may be left out."""

    def make(d: Draft) -> Case:
        x = d.floats(d.shape(2, 3))
        bias = d.weight(d.floats([x.shape[-1]])) if name == "BiasGelu" or d.chance() else None
        return fused(name, [x, None if name == "Gelu" else bias])

    return make


def quick_gelu(d: Draft) -> Case:
    """Return the factor of the sigmoid."""
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
    """Draw how many keys count."""
    return d.ints([batch], 1, keys, np.int32)


def padding(d: Draft, batch: int, keys: int) -> Array:
    """Draw which keys count; the first always does."""
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
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
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
