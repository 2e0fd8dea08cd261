"""Packages that parts of this one need: they come with extras."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpusim.errors import MissingPackageError

if TYPE_CHECKING:
    from types import ModuleType


def extra(module: str, use: str, name: str = "plots") -> ModuleType:
    """Import a package of an extra, ``kpusim[plots]``, or say how to get it."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{use} needs {package}, which is not installed. Fix: pip install 'kpusim[{name}]'."
        ) from error
