"""What must be set before jax is imported: no fused multiply-add, and every bf16 result rounded."""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX --xla_allow_excess_precision=false"
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1])]  # the other: fixes.py


def pytest_configure(config: object) -> None:
    """Tests that need the front end are marked."""
    config.addinivalue_line("markers", "device: runs programs, so that the front end must be built")  # type: ignore[attr-defined]
