"""Arrays whose type is not the device's: converted when a run loads and stores them."""

from __future__ import annotations

import json
from pathlib import Path

import kpusim
import numpy as np
import pytest

#: y = x through L2, of 24 elements.
COPY = """
program copy:
#! tensor {x}
#! tensor {y}
buffer X : DDR (size = {size})
buffer Y : DDR (size = {size})
buffer M : L2 (size = {size})
load = transfer.async(dst=region(M, 0, {size}), src=region(X, 0, {size}))
save = transfer.async(dst=region(Y, 0, {size}), src=region(M, 0, {size}), deps=[load])
"""


def copy(elem: str, host: str, **more: object) -> str:
    """Return the program, with tensors of this type on the device and on the host."""
    tensor: dict[str, object] = {"elem": elem, "hostElem": host, "shape": [2, 3, 2, 2], **more}
    return COPY.format(
        x=json.dumps({"id": "x", "role": "INPUT", "buffer": "X", **tensor}),
        y=json.dumps({"id": "y", "role": "OUTPUT", "buffer": "Y", **tensor}),
        size=24 * int(elem[1:]) // 8,
    )


QUANT = {"kind": "PER_TENSOR", "scale": [0.25], "zeroPoint": [3]}


def test_floats_are_quantized(tmp_path: Path) -> None:
    """Floats go in, floats come out, rounded to steps; the run says so."""
    program = copy("I8", "HOST_F32", quant=QUANT, stride=[12, 1, 6, 3])
    simulation = kpusim.Simulation(program, "npm_lite")
    (spec,) = simulation.input_specs
    assert (spec.element_type, spec.host_type, spec.dtype) == ("i8", "f32", "<f4")
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 2, 2)
    run = simulation.run({"x": x})
    assert run.outputs["y"].dtype == np.float32
    assert np.array_equal(run.outputs["y"], np.round(x / 0.25) * 0.25)
    line = "x f32[2,3,2,2] -> i8 NHWC, scale 0.25, zero point 3 (outside the cycles)"
    assert f"host: {line}" in run.report()
    run.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["host"][0] == line
    assert np.array_equal(np.load(tmp_path / "out" / "outputs" / "y.npy"), run.outputs["y"])


@pytest.mark.parametrize(
    ("elem", "host", "dtype"),
    [("I32", "HOST_I64", np.int64), ("U8", "HOST_BOOL", np.bool_), ("F16", "HOST_F32", np.float32)],
)
def test_types_of_the_host(elem: str, host: str, dtype: type) -> None:
    """Arrays keep the type of the host on both sides; another type is refused."""
    simulation = kpusim.Simulation(copy(elem, host), mode="functional")
    x = (np.arange(24) % 2).astype(dtype).reshape(2, 3, 2, 2)
    y = simulation.run({"x": x}).outputs["y"]
    assert y.dtype == dtype
    assert np.array_equal(y, x)
    with pytest.raises(kpusim.UserError, match="is needed for element type"):
        simulation.run({"x": x.astype(np.int16)})


def test_int64_that_does_not_fit() -> None:
    """The element is named."""
    simulation = kpusim.Simulation(copy("I32", "HOST_I64"), mode="functional")
    x = np.zeros((2, 3, 2, 2), np.int64)
    x[1, 0, 0, 1] = 2**40
    with pytest.raises(kpusim.UserError, match="element 13 is 1099511627776, which i32 does not hold"):
        simulation.run({"x": x})


def test_random_fill_is_of_the_host() -> None:
    """Floats in [-1, 1) before they are quantized."""
    simulation = kpusim.Simulation(copy("I8", "HOST_F32", quant=QUANT), mode="functional")
    y = simulation.run(fill=1).outputs["y"]
    assert np.abs(y).max() <= 1
    assert len(np.unique(y)) > 3
