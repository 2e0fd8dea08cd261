"""Sorts equal NumPy's stable sort: the primitive and the bitonic network of the examples."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import numpy_reference
import pytest
from jax import lax
from jax.experimental import pallas as pl
from kernels.algorithms import load_examples

examples = load_examples()
TINY = np.finfo(np.float32).tiny


def primitive_sort(x: Any, rows: int = 8) -> Any:
    """Return each row sorted by jax's `sort`, with the places that its elements came from."""

    def kernel(x_ref: Any, values_ref: Any, places_ref: Any) -> None:
        values = x_ref[...]
        places = lax.broadcasted_iota(jnp.int32, values.shape, 1)
        values_ref[...], places_ref[...] = lax.sort((values, places), dimension=1, is_stable=True, num_keys=1)

    spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    shapes = [jax.ShapeDtypeStruct(x.shape, dtype) for dtype in (x.dtype, jnp.int32)]
    grid = (x.shape[0] // rows,)
    return pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=[spec, spec], out_shape=shapes)(x)


def by_export(sort: Any, keys: Any, rows: int) -> list[np.ndarray]:
    """Sorted rows and their places, from the exported form."""
    document = json.loads(kpusim.pallas.source(functools.partial(sort, rows=rows), keys))
    return numpy_reference.run(document, [keys])


def by_device(sort: Any, keys: Any, rows: int) -> list[np.ndarray]:
    """Return the same on the device, with small blocks."""
    del rows
    results = kpusim.pallas.run(sort, platform="tile32", mode="functional")(keys)
    return [np.asarray(result) for result in results]


SORTS = (examples.bitonic_sort, primitive_sort)
ENGINES = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(functools.partial(by, sort), id=f"{sort.__name__}-{by.__name__}", marks=marks)
        for sort in SORTS
        for by, marks in ((by_export, ()), (by_device, pytest.mark.device))
    ],
)


def check(engine: Any, keys: np.ndarray, rows: int) -> None:
    """Values have the same bits as NumPy's, but for zeros and NaN, which keep their order."""
    values, places = engine(keys, rows)
    right, right_places = examples.numpy_sort(keys)
    assert np.array_equal(places, right_places)
    assert np.array_equal(values.view(np.int32), right.view(np.int32))


@ENGINES
@pytest.mark.parametrize("kind", ["normal", "duplicates", "whole", "whole_duplicates", "special"])
def test_random(engine: Any, kind: str) -> None:
    """1,000 arrays."""
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((1000, 128)).astype(np.float32)
    if kind == "duplicates":
        keys = np.round(keys)
    elif kind == "whole":
        keys = rng.integers(-(2**31), 2**31, (1000, 128)).astype(np.int32)
    elif kind == "whole_duplicates":
        keys = rng.integers(-5, 5, (1000, 128)).astype(np.int32)
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


@pytest.mark.device
@pytest.mark.parametrize("kind", ["f32", "special", "i32"])
def test_larger_than_l1(kind: str) -> None:
    """512 KiB by explicit copies, with time: no hazard, and NumPy's order."""
    rng = np.random.default_rng(11)
    keys = rng.integers(-(2**31), 2**31, (1024, 128)).astype(np.int32)
    if kind != "i32":
        keys = keys.view(np.float32)
    if kind == "f32":
        keys = rng.standard_normal((1024, 128)).astype(np.float32)
    result = kpusim.pallas.run(examples.large_sort, platform="tile32")(keys)
    last = kpusim.pallas.last_run()
    assert last is not None
    assert last.hazards == []
    right = np.sort(np.where(np.abs(keys) < TINY, 0, keys) if kind != "i32" else keys, axis=None)
    assert np.array_equal(np.asarray(result).reshape(-1), right, equal_nan=kind != "i32")
