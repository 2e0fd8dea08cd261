"""Floats of 8 bits and whole numbers of 4 and 2: runs, files, and what is refused."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kpusim
import kpusim.pallas
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels.case import floats, integers
from kernels.eighths import BYTES, EIGHTHS, NIBBLES, edges
from kpusim import UserError

NARROW = [*EIGHTHS, *NIBBLES]


def call(body: Any, out: Any, *arrays: Any, interpret: Any = False) -> Any:
    """Return a kernel on whole operands."""
    return pl.pallas_call(body, out_shape=out, interpret=interpret)(*arrays)


def shape(*sizes: int, dtype: Any) -> Any:
    """Shape of a result."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def doubled(x: Any, o: Any) -> None:
    """x + x in its own type."""
    o[...] = x[...] + x[...]


def twice(x: Any, interpret: Any = False) -> Any:
    """A call of that kernel."""
    return call(doubled, shape(*x.shape, dtype=x.dtype), x, interpret=interpret)


def numbers(dtype: Any) -> Any:
    """Small ones, by columns of 128."""
    return jnp.asarray(integers(4, 8, 128, low=0, high=3, seed="few")).astype(dtype)


@pytest.mark.device
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_jit_and_vmap(dtype: Any) -> None:
    """Types are as jax has them, at once, under both, and in both modes."""
    x = numbers(dtype)
    expected = np.asarray(jax.vmap(functools.partial(twice, interpret=True))(x))
    found = [
        kpusim.pallas.run(jax.vmap(twice))(x),
        jax.vmap(kpusim.pallas.run(twice))(x),
        jax.jit(jax.vmap(kpusim.pallas.run(twice, mode="functional")))(x),
    ]
    for one in found:
        assert one.dtype == dtype
        assert np.asarray(one).tobytes() == expected.tobytes()


@pytest.mark.device
@pytest.mark.parametrize("dtype", EIGHTHS, ids=str)
def test_signs_of_zeros(dtype: Any) -> None:
    """Bit for bit but for NaN: tables of cases take -0 and 0 for equal."""
    values = edges(dtype)

    def narrowed(x: Any, o: Any, back: Any) -> None:
        o[...] = x[...].astype(dtype)
        back[...] = -o[...].astype(jnp.float32)

    out = [shape(*values.shape, dtype=dtype), shape(*values.shape, dtype=jnp.float32)]
    ours = kpusim.pallas.run(functools.partial(call, narrowed, out))(values)
    with np.errstate(all="ignore"):
        plain = values.astype(dtype)
    theirs = [plain, -plain.astype(np.float32)]
    for one, other in zip(map(np.asarray, ours), theirs, strict=True):
        number = ~np.isnan(other.astype(np.float32))
        assert np.array_equal(np.isnan(one.astype(np.float32)), ~number)
        assert one[number].tobytes() == other[number].tobytes()


@pytest.mark.device
def test_refs_of_bytes_as_int4() -> None:
    """Loaded and stored through a bitcast: row 2r is the low half of row r."""

    def body(x: Any, o: Any, wide: Any) -> None:
        o.bitcast(jnp.int4)[...] = x.bitcast(jnp.int4)[...] + jnp.ones((16, 128), jnp.int4)
        wide[...] = x.bitcast(jnp.uint4)[...].astype(jnp.float32)

    out = [shape(8, 128, dtype=jnp.int8), shape(16, 128, dtype=jnp.float32)]
    packed, wide = kpusim.pallas.run(functools.partial(call, body, out))(BYTES)
    bits = BYTES.view(np.uint8)
    assert np.array_equal(np.asarray(packed).view(np.uint8), ((bits & 15) + 1 & 15) | ((bits >> 4) + 1 << 4))
    assert np.array_equal(np.asarray(wide), np.stack([bits & 15, bits >> 4], axis=1).reshape(16, 128))


