"""Settings that must be made before jax is imported: no fused multiply-add, and every bf16 result rounded.

Most kernels are executed once, so XLA optimizes little, which takes most of its time, and by no threads.
Not at level 0: there jaxlib 0.9.2 gets signs of small float8_e4m3b11fnuz wrong.
"""

import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = " ".join(
    [
        "--xla_cpu_max_isa=AVX",
        "--xla_allow_excess_precision=false",
        "--xla_backend_optimization_level=1",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
)
# the other: fixes.py, made.py, pytest_parts.py
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1])]
from pytest_parts import pytest_addoption, pytest_collection_modifyitems  # noqa: E402, F401


def pytest_configure(config: Any) -> None:
    """Tests that need the front end are marked."""
    config.addinivalue_line("markers", "device: runs programs, so that the front end must be built")
