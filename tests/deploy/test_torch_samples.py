"""Calibration samples of torch.compile: in the order of the call, whatever dynamo makes of it."""

from __future__ import annotations

from typing import Any

import kpusim
import kpusim.torch
import pytest
import torch
from torch import Tensor, nn


class Mixed(nn.Module):
    """Inputs of unlike types and sizes, used in another order than they are given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.table = nn.Embedding(20, 8)
        self.added = torch.full((8,), 0.25)  # neither parameter nor buffer

    def forward(
        self, ids: Tensor, x: Tensor, scale: Tensor | None = None, more: dict[str, Any] | None = None
    ) -> Tensor:
        """The second input comes first."""
        y = self.linear(x) * 0.01 + self.table(ids)
        if scale is not None:
            y = scale * 1000 * y
        if more is not None:
            y = y + more["b"] - more["a"][0] * 0.001
        return y + self.added


def ids() -> Tensor:
    """Return whole numbers."""
    return torch.randint(0, 20, (4,))


def middle() -> Tensor:
    """Return the numbers up to one."""
    return torch.rand(4, 8) * 2 - 1


def wide() -> Tensor:
    """Return the numbers up to a hundred."""
    return middle() * 100


def narrow() -> Tensor:
    """Return the numbers below a thousandth."""
    return torch.rand(4, 8) * 0.001


def nested() -> dict[str, Any]:
    """Tensors of unlike sizes in a mapping that is not sorted."""
    return {"b": middle(), "a": [wide() * 10]}


def error(model: Any, samples: Any, *arguments: Any, **keywords: Any) -> float:  # noqa: ANN401
    """In parts of the largest output; wrong steps saturate or round to nothing."""
    torch._dynamo.reset()
    options = {"platform": "swkpu-v1", "precision": "int8", "calibration": samples}
    with torch.no_grad():
        want = model(*arguments, **keywords)
        got = torch.compile(model, backend="kpusim", options=options)(*arguments, **keywords)
    return float((got - want).abs().max() / want.abs().max())


@pytest.mark.parametrize("form", ["tuples", "names", "keyword", "keywords", "nested", "flat", "closure"])
def test_order_of_the_call(form: str) -> None:
    """Steps are those of the right inputs, so that results are."""
    torch.manual_seed(3)
    model = Mixed().eval()
    count = range(8)
    pairs = [(ids(), wide()) for _ in count]
    triples = [(*pair, narrow()) for pair in pairs]
    if form == "tuples":
        found = error(model, pairs, ids(), wide())
    elif form == "names":
        found = error(model, [{"x": x, "ids": i} for i, x in pairs], ids(), wide())
    elif form == "keyword":
        found = error(model, pairs, ids(), x=wide())
    elif form == "keywords":
        found = error(model, triples, ids(), x=wide(), scale=narrow())
    elif form == "nested":
        found = error(model, [(*pair, nested()) for pair in pairs], ids(), wide(), more=nested())
    elif form == "flat":  # in the order of the call's mapping: b, a
        flat = [(*pair, middle(), wide() * 10) for pair in pairs]
        found = error(model, flat, ids(), wide(), more=nested())
    else:
        outer = middle()

        def function(small: Tensor, large: Tensor) -> Tensor:
            return large * 0.001 + outer - small

        found = error(function, [(middle(), wide() * 10) for _ in count], middle(), wide() * 10)
    assert found < 0.08


@pytest.mark.parametrize("bad", [(torch.zeros(4, dtype=torch.int64),), {"y": torch.zeros(4, 8)}, []])
def test_samples_that_do_not_fit(bad: object) -> None:
    """Too few, unknown names: what the call has is named."""
    with pytest.raises(kpusim.UserError, match=r"the 2 tensors of the call, \(ids, x\)\. Fix: give tuples"):
        error(Mixed().eval(), [bad], ids(), wide())


def test_random_samples_are_told() -> None:
    """Random samples are told as the command does."""
    with pytest.warns(UserWarning, match="random numbers: accuracy is not calibrated"):
        error(nn.Linear(4, 4).eval(), "random:1", torch.randn(2, 4))