@pytest.mark.device
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_file(dtype: Any, tmp_path: Path) -> None:
    """The command takes bits of floats, and bytes of whole numbers; so does a simulation in Python."""
    x = np.asarray(numbers(dtype))[0]
    stored = x.view(np.uint8) if dtype in EIGHTHS else x.astype(np.int8 if dtype.name[0] == "i" else np.uint8)
    expected = np.asarray(twice(x, interpret=True))
    program = kpusim.pallas.export(twice, x)
    program.save(tmp_path / "f.pallas.json")
    np.save(tmp_path / "x.npy", stored)
    command = [
        os.environ["KPUSIM"],
        "run",
        "f.pallas.json",
        "--input",
        "x=x.npy",
        "-o",
        "run",
        "--platform",
        "tile32",
    ]
    subprocess.run(command, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    in_python = kpusim.simulate(program, "tile32", inputs={"x": x}).outputs["out"]
    for found in (np.load(tmp_path / "run/outputs/out.npy"), in_python):
        assert found.dtype == stored.dtype
        assert (
            found.view(dtype) if dtype in EIGHTHS else found.astype(dtype)
        ).tobytes() == expected.tobytes()


@pytest.mark.device
def test_constants() -> None:
    """Arrays that the function captures, and moves between calls."""
    table = floats(8, 128, seed="table").astype(EIGHTHS[1])
    small = integers(8, 128, low=-8, high=8, seed="table").astype(jnp.int4)

    def body(x: Any, y: Any, o: Any, p: Any) -> None:
        o[...] = x[...].astype(jnp.float32)
        p[...] = y[...]

    def function(x: Any) -> Any:
        out = [shape(8, 128, dtype=jnp.float32), shape(8, 128, dtype=jnp.int4)]
        o, p = call(body, out, table, jnp.concatenate([x[4:], jnp.asarray(small)[:4]]))
        return o, p.T

    program = kpusim.pallas.export(function, small)
    found = kpusim.simulate(program, "tile32", inputs={"x": small}).outputs
    o, p = (found[name] for name in program.results)
    assert np.array_equal(o, table.astype(np.float32))
    assert np.array_equal(p, np.concatenate([small[4:], small[:4]]).T.astype(np.int8))


@pytest.mark.device
def test_a_byte_each() -> None:
    """Traffic of int4 is that of int8, and half of it where an operand holds two in a byte."""

    def widened(x: Any, o: Any) -> None:
        o[...] = jnp.sum(x[...].astype(jnp.float32), axis=0, keepdims=True)

    def unpacked(x: Any, o: Any) -> None:
        o[...] = jnp.sum(pltpu.bitcast(x[...], jnp.int4).astype(jnp.float32), axis=0, keepdims=True)

    def traffic(body: Any, rows: int, dtype: Any) -> int:
        out = shape(1, 128, dtype=jnp.float32)
        kpusim.pallas.run(functools.partial(call, body, out))(jnp.ones((rows, 128), dtype))
        run = kpusim.pallas.last_run()
        assert run is not None
        return int(run.stats["bytes.dram.read"])

    whole = traffic(widened, 256, jnp.int8)
    assert traffic(widened, 256, jnp.int4) == whole == 256 * 128
    assert traffic(unpacked, 128, jnp.int8) == whole // 2


def counted(x: Any, o: Any) -> None:
    """Bits of a type that has too few."""
    o[...] = lax.population_count(x[...])


def next_one(x: Any, o: Any) -> None:
    """Return the number after another."""
    o[...] = lax.nextafter(x[...], x[...])


@pytest.mark.parametrize(
    ("body", "dtype", "text"),
    [
        (counted, jnp.int4, "`population_count` of int4; convert to a wider type"),
        (next_one, jnp.float8_e5m2, "`nextafter` of float8_e5m2; convert to a wider type"),
    ],
)
def test_refused(body: Any, dtype: Any, text: str) -> None:
    """With the line."""
    out = shape(8, 128, dtype=dtype)
    with pytest.raises(UserError) as caught:
        kpusim.pallas.source(functools.partial(call, body, out), out)
    assert f"test_types.py:{body.__code__.co_firstlineno + 2} ({body.__name__}): {text}" in str(caught.value)
