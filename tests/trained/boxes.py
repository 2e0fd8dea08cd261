"""Judge what a detector found: suppression of overlapping boxes and mean average precision, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


class Found(NamedTuple):
    """A detection."""

    kind: int
    score: float
    box: Floats  #: left, top, right, bottom
    place: int  #: which of the detector's boxes it is


def overlap(one: Floats, others: Floats) -> Floats:
    """Intersection over union of a box [4] with others [n, 4]."""
    low, high = np.maximum(one[:2], others[:, :2]), np.minimum(one[2:], others[:, 2:])
    shared = np.clip(high - low, 0, None).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1)
    return shared / np.maximum((one[2:] - one[:2]).prod() + areas - shared, 1e-9)


def detections(output: Floats, least: float = 0.05, most: float = 0.5) -> list[Found]:
    """Return the likeliest boxes of each kind of an output [4 + kinds, boxes]: centre, extent, odds.

    Those of at least `least` count; one that overlaps a likelier one by more than `most` does not.
    """
    centre, extent = output[:2].T, output[2:4].T
    boxes = np.concatenate((centre - extent / 2, centre + extent / 2), 1)
    found = []
    for kind, scores in enumerate(output[4:]):
        left = np.flatnonzero(scores >= least)
        left = left[np.argsort(-scores[left], kind="stable")]
        while len(left):
            best = left[0]
            found.append(Found(kind, float(scores[best]), boxes[best], int(best)))
            left = left[1:][overlap(boxes[best], boxes[left[1:]]) <= most]
    return found


def average_precision(hits: NDArray[np.bool_], wanted: int) -> float:
    """Area below precision over recall, precision made falling; hits in falling order of their scores."""
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(right / wanted, prepend=0) * falling).sum())


def mean_average_precision(
    found: list[list[Found]], boxes: list[Floats], kinds: list[NDArray[np.int64]], least: float = 0.5
) -> float:
    """mAP@least of detections by picture, against the true boxes and kinds by picture.

    A detection hits the true box of its kind that it overlaps most, by `least` at least, if no likelier
    one has.
    """
    precisions = []
    for kind in np.unique(np.concatenate(kinds)):
        rows = [(one, picture) for picture, list_ in enumerate(found) for one in list_ if one.kind == kind]
        rows.sort(key=lambda row: -row[0].score)
        taken: set[tuple[int, int]] = set()
        hits = []
        for one, picture in rows:
            true = np.flatnonzero(kinds[picture] == kind)
            shares = overlap(one.box, boxes[picture][true])
            best = (picture, int(true[shares.argmax()])) if len(true) else (picture, -1)
            hits.append(len(true) > 0 and float(shares.max()) >= least and best not in taken)
            if hits[-1]:
                taken.add(best)
        wanted = sum(int((each == kind).sum()) for each in kinds)
        precisions.append(average_precision(np.array(hits, bool), wanted))
    return float(np.mean(precisions))
