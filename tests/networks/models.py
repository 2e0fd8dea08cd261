"""Writes networks of examples/networks as ONNX models into build/networks, those that are not there.

usage: models.py NETWORK...
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import page


def export(network: str, path: Path) -> None:
    """Several by one Python: it takes seconds to import PyTorch, where there is one to write."""
    from networks import export

    export(network, str(path))


def main() -> None:
    """In the order given."""
    for network in sys.argv[1:]:
        path = page.MODELS / f"{network}.onnx"
        page.made.file(path, page.digest(), functools.partial(export, network, path))
        print(path, flush=True)


if __name__ == "__main__":
    main()
