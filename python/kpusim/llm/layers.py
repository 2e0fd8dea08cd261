"""Layers of a decoder as ONNX: of prompts, and of one token after a cache.

Keys and values are never repeated for the heads of queries that share them: those are rows of one product.
Prompts go by blocks of queries, each over the keys before its end: no block above the diagonal is computed.
A step neither copies the cache nor joins it with the new position: it has products with both, whose rows of
scores alone are joined, and the new position is an output.
"""

from __future__ import annotations

from dataclasses import dataclass

from kpusim.llm.architecture import Attention, Feed, Layer, Model, Norm
from kpusim.llm.dense import dense
from kpusim.llm.experts import Routing, mixture
from kpusim.llm.graph import Graph

QUERIES = 512  #: of a prompt, whose scores are computed at once: few enough that they may stay on the chip


@dataclass(frozen=True)
class Step:
    """Tokens that go through the model at once.

    Attributes
    ----------
    batch : int
        Sequences.
    tokens : int
        New ones of each: a prompt, or 1.
    context : int or None
        Positions in the cache before a new token; None: a prompt, which has none.
    """

    batch: int
    tokens: int
    context: int | None

    @property
    def rows(self) -> int:
        """Rows of all products with weights."""
        return self.batch * self.tokens


def layer(graph: Graph, x: str, model: Model, one: Layer, step: Step, routing: Routing) -> str:
    """Return a layer; its output."""
    attended = _norm(graph, x, model.hidden, one.norm, "norm1") if one.norm_before else x
    a = _attention(graph, attended, model, one.attention, step)
    if one.norm_behind:
        a = _norm(graph, a, model.hidden, one.norm, "norm1_behind")
    if one.parallel:
        b = attended if one.shared_norm else _norm(graph, x, model.hidden, one.norm, "norm2")
        both = graph.node("Add", [a, feed(graph, b, model.hidden, one.feed, step.rows, routing)], "both")
        return graph.node("Add", [x, both], "residual")
    x = graph.node("Add", [x, a], "residual1")
    b = _norm(graph, x, model.hidden, one.norm, "norm2") if one.norm_before else x
    b = feed(graph, b, model.hidden, one.feed, step.rows, routing)
    if one.norm_behind:
        b = _norm(graph, b, model.hidden, one.norm, "norm2_behind")
    return graph.node("Add", [x, b], "residual2")


def head(graph: Graph, x: str, model: Model, step: Step) -> None:
    """The last norm, and the product with the vocabulary, of the last token of each sequence."""
    if step.tokens > 1:
        x = graph.reshape(x, [step.batch, step.tokens, model.hidden], "sequences")
        x = graph.slice(x, 1, step.tokens - 1, step.tokens, "last")
        x = graph.reshape(x, [step.batch, model.hidden], "last_rows")
    x = _norm(graph, x, model.hidden, model.norm, "norm")
    x = graph.linear(x, model.hidden, model.vocabulary, "head", bias=model.head_bias)
    graph.output("logits", _bounded(graph, x, "logits") if model.softcap else x)


def feed(graph: Graph, x: str, hidden: int, one: Feed, rows: int, routing: Routing) -> str:
    """Feed-forward part of a layer."""
    if one.experts:
        return mixture(graph, x, hidden, one, rows, routing)
    return dense(graph, x, hidden, one, "")


def _norm(graph: Graph, x: str, size: int, kind: Norm, name: str) -> str:
    if kind == "rms":
        weight = graph.vector(f"{name}.weight", size)
        return graph.node("RMSNormalization", [x, weight], name, axis=-1, epsilon=1e-5)
    if kind == "layer":
        weights = [graph.vector(f"{name}.weight", size), graph.vector(f"{name}.bias", size)]
    else:
        weights = [graph.filled([size], 1, f"{name}.ones")]
    return graph.node("LayerNormalization", [x, *weights], name, axis=-1, epsilon=1e-5)


