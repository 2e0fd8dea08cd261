"""Layers that several networks have."""

from __future__ import annotations

from torch import nn


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int, activation: nn.Module | None, groups: int = 1
) -> nn.Sequential:
    """Convolution without bias that keeps the size at stride 1, batch norm, activation."""
    parts: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([] if activation is None else [activation]))
