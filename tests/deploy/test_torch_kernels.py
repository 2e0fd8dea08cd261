"""torch.compile of what becomes kernels: topk, sort, scatter, index_put, against eager execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import kpusim.torch
import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.filterwarnings("ignore")

Result = Tensor | Sequence[Tensor]
Function = Callable[..., Result]


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Dynamo without what other tests captured."""
    torch._dynamo.reset()
    torch.manual_seed(1)


def best(x: Tensor) -> Result:
    """Return the largest of each row, with a product in front."""
    return torch.topk(x @ x.T, 3)


def least(x: Tensor) -> Result:
    """Return the smallest along another dimension."""
    return torch.topk(x, 4, dim=0, largest=False)


def in_order(x: Tensor) -> Result:
    """Return all of them."""
    return torch.sort(x, dim=1, descending=True)


def order(x: Tensor) -> Result:
    """Only where they were."""
    return torch.argsort(x, dim=0)


def scattered(x: Tensor, at: Tensor) -> Result:
    """Along a dimension."""
    return torch.zeros_like(x).scatter(1, at % 9, x)


def scattered_to_part(x: Tensor, at: Tensor) -> Result:
    """Fewer indices than there are elements."""
    return x.scatter(0, at[:5, :4], 2 * x[:5, :4])


def added(x: Tensor, at: Tensor) -> Result:
    """Several updates of one element."""
    return torch.ones_like(x).scatter_add(0, at % 3, x)


def greatest(x: Tensor, at: Tensor) -> Result:
    """Return the greatest of what goes to a place."""
    return x.scatter_reduce(1, at % 4, x * 2, reduce="amax")


def put(x: Tensor, at: Tensor) -> Result:
    """Return the rows by index."""
    return torch.index_put(x, (at[:3, 0] // 3 * 2 + torch.arange(3),), x[5:8])


def put_and_add(x: Tensor, at: Tensor) -> Result:
    """Return the elements by two indices, summed."""
    return torch.index_put(x, (at[:, 0], at[:, 1]), x[:, 2], accumulate=True)


ALONE = [best, least, in_order, order]
INDEXED = [scattered, scattered_to_part, added, greatest, put, put_and_add]


@pytest.mark.parametrize("function", [*ALONE, *INDEXED], ids=lambda f: f.__name__)
def test_values(function: Function) -> None:
    """Indices exactly, numbers as eager execution has them."""
    x = torch.randn(9, 9)
    at = torch.stack([torch.randperm(9) for _ in range(9)], 1)
    operands = (x,) if function in ALONE else (x, at)
    fast = torch.compile(function, backend="kpusim", options={"platform": "tile32", "precision": "f32"})
    with torch.no_grad():
        want, got = function(*operands), fast(*operands)
    pairs = [(got, want)] if isinstance(want, Tensor) else list(zip(got, want, strict=True))
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    run = kpusim.torch.last_run()
    assert run is not None
    assert run.cycles > 0
