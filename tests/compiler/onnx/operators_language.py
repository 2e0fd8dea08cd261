"""Random cases of operators that exporters of language models write: caches, rotary embeddings, experts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from drafts import Const, Draft, Operand, case
from graph_run import Array, Case
from onnx import numpy_helper

Generator = Callable[[Draft], Case]


def theirs(name: str, operands: list[Operand], outputs: int = 1, /, **attributes: object) -> Case:
    """Return a model of one node of com.microsoft; trailing operands that are left out are none."""
    while operands[-1] is None:
        operands.pop()
    made = case(name, 21, operands, outputs, domain="com.microsoft", **attributes)
    for output in made.model.graph.output:
        if not output.type.tensor_type.elem_type:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return made


def table(d: Draft, rows: int, half: int) -> tuple[Operand, Operand]:
    """Cosines and sines of positions."""
    angle = np.arange(rows)[:, None] / 50.0 ** (np.arange(half) / half)
    pair = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    return (Const(pair[0]), Const(pair[1])) if d.chance(0.7) else pair


def maybe(d: Draft, array: Array, probability: float = 0.5) -> Operand:
    """Return a constant, or an input."""
    return Const(array) if d.chance(probability) else array


def filled(d: Draft, shape: list[int], counts: Array) -> Array:
    """Return a cache [batch, heads, rows, size] of which `counts` rows of each batch are set, the rest 0."""
    cache = d.floats(shape, -1, 1)
    for b, count in enumerate(counts):
        cache[b, :, count:] = 0
    return cache


def group_query(d: Draft) -> Case:
    """Packed or not; a first prompt, a step or a chunk; a cache that grows or is shared; all options."""
    groups, each, batch = d.integer(1, 2), d.integer(1, 3), d.integer(1, 2)
    heads, size = groups * each, 16 * d.integer(1, 2)
    kind = d.pick(["prompt", "prompt into a buffer", "step", "step into a buffer", "chunk"])
    buffer = kind.endswith("buffer")
    rows = 1 if kind.startswith("step") else d.integer(2, 5)
    batch = 1 if kind == "chunk" else batch
    past = 0 if kind.startswith("prompt") else d.integer(1, 5)
    counts = np.full(batch, past)
    if kind == "step into a buffer":
        counts = d.ints([batch], 1, past)
    total = int(counts.max()) + rows
    most = d.integer(total, total + 4) if buffer else past
    seqlens = (counts + rows - 1).astype(np.int32)
    caches = [filled(d, [batch, groups, most, size], counts) if most else None for _ in range(2)]
    q, kv = [batch, rows, heads * size], [batch, rows, groups * size]
    packed = d.chance(0.4)
    parts: list[Operand] = [d.floats(q), d.floats(kv), d.floats(kv)]
    if packed:
        parts = [np.concatenate(parts, axis=2), None, None]
    rotary = d.chance(0.6)
    half = size // 2 if d.chance(0.7) else size // 4
    positions = (counts[:, None] + np.arange(rows)).astype(np.int64)
    causal = int(not d.chance(0.15))
    first = kind.startswith("prompt")
    operands: list[Operand] = [
        *parts,
        *caches,
        maybe(d, seqlens),
        maybe(d, np.asarray([total], np.int32), 0.9 if buffer or first else 1),
        *(table(d, total + 3, half) if rotary else (None, None)),
        maybe(d, positions) if rotary and d.chance(0.3) else None,
        d.floats([d.pick([1, batch]), d.pick([1, heads]), rows, total]) if d.chance(0.25) else None,
        d.weight(d.floats([heads])) if d.chance(0.25) else None,
    ]
    return theirs(
        "GroupQueryAttention",
        operands,
        3,
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=int(rotary),
        rotary_interleaved=int(d.chance(0.3)),
        scale=float(d.rng.uniform(0.1, 1)) if d.chance(0.4) else None,
        softcap=float(d.rng.uniform(0.5, 3)) if d.chance(0.3) else None,
        local_window_size=d.integer(1, 4) if causal and d.chance(0.3) else None,
        smooth_softmax=int(d.chance(0.2)) if operands[11] is None else None,
        causal=None if causal else 0,
    )


def padded_queries(d: Draft) -> Case:
    """Rows of which those after query_seqlens are padding; what padding makes is multiplied by 0."""
    groups, batch, size, rows = d.integer(1, 2), d.integer(1, 3), 16, d.integer(1, 4)
    before = d.ints([batch], 0, 4)
    counts = np.array([d.integer(1 if b == 0 else 0, rows) for b in before])
    total, most = int((before + counts).max()), int(before.max()) + rows + d.integer(0, 2)
    kv = [batch, rows, groups * size]
    cosine, sine = table(d, most, size // 2)
    operands: list[Operand] = [
        *(d.floats([batch, rows, groups * 2 * size]), d.floats(kv), d.floats(kv)),
        *(filled(d, [batch, groups, most, size], before) for _ in range(2)),
        maybe(d, (before + counts - 1).astype(np.int32)),
        Const(np.asarray([d.integer(max(total, rows), most)], np.int32)),
        *(cosine, sine, None, None, None, None, None, None, None),
        maybe(d, counts.astype(np.int32)),
    ]
    made = theirs("GroupQueryAttention", operands, 3, num_heads=2 * groups, kv_num_heads=groups, do_rotary=1)
    node = made.model.graph.node[0]
    kept = (np.arange(rows) < counts[:, None])[:, :, None].astype(np.float32)
    cached = (np.arange(most) < (before + counts)[:, None])[:, None, :, None].astype(np.float32)
    for i, mask in enumerate((kept, cached, cached)):
        node.output[i] = f"all{i}"
        made.model.graph.initializer.append(numpy_helper.from_array(mask, f"kept{i}"))
        made.model.graph.node.append(
            onnx.helper.make_node("Mul", [f"all{i}", f"kept{i}"], [made.model.graph.output[i].name])
        )
    return made


def rotary(d: Draft) -> Case:
    """Flat or by heads, whole or partial heads, one position or many."""
    batch, rows, heads, size = d.integer(1, 3), d.integer(1, 5), d.integer(1, 3), 2 * d.integer(2, 6)
    flat, partial = d.chance(), d.chance(0.4)
    turns = 2 * d.integer(1, size // 2) if partial else size
    x = d.floats([batch, rows, heads * size] if flat else [batch, heads, rows, size])
    positions = d.ints([1], 0, 4) if d.chance(0.4) else d.ints([batch, rows], 0, 8)
    named = partial or d.chance(0.4)
    return theirs(
        "RotaryEmbedding",
        [x, maybe(d, positions), *table(d, 12, turns // 2)],
        interleaved=int(d.chance()),
        num_heads=heads if named else None,
        rotary_embedding_dim=turns if partial else None,
    )


def length_mask(d: Draft, batch: int, keys: int) -> Array:
    """Draw how many keys count."""
    return d.ints([batch], 1, keys, np.int32)


def key_mask(d: Draft, batch: int, keys: int) -> Array:
    """Draw which keys count; the first always does."""
    mask = d.ints([batch, keys], 0, 1, np.int32)
    mask[:, 0] = 1
    return mask


def multi_head_past(d: Draft) -> Case:
    """Return a past, masks, a bias of the projections, one of the scores; causal or not."""
    batch, heads, size, rows, past = (d.integer(1, n) for n in (2, 3, 5, 4, 5))
    width, keys = heads * size, rows + past
    mask: Operand = None
    if d.chance(0.4):
        mask = key_mask(d, batch, keys)
        if d.chance(0.4):
            mask = np.stack([key_mask(d, batch, keys) for _ in range(rows)], axis=1)
    return theirs(
        "MultiHeadAttention",
        [
            *(d.floats([batch, rows, width]) for _ in range(3)),
            d.weight(d.floats([3 * width])) if d.chance() else None,
            mask,
            d.floats([d.pick([1, batch]), d.pick([1, heads]), rows, keys]) if d.chance(0.3) else None,
            *(d.floats([batch, heads, past, size]) for _ in range(2)),
        ],
        3,
        num_heads=heads,
        unidirectional=int(d.chance(0.4)),
        scale=float(d.rng.uniform(0.1, 1)) if d.chance() else None,
    )


def multi_head_forms(d: Draft) -> Case:
    """Keys of a cache that another attention made; a buffer that past and present share."""
    batch, heads, size, rows, keys = (d.integer(1, n) for n in (2, 3, 5, 4, 6))
    width = heads * size
    bias = d.weight(d.floats([3 * width])) if d.chance() else None
    if d.chance():
        cache = [d.floats([batch, heads, keys, size]) for _ in range(2)]
        operands: list[Operand] = [d.floats([batch, rows, width]), *cache, bias]
        return theirs("MultiHeadAttention", operands, num_heads=heads)
    most = keys + rows + d.integer(0, 3)
    caches = [filled(d, [batch, heads, most, size], np.full(batch, keys)) for _ in range(2)]
    return theirs(
        "MultiHeadAttention",
        [
            *(d.floats([batch, rows, width]) for _ in range(3)),
            *(bias, None, None),
            *caches,
            maybe(d, np.asarray([keys], np.int32)),
        ],
        3,
        num_heads=heads,
        unidirectional=int(d.chance()),
    )


def joined_past(d: Draft) -> Case:
    """Weights of all three side by side, a past of both, masks of all forms."""
    batch, heads, size, rows, past, width = (d.integer(1, n) for n in (2, 3, 4, 4, 4, 8))
    hidden = heads * size
    given = d.chance(0.7)
    past = past if given else 0
    keys = past + rows
    mask = d.pick([None, "keys", "rows", "ends", "both"])
    starts = d.ints([batch], 0, keys - 1, np.int32)
    masks: dict[str | None, Operand] = {
        None: None,
        "keys": key_mask(d, batch, keys),
        "rows": np.stack([key_mask(d, batch, keys) for _ in range(rows)], axis=1),
        "ends": length_mask(d, batch, keys),
        "both": np.concatenate([np.full(batch, keys, np.int32), starts]),
    }
    return theirs(
        "Attention",
        [
            d.floats([batch, rows, width]),
            d.weight(d.floats([width, 3 * hidden], -1, 1)),
            d.weight(d.floats([3 * hidden])),
            masks[mask],
            d.floats([2, batch, heads, past, size]) if given else None,
            d.floats([batch, heads, rows, keys]) if d.chance(0.3) else None,
        ],
        2,
        num_heads=heads,
        unidirectional=int(d.chance(0.4)),
        mask_filter_value=-5000.0 if d.chance(0.3) else None,
    )


def decoder(d: Draft) -> Case:
    """Return one query against a past: in a buffer that is shared, or one that grows."""
    batch, heads, size, past = (d.integer(1, n) for n in (2, 3, 5, 5))
    width, most = heads * size, past + d.integer(1, 4)
    caches = [filled(d, [batch, heads, most, size], np.full(batch, past)) for _ in range(2)]
    return theirs(
        "DecoderMaskedMultiHeadAttention",
        [
            *(d.floats([batch, 1, width]) for _ in range(3)),
            key_mask(d, batch, past + 1) if d.chance(0.3) else None,
            d.floats([1, 1, 1, past + 1]) if d.chance(0.3) else None,
            *caches,
            Const(np.asarray([past], np.int32)),
            *(None, None),
            d.weight(d.floats([3 * width])) if d.chance() else None,
        ],
        3,
        num_heads=heads,
        past_present_share_buffer=1,
    )


def ordered_nbits(d: Draft) -> Case:
    """Weights whose rows belong to blocks in any order."""
    bits, size = 4, d.pick([16, 32])  # of 2 bits ONNX Runtime takes others
    blocks, n = d.integer(1, 4), d.integer(1, 6)
    k = size * blocks
    order = np.repeat(np.arange(blocks), size).astype(np.int32)
    if d.chance(0.8):
        d.rng.shuffle(order)
    operands: list[Operand] = [
        d.floats([d.integer(1, 5), k]),
        Const(d.ints([n, blocks, size * bits // 8], 0, 255, np.uint8)),
        Const(d.floats([n, blocks], 0.01, 0.05)),
        None,  # zero points: ONNX Runtime forgets them beside an order
        Const(order),
        Const(d.floats([n])) if d.chance() else None,
    ]
    return theirs("MatMulNBits", operands, K=k, N=n, bits=bits, block_size=size)


def table_of_blocks(d: Draft) -> Case:
    """Return the rows of a table whose numbers have 4 or 8 bits; packed in bytes or in types of 4 bits."""
    rows, size = d.integer(2, 7), d.pick([16, 32])
    width = d.pick([size, 2 * size, size + 8])
    packed = d.chance(0.6)
    bits = d.pick([2, 4, 8]) if packed else 4
    blocks = -(-width // size)
    deep = [] if packed else [2] * d.integer(0, 1)
    if packed:
        data = onnx.numpy_helper.from_array(d.ints([rows, width * bits // 8], 0, 255, np.uint8), "x0")
        zeros = onnx.numpy_helper.from_array(d.ints([rows, -(-blocks * bits // 8)], 0, 255, np.uint8), "x3")
    else:
        kind, low = d.pick([(onnx.TensorProto.UINT4, 0), (onnx.TensorProto.INT4, -8)])
        shapes = [rows, *deep, width], [rows, *deep, blocks]
        data, zeros = (
            onnx.helper.make_tensor(name, kind, shape, d.ints(shape, low, low + 15).ravel())
            for name, shape in zip(("x0", "x3"), shapes, strict=True)
        )
    with_zeros = d.chance()
    scales = Const(d.floats([rows, *deep, blocks], 0.01, 0.1))
    indices = d.ints(d.shape(1, 2, 3), 0, rows - 1, d.pick([np.int32, np.int64]))
    made = theirs(
        "GatherBlockQuantized",
        [None, indices, scales, np.zeros(1, np.float32) if with_zeros else None],
        gather_axis=0,
        quantize_axis=len(deep) + 1,
        block_size=size,
        bits=bits,
    )
    graph = made.model.graph
    graph.node[0].input[0] = "x0"
    graph.initializer.append(data)
    if with_zeros:
        graph.initializer.append(zeros)
        graph.input.remove(next(info for info in graph.input if info.name == "x3"))
        made.inputs = {name: array for name, array in made.inputs.items() if name != "x3"}
    return made


#: The activation of experts, with the layout of a gate that is joined to the first product.
EXPERTS = [
    *(("relu", 0), ("gelu", 0), ("silu", 0), ("identity", 0)),
    *(("swiglu", 1), ("swiglu", 2)),
]


def experts(d: Draft) -> Case:
    """More choices than experts, or fewer; biases; gates."""
    count, rows, width, inner = d.integer(2, 6), d.integer(1, 5), 4 * d.integer(1, 3), 4 * d.integer(1, 3)
    activation, fusion = d.pick(EXPERTS)
    out = inner * (2 if fusion else 1)
    shape = [rows, width] if d.chance() else [1, rows, width]
    swiglu = activation == "swiglu"
    biased = d.chance()
    operands: list[Operand] = [
        d.floats(shape),
        d.floats([rows, count]),
        Const(d.floats([count, out, width], -1, 1)),
        Const(d.floats([count, out])) if biased else None,
        Const(d.floats([count, width, inner], -1, 1)),
        Const(d.floats([count, width])) if biased else None,
    ]
    return theirs(
        "MoE",
        operands,
        k=d.integer(1, min(count, 3)),
        activation_type=activation,
        swiglu_fusion=fusion,
        normalize_routing_weights=int(d.chance()),
        activation_alpha=float(d.rng.uniform(0.5, 2)) if swiglu and d.chance() else None,
        activation_beta=float(d.pick([0.0, 1.0])) if swiglu else None,
        swiglu_limit=float(d.rng.uniform(0.5, 3)) if swiglu and d.chance() else None,
    )


def quantised_experts(d: Draft) -> Case:
    """Weights of 4 or 8 bits with scales of columns or blocks; zero points; weights of the router."""
    count, rows = d.integer(2, 5), d.integer(1, 4)
    blocked = d.chance()
    bits = (
        4 if blocked else d.pick([4, 8])
    )  # blocks of 8 bits: ONNX Runtime rounds what they are multiplied by
    size = 32
    width, inner = size * d.integer(1, 2), size * d.integer(1, 2)
    activation, fusion = d.pick([("silu", 0), ("relu", 0), ("swiglu", 1)])
    out = inner * (2 if fusion else 1)
    zeroed = blocked and d.chance()

    def weights(rows: int, columns: int) -> list[Operand]:
        blocks = columns // size
        packed = d.ints([count, rows, columns * bits // 8], 0, 255, np.uint8)
        scales = d.floats([count, rows, blocks] if blocked else [count, rows], 0.002, 0.02)
        return [Const(packed), Const(scales), Const(d.floats([count, rows])) if d.chance() else None]

    def zeros(rows: int, columns: int) -> Operand:
        shape = [count, rows, -(-(columns // size) * bits // 8)]
        return Const(d.ints(shape, 0, 255, np.uint8)) if zeroed else None

    operands = [
        *(d.floats([rows, width], -1, 1), d.floats([rows, count])),
        *(*weights(out, width), *weights(width, inner), None, None, None),
        *(zeros(out, width), zeros(width, inner), None),
        d.floats([rows, count], 0.1, 1) if d.chance(0.3) else None,
    ]
    return theirs(
        "QMoE",
        operands,
        k=d.integer(1, min(count, 3)),
        activation_type=activation,
        swiglu_fusion=fusion,
        normalize_routing_weights=int(d.chance()),
        expert_weight_bits=bits,
        block_size=size if blocked else None,
        weights_prepacked=0,
    )


def linear_attention(d: Draft) -> Case:
    """Return all rules of update; decay of heads or of their elements; a state before."""
    groups, each, batch, steps = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2), d.integer(1, 5)
    size, deep = d.integer(2, 5), d.integer(2, 5)
    rule = d.pick(["linear", "gated", "delta", "gated_delta"])
    wide = size if d.chance() else 1
    decay = d.floats([batch, steps, groups * wide], -1, 0) if "gated" in rule else None
    beta = d.floats([batch, steps, d.pick([1, groups])], 0, 1) if "delta" in rule else None
    operands: list[Operand] = [
        d.floats([batch, steps, groups * each * size], -1, 1),
        d.floats([batch, steps, groups * size], -0.6, 0.6),
        d.floats([batch, steps, groups * deep], -1, 1),
        d.floats([batch, groups, size, deep], -1, 1) if d.chance() else None,
        decay,
        beta,
    ]
    return theirs(
        "LinearAttention",
        operands,
        2,
        q_num_heads=groups * each,
        kv_num_heads=groups,
        update_rule=rule,
        scale=float(d.rng.uniform(0.1, 1)) if d.chance() else None,
    )


def causal_conv(d: Draft) -> Case:
    """A state before or none, a bias, an activation, gaps between the weights, channels first or last."""
    batch, channels, length, size = d.integer(1, 3), d.integer(1, 6), d.integer(1, 7), d.integer(2, 4)
    gap, last = d.pick([1, 1, 2]), d.chance(0.3)
    deep = [channels, d.integer(1, 3)] if last and d.chance() else [channels]
    wide = int(np.prod(deep))

    def sequences(rows: int) -> Array:
        return d.floats([batch, rows, *deep] if last else [batch, channels, rows])

    operands: list[Operand] = [
        sequences(length),
        d.weight(d.floats([wide, 1, size])),
        d.weight(d.floats([wide])) if d.chance() else None,
        sequences((size - 1) * gap) if d.chance(0.6) else None,
    ]
    return theirs(
        "CausalConvWithState",
        operands,
        2,
        activation=d.pick(["none", "silu", "swish"]),
        dilation=gap if gap > 1 else None,
        channels_last=int(last) or None,
    )


GENERATORS: dict[str, Generator] = {
    "GroupQueryAttention": group_query,
    "PaddedQueries": padded_queries,
    "MS RotaryEmbedding": rotary,
    "MultiHeadAttention with a past": multi_head_past,
    "MultiHeadAttention of caches": multi_head_forms,
    "MS Attention with a past": joined_past,
    "DecoderMaskedMultiHeadAttention": decoder,
    "MatMulNBits in any order": ordered_nbits,
    "GatherBlockQuantized": table_of_blocks,
    "MoE": experts,
    "QMoE": quantised_experts,
    "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv,
}
