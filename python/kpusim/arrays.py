"""Arrays of the host: which NumPy dtype stands for which element type.

Floats and integers stand for themselves. i4 is int8 with values in [-8, 7]; bf16, posit8 and posit16 are
their bit patterns, as uint16, uint8 and uint16. Arrays of the ``bfloat16`` and ``int4`` dtypes of ml_dtypes
are taken too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from kpusim.errors import UserError

Array = npt.NDArray[Any]


def host_array(what: str, value: npt.ArrayLike) -> tuple[Array, str]:
    """Bring an array into the form that the runtime reads.

    Parameters
    ----------
    what : str
        What it is, for messages.
    value : array_like
        Any strides and byte order; it is only read.

    Returns
    -------
    tuple
        The array in C order and little-endian, and the text of its dtype.

    Raises
    ------
    UserError
        For masked arrays, and dtypes that no element type has.
    """
    masked = sys.modules.get("numpy.ma")  # to import it takes longer than a small run
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise UserError(f"{what} is a masked array. Fix: fill it, for example with .filled(0).")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} is no array: {error}. Fix: give a NumPy array.") from error
    if array.dtype.kind == "V":  # types of ml_dtypes
        if array.dtype.name == "bfloat16":
            array = array.view(np.uint16)
        elif array.dtype.name == "int4":
            array = array.astype(np.int8)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise UserError(
            f"{what} has dtype {array.dtype}, which no element type has. "
            "Fix: give integers or floats of at most 64 bits."
        )
    dtype = array.dtype.newbyteorder("<")
    return np.asarray(array, dtype, order="C"), dtype.str
