"""Residual networks (He et al., 2015) for pictures of 224x224."""

from __future__ import annotations

import torch
from layers import conv_bn
from torch import Tensor, nn


class Basic(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    widening = 1

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(inputs, channels, 3, stride, nn.ReLU()), conv_bn(channels, channels, 3, 1, None)
        )
        changes = stride != 1 or inputs != channels
        self.shortcut = conv_bn(inputs, channels, 1, stride, None) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Both branches, added."""
        return torch.relu(self.body(x) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut; the 3x3 one has the stride."""

    widening = 4

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = channels * self.widening
        self.body = nn.Sequential(
            conv_bn(inputs, channels, 1, 1, nn.ReLU()),
            conv_bn(channels, channels, 3, stride, nn.ReLU()),
            conv_bn(channels, outputs, 1, 1, None),
        )
        changes = stride != 1 or inputs != outputs
        self.shortcut = conv_bn(inputs, outputs, 1, stride, None) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Both branches, added."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, four stages of blocks, and a classifier."""

    def __init__(self, block: type[Basic] | type[Bottleneck], counts: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 64, 7, 2, nn.ReLU()), nn.MaxPool2d(3, 2, 1))
        width, stages = 64, []
        for stage, count in enumerate(counts):
            channels = 64 << stage
            for index in range(count):
                stages.append(block(width, channels, 2 if stage > 0 and index == 0 else 1))
                width = channels * block.widening
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of pictures [batch, 3, height, width]."""
        return self.classify(torch.flatten(self.pool(self.stages(self.stem(image))), 1))


def resnet18(classes: int = 1000) -> nn.Module:
    """11.7 M parameters, 1.8 G MACs."""
    return ResNet(Basic, (2, 2, 2, 2), classes)


def resnet50(classes: int = 1000) -> nn.Module:
    """25.6 M parameters, 4.1 G MACs."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes)
