"""A small U-Net (Ronneberger et al., 2015) that marks pixels."""

from __future__ import annotations

from itertools import pairwise

import torch
from layers import conv_bn
from torch import Tensor, nn


def double(inputs: int, outputs: int) -> nn.Module:
    """Return two 3x3 convolutions."""
    return nn.Sequential(
        conv_bn(inputs, outputs, 3, 1, nn.ReLU()), conv_bn(outputs, outputs, 3, 1, nn.ReLU())
    )


class UNet(nn.Module):
    """Down in steps of two, and up again with what was there before."""

    def __init__(self, inputs: int, classes: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        widths = (inputs, *channels)
        self.down = nn.ModuleList(double(a, b) for a, b in pairwise(widths))
        back = channels[::-1]
        pairs = list(pairwise(back))
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.up = nn.ModuleList(double(2 * b, b) for _, b in pairs)
        self.pool = nn.MaxPool2d(2)
        self.mark = nn.Conv2d(channels[0], classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of each pixel."""
        x, kept = image, []
        for block in self.down[:-1]:
            kept.append(block(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for enlarge, block in zip(self.enlarge, self.up, strict=True):
            x = block(torch.cat((kept.pop(), enlarge(x)), 1))
        return self.mark(x)


def small_unet(classes: int = 2) -> nn.Module:
    """0.5 M parameters."""
    return UNet(3, classes, (16, 32, 64, 128))
