"""Training of YOLOv8n's architecture (examples/networks/yolov8.py) on synthetic scenes, in three minutes.

A box belongs to the scale of its size and to the places there whose centre is at most a step from its own, in
either direction. Their classes are taught by binary cross-entropy with a margin, their sides by the
cross-entropy of the two bins beside the true distance ("distribution focal loss") and by the overlap of the
boxes. All other places are taught no class and a side of one bin, so that every number of the output has one
right value.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scenes import KINDS, SIDE, Scene, scene
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "networks"))
from yolov8 import BINS, yolov8n

STEPS, BATCH, RATE = 450, 16, 2e-3
MARGIN = 4.0  #: that logits of classes are taught to keep from 0
LEVELS = ((8, 0, 32), (16, 32, 57), (32, 57, SIDE))  #: step of the places, sizes from and below
NO_CLASS = -8.0  #: bias of the classes at first: most places have none
ELSEWHERE = 0.2  #: weight of the sides of places without a box
Floats = NDArray[np.float32]


class Targets(NamedTuple):
    """Targets that every place is taught."""

    classes: Floats  #: [places, kinds], 0 or 1
    sides: Floats  #: [places, 4]: left, top, right, bottom, in steps of the place
    weights: Floats  #: [places]: of the sides


def places() -> tuple[Floats, Floats]:
    """Centres [places, 2] in pixels and the steps [places], in the order of the detector's output."""
    centres, steps = [], []
    for step, _, _ in LEVELS:
        down, across = np.mgrid[: SIDE // step, : SIDE // step]
        centres.append((np.stack((across.ravel(), down.ravel()), 1) + 0.5) * step)
        steps.append(np.full(len(centres[-1]), step))
    return np.concatenate(centres).astype(np.float32), np.concatenate(steps).astype(np.float32)


CENTRES, PLACE_STEPS = places()


def targets(one: Scene) -> Targets:
    """Make the targets of a scene."""
    classes = np.zeros((len(CENTRES), len(KINDS)), np.float32)
    sides = np.ones((len(CENTRES), 4), np.float32)
    weights = np.full(len(CENTRES), ELSEWHERE, np.float32)
    for box, kind in zip(one.boxes, one.kinds, strict=True):
        size = np.sqrt((box[2:] - box[:2]).prod())
        step = next(step for step, low, high in LEVELS if low <= size < high)
        near = (np.abs(CENTRES - (box[:2] + box[2:]) / 2) <= step).all(1) & (step == PLACE_STEPS)
        sides[near] = np.concatenate((CENTRES - box[:2], box[2:] - CENTRES), 1)[near] / step
        weights[near] = 1
        classes[near, kind] = 1
    return Targets(classes, sides, weights)


class Heads:
    """The logits of a detector's heads, before it makes boxes and probabilities of them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.made: list[Tensor] = []
        for head in [*model.detect.boxes, *model.detect.kinds]:
            head.register_forward_hook(lambda *call: self.made.append(call[2].flatten(2)))

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Sides [batch, places, 4, BINS] and classes [batch, places, kinds]."""
        self.made.clear()
        self.model(images)
        sides = torch.cat(self.made[0::2], 2).reshape(len(images), 4, BINS, -1)
        return sides.permute(0, 3, 1, 2), torch.cat(self.made[1::2], 2).transpose(1, 2)


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Intersection over union of boxes around the same place, given by their sides [..., 4]."""
    least = torch.minimum(one, other)
    shared = (least[..., :2] + least[..., 2:]).prod(-1)
    areas = (one[..., :2] + one[..., 2:]).prod(-1) + (other[..., :2] + other[..., 2:]).prod(-1)
    return shared / (areas - shared)


def loss_of(sides: Tensor, kinds: Tensor, wanted: list[Targets]) -> Tensor:
    """Return the loss of a batch of logits."""
    classes, distances, weights = (torch.from_numpy(np.stack(part)) for part in zip(*wanted, strict=True))
    wrong = functional.binary_cross_entropy_with_logits(
        kinds - MARGIN * (2 * classes - 1), classes, reduction="sum"
    )
    spread = sides.log_softmax(-1)
    below = distances.floor().clamp(max=BINS - 2)
    shares = distances - below
    bins = below.long()[..., None]
    near = spread.gather(-1, bins)[..., 0] * (1 - shares) + spread.gather(-1, bins + 1)[..., 0] * shares
    made = (spread.exp() * torch.arange(BINS, dtype=torch.float32)).sum(-1)
    of_sides = (2 * (1 - overlap(made, distances)) - near.mean(-1)) * weights
    return wrong / classes.sum() + of_sides.sum() / weights.sum()


def train(seed: int = 1) -> nn.Module:
    """Return the network, trained; the same on the same machine."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = yolov8n(len(KINDS)).train().to(memory_format=torch.channels_last)
    for head in model.detect.kinds:
        nn.init.constant_(head[-1].bias, NO_CLASS)
    heads = Heads(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-2)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS, pct_start=0.2)
    for _ in range(STEPS):
        batch = [scene(rng) for _ in range(BATCH)]
        images = torch.from_numpy(np.stack([one.image for one in batch]))
        made = heads(images.contiguous(memory_format=torch.channels_last))
        loss = loss_of(*made, [targets(one) for one in batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plan.step()
    return model.eval().to(memory_format=torch.contiguous_format)
