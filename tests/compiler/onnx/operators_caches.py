"""Random cases of operators that write caches; see test_operators.py."""

from __future__ import annotations

import numpy as np
import onnx
from drafts import Const, Draft, Operand, case
from graph_run import Case
from operators_language import Generator, maybe, theirs


def quantised_cache(d: Draft) -> Case:
    """Bytes with scales of tensors or channels, one or two numbers a byte; a cache that grows or is shared.

    Scales are powers of two: what lies between two steps does so in any arithmetic.
    """
    groups, batch, size, rows = d.integer(1, 2), d.integer(1, 2), 16, d.integer(1, 3)
    bits, channels, shared = d.pick([8, 4]), d.chance(), d.chance()
    past = d.integer(1, 4)
    most = past + rows + d.integer(0, 2) if shared else past
    width = size if bits == 8 else size // 2
    least, above = (-128, 128) if bits == 8 else (0, 256)
    caches = [d.ints([batch, groups, most, width], least, above - 1) for _ in range(2)]
    for cache in caches:
        cache[:, :, past:] = 0
    scales = [
        np.float32(2.0) ** d.ints([groups * size if channels else 1], -2 - bits, 0 - bits) for _ in range(2)
    ]
    kv = [batch, rows, groups * size]
    operands: list[Operand] = [
        *(d.floats([batch, rows, 2 * groups * size]), d.floats(kv), d.floats(kv)),
        *(cache.astype(np.int8 if bits == 8 else np.uint8) for cache in caches),
        maybe(d, np.full(batch, past + rows - 1, np.int32)),
        Const(np.asarray([past + rows], np.int32)),
        *[None] * 5,
        *(maybe(d, scale.astype(np.float32)) for scale in scales),
    ]
    told = "PER_CHANNEL" if channels else "PER_TENSOR"
    more = {"k_quant_type": told, "v_quant_type": told, "kv_cache_bit_width": bits}
    made = theirs("GroupQueryAttention", operands, 3, num_heads=2 * groups, kv_num_heads=groups, **more)
    for output in made.model.graph.output[1:]:
        output.type.tensor_type.elem_type = onnx.TensorProto.INT8 if bits == 8 else onnx.TensorProto.UINT8
    return made


def static_cache(d: Draft) -> Case:
    """Attention of ONNX to a cache of which some keys count, in numbers that are constants or not."""
    batch, groups, each, size, queries = (d.integer(1, n) for n in (3, 2, 3, 5, 4))
    keys = queries + d.integer(0, 5)
    valid = d.ints([batch], queries, keys)
    mask: list[Operand] = [None]
    if d.chance(0.5):
        given = d.ints([d.pick([1, batch]), 1, queries, keys], 0, 1, bool)
        given[..., 0] = True
        mask = [d.weight(given if d.chance() else np.where(given, 0, -np.inf).astype(np.float32))]
    heads = groups * each
    return case(
        "Attention",
        24,
        [
            d.floats([batch, heads, queries, size]),
            *(d.floats([batch, groups, keys, size]) for _ in range(2)),
            *(*mask, None, None, maybe(d, valid)),
        ],
        is_causal=int(d.chance()),
        softcap=1.5 if d.chance(0.3) else None,
    )


def tensor_scatter(d: Draft) -> Case:
    """Starts that are constants or not, along any axis but the first; circular too."""
    batch, before, most, width = d.integer(1, 3), d.integer(1, 2), d.integer(2, 7), d.integer(1, 4)
    rows = d.integer(1, most)
    rank = d.integer(3, 4)
    mode = d.pick(["linear", "circular"])
    shape = [batch, most, width] if rank == 3 else [batch, before, most, width]
    update = [rows if d_ == most and i == rank - 2 else d_ for i, d_ in enumerate(shape)]
    last = most - rows if mode == "linear" else most - 1
    starts = maybe(d, d.ints([batch], 0, last)) if d.chance(0.8) else None
    operands: list[Operand] = [d.floats(shape), d.floats(update), starts]
    if starts is None:
        operands.pop()
    axis = d.pick([None, -2, rank - 2])
    return case("TensorScatter", 24, operands, mode=mode, axis=axis)


GENERATORS: dict[str, Generator] = {
    "QuantisedCache": quantised_cache,
    "Attention to a static cache": static_cache,
    "TensorScatter": tensor_scatter,
}
