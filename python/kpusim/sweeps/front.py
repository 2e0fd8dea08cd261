"""Designs that no other one beats in every objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kpusim.sweeps.constraints import Constraint
from kpusim.sweeps.formula import NoValueError
from kpusim.sweeps.quantity import Quantity
from kpusim.sweeps.spec import Spec

Vector = tuple[float, ...]  #: of a design: an objective each, smaller is better


def dominates(a: Vector, b: Vector) -> bool:
    """Return whether `a` is nowhere worse, and somewhere better."""
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def front_of(vectors: Mapping[int, Vector]) -> list[int]:
    """Return the numbers of those that no other one dominates, in order. Of equal ones all."""
    if not vectors:
        return []
    numbers = sorted(vectors, key=lambda number: (vectors[number], number))
    found: list[int] = []
    kept: npt.NDArray[np.float64] = np.empty((0, len(vectors[numbers[0]])))
    for number in numbers:  # whoever dominates another one stands before it
        vector = np.array(vectors[number])
        beaten = (kept <= vector).all(axis=1) & (kept < vector).any(axis=1)
        if not beaten.any():
            found.append(number)
            kept = np.vstack([kept, vector])
    return sorted(found)


def hypervolume(vectors: Sequence[Vector], reference: Vector) -> float:
    """Volume that the vectors dominate, up to a reference point.

    By slices along the last objective (While et al., "A faster algorithm for calculating hypervolume", 2006).
    """
    inside = [vector for vector in vectors if all(x < r for x, r in zip(vector, reference, strict=True))]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(vector[0] for vector in inside)
    inside.sort(key=lambda vector: vector[-1])
    ends = [vector[-1] for vector in inside[1:]] + [reference[-1]]
    return sum(
        (end - vector[-1]) * hypervolume([other[:-1] for other in inside[: index + 1]], reference[:-1])
        for index, (vector, end) in enumerate(zip(inside, ends, strict=True))
        if end > vector[-1]
    )


def combined(spec: Spec, rows: Sequence[Mapping[str, float]]) -> Vector | None:
    """Return the objectives of a design, of the rows of all programs; None where one lacks a statistic."""
    vector: list[float] = []
    for objective in spec.objectives:
        values = [row.get(objective.name) for row in rows]
        known = [value for value in values if value is not None]
        if len(known) != len(values):
            return None
        if spec.combine == "geomean":
            total = math.exp(sum(math.log(max(value, 1e-300)) for value in known) / len(known))
            total = known[0] if len(known) == 1 else total
        else:
            total = sum(known) if spec.combine == "sum" else max(known)
        vector.append(-total if objective.largest else total)
    return tuple(vector)


def keeps(
    constraints: Iterable[Constraint],
    units: Mapping[str, str],
    values: Mapping[str, float],
    parameters: Mapping[str, Quantity],
) -> bool | None:
    """Return whether a row keeps constraints; None where it lacks a statistic, or a formula has no value."""
    unknown = False
    for constraint in constraints:
        known = dict(parameters)
        known.update(
            {
                key: Quantity(values[key], units.get(key, ""))
                for key in constraint.formula.names & values.keys()
            }
        )
        if constraint.formula.names - known.keys():
            unknown = True
            continue
        try:
            if not constraint.formula.holds(known):
                return False
        except NoValueError:
            unknown = True
    return None if unknown else True
