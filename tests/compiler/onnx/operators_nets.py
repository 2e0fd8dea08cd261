"""Random cases of convolutions, pools, normalisations, recurrent networks, attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import Const, Draft, Operand, case
from graph_run import Case

Generator = Callable[[Draft], Case]


def window(d: Draft, rank: int, kernel: list[int], sizes: list[int], most_pad: int = 2) -> dict[str, object]:
    """Strides, dilations and pads of a window that fits."""
    attributes: dict[str, object] = {}
    if d.chance(0.6):
        attributes["strides"] = [d.integer(1, 3) for _ in range(rank)]
    dilations = [1] * rank
    if d.chance(0.3):
        dilations = [d.integer(1, 2) for _ in range(rank)]
        attributes["dilations"] = dilations
    short = [(k - 1) * e + 1 - s for k, e, s in zip(kernel, dilations, sizes, strict=True)]
    if max(short) > 0 or d.chance(0.6):
        least = [max(0, more) for more in short]
        attributes["pads"] = [low + d.integer(0, most_pad) for low in least * 2]
    elif d.chance(0.4) and "dilations" not in attributes:
        attributes["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attributes


def conv(d: Draft) -> Case:
    """Along one to three dimensions; groups, depthwise."""
    rank = d.pick([1, 2, 2, 2, 3])
    sizes, kernel = [d.integer(3, 10) for _ in range(rank)], [d.integer(1, 4) for _ in range(rank)]
    if d.chance(0.2):
        kernel = [1] * rank
    groups, each, outs = d.pick(
        [(1, 3, 4), (2, 2, 3), (4, 1, 1), (3, 1, 2), (1, 1, 5), (12, 1, 1), (8, 1, 2)]
    )
    x = d.floats([d.integer(1, 2), groups * each, *sizes])
    w = d.floats([groups * outs, each, *kernel], -1, 1)
    bias = [d.weight(d.floats([groups * outs]))] if d.chance() else []
    attributes = window(d, rank, kernel, sizes)
    if max(kernel) == 1 and d.chance():  # as PyTorch's exporter makes of a `pad` before it
        attributes = {"pads": [d.integer(0, 1) for _ in range(rank)] + [d.integer(0, 3) for _ in range(rank)]}
    return case("Conv", d.opset(7), [x, d.weight(w), *bias], group=groups, **attributes)


def conv_transpose(d: Draft) -> Case:
    """Along one to three dimensions."""
    rank = d.pick([1, 2, 2, 3])
    sizes, kernel = [d.integer(1, 6) for _ in range(rank)], [d.integer(1, 4) for _ in range(rank)]
    groups, each, outs = d.pick([(1, 3, 4), (2, 2, 3), (1, 1, 1)])
    strides = [d.integer(1, 3) for _ in range(rank)]
    attributes: dict[str, object] = {"strides": strides, "group": groups}
    if d.chance(0.5):
        attributes["pads"] = [d.integer(0, k // 3) for k in kernel * 2]
    if d.chance(0.4):
        attributes["output_padding"] = [d.integer(0, s - 1) for s in strides]
    if d.chance(0.3) and "output_padding" not in attributes:
        attributes["dilations"] = [d.integer(1, 2) for _ in range(rank)]
    operands: list[Operand] = [d.floats([d.integer(1, 2), groups * each, *sizes])]
    operands.append(d.weight(d.floats([groups * each, outs, *kernel], -1, 1)))
    if d.chance():
        operands.append(Const(d.floats([groups * outs])))
    return case("ConvTranspose", d.opset(11), operands, **attributes)


def pool(name: str) -> Callable[[Draft], Case]:
    """Pads, ceil_mode, padding that counts."""

    def make(d: Draft) -> Case:
        rank = d.pick([1, 2, 2, 3])
        sizes, kernel = [d.integer(4, 9) for _ in range(rank)], [d.integer(1, 4) for _ in range(rank)]
        attributes: dict[str, object] = {"kernel_shape": kernel}
        if d.chance(0.7):
            attributes["strides"] = [d.integer(1, 3) for _ in range(rank)]
        if d.chance(0.6):
            attributes["pads"] = [d.integer(0, k - 1) for k in kernel * 2]
        elif d.chance(0.4):
            attributes["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if name != "LpPool" and "auto_pad" not in attributes and d.chance(0.4):
            attributes["ceil_mode"] = 1
        if name == "AveragePool" and d.chance(0.4):
            attributes["count_include_pad"] = 1
        if name == "LpPool":
            attributes["p"] = d.integer(1, 3)
        opset = d.opset(11, 18) if name == "LpPool" else d.opset(10)
        if (
            name == "MaxPool"
            and "auto_pad" not in attributes
            and "ceil_mode" not in attributes
            and d.chance(0.3)
        ):
            attributes["dilations"] = [
                d.integer(1, 2) if s > 2 * k else 1 for k, s in zip(kernel, sizes, strict=True)
            ]
        return case(name, opset, [d.floats([d.integer(1, 2), d.integer(1, 4), *sizes])], **attributes)

    return make


def pool_beyond(d: Draft) -> Case:
    """Return a window that is larger than its operand along some dimension, which ceil_mode takes."""
    name = d.pick(["MaxPool", "AveragePool", "LpPool"])
    rank = d.integer(1, 3)
    sizes = [d.integer(1, 5) for _ in range(rank)]
    attributes: dict[str, object] = {"ceil_mode": 1}
    dilations = [d.integer(1, 2) if d.chance(0.3) else 1 for _ in range(rank)]
    kernel = [d.integer(max(2, s - 1), s + 4) for s in sizes]
    extents = [(k - 1) * e + 1 for k, e in zip(kernel, dilations, strict=True)]
    pads = [d.integer(0, 1) for _ in range(2 * rank)]
    if any(e != 1 for e in dilations):
        attributes["dilations"] = dilations
    if name == "AveragePool":
        attributes["count_include_pad"] = d.integer(0, 1)
    # the first window is one as long as the stride reaches beyond what it lacks
    attributes |= {"kernel_shape": kernel, "strides": [e + d.integer(0, 2) for e in extents], "pads": pads}
    return case(name, d.opset(19, 22), [d.floats([1, 2, *sizes])], **attributes)


def pool_indices(d: Draft) -> Case:
    """Find where the greatest elements are, equal ones among them; rows or columns first."""
    rank = d.integer(1, 3)
    kernel = [d.integer(1, 3) for _ in range(rank)]
    sizes = [d.integer(k + 1, 7) for k in kernel]
    attributes: dict[str, object] = {"kernel_shape": kernel, "storage_order": d.integer(0, 1)}
    attributes["strides"] = [d.integer(1, 3) for _ in range(rank)]
    if d.chance():
        attributes["pads"] = [d.integer(0, k - 1) for k in kernel * 2]
    if d.chance(0.3):
        attributes["ceil_mode"] = 1
    elif d.chance(0.3):
        attributes["dilations"] = [
            d.integer(1, 2) if s > 2 * k else 1 for k, s in zip(kernel, sizes, strict=True)
        ]
    shape = [d.integer(1, 2), d.integer(1, 3), *sizes]
    x = d.ints(shape, -9, 9, np.float32) if d.chance(0.8) else d.ints(shape, 0, 9, np.uint8)
    return case("MaxPool", d.opset(12), [x], outputs=2, **attributes)


def max_unpool(d: Draft) -> Case:
    """Back to where a MaxPool took its elements."""
    sizes = [d.integer(1, 4) for _ in range(d.integer(1, 3))]
    shape = [d.integer(1, 2), d.integer(1, 3), *sizes]
    planes, elements = shape[0] * shape[1], int(np.prod(sizes))
    plane = elements * 2 ** len(sizes)
    places = [d.rng.permutation(plane)[:elements] + i * plane for i in range(planes)]
    indices = np.array(places, np.int64).reshape(shape)
    attributes = {"kernel_shape": [2] * len(sizes), "strides": [2] * len(sizes)}
    return case("MaxUnpool", d.opset(11, 21), [d.floats(shape), d.weight(indices)], **attributes)


def global_pool(name: str) -> Callable[[Draft], Case]:
    """Along one to three dimensions."""

    def make(d: Draft) -> Case:
        return case(name, d.opset(7), [d.floats([2, 3, *d.shape(1, 3)])])

    return make


def batch_norm(d: Draft) -> Case:
    """Constants, which are folded, or operands."""
    shape = d.shape(2, 5)
    c = shape[1]
    vectors = [d.floats([c]), d.floats([c]), d.floats([c]), d.floats([c], 0.1, 2)]
    constant = d.chance(0.7)
    operands = [Const(v) if constant else v for v in vectors]
    return case("BatchNormalization", d.opset(9), [d.floats(shape), *operands], epsilon=d.pick([None, 1e-3]))


def layer_norm(name: str, first: int) -> Callable[[Draft], Case]:
    """Over the last dimensions."""

    def make(d: Draft) -> Case:
        shape = d.shape(1, 4, 8)
        axis = d.integer(-len(shape), -1)
        rest = shape[axis:]
        operands = [d.floats(shape), d.weight(d.floats(rest))]
        if name == "LayerNormalization" and d.chance():
            operands.append(d.weight(d.floats(rest)))
        return case(name, d.opset(first, 23), operands, axis=axis, epsilon=d.pick([None, 1e-3]))

    return make


def instance_norm(d: Draft) -> Case:
    """Return each channel of each image."""
    shape = d.shape(3, 5)
    operands = [d.weight(d.floats([shape[1]])), d.weight(d.floats([shape[1]]))]
    return case("InstanceNormalization", d.opset(7), [d.floats(shape), *operands])


def group_norm(d: Draft) -> Case:
    """Groups of channels."""
    groups, each = d.integer(1, 4), d.integer(1, 3)
    shape = [d.integer(1, 3), groups * each, *d.shape(1, 2)]
    operands = [d.weight(d.floats([shape[1]])), d.weight(d.floats([shape[1]]))]
    return case("GroupNormalization", 21, [d.floats(shape), *operands], num_groups=groups)


def lp_norm(d: Draft) -> Case:
    """Length 1 along an axis."""
    shape = d.shape(1, 4)
    return case(
        "LpNormalization",
        d.opset(7),
        [d.floats(shape, 0.1, 3)],
        axis=d.integer(0, len(shape) - 1),
        p=d.integer(1, 2),
    )


def lrn(d: Draft) -> Case:
    """Neighbouring channels."""
    x = d.floats([2, d.integer(3, 8), d.integer(1, 5), d.integer(1, 5)])
    return case("LRN", d.opset(7), [x], size=d.pick([1, 3, 5]), alpha=0.01, beta=0.6, bias=1.5)


def softmax(name: str) -> Callable[[Draft], Case]:
    """Along an axis, or all from it on."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        axis = d.integer(-len(shape), len(shape) - 1) if d.chance(0.8) else None
        opset = d.opset(11)
        if axis is None and opset < 13 and len(shape) < 2:
            axis = 0
        return case(name, opset, [d.floats(shape, -9, 9)], axis=axis)

    return make


