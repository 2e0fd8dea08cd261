"""Options of a simulation: which are legal, and the platform that follows from them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kpusim.backend import ComputeBackend
from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform
from kpusim.program import Program, StrPath


def check_options(mode: str, order: object, engine: object, events: bool) -> None:
    """Refuse options that exclude each other, or are none."""
    if order != "program" and mode != "functional":
        raise UserError("order is for mode='functional': with timing, the model decides. Fix: leave it out.")
    if order != "program" and (not isinstance(order, int) or order < 0):
        raise UserError(f"order={order!r} is no order. Fix: give 'program', or a seed of 0 or more.")
    if engine not in ("fast", "reference") and (
        isinstance(engine, str) or not isinstance(engine, ComputeBackend)
    ):
        raise UserError(f"there is no engine {engine!r}. Fix: give 'fast', 'reference' or a ComputeBackend.")
    if events and mode == "functional":
        raise UserError("mode='functional' has no time to trace. Fix: leave out events.")


def check_overrides(overrides: Mapping[str, OverrideValue]) -> None:
    """Refuse misspelt options: parameters of platforms have dots in their names."""
    for path in overrides:
        if "." not in path:
            raise TypeError(
                f"there is no option {path!r}. Fix: see help(kpusim.simulate); parameters of the platform "
                "have dots: **{'clock.core_mhz': 800}"
            )


def resolve_platform(
    program: Program, platform: Platform | StrPath | None, overrides: Mapping[str, OverrideValue]
) -> Platform | None:
    """Platform of a run: the one given, else the program's own, with overrides."""
    if platform is None:
        own = program.platform(**overrides)
        if own is None and overrides:
            raise UserError("overrides need a platform. Fix: give one.")
        return own
    if not isinstance(platform, Platform):
        folder = os.path.dirname(program.origin)
        platform = Platform.load(platform, [folder] if folder else [])
    return platform.with_(**overrides) if overrides else platform
