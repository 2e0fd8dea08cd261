"""Synthetic scenes for a detector: rectangles, ellipses and crosses on noise, in pictures of 128x128.

Shapes are of three sizes, one for each scale of the detector, and their centres lie on a grid of 8 pixels: so
every place of the detector's maps either has a shape or has none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 128
KINDS = ("rectangle", "ellipse", "cross")
SIZES = ((18, 28), (36, 50), (64, 88))  #: of either side in pixels, least and most
GRID, GAP, MOST, NOISE = 8, 3, 3, 0.1
Floats = NDArray[np.float32]


class Scene(NamedTuple):
    """A picture [3, SIDE, SIDE] in about -1..1, boxes [n, 4] (left, top, right, bottom), their kinds [n]."""

    image: Floats
    boxes: Floats
    kinds: NDArray[np.int64]


def place(rng: np.random.Generator, others: list[Floats]) -> Floats | None:
    """Return a box apart from the others; None if chance found none."""
    for _ in range(20):
        extent = rng.uniform(*SIZES[rng.integers(len(SIZES))], 2)
        first = np.ceil((extent / 2 - GRID / 2) / GRID).astype(int)
        last = ((SIDE - extent / 2 - GRID / 2) // GRID).astype(int)
        centre = rng.integers(first, last + 1) * GRID + GRID / 2
        box = np.concatenate((centre - extent / 2, centre + extent / 2)).astype(np.float32)
        if all((box[:2] > other[2:] + GAP).any() or (box[2:] < other[:2] - GAP).any() for other in others):
            return box
    return None


def inside(box: Floats, kind: int) -> NDArray[np.bool_]:
    """Return which pixels a shape covers."""
    down, across = np.mgrid[:SIDE, :SIDE] + 0.5
    u = np.abs(2 * across - box[0] - box[2]) / (box[2] - box[0])
    v = np.abs(2 * down - box[1] - box[3]) / (box[3] - box[1])
    if kind == 0:
        return (u < 1) & (v < 1)
    if kind == 1:
        return u * u + v * v < 1
    return ((u < 1) & (v < 1 / 3)) | ((v < 1) & (u < 1 / 3))


def scene(rng: np.random.Generator) -> Scene:
    """Return one to MOST shapes that stand apart."""

    def noise() -> NDArray[np.float64]:
        return rng.normal(0, NOISE, (3, SIDE, SIDE))

    ground = rng.uniform(-0.4, 0.4, 3)
    image = ground[:, None, None] + noise()
    boxes: list[Floats] = []
    kinds: list[int] = []
    for _ in range(rng.integers(1, MOST + 1)):
        box = place(rng, boxes)
        if box is None:
            continue
        kind = int(rng.integers(len(KINDS)))
        color = ground + rng.choice([-1, 1], 3) * rng.uniform(0.5, 1, 3)
        image = np.where(inside(box, kind), color[:, None, None] + noise(), image)
        boxes.append(box)
        kinds.append(kind)
    return Scene(image.astype(np.float32), np.stack(boxes), np.array(kinds))


def scenes(count: int, seed: int) -> list[Scene]:
    """Return the same ones for a seed."""
    rng = np.random.default_rng(seed)
    return [scene(rng) for _ in range(count)]
