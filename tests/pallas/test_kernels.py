"""Every kernel of the table: its export means what jax's interpreters compute, and so does the device."""

from __future__ import annotations

import comparing
import jax
import kept
import kpusim.pallas
import numpy as np
import numpy_reference
import pytest
from kernels import CASES
from kpusim.pallas import capture


def test_there_are_enough() -> None:
    """Fewer would show little."""
    assert len(CASES) >= 120


@pytest.mark.parametrize("name", CASES)
def test_export(name: str) -> None:
    """The exported document, executed by NumPy."""
    case = CASES[name]
    document = kept.exported(case).document
    theirs = kept.expected(case)
    ours = [
        # in a program the first of many dimensions are one
        one.reshape(other.shape) if other.ndim > capture.MOST_DIMENSIONS else one
        for one, other in zip(numpy_reference.run(document, case.operands), theirs, strict=True)
    ]
    assert comparing.difference(case, ours, theirs, document) == ""


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_device(name: str) -> None:
    """The program on a device, functional."""
    case = CASES[name]
    document = kept.exported(case).document
    results = kpusim.pallas.run(case.function, platform="tile32", mode="functional")(*case.operands)
    ours = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(results)]
    assert comparing.difference(case, ours, kept.expected(case), document) == ""