def _bounded(graph: Graph, x: str, name: str) -> str:
    """Return the numbers bounded by tanh."""
    small = graph.node("Mul", [x, graph.number(1 / 32)], f"{name}.small")
    return graph.node(
        "Mul", [graph.node("Tanh", [small], f"{name}.tanh"), graph.number(32)], f"{name}.bounded"
    )


def _rotated(graph: Graph, x: str, one: Attention, step: Step, name: str) -> str:
    """Positions in the first numbers of each head, [batch, tokens, heads, numbers]."""
    half, size = one.rotary // 2, one.head_dim
    if not half:
        return x
    rest = graph.slice(x, 3, 2 * half, size, f"{name}.rest") if 2 * half < size else ""
    turned = graph.slice(x, 3, 0, 2 * half, f"{name}.turned") if rest else x
    a, b = graph.slice(turned, 3, 0, half, f"{name}.a"), graph.slice(turned, 3, half, 2 * half, f"{name}.b")
    across = graph.node("Concat", [graph.node("Neg", [b], f"{name}.neg"), a], f"{name}.across", axis=3)
    cosines = graph.absent(f"{name}.cosines", [step.tokens, 1, 2 * half])
    sines = graph.absent(f"{name}.sines", [step.tokens, 1, 2 * half])
    both = [
        graph.node("Mul", [turned, cosines], f"{name}.cos"), graph.node("Mul", [across, sines], f"{name}.sin")
    ]  # fmt: skip
    result = graph.node("Add", both, f"{name}.rotated")
    return graph.node("Concat", [result, rest], f"{name}.whole", axis=3) if rest else result


def _heads(graph: Graph, x: str, model: Model, one: Attention, step: Step, name: str) -> str:
    """Queries, keys or values, [batch, tokens, heads, numbers]."""
    heads = one.heads if name == "q" else one.kv_heads
    x = graph.linear(x, model.hidden, heads * one.head_dim, name, bias=one.bias)
    if one.norms == "all" and name != "v":
        x = _norm(graph, x, heads * one.head_dim, "rms", f"{name}.norm")
    x = graph.reshape(x, [step.batch, step.tokens, heads, one.head_dim], f"{name}.heads")
    if one.norms == "head" and name != "v":
        x = _norm(graph, x, one.head_dim, "rms", f"{name}.norm")
    return x if name == "v" else _rotated(graph, x, one, step, name)


def _attention(graph: Graph, x: str, model: Model, one: Attention, step: Step) -> str:
    q, k, v = (_heads(graph, x, model, one, step, name) for name in ("q", "k", "v"))
    q = graph.node("Mul", [q, graph.number(one.head_dim**-0.5)], "q.scaled")
    graph.cache_written_bytes += 2 * step.rows * one.kv_heads * one.head_dim * graph.formats.cache_bytes
    core = _over_prompt if step.context is None else _over_cache
    out = core(graph, q, k, v, one, step)
    return graph.linear(out, one.heads * one.head_dim, model.hidden, "o", bias=one.out_bias)


def _made(graph: Graph, k: str, v: str) -> tuple[str, str]:
    """New keys and values as the cache holds them, which are outputs."""
    k, v = graph.cached(k, "k"), graph.cached(v, "v")
    graph.output("new_k", k)
    graph.output("new_v", v)
    return k, v


