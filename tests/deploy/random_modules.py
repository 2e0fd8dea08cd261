"""Small random modules and functions of PyTorch by their number."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import random_functions
import random_layers
from random_base import Case, Function, Rng
from torch import Tensor, nn

#: Every function of both files makes cases.
TEMPLATES: list[Callable[[Rng], Case]] = [
    value
    for file in (random_layers, random_functions)
    for value in vars(file).values()
    if inspect.isfunction(value) and value.__module__ == file.__name__
]
CASES = 300


def make(index: int) -> tuple[str, nn.Module, tuple[Tensor, ...]]:
    """Case `index`: its name, a module for inference, and inputs."""
    template = TEMPLATES[index % len(TEMPLATES)]
    made, inputs = template(Rng(index))
    module = made if isinstance(made, nn.Module) else Function(made)
    return template.__name__, module.eval(), inputs
