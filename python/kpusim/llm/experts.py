"""Layers of experts: only those that some token chooses are computed, and read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kpusim.errors import UserError
from kpusim.llm.architecture import Feed
from kpusim.llm.dense import dense
from kpusim.llm.graph import Graph


@dataclass(frozen=True)
class Routing:
    """Choice of experts by tokens, as an assumption.

    Attributes
    ----------
    skew : float
        Expert number i is chosen in proportion to 1 / i**skew (Zipf); 0: all alike.
    """

    skew: float = 0.0

    @classmethod
    def of(cls, text: str) -> Routing:
        """``uniform`` or ``skewed:S``.

        Raises
        ------
        UserError
            For anything else.
        """
        kind, _, value = text.partition(":")
        try:
            skew = float(value) if kind == "skewed" else 0.0
        except ValueError:
            skew = -1.0
        if (kind != "skewed" and text != "uniform") or not 0 <= skew <= 10:
            raise UserError(f"routing `{text}` is not valid. Fix: uniform, or skewed:S with S from 0 to 10.")
        return cls(skew)

    def __str__(self) -> str:
        """Write it for reports."""
        return f"skewed:{self.skew:g}" if self.skew else "uniform"

    def shares(self, experts: int, chosen: int) -> list[float]:
        """Return how likely a token chooses each expert; the sum is `chosen`.

        Experts are drawn one after the other, none twice: with exponential clocks of these rates, those that
        have rung when `chosen` are expected to have (exact where all are alike).
        """
        rates = [1 / (number + 1) ** self.skew for number in range(experts)]
        if not self.skew or chosen == experts:
            return [chosen / experts] * experts
        low, high = 0.0, 1.0
        while sum(1 - math.exp(-rate * high) for rate in rates) < chosen:
            high *= 2
        for _ in range(80):
            middle = (low + high) / 2
            if sum(1 - math.exp(-rate * middle) for rate in rates) < chosen:
                low = middle
            else:
                high = middle
        return [1 - math.exp(-rate * high) for rate in rates]

    def rows(self, experts: int, chosen: int, tokens: int) -> list[int]:
        """Tokens of each expert that any token chooses, most first.

        As many experts as are expected, rounded; each has at least one token, together what tokens choose.
        """
        shares = self.shares(experts, chosen)
        distinct = round(sum(1 - (1 - share) ** tokens for share in shares))
        distinct = min(max(distinct, chosen), experts, tokens * chosen)
        taken = sorted(shares, reverse=True)[:distinct]
        draws, weight = tokens * chosen - distinct, sum(taken)
        exact = [draws * share / weight for share in taken]
        rows = [1 + int(value) for value in exact]
        rest = tokens * chosen - sum(rows)
        for index in sorted(range(distinct), key=lambda i: int(exact[i]) - exact[i])[:rest]:
            rows[index] += 1
        return rows


def mixture(graph: Graph, x: str, hidden: int, one: Feed, tokens: int, routing: Routing) -> str:
    """Experts of a layer: rows by expert, their products, and the sum of what each token chose.

    The router is computed; which rows each expert takes comes with the inputs, as the assumption has it.
    """
    gates = graph.node("Softmax", [_chosen(graph, x, hidden, one)], "gates", axis=-1)
    counts = routing.rows(one.experts, one.chosen, tokens)
    if tokens > 1:
        x = graph.node("Gather", [x, graph.input("rows", [sum(counts)], "INT32")], "by_expert", axis=0)
    results, begin = [], 0
    for number, count in enumerate(counts):
        rows = x if tokens == 1 else graph.slice(x, 0, begin, begin + count, f"expert{number}.rows")
        results.append(dense(graph, rows, hidden, one, f"expert{number}."))
        begin += count
    y = graph.node("Concat", results, "experts.results", axis=0) if len(results) > 1 else results[0]
    if tokens > 1:
        y = graph.node("Gather", [y, graph.input("places", [sum(counts)], "INT32")], "by_token", axis=0)
    y = graph.reshape(y, [tokens, one.chosen, hidden], "by_choice")
    y = graph.node("Mul", [y, graph.reshape(gates, [tokens, one.chosen, 1], "gates.columns")], "weighted")
    return graph.node("ReduceSum", [y, graph.integers(1)], "mixed", keepdims=0)


def _chosen(graph: Graph, x: str, hidden: int, one: Feed) -> str:
    """The largest scores of a token, each taken out before the next: the time of `TopK` depends on values."""
    scores = graph.linear(x, hidden, one.experts, "router", quantized=False)
    values, places = [], []
    for number in range(one.chosen):
        largest = graph.node("ReduceMax", [scores, graph.integers(-1)], "chosen", keepdims=1)
        places.append(graph.node("ArgMax", [scores], "chosen.place", axis=-1))
        values.append(largest)
        if number + 1 < one.chosen:
            is_taken = graph.node("Equal", [scores, largest], "chosen.taken")
            scores = graph.node("Where", [is_taken, graph.number(-60000), scores], "chosen.rest")
    if one.chosen == 1:
        graph.output("experts", places[0])
        return values[0]
    graph.output("experts", graph.node("Concat", places, "chosen.places", axis=-1))
    return graph.node("Concat", values, "chosen.scores", axis=-1)
