"""The kernels of the examples."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from kernels.case import add


def load_examples() -> Any:
    """Return the module of the examples: a file, not a package, that finds its neighbours on the path."""
    path = Path(__file__).resolve().parents[3] / "examples/pallas/kernels.py"
    sys.path.append(str(path.parent))
    found = importlib.util.spec_from_file_location("pallas_examples", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["pallas_examples"] = module
    found.loader.exec_module(module)
    return module


EXAMPLES = load_examples().examples()
for name, example in EXAMPLES.items():
    how: dict[str, Any] = {"compare": "close", "ulp": 0} if example.tolerance else {}
    if "sort" in name:
        how["check"] = example.check
    add("example_" + name, example.function, example.operands, interpreter=example.interpreter, **how)
