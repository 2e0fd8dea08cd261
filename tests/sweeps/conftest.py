"""Small sweeps that several tests use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# fixes.py is in tests
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]
#: A tiled product with a parameter, as other programs of the examples.
GEMM = ROOT / "examples/gemm_relu/gemm_relu.nem"
#: 24 points of it.
SPEC = f"""\
programs: [{GEMM}]
platforms: [npm_lite]
axes:
  engine.array.rows: [16, 32, 64]
  l2.size_bytes: 1MiB..4MiB*2
  ddr.channels: 1..2
  engine.array.cols: engine.array.rows
constraints: [power.average_w < 20]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A sweep of 18 points in a file."""
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `kpusim sweep`; its exit code must be `code`."""

    def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "kpusim.sweeps.command", *map(str, arguments)],
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert result.returncode == code, f"exit {result.returncode}: {result.stdout}{result.stderr}"
        return result

    return run
