"""Registry of the functions that export primitives: `handles` enters one, beside its primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kpusim.pallas.body import Handler

HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter a function for these primitives."""

    def enter(function: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = function
        return function

    return enter


def ints(values: Any) -> list[int]:
    """Plain numbers."""
    return [int(value) for value in values]
