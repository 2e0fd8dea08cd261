"""Kernels called with arrays."""

from __future__ import annotations

from pathlib import Path

import kpusim
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"


def test_arrays_go_in_and_out() -> None:
    """Values are NumPy's, in every mode that has some; time passes."""
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    run = saxpy(x, y, np.array([2.0], np.float32))
    assert np.array_equal(run.outputs["y"], 2 * x + 1)
    assert run.cycles > 0
    functional = saxpy(x, y, np.array([2.0], np.float32), mode="functional")
    assert np.array_equal(functional.outputs["y"], run.outputs["y"])


def test_scalars_sizes_and_two_dimensions() -> None:
    """Arrays of any shape; outputs of another size; copies from L2."""
    x = np.arange(512, dtype=np.float32).reshape(16, 32)
    transposed = kpusim.kernel(EXAMPLES / "arrays.kern", "transpose")(x, grid=(2, 1), args=(16, 32))
    assert np.array_equal(transposed.outputs["result"], x.T.ravel())
    row = np.random.default_rng(1).normal(0, 1, 128).astype(np.float32)
    top = kpusim.kernel(EXAMPLES / "orders.kern", "top_k")(
        row, grid=(2,), args=(3,), sizes={"values": 6, "indices": 6}
    )
    assert np.array_equal(top.outputs["values"], -np.sort(-row.reshape(2, 64), axis=1)[:, :3].ravel())
    words = np.arange(256, dtype=np.uint32)
    tripled = kpusim.kernel(EXAMPLES / "copies.kern", "stream")(words, grid=(1,), args=(16,))
    assert np.array_equal(tripled.outputs["result"], 3 * words)


def test_mistakes(tmp_path: Path) -> None:
    """They name the kernel, the buffer or the place in the text."""
    with pytest.raises(kpusim.UserError, match=r"has several kernels\. Fix: name one of saxpy, reduce, scan"):
        kpusim.kernel(EXAMPLES / "vectors.kern")
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    with pytest.raises(kpusim.UserError, match=r"takes 3 arrays \(x, y, a\), not 1"):
        saxpy(np.zeros(4, np.float32))
    with pytest.raises(kpusim.UserError, match=r"buffer `x` of kernel `saxpy` is f32, the array int64"):
        saxpy(np.zeros(4, np.int64), np.zeros(4, np.float32), np.zeros(1, np.float32))
    text = tmp_path / "k.kern"
    text.write_text("kernel k workgroup(1) (o: output u32[1]):\n    o[0] = x\nendkernel\n")
    with pytest.raises(kpusim.UserError, match=r"k\.kern:2:5.*undeclared variable `x`"):
        kpusim.kernel(text)
    text.write_text("kernel k workgroup(2) (x: read u32[], o: output u32[1]): o[0] = x[lid.x] endkernel")
    with pytest.warns(kpusim.HazardWarning):
        kpusim.kernel(text)(np.arange(2, dtype=np.uint32), grid=(1,))
