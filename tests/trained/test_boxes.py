"""Overlap, suppression and mean average precision against numbers worked out by hand; scenes.

usage: test_boxes.py [unittest options]
"""

from __future__ import annotations

import unittest

import numpy as np
from boxes import Found, average_precision, detections, mean_average_precision, overlap
from scenes import GAP, SIDE, SIZES, inside, scenes


class Boxes(unittest.TestCase):
    """Small cases."""

    def test_overlap(self) -> None:
        """Two halves, apart, the same, within."""
        others = np.array([[1, 0, 3, 2], [5, 5, 6, 6], [0, 0, 2, 2], [0, 0, 1, 1]], np.float64)
        np.testing.assert_allclose(overlap(np.array([0.0, 0, 2, 2]), others), [1 / 3, 0, 1, 1 / 4])

    def test_suppression(self) -> None:
        """The likelier of two that overlap, of each kind; what is unlikely is left out."""
        output = np.array(
            [[1, 1.2, 9, 1], [1, 1, 9, 1], [2, 2, 2, 2], [2, 2, 2, 2], [0.5, 0.6, 0.04, 0], [0, 0, 0.9, 0.7]]
        )
        found = [(one.kind, one.score, one.place) for one in detections(output)]
        self.assertEqual(found, [(0, 0.6, 1), (1, 0.9, 2), (1, 0.7, 3)])
        np.testing.assert_allclose(detections(output)[0].box, [0.2, 0, 2.2, 2])

    def test_average_precision(self) -> None:
        """Precision 1, 1/2, 2/3 at recalls 1/4, 1/4, 1/2: the second is lifted to 2/3."""
        self.assertAlmostEqual(average_precision(np.array([True, False, True]), 4), 1 / 4 + 2 / 3 / 4)
        self.assertEqual(average_precision(np.zeros(0, bool), 4), 0)

    def test_mean_average_precision(self) -> None:
        """One kind found whole, once doubly; the other in the wrong place."""
        box = np.array([0.0, 0, 10, 10])
        found = [
            [Found(0, 0.9, box, 0), Found(0, 0.8, box, 1), Found(1, 0.9, box + 6, 2)],
            [Found(0, 0.7, box + 3, 0)],
        ]
        boxes, kinds = [np.stack([box, box]), box[None]], [np.array([0, 1]), np.array([0])]
        # moved by 3 of 10 both ways it overlaps by 49 of 151
        self.assertAlmostEqual(mean_average_precision(found, boxes, kinds), (1 / 2 + 0) / 2)
        self.assertAlmostEqual(
            mean_average_precision(found, boxes, kinds, 0.3), (1 / 2 + 1 / 2 * 2 / 3 + 0) / 2
        )


class Scenes(unittest.TestCase):
    """Scenes that the detector is shown."""

    def test_shapes(self) -> None:
        """Within the picture, of the sizes that are said, apart, and the same for a seed."""
        for one, again in zip(scenes(20, 3), scenes(20, 3), strict=True):
            np.testing.assert_array_equal(one.image, again.image)
            self.assertTrue(((one.boxes >= 0) & (one.boxes <= SIDE)).all())
            for index, box in enumerate(one.boxes):
                extent = box[2:] - box[:2]
                self.assertTrue(any((low <= extent).all() and (extent <= high).all() for low, high in SIZES))
                for other in one.boxes[index + 1 :]:
                    self.assertTrue((box[:2] > other[2:] + GAP).any() or (box[2:] < other[:2] - GAP).any())

    def test_areas(self) -> None:
        """A rectangle fills its box, an ellipse pi / 4 of it, a cross 5 / 9."""
        box = np.array([10, 20, 70, 65], np.float32)
        for kind, share in enumerate((1, np.pi / 4, 5 / 9)):
            self.assertAlmostEqual(inside(box, kind).sum() / (60 * 45), share, delta=0.01)


if __name__ == "__main__":
    unittest.main()
