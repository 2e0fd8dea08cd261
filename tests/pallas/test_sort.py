"""The bitonic sort of the examples, as the export means it: equal to NumPy's stable sort."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import kpusim.pallas
import numpy as np
import numpy_reference
import pytest
from kernels.algorithms import load_examples

examples = load_examples()


def by_export(keys: Any, rows: int) -> list[np.ndarray]:
    """Sorted rows and their places, from the exported form."""
    function = functools.partial(examples.bitonic_sort, rows=rows)
    document = json.loads(kpusim.pallas.source(function, keys))
    return numpy_reference.run(document, [keys])


def by_device(keys: Any, rows: int) -> list[np.ndarray]:
    """The same on the device, with small blocks."""
    del rows
    results = kpusim.pallas.run(examples.bitonic_sort, platform="tile32", mode="functional")(keys)
    return [np.asarray(result) for result in results]


ENGINES = pytest.mark.parametrize("engine", [by_export, pytest.param(by_device, marks=pytest.mark.device)])


def check(engine: Any, keys: np.ndarray, rows: int) -> None:
    """Values have the same bits as NumPy's, but for zeros and NaN, which keep their order."""
    values, places = engine(keys, rows)
    right, right_places = examples.numpy_sort(keys)
    assert np.array_equal(places, right_places)
    assert np.array_equal(values.view(np.int32), right.view(np.int32))


@ENGINES
@pytest.mark.parametrize("kind", ["normal", "duplicates", "whole", "special"])
def test_random(engine: Any, kind: str) -> None:
    """1,000 arrays."""
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((1000, 128)).astype(np.float32)
    if kind == "duplicates":
        keys = np.round(keys)
    elif kind == "whole":
        keys = rng.integers(-(2**31), 2**31, (1000, 128)).astype(np.int32)
    elif kind == "special":
        odd = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1, -1, 3e38], np.float32)
        keys = rng.choice(odd, (1000, 128))
    check(engine, keys, 200)


@ENGINES
def test_zeros_and_ones(engine: Any) -> None:
    """Every vector of 16 zeros and ones, among larger numbers: what sorts these, sorts everything."""
    short = np.array(list(itertools.product((0, 1), repeat=16)), np.int32)
    keys = np.full((short.shape[0], 32), 2, np.int32)
    keys[:, :16] = short
    check(engine, keys, 8192)


@ENGINES
def test_three(engine: Any) -> None:
    """With logical in place of bitwise operators, [3, 1, 2] becomes [1, 1, 1]."""
    keys = np.full((8, 128), 9, np.int32)
    keys[:, :3] = [3, 1, 2]
    values, _ = engine(keys, 8)
    assert values[:, :3].tolist() == [[1, 2, 3]] * 8