def _over_cache(graph: Graph, q: str, k: str, v: str, one: Attention, step: Step) -> str:
    """Attention of one token over the cache and itself."""
    batch, kv, size = step.batch, one.kv_heads, one.head_dim
    past = one.cached(step.context or 0)
    q = graph.cached(graph.reshape(q, [batch, kv, one.group, size], "q.groups"), "q")
    k = graph.reshape(k, [batch, kv, 1, size], "k.row")
    v = graph.reshape(v, [batch, kv, 1, size], "v.row")
    k, v = _made(graph, k, v)
    scores = _scores(graph, q, k, one, "scores_new")
    if not past:  # it sees itself alone
        weights = graph.node("Softmax", [scores], "softmax", axis=-1)
        out = graph.product(graph.cached(weights, "softmax"), v, "values_new")
        return graph.reshape(out, [batch, one.heads * size], "out")
    graph.cache_read_bytes += 2 * batch * kv * past * size * graph.formats.cache_bytes
    old_k = graph.cached(graph.input("past_k", [batch, kv, past, size]), "past_k")
    old_v = graph.cached(graph.input("past_v", [batch, kv, past, size]), "past_v")
    old = _scores(graph, q, old_k, one, "scores_past")
    joined = graph.node("Concat", [old, scores], "scores", axis=3)
    weights = graph.cached(graph.node("Softmax", [joined], "softmax", axis=-1), "softmax")
    of_old = graph.product(graph.slice(weights, 3, 0, past, "weights_past"), old_v, "values_past")
    of_new = graph.product(graph.slice(weights, 3, past, past + 1, "weights_new"), v, "values_new")
    out = graph.node("Add", [of_old, of_new], "values")
    return graph.reshape(out, [batch, one.heads * size], "out")


def _over_prompt(graph: Graph, q: str, k: str, v: str, one: Attention, step: Step) -> str:
    """Attention of a prompt over itself, a block of queries at a time."""
    batch, tokens, kv, group, size = step.batch, step.tokens, one.kv_heads, one.group, one.head_dim
    q = graph.reshape(q, [batch, tokens, kv, group, size], "q.groups")
    q = graph.cached(graph.node("Transpose", [q], "q.turned", perm=[0, 2, 3, 1, 4]), "q")
    k = graph.node("Transpose", [k], "k.turned", perm=[0, 2, 1, 3])
    v = graph.node("Transpose", [v], "v.turned", perm=[0, 2, 1, 3])
    k, v = _made(graph, k, v)
    outs = [_of_block(graph, q, k, v, one, step, begin) for begin in range(0, tokens, QUERIES)]
    out = graph.node("Concat", outs, "values.joined", axis=3) if len(outs) > 1 else outs[0]
    out = graph.node("Transpose", [out], "values.turned", perm=[0, 3, 1, 2, 4])
    return graph.reshape(out, [step.rows, one.heads * size], "out")


def _of_block(graph: Graph, q: str, k: str, v: str, one: Attention, step: Step, begin: int) -> str:
    """Queries from `begin` on, over the keys that any of them sees; the mask leaves out the others."""
    batch, tokens, kv, group, size = step.batch, step.tokens, one.kv_heads, one.group, one.head_dim
    end = min(begin + QUERIES, tokens)
    first = 0 if one.window is None else max(begin - one.window + 1, 0)
    rows, seen = end - begin, end - first
    if rows < tokens:
        q = graph.slice(q, 3, begin, end, "q.block")
    if seen < tokens:
        k, v = graph.slice(k, 2, first, end, "k.block"), graph.slice(v, 2, first, end, "v.block")
    scores = _scores(graph, graph.reshape(q, [batch, kv, group * rows, size], "q.rows"), k, one, "scores")
    scores = graph.reshape(scores, [batch, kv, group, rows, seen], "scores.groups")
    scores = graph.node("Add", [scores, graph.absent("mask", [rows, seen])], "masked")
    weights = graph.cached(graph.node("Softmax", [scores], "softmax", axis=-1), "softmax")
    weights = graph.reshape(weights, [batch, kv, group * rows, seen], "weights.rows")
    return graph.reshape(graph.product(weights, v, "values"), [batch, kv, group, rows, size], "values.groups")


def _scores(graph: Graph, q: str, k: str, one: Attention, name: str) -> str:
    """Products of queries and keys."""
    scores = graph.product(q, graph.node("Transpose", [k], f"{name}.keys", perm=[0, 1, 3, 2]), name)
    return _bounded(graph, scores, name) if one.softcap else scores
