"""Networks for phones: MobileNetV2 (Sandler et al., 2018), MobileNetV3 small (Howard et al., 2019)."""

from __future__ import annotations

from layers import conv_bn
from torch import Tensor, nn

#: expansion, channels, blocks, stride of the first
V2_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
#: kernel, expanded channels, channels, squeeze-and-excitation, hard swish, stride
V3_SMALL_BLOCKS = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)


class SqueezeExcite(nn.Module):
    """A factor for each channel, out of the means of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = (channels // 4 + 4) // 8 * 8
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scaled channels."""
        return x * self.factors(x)


class Inverted(nn.Module):
    """1x1 expansion, depthwise convolution, 1x1 projection; a shortcut where shapes allow it."""

    def __init__(self, inputs: int, expanded: int, outputs: int, kernel: int, stride: int,
                 activation: type[nn.Module], excite: bool = False) -> None:  # fmt: skip
        super().__init__()
        parts: list[nn.Module] = []
        if expanded != inputs:
            parts.append(conv_bn(inputs, expanded, 1, 1, activation()))
        parts.append(conv_bn(expanded, expanded, kernel, stride, activation(), groups=expanded))
        if excite:
            parts.append(SqueezeExcite(expanded))
        parts.append(conv_bn(expanded, outputs, 1, 1, None))
        self.body = nn.Sequential(*parts)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the block."""
        return x + self.body(x) if self.shortcut else self.body(x)


class MobileNet(nn.Module):
    """Convolutions, pooled, and a classifier."""

    def __init__(self, features: list[nn.Module], classify: list[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classify = nn.Sequential(*classify)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of pictures [batch, 3, height, width]."""
        return self.classify(self.features(image).mean((2, 3)))


def mobilenet_v2(classes: int = 1000) -> nn.Module:
    """3.5 M parameters, 0.30 G MACs."""
    features: list[nn.Module] = [conv_bn(3, 32, 3, 2, nn.ReLU6())]
    width = 32
    for expansion, channels, count, stride in V2_STAGES:
        for index in range(count):
            step = stride if index == 0 else 1
            features.append(Inverted(width, width * expansion, channels, 3, step, nn.ReLU6))
            width = channels
    features.append(conv_bn(width, 1280, 1, 1, nn.ReLU6()))
    return MobileNet(features, [nn.Dropout(0.2), nn.Linear(1280, classes)])


def mobilenet_v3_small(classes: int = 1000) -> nn.Module:
    """2.5 M parameters, 0.06 G MACs."""
    features: list[nn.Module] = [conv_bn(3, 16, 3, 2, nn.Hardswish())]
    width = 16
    for kernel, expanded, channels, excite, swish, stride in V3_SMALL_BLOCKS:
        activation = nn.Hardswish if swish else nn.ReLU
        features.append(Inverted(width, expanded, channels, kernel, stride, activation, excite))
        width = channels
    features.append(conv_bn(width, 576, 1, 1, nn.Hardswish()))
    return MobileNet(features, [nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes)])
