"""Arrays of the host: which NumPy dtype stands for which element type.

Floats and integers stand for themselves. i4 is int8 with values in [-8, 7]; bf16, posits and small floats are
their bit patterns, as uint16 or uint8. Arrays of the dtypes of ml_dtypes in ``TAKEN`` are taken too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kpusim.errors import UserError

Array = npt.NDArray[Any]

#: Dtypes of ml_dtypes: whether they come as their bits, else as their values, and the dtype for that.
TAKEN: dict[str, tuple[bool, type[np.generic]]] = {
    "bfloat16": (True, np.uint16),
    "float8_e4m3fn": (True, np.uint8),
    "float8_e5m2": (True, np.uint8),
    "float8_e4m3b11fnuz": (True, np.uint8),
    "float8_e8m0fnu": (True, np.uint8),
    "float6_e2m3fn": (True, np.uint8),
    "float6_e3m2fn": (True, np.uint8),
    "float4_e2m1fn": (True, np.uint8),
    "int4": (False, np.int8),
    "int2": (False, np.int8),
    "uint4": (False, np.uint8),
    "uint2": (False, np.uint8),
}


#: Element types of the device that are floats of ml_dtypes.
SMALL_FLOATS = {
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float6_e2m3fn": "f6e2m3",
    "float6_e3m2fn": "f6e3m2",
    "float4_e2m1fn": "f4e2m1",
}


def host_array(
    what: str, value: npt.ArrayLike, element_type: Callable[[], str] | None = None
) -> tuple[Array, str]:
    """Bring an array into the form that the runtime reads.

    Parameters
    ----------
    what : str
        What it is, for messages.
    value : array_like
        Any strides and byte order; it is only read.
    element_type : callable, optional
        Says what it will be held as: bits of another float are refused. Asked for floats of ml_dtypes alone.

    Returns
    -------
    tuple
        The array in C order and little-endian, and the text of its dtype.

    Raises
    ------
    UserError
        For masked arrays, dtypes that no element type has, and floats of ml_dtypes for another type.
    """
    masked = sys.modules.get("numpy.ma")  # to import it takes longer than a small run
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise UserError(f"{what} is a masked array. Fix: fill it, for example with .filled(0).")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} is not an array: {error}. Fix: give a NumPy array.") from error
    if found := TAKEN.get(array.dtype.name):
        as_bits, dtype_of = found
        held = element_type() if as_bits and element_type else ""
        # bytes of u8 may be small floats, as in Pallas kernels
        if held not in ("", "bf16" if dtype_of is np.uint16 else "u8", SMALL_FLOATS.get(array.dtype.name)):
            raise UserError(
                f"{what} is {array.dtype}, which is not {held}. Fix: convert the values, or give the bits "
                f"with .view(np.{dtype_of.__name__}) if they are meant."
            )
        array = array.view(dtype_of) if as_bits else array.astype(dtype_of)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise UserError(
            f"{what} has dtype {array.dtype}, which no element type has. "
            "Fix: give integers or floats of at most 64 bits."
        )
    dtype = array.dtype.newbyteorder("<")
    return np.asarray(array, dtype, order="C"), dtype.str
