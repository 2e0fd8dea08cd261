"""Programs that several tests use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # fixes.py

#: y = relu(x) on 4 tiles of 64 f16, pipelined two deep.
RELU = """
program tiles:
const T = 64 * 2
buffer x : DDR (size = 4 * T)
buffer y : DDR (size = 4 * T)
buffer x_l2 : L2 (size = 2 * T)
buffer x_l1 : L1[0] (size = 2 * T)
buffer y_l2 : L2 (size = 2 * T)
loop i in [0..3] @max_in_flight(2):
    let src = region(x, i * T, T) elem=f16, shape=[64], layout=N
    let mid = region(x_l2, (i mod 2) * T, T) elem=f16, shape=[64], layout=N
    let near = region(x_l1, (i mod 2) * T, T) elem=f16, shape=[64], layout=N
    let back = region(y_l2, (i mod 2) * T, T) elem=f16, shape=[64], layout=N
    let dst = region(y, i * T, T) elem=f16, shape=[64], layout=N
    load = transfer.async(dst=mid, src=src)
    fetch = transfer.async(dst=near, src=mid, deps=[load])
    act = relu.async in near out near deps=[fetch]
    keep = store.async(dst=back, src=near, deps=[act])
    save = transfer.async(dst=dst, src=back, deps=[keep])
endloop
"""


@pytest.fixture
def relu() -> str:
    """Text of a small program: y = relu(x), 256 f16."""
    return RELU


@pytest.fixture
def in_subprocess() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a process of its own, where a crash is an exit code."""

    def run(code: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=ROOT,
            env={**os.environ, "RELU": RELU},
            check=False,
        )

    return run
