"""YOLOv8n's architecture (Ultralytics, 2023): detection of 80 classes in pictures of 640x640.

The output is what its exported form gives: [batch, 4 + classes, boxes], boxes as centre and size in pixels.
"""

from __future__ import annotations

import torch
from layers import conv_bn
from torch import Tensor, nn

BINS = 16  #: of the distribution over which a side's distance is spread


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Module:
    """Convolution, batch norm, SiLU."""
    return conv_bn(inputs, outputs, kernel, stride, nn.SiLU())


class Bottleneck(nn.Module):
    """Two 3x3 convolutions, with or without a shortcut."""

    def __init__(self, channels: int, shortcut: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(channels, channels, 3), conv(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Return the block."""
        return x + self.body(x) if self.shortcut else self.body(x)


class C2f(nn.Module):
    """Half of the channels through a chain of blocks, whose every output is kept."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.open = conv(inputs, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, shortcut) for _ in range(count))
        self.close = conv((2 + count) * half, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block."""
        parts = list(self.open(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.close(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Pools of growing reach (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.open = conv(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.close = conv(channels * 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block."""
        parts = [self.open(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.close(torch.cat(parts, 1))


class Detect(nn.Module):
    """Boxes and classes at three scales."""

    def __init__(self, channels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        box, kind = max(16, channels[0] // 4, 4 * BINS), max(channels[0], min(classes, 100))
        self.boxes = nn.ModuleList(
            nn.Sequential(conv(c, box, 3), conv(box, box, 3), nn.Conv2d(box, 4 * BINS, 1)) for c in channels
        )
        self.kinds = nn.ModuleList(
            nn.Sequential(conv(c, kind, 3), conv(kind, kind, 3), nn.Conv2d(kind, classes, 1))
            for c in channels
        )
        self.register_buffer("steps", torch.arange(BINS, dtype=torch.float32).reshape(1, 1, BINS, 1))

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Boxes in pixels and the probabilities of classes."""
        sides, kinds, centres, strides = [], [], [], []
        for level, x in enumerate(maps):
            height, width = x.shape[2:]
            sides.append(self.boxes[level](x).flatten(2))
            kinds.append(self.kinds[level](x).flatten(2))
            across = torch.arange(width, dtype=x.dtype, device=x.device) + 0.5
            down = torch.arange(height, dtype=x.dtype, device=x.device) + 0.5
            y, x = torch.meshgrid(down, across, indexing="ij")
            centres.append(torch.stack((x.flatten(), y.flatten())))
            strides.append(torch.full_like(centres[-1][:1], 8 << level))
        centre, stride = torch.cat(centres, 1), torch.cat(strides, 1)
        side = torch.cat(sides, 2)
        side = side.reshape(side.shape[0], 4, BINS, -1).softmax(2)
        first, last = (side * self.steps).sum(2).chunk(2, 1)
        box = torch.cat((centre + (last - first) / 2, last + first), 1) * stride
        return torch.cat((box, torch.cat(kinds, 2).sigmoid()), 1)


class Yolo(nn.Module):
    """Backbone, pyramid of features, heads."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.to8 = nn.Sequential(
            conv(3, 16, 3, 2),
            conv(16, 32, 3, 2),
            C2f(32, 32, 1, True),
            conv(32, 64, 3, 2),
            C2f(64, 64, 2, True),
        )
        self.to16 = nn.Sequential(conv(64, 128, 3, 2), C2f(128, 128, 2, True))
        self.to32 = nn.Sequential(conv(128, 256, 3, 2), C2f(256, 256, 1, True), Pyramid(256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up16, self.up8 = C2f(384, 128, 1, False), C2f(192, 64, 1, False)
        self.from8, self.down16 = conv(64, 64, 3, 2), C2f(192, 128, 1, False)
        self.from16, self.down32 = conv(128, 128, 3, 2), C2f(384, 256, 1, False)
        self.detect = Detect((64, 128, 256), classes)

    def forward(self, image: Tensor) -> Tensor:
        """Boxes and classes of pictures [batch, 3, height, width]; sides are multiples of 32."""
        at8 = self.to8(image)
        at16 = self.to16(at8)
        at32 = self.to32(at16)
        mid16 = self.up16(torch.cat((self.up(at32), at16), 1))
        out8 = self.up8(torch.cat((self.up(mid16), at8), 1))
        out16 = self.down16(torch.cat((self.from8(out8), mid16), 1))
        out32 = self.down32(torch.cat((self.from16(out16), at32), 1))
        return self.detect([out8, out16, out32])


def yolov8n(classes: int = 80) -> nn.Module:
    """3.2 M parameters, 4.4 G MACs at 640x640."""
    return Yolo(classes)
