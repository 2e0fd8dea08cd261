"""A case: a kernel, its operands, and how exactly its results must be those of jax."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

#: Bit for bit; within units of the last place; within a bound of what is summed; within 1e-5 of the largest.
Compare = Literal["exact", "ulp", "sum", "close"]


@dataclass(frozen=True)
class Case:
    """A function that calls kernels.

    Attributes
    ----------
    name : str
        Unique.
    function : callable
        Of the interpreter to use (False for none) and the operands.
    operands : tuple of array
        Its arguments.
    compare : str
        How results are compared.
    ulp : int
        Units of the last place, of the largest result for chains of operations.
    interpreter : str
        ``hlo``, or ``tpu`` for ``pltpu.InterpretParams()``, which knows about copies.
    terms : int
        Most terms of a sum.
    check : callable, optional
        What NumPy makes of the operands, where the interpreter takes minutes.
    """

    name: str
    function: Callable[..., Any]
    operands: tuple[np.ndarray, ...]
    compare: Compare = "exact"
    ulp: int = 4
    interpreter: str = "hlo"
    terms: int = 128
    check: Callable[..., Any] | None = None


CASES: dict[str, Case] = {}


def add(name: str, function: Callable[..., Any], operands: Sequence[Any], **how: Any) -> None:
    """Enter a case."""
    assert name not in CASES, name
    CASES[name] = Case(name, function, tuple(np.asarray(operand) for operand in operands), **how)


def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Shape of a result."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def kernel(
    name: str,
    operands: Sequence[Any],
    out: Any,
    *,
    how: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter the kernel below as a case of one call; `options` are those of `pallas_call`."""

    def enter(body: Callable[..., None]) -> Callable[..., None]:
        def function(*arrays: Any, interpret: Any = False) -> Any:
            return pl.pallas_call(body, out_shape=out, interpret=interpret, **options)(*arrays)

        add(name, function, operands, **(how or {}))
        return body

    return enter


def rng(name: str) -> np.random.Generator:
    """Random numbers that depend on a name alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def floats(*sizes: int, seed: str = "floats", scale: float = 1.0) -> np.ndarray:
    """Normal f32 numbers."""
    return (rng(seed).standard_normal(sizes) * scale).astype(np.float32)


def integers(
    *sizes: int, low: int = -100, high: int = 100, dtype: Any = np.int32, seed: str = "i"
) -> np.ndarray:
    """Return whole numbers."""
    return rng(seed).integers(low, high, sizes).astype(dtype)


ODD_FLOATS = np.array(
    [
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        0.2,
        -0.2,
        np.inf,
        -np.inf,
        np.nan,
        3e38,
        -3e38,
        1e-30,
        7,
        5.5,
        -2,
    ]
    + [2, 100, -100, 1e10, 0.99999994, 1.0000001, 16777216, 3e9, -3e9, 300, -129, 65520],
    np.float32,
)
ODD_INTEGERS = np.array(
    [0, 1, -1, 2, -2, 7, -7, 8, 31, 32, 33, 64, 100, -100, 255, 256, -128, 127, 300, -129, 70000]
    + [2**31 - 1, -(2**31), 2**31 - 2, 12345678, -12345678, 16777217, 65535, -32768, 3, 5, -5],
    np.int64,
)


def odd_floats(
    seed: str, scale: float = 5.0, low: float | None = None, high: float | None = None
) -> np.ndarray:
    """(8, 128) numbers with every special one, within a range if one is given."""
    values = rng(seed).standard_normal(1024) * scale
    values[: ODD_FLOATS.size] = ODD_FLOATS
    if low is not None:
        values = np.clip(values, low, high)
    return rng(seed + "order").permutation(values).astype(np.float32).reshape(8, 128)


def odd_integers(seed: str, dtype: Any = np.int32) -> np.ndarray:
    """(8, 128) whole numbers with every special one, wrapped to their type."""
    values = rng(seed).integers(-(2**31), 2**31, 1024)
    values[::2] = rng(seed).choice(ODD_INTEGERS, 512)
    return values.astype(dtype).reshape(8, 128)
