"""Runs models through graph_run, many in one process."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

Array = NDArray[Any]


@dataclass
class Case:
    """A model with inputs; what graph_run made of it is added."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    outputs: dict[str, Array] = field(default_factory=dict)
    error: str = ""
    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of outputs whose length depends on data: the most that it can be, and the axis."""
    steps: int = 0
    """By how much integers may differ."""


SMALL_FLOATS = {
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TensorProto.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    TensorProto.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
}


def file_of(name: str) -> str:
    """Return the file of a tensor."""
    return name.replace("/", "_") + ".npy"


def as_file(array: Array) -> Array:
    """Convert an array to the form of graph_run's files: small floats as bits, integers in bytes."""
    array = np.asarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    if array.dtype in SMALL_FLOATS.values():
        return array.view(np.uint8)
    signed, unsigned = (ml_dtypes.int4, ml_dtypes.int2), (ml_dtypes.uint4, ml_dtypes.uint2)
    if array.dtype in signed:
        return array.astype(np.int8)
    return array.astype(np.uint8) if array.dtype in unsigned else array


def from_file(array: Array, type_: int) -> Array:
    """Return the array in the type that the model declares."""
    wide = {TensorProto.INT64: np.int64, TensorProto.UINT64: np.uint64, TensorProto.DOUBLE: np.float64}
    if type_ in wide:
        return array.view(wide[type_]).reshape(array.shape[:-1])
    if type_ == TensorProto.BFLOAT16:
        return array.view(ml_dtypes.bfloat16)
    if type_ in SMALL_FLOATS:
        return array.view(SMALL_FLOATS[type_])
    # 0: the model does not say, the array itself does
    return array.astype(helper.tensor_dtype_to_np_dtype(type_)) if type_ else array


def run(cases: Iterable[Case], tool: str) -> None:
    """Fills outputs or error of each case."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = []
        for number, case in enumerate(cases):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            (folder / "model.onnx").write_bytes(case.model.SerializeToString())
            for name, array in case.inputs.items():
                np.save(folder / file_of(name), np.ascontiguousarray(as_file(array)).reshape(np.shape(array)))
            folders.append((case, folder))
        for start in range(0, len(folders), 200):
            part = [str(folder) for _, folder in folders[start : start + 200]]
            subprocess.run([tool, *part], check=True, timeout=600)
        for case, folder in folders:
            if (folder / "error.txt").exists():
                case.error = (folder / "error.txt").read_text()
                continue
            for output in case.model.graph.output:
                array = np.load(folder / "out" / file_of(output.name))
                case.outputs[output.name] = from_file(array, output.type.tensor_type.elem_type)
