"""Arithmetic engines of one's own, for cross-checks: values from Python in a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kpusim.base.arrays import Array, host_array
from kpusim.errors import UserError


@dataclass(frozen=True)
class Quant:
    """Quantisation of an operand: real value = scale * (element - zero point).

    Attributes
    ----------
    scales, zero_points : tuple
        One of each per tensor, or per index (or group of indices) of an axis.
    axis : int
        The axis, when there are several.
    group_size : int
        Indices that share a scale; 0 when groups are not meant.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    group_size: int


@dataclass(frozen=True)
class Operand:
    """An operand of an operation.

    Attributes
    ----------
    element_type : str
        i4, bf16, f32 ...
    dtype : numpy.dtype
        Of its arrays: i4 is one element per int8, bf16 its bits as uint16.
    shape : tuple of int
        Its shape; elements are in C order.
    quant : Quant or None
        Its quantisation.
    array : ndarray or None
        The elements, a copy; None for results.
    """

    element_type: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    quant: Quant | None
    array: Array | None


@runtime_checkable
class ComputeBackend(Protocol):
    """Computes operations in the place of the simulator's own engine: ``Simulation(..., engine=mine)``."""

    def supports(self, opcode: str, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        """Tell whether it computes the opcode on these element types; the own engine does the rest."""

    def execute(
        self,
        opcode: str,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        attributes: Mapping[str, object],
    ) -> Sequence[npt.ArrayLike]:
        """Compute: one array for each of `outputs`, of its shape and the dtype of its element type."""


_QuantRow = tuple[tuple[float, ...], tuple[int, ...], int, int]
_Row = tuple[str, "np.dtype[Any]", tuple[int, ...], _QuantRow | None, Array | None]


class Adapter:
    """Serve the core's calls: operands from and to plain tuples, results checked."""

    def __init__(self, backend: ComputeBackend) -> None:
        self._backend = backend

    def call(
        self, opcode: str, inputs: Sequence[_Row], outputs: Sequence[_Row], attributes: Mapping[str, object]
    ) -> list[Array] | None:
        """Compute, or None for what the backend does not support."""
        if not self._backend.supports(opcode, [row[0] for row in inputs], [row[0] for row in outputs]):
            return None
        wanted = [_operand(row) for row in outputs]
        results = self._backend.execute(opcode, [_operand(row) for row in inputs], wanted, attributes)
        if not isinstance(results, (list, tuple)) or len(results) != len(wanted):
            raise UserError(
                f"the engine gives no list of {len(wanted)} results of {opcode}. Fix: one array each."
            )
        return [
            _checked(f"result {i} of {opcode}", result, operand)
            for i, (result, operand) in enumerate(zip(results, wanted, strict=True))
        ]


def _operand(row: _Row) -> Operand:
    element_type, dtype, shape, quant, array = row
    return Operand(element_type, dtype, shape, None if quant is None else Quant(*quant), array)


def _checked(what: str, result: npt.ArrayLike, wanted: Operand) -> Array:
    array, _ = host_array(what, result)
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        raise UserError(
            f"{what} is {array.dtype}{list(array.shape)}, and {wanted.element_type} is "
            f"{wanted.dtype}{list(wanted.shape)} here. Fix: give such an array."
        )
    return array
