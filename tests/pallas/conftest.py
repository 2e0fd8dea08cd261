"""What must be set before jax is imported: no fused multiply-add, and every bf16 result rounded.

Most kernels are executed once, so XLA optimizes little, which takes most of its time, and by no threads.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = " ".join(
    [
        "--xla_cpu_max_isa=AVX",
        "--xla_allow_excess_precision=false",
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
)
# the other: fixes.py, made.py
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1])]


def pytest_addoption(parser: Any) -> None:
    """A part of a test with many cases."""
    parser.addoption("--part", default="1/1", help="2/3: the second, fifth, ... case of each test")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Parts of exports have the cases of the same parts of devices."""
    part, parts = map(int, config.getoption("--part").split("/"))
    assert 1 <= part <= parts
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        if seen[item.originalname] % parts == part - 1:
            kept.append(item)
        seen[item.originalname] += 1
    items[:] = kept


def pytest_configure(config: Any) -> None:
    """Tests that need the front end are marked."""
    config.addinivalue_line("markers", "device: runs programs, so that the front end must be built")
