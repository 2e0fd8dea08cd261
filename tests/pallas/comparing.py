"""Comparison of results with those of jax's interpreters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy_reference
from kernels import Case

TINY = np.finfo(np.float32).tiny


def is_float(array: np.ndarray) -> bool:
    """Return whether it is a float of any width; those of ml_dtypes are no NumPy types."""
    return "float" in array.dtype.name


def no_number(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Find where both are NaN: any is equal to any."""
    return np.asarray(np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32)))


def distance(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Units of the last place between them; subnormals are 0, any NaN is any other."""
    bits = np.dtype(f"i{ours.dtype.itemsize}")

    def place(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.float32:
            array = np.where(np.abs(array) < TINY, np.float32(0), array)
        number = array.view(bits).astype(np.int64)
        return np.where(number < 0, np.iinfo(bits).min - number, number)

    return np.where(no_number(ours, theirs), 0, np.abs(place(ours) - place(theirs)))


def magnitudes(case: Case, document: dict[str, Any]) -> list[np.ndarray]:
    """Sums of magnitudes: what kernels that only add and multiply make of the operands' absolute values."""
    return numpy_reference.run(document, [np.abs(operand) for operand in case.operands])


def difference(case: Case, ours: list[np.ndarray], theirs: list[np.ndarray], document: dict[str, Any]) -> str:
    """Say what differs beyond what the case allows; empty if nothing does."""
    sums = magnitudes(case, document) if case.compare == "sum" else [None] * len(ours)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for one, other, magnitude in zip(ours, theirs, sums, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{one.dtype}{one.shape}, not {other.dtype}{other.shape}"
        if text := differs(case, one, other, magnitude):
            return text
    return ""


def differs(case: Case, ours: np.ndarray, theirs: np.ndarray, magnitude: np.ndarray | None) -> str:
    """Return the same for one array. A sum of K terms is within K * 2^-24 of the sum of their magnitudes."""
    if not is_float(ours):
        wrong = np.argwhere(ours != theirs)
    elif case.compare == "exact":
        same = (ours.view(f"u{ours.itemsize}") == theirs.view(f"u{ours.itemsize}")) | (
            distance(ours, theirs) == 0
        )
        wrong = np.argwhere(~same)
    elif case.compare == "ulp":
        wrong = np.argwhere(distance(ours, theirs) > case.ulp)
    else:
        limit = 1e-5 * np.abs(theirs).max() if magnitude is None else 2 * case.terms * 2.0**-24 * magnitude
        wrong = np.argwhere(~(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) <= limit))
    if not wrong.size:
        return ""
    place = tuple(wrong[0])
    return f"{len(wrong)} of {ours.size} differ, first at {place}: {ours[place]!r}, not {theirs[place]!r}"
