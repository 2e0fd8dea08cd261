"""Element types that NumPy lacks: bf16, posits, float8 and i4 travel as bit patterns and int8."""

from __future__ import annotations

import kpusim
import ml_dtypes
import numpy as np
import pytest
from kpusim.nem import NemInterpreter

#: y = x through L2; both sides have the type.
COPY = """
program copy:
buffer x : DDR (size = 64)
buffer y : DDR (size = 64)
buffer m : L2 (size = 64)
let a = region(x, 0, 64) elem={type}, shape=[{count}], layout=N
let b = region(m, 0, 64) elem={type}, shape=[{count}], layout=N
let c = region(y, 0, 64) elem={type}, shape=[{count}], layout=N
load = transfer.async(dst=b, src=a)
save = transfer.async(dst=c, src=b, deps=[load])
"""

TYPES = [
    ("i4", np.int8, 128),
    ("i8", np.int8, 64),
    ("i16", np.int16, 32),
    ("i32", np.int32, 16),
    ("u8", np.uint8, 64),
    ("u16", np.uint16, 32),
    ("u32", np.uint32, 16),
    ("f16", np.float16, 32),
    ("bf16", np.uint16, 32),
    ("f32", np.float32, 16),
    ("posit8", np.uint8, 64),
    ("posit16", np.uint16, 32),
    ("f8e4m3", np.uint8, 64),
    ("f8e5m2", np.uint8, 64),
    ("f6e2m3", np.uint8, 64),
    ("f6e3m2", np.uint8, 64),
    ("f4e2m1", np.uint8, 128),
]


@pytest.mark.parametrize(("name", "dtype", "count"), TYPES, ids=[name for name, _, _ in TYPES])
def test_every_type_travels(name: str, dtype: type, count: int) -> None:
    """Arrays come out as they went in, in their dtype; any other dtype is refused."""
    interpreter = NemInterpreter()
    interpreter.load(COPY.format(type=name, count=count))
    x = np.arange(count).astype(dtype)
    if name in ("i4", "f4e2m1"):
        x = (np.arange(count) % 16 - (8 if name == "i4" else 0)).astype(dtype)
    y = interpreter.run({"x": x})["y"]
    assert y.dtype == dtype
    assert np.array_equal(y, x)
    assert np.array_equal(interpreter.inspect("b"), x)
    for other in (np.int64, np.float64, np.bool_):
        with pytest.raises(kpusim.UserError, match=f"for element type {name}"):
            interpreter.run({"x": x.astype(other)})


def test_dtypes_of_ml_dtypes() -> None:
    """Arrays of bfloat16 and float8 are taken as the bits that they are, of int4 and uint4 as bytes."""
    interpreter = NemInterpreter()
    interpreter.load(COPY.format(type="bf16", count=32))
    x = np.linspace(-1, 1, 32).astype(ml_dtypes.bfloat16)
    y = interpreter.run({"x": x})["y"]
    assert np.array_equal(y.view(ml_dtypes.bfloat16), x)
    interpreter.load(COPY.format(type="i4", count=128))
    small = (np.arange(128) % 16 - 8).astype(ml_dtypes.int4)
    assert np.array_equal(interpreter.run({"x": small})["y"], small.astype(np.int8))
    with pytest.raises(kpusim.UserError, match="no element type has"):
        interpreter.run({"x": np.zeros(128, ml_dtypes.float8_e4m3)})
    interpreter.load(COPY.format(type="f4e2m1", count=128))
    fourths = (np.arange(128) % 16).astype(np.uint8)
    assert np.array_equal(interpreter.run({"x": fourths.view(ml_dtypes.float4_e2m1fn)})["y"], fourths)
    with pytest.raises(kpusim.UserError, match="element 0 is 16 but f4e2m1 has 4 bits"):
        interpreter.run({"x": np.full(128, 16, np.uint8)})
    interpreter.load(COPY.format(type="u8", count=64))
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz):
        eighths = np.arange(100, 164, dtype=np.uint8)
        assert np.array_equal(interpreter.run({"x": eighths.view(kind)})["y"], eighths)
    with pytest.raises(kpusim.UserError, match="`x` is bfloat16, which is not u8"):
        interpreter.run({"x": np.zeros(64, ml_dtypes.bfloat16)})
    eighths = np.arange(100, 164, dtype=np.uint8).view(ml_dtypes.float8_e5m2)
    interpreter.load(COPY.format(type="f8e5m2", count=64))
    assert np.array_equal(interpreter.run({"x": eighths})["y"], eighths.view(np.uint8))
    with pytest.raises(kpusim.UserError, match="`x` is float8_e4m3fn, which is not f8e5m2"):
        interpreter.run({"x": eighths.view(ml_dtypes.float8_e4m3fn)})
    interpreter.load(COPY.format(type="posit8", count=64))
    with pytest.raises(kpusim.UserError, match="which is not posit8"):
        interpreter.run({"x": np.zeros(64, ml_dtypes.float8_e5m2)})
    interpreter.load(COPY.format(type="u16", count=32))
    with pytest.raises(kpusim.UserError, match="`x` is bfloat16, which is not u16"):
        interpreter.run({"x": np.zeros(32, ml_dtypes.bfloat16)})
    interpreter.load(COPY.format(type="u8", count=64))
    tiny = (np.arange(64) % 16).astype(ml_dtypes.uint4)
    assert np.array_equal(interpreter.run({"x": tiny})["y"], np.arange(64) % 16)