def recurrent(name: str, gates: int) -> Callable[[Draft], Case]:
    """Directions, initial states, lengths."""

    def make(d: Draft) -> Case:
        steps, batch, width, hidden = d.integer(1, 5), d.integer(1, 3), d.integer(1, 5), d.integer(1, 6)
        direction = d.pick(["forward", "reverse", "bidirectional"])
        n = 2 if direction == "bidirectional" else 1
        operands: list[Operand] = [
            d.floats([steps, batch, width]),
            d.weight(d.floats([n, gates * hidden, width], -1, 1)),
            d.weight(d.floats([n, gates * hidden, hidden], -1, 1)),
            d.weight(d.floats([n, 2 * gates * hidden], -1, 1)) if d.chance() else None,
            d.ints([batch], 1, steps, np.int32) if d.chance(0.3) else None,
            d.floats([n, batch, hidden]) if d.chance() else None,
        ]
        if name == "LSTM":
            operands.append(d.floats([n, batch, hidden]) if d.chance() else None)
            operands.append(Const(d.floats([n, 3 * hidden])) if d.chance(0.4) else None)
        attributes: dict[str, object] = {"hidden_size": hidden, "direction": direction}
        if name == "GRU":
            attributes["linear_before_reset"] = d.integer(0, 1)
        if name == "LSTM" and d.chance(0.2):
            attributes["input_forget"] = 1
        if d.chance(0.3):
            functions = {
                "RNN": ["Relu"],
                "GRU": ["HardSigmoid", "Softsign"],
                "LSTM": ["Sigmoid", "Relu", "Tanh"],
            }
            attributes["activations"] = functions[name] * n
        while operands[-1] is None:
            operands.pop()
        return case(name, d.opset(7), operands, outputs=3 if name == "LSTM" else 2, **attributes)

    return make


