"""Classifiers of digits at 64x64: ResNet-18 and MobileNetV2 of examples/networks, trained in minutes.

The pictures are scikit-learn's load_digits (1,797 of 8x8, from the UCI repository), made larger by bilinear
interpolation; the held-back ones are those of examples/networks/digits_cnn.py and 40 more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "networks"))
from mobilenet import mobilenet_v2
from resnet import resnet18

SIDE, CLASSES, HELD_BACK, BATCH = 64, 10, 360, 16
MAKERS = {"resnet18": resnet18, "mobilenet_v2": mobilenet_v2}


class Recipe(NamedTuple):
    """Recipe by which a classifier is trained."""

    epochs: int
    rate: float
    shift: int  #: pictures are shifted by up to so many pixels
    turn: float  #: each is turned by up to so many degrees, and made up to 10 % wider and higher; 0: neither
    margin: float  #: the right logit is to exceed the others by it, as an additive margin softmax asks


RECIPES = {"resnet18": Recipe(3, 1e-3, 3, 0, 5.0), "mobilenet_v2": Recipe(16, 2e-3, 4, 12, 5.0)}


class Pictures(NamedTuple):
    """Pictures [n, 3, 64, 64] and their digits."""

    images: Tensor
    labels: Tensor


def pictures() -> tuple[Pictures, Pictures]:
    """Return the pictures to train with, and those held back."""
    data = load_digits()
    order = np.random.default_rng(7).permutation(len(data.images))
    small = torch.from_numpy(data.images).float()[:, None] / 8 - 1  # pixels 0..16 as -1..1
    large = functional.interpolate(small, (SIDE, SIDE), mode="bilinear", align_corners=False)
    images, labels = large.expand(-1, 3, -1, -1).contiguous(), torch.from_numpy(data.target)
    held, kept = order[:HELD_BACK], order[HELD_BACK:]
    return Pictures(images[kept], labels[kept]), Pictures(images[held], labels[held])


def shifted(images: Tensor, most: int, rng: torch.Generator) -> Tensor:
    """Moved by the same random number of pixels; what comes in from outside is background."""
    down, right = (int(v) for v in torch.randint(0, 2 * most + 1, (2,), generator=rng))
    wide = functional.pad(images, (most, most, most, most), value=-1.0)
    return wide[:, :, down : down + SIDE, right : right + SIDE]


def turned(images: Tensor, recipe: Recipe, rng: torch.Generator) -> Tensor:
    """Return each shifted, turned and scaled by random numbers of its own."""

    def chance(*shape: int) -> Tensor:
        return torch.rand(len(images), *shape, generator=rng) * 2 - 1

    angles = chance() * recipe.turn * np.pi / 180
    scales = 1 + chance(2) * 0.1
    shifts = chance(2) * recipe.shift * 2 / SIDE
    across = torch.stack((angles.cos() * scales[:, 0], -angles.sin() * scales[:, 1], shifts[:, 0]), 1)
    down = torch.stack((angles.sin() * scales[:, 0], angles.cos() * scales[:, 1], shifts[:, 1]), 1)
    grid = functional.affine_grid(torch.stack((across, down), 1), list(images.shape), align_corners=False)
    return functional.grid_sample(images + 1, grid, align_corners=False) - 1  # background comes in


def train(name: str, seed: int = 1) -> nn.Module:
    """Return the network, trained; the same on the same machine."""
    recipe = RECIPES[name]
    torch.manual_seed(seed)
    rng = torch.Generator().manual_seed(seed)
    kept = pictures()[0]
    model = MAKERS[name](CLASSES).train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=1e-2)
    steps = recipe.epochs * (len(kept.images) // BATCH)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, steps)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(kept.images), generator=rng)
        for chosen in order.split(BATCH)[: len(order) // BATCH]:
            images = kept.images[chosen]
            images = turned(images, recipe, rng) if recipe.turn else shifted(images, recipe.shift, rng)
            logits = model(images.contiguous(memory_format=torch.channels_last))
            labels = kept.labels[chosen]
            loss = functional.cross_entropy(
                logits - recipe.margin * functional.one_hot(labels, CLASSES), labels
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plan.step()
    return model.eval().to(memory_format=torch.contiguous_format)
