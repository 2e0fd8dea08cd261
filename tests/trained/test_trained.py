"""The short form of docs/accuracy_networks.md: ResNet-18, trained on digits, in fp16 and int8; targets.

usage: test_trained.py [FOLDER] [unittest options]; trains ResNet-18 for about a minute unless FOLDER has it
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

import numpy as np
import torch
from accuracy import RIGHT, ROWS, compare, execute
from boxes import detections, mean_average_precision
from detector import BINS, CENTRES, LEVELS, PLACE_STEPS, loss_of, targets
from models import FOLDER, trained
from scenes import KINDS, SIDE, scenes
from torch import Tensor

folder = FOLDER


class ResNet(unittest.TestCase):
    """Its rows of the table."""

    def test_bounds(self) -> None:
        """Right often enough in float32; on the device within the bounds, and as often right."""
        network = trained("resnet18", folder)
        self.assertGreaterEqual(len(network.inputs), 100)
        exact = network.quality(network.exact)
        self.assertGreaterEqual(exact, RIGHT["resnet18"])
        for row in [each for each in ROWS if each.network == "resnet18"]:
            with self.subTest(row.precision):
                outputs = execute(network, row.precision)
                found = compare(network, outputs, row.bound)
                self.assertGreater(found.largest, 0)  # it is narrower than float32
                self.assertLessEqual(found.largest, row.bound)
                self.assertGreaterEqual(found.right, exact - 0.01)


class Targets(unittest.TestCase):
    """Targets that the detector is taught."""

    def test_right_answers_find_everything(self) -> None:
        """The targets as a detector's output have an mAP of 1."""
        shown = scenes(32, seed=5)
        outputs = []
        for one in shown:
            taught = targets(one)
            sides = taught.sides * PLACE_STEPS[:, None]
            first, last = CENTRES - sides[:, :2], CENTRES + sides[:, 2:]
            outputs.append(np.concatenate(((first + last) / 2, last - first, taught.classes), 1).T)
        found = [detections(one) for one in outputs]
        boxes, kinds = [one.boxes for one in shown], [one.kinds for one in shown]
        self.assertEqual(mean_average_precision(found, boxes, kinds), 1)
        self.assertEqual(sum(map(len, found)), sum(map(len, boxes)))

    def test_places(self) -> None:
        """Places are as many as the maps have, in the order of the output; each kind of step is used."""
        counts = [(SIDE // step) ** 2 for step, _, _ in LEVELS]
        self.assertEqual(len(CENTRES), sum(counts))
        np.testing.assert_array_equal(CENTRES[: SIDE // 8, 1], 4)
        taught = [targets(one).classes.any(1) for one in scenes(32, seed=6)]
        used = {int(step) for mask in taught for step in PLACE_STEPS[mask]}
        self.assertEqual(used, {step for step, _, _ in LEVELS})

    def test_loss(self) -> None:
        """The smallest for the right answer: less than for any class or side moved."""
        wanted = [targets(one) for one in scenes(4, seed=7)]

        def logits(moved: float, sign: float) -> tuple[Tensor, Tensor]:
            distance = torch.from_numpy(np.stack([one.sides for one in wanted]))[..., None] + moved
            near = (1 - (torch.arange(BINS) - distance).abs()).clamp(min=1e-6)
            classes = torch.from_numpy(np.stack([one.classes for one in wanted]))
            return near.log(), sign * (classes * 20 - 10)

        right = float(loss_of(*logits(0, 1), wanted))
        self.assertLess(right, float(loss_of(*logits(0.5, 1), wanted)))
        self.assertLess(right, float(loss_of(*logits(0, -1), wanted)))
        self.assertEqual(logits(0, 1)[1].shape[2], len(KINDS))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and "." not in Path(sys.argv[1]).name:
        folder = Path(sys.argv.pop(1))
    unittest.main()
