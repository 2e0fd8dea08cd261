"""Operators of PyTorch that its exporter does not translate, or translates to what is not imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: ATen operator: function of onnxscript.
TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
