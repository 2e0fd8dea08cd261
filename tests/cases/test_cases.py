"""Small models that gave wrong values or were refused once: expected values are NumPy's, by the ONNX rules.

The command is in the variable KPUSIM.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import unquote

import imported
import numpy as np
import onnx
import pytest
import quantized
from builders import Case

CASES = {
    f"{group.__name__}-{name}": case
    for group in (*quantized.GROUPS, *imported.GROUPS)
    for name, case in group().items()
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    """Its outputs are the expected ones."""
    case: Case = CASES[name]
    onnx.save(case.model, tmp_path / "model.onnx")
    command = [os.environ["KPUSIM"], "run", str(tmp_path / "model.onnx"), *case.options]
    for i, (port, array) in enumerate(case.inputs.items()):
        np.save(tmp_path / f"{i}.npy", array)
        command += ["--input", f"{port}={tmp_path / f'{i}.npy'}"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    got = {unquote(path.stem): np.load(path) for path in (tmp_path / "out" / "outputs").glob("*.npy")}
    for port, wanted in case.outputs.items():
        assert got[port].dtype == wanted.dtype
        np.testing.assert_allclose(
            got[port].astype(np.float64), wanted.astype(np.float64), rtol=0, atol=case.tolerance, strict=True
        )
