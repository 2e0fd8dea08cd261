"""Helpers for tests of `kpusim calibrate`: times of a known device, and the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]  # planted.py, fixes.py
import planted  # noqa: E402

#: Two parameters that the programs of `planted` tell well, for quick fits.
TWO = {"ddr.controller_latency_ns": 61, "engine.vector.pipeline_latency_cycles": 33}


@pytest.fixture(scope="session")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 rows on a device that differs in two parameters."""
    return planted.measure(tmp_path_factory.mktemp("times"), 16, 5, TWO)


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `kpusim calibrate`; its exit code must be `code`."""

    def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "kpusim.calibrate.command", *map(str, arguments)],
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert result.returncode == code, f"exit {result.returncode}: {result.stdout}{result.stderr}"
        return result

    return run
