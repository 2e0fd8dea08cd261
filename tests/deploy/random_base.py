"""Base of random modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


class Rng:
    """Random choices from a seed."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)
        torch.manual_seed(seed)

    def int(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.numbers.integers(low, high + 1))

    def of(self, *choices: Any) -> Any:
        """Return one of them."""
        return choices[self.int(0, len(choices) - 1)]

    def shape(self, low: int = 1, high: int = 4, most: int = 7) -> tuple[int, ...]:
        """Return a shape of low to high dimensions."""
        return tuple(self.int(1, most) for _ in range(self.int(low, high)))

    def tensor(self, *shape: int) -> Tensor:
        """Normal numbers."""
        return torch.randn(shape)

    def image(self, channels: int | None = None) -> Tensor:
        """[batch, channels, height, width]."""
        return torch.randn(self.int(1, 2), channels or self.int(1, 8), self.int(5, 12), self.int(5, 12))

    def tokens(self, words: int) -> Tensor:
        """int64[batch, length] below words."""
        return torch.randint(0, words, (self.int(1, 3), self.int(2, 7)))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Call it."""
        return self.function(*inputs)