def attention(d: Draft) -> Case:
    """Masks, shared heads, a past, a cap."""
    batch, heads, size = d.integer(1, 2), d.pick([2, 4]), d.integer(2, 6)
    kv_heads = d.pick([heads, heads // 2, 1])
    queries, keys, past = d.integer(1, 5), d.integer(1, 6), d.integer(1, 3)
    flat, with_past = d.chance(), d.chance(0.3)
    causal = d.chance(0.4)
    if causal:
        keys = queries
    total = keys + past if with_past else keys

    def heads_of(count: int, length: int) -> Operand:
        return d.floats([batch, length, count * size] if flat else [batch, count, length, size])

    operands: list[Operand] = [heads_of(heads, queries), heads_of(kv_heads, keys), heads_of(kv_heads, keys)]
    mask = d.pick([None, "bool", "float"])
    if mask == "bool":
        hidden = d.ints([queries, total], 0, 1, bool)
        hidden[:, 0] = True
        operands.append(hidden)
    else:
        operands.append(d.floats(d.pick([[queries, total], [batch, 1, queries, total]])) if mask else None)
    if with_past:
        operands += [d.floats([batch, kv_heads, past, size]), d.floats([batch, kv_heads, past, size])]
    while operands[-1] is None:
        operands.pop()
    attributes: dict[str, object] = {"is_causal": int(causal)}
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if d.chance(0.3):
        attributes["scale"] = 0.4
    if d.chance(0.3):
        attributes["softcap"] = 2.0
    return case("Attention", d.opset(23, 24), operands, outputs=3 if with_past else 1, **attributes)


def rotary(d: Draft) -> Case:
    """Positions, halves or pairs, a part of the head."""
    batch, heads, steps, size = d.integer(1, 2), d.integer(1, 3), d.integer(1, 5), d.pick([4, 8])
    part = d.pick([0, size // 2])
    half = (part or size) // 2
    flat, positions = d.chance() or part > 0, d.chance()
    x = d.floats([batch, steps, heads * size] if flat else [batch, heads, steps, size])
    table = [9, half] if positions else [batch, steps, half]
    operands: list[Operand] = [x, d.floats(table), d.floats(table)]
    if positions:
        operands.append(d.ints([batch, steps], 0, 8))
    attributes = {"interleaved": d.integer(0, 1), "rotary_embedding_dim": part}
    if flat:
        attributes["num_heads"] = heads
    return case("RotaryEmbedding", 23, operands, **attributes)


def resize(d: Draft) -> Case:
    """Return the sizes or scales, all ways to count positions."""
    shape = [1, d.integer(1, 3), d.integer(2, 6), d.integer(2, 6)]
    mode = d.pick(["nearest", "linear", "cubic"])
    coordinates = d.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    if mode == "cubic" and d.chance(0.3):
        attributes["cubic_coeff_a"] = -0.5
    if mode == "cubic" and d.chance(0.3):
        attributes["exclude_outside"] = 1
    x = d.floats(shape)
    if d.chance():
        sizes = shape[:2] + [d.integer(1, 12), d.integer(1, 12)]
        return case("Resize", d.opset(13), [x, None, None, Const(np.array(sizes, np.int64))], **attributes)
    scales = np.array([1, 1, *(d.pick([0.5, 0.8, 1.5, 2, 3]) for _ in range(2))], np.float32)
    return case("Resize", d.opset(13), [x, None, Const(scales)], **attributes)


def upsample(d: Draft) -> Case:
    """Return the operator before Resize."""
    scales = np.array([1, 1, d.integer(1, 3), d.integer(1, 3)], np.float32)
    mode = d.pick(["nearest", "linear"])
    return case("Upsample", 9, [d.floats([1, 2, d.integer(1, 5), d.integer(1, 5)]), Const(scales)], mode=mode)


def dropout(d: Draft) -> Case:
    """Nothing at inference."""
    return case("Dropout", d.opset(12), [d.floats(d.shape())])


def loss(d: Draft) -> Case:
    """Return a loss with weights and a class that does not count."""
    n, classes, rest = d.integer(1, 4), d.integer(2, 6), d.shape(0, 2, 4)
    operands: list[Operand] = [d.floats([n, classes, *rest]), d.ints([n, *rest], 0, classes - 1)]
    if d.chance():
        operands.append(d.floats([classes], 0.1, 2))
    attributes: dict[str, object] = {"reduction": d.pick(["mean", "sum", "none"])}
    return case("SoftmaxCrossEntropyLoss", d.opset(13), operands, **attributes)


GENERATORS: dict[str, Generator] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    **{name: pool(name) for name in ("MaxPool", "AveragePool", "LpPool")},
    "pools beyond their operand": pool_beyond,
    "MaxPool with Indices": pool_indices,
    "MaxUnpool": max_unpool,
    **{name: global_pool(name) for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm("LayerNormalization", 17),
    "RMSNormalization": layer_norm("RMSNormalization", 23),
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LpNormalization": lp_norm,
    "LRN": lrn,
    "Softmax": softmax("Softmax"),
    "LogSoftmax": softmax("LogSoftmax"),
    "RNN": recurrent("RNN", 1),
    "GRU": recurrent("GRU", 3),
    "LSTM": recurrent("LSTM", 4),
    "Attention": attention,
    "RotaryEmbedding": rotary,
    "Resize": resize,
    "Upsample": upsample,
    "Dropout": dropout,
    "SoftmaxCrossEntropyLoss": loss,
}
