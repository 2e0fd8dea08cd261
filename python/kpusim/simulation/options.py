"""Options of a simulation: which are legal, and the platform that follows from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, Literal, TypeVar

import numpy as np

from kpusim.base.arguments import path_text
from kpusim.base.arrays import Array
from kpusim.base.tables import OptionValue, front_ends
from kpusim.errors import ArgumentError, UserError
from kpusim.platform import OverrideValue, Platform
from kpusim.program.program import Program, StrPath, platform_beside
from kpusim.run.view import Mode, Recorded
from kpusim.simulation.backend import ComputeBackend


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Options of a simulation; each is also a keyword argument of what simulates.

    Attributes
    ----------
    mode : str, optional
        ``values+timing``, the default; ``timing`` without values, the default of programs that have none;
        ``functional`` without time, for which no platform is needed.
    params : mapping, optional
        Values of the program's parameters.
    strict : bool
        Warnings are errors, and a hazard fails the run.
    retarget : bool
        Take a program that was compiled for another device, if all of it is legal on this one.
    hazards : bool
        Look for races and reads of unwritten bytes, of programs with values.
    order : "program" or int
        Functional mode: tasks in the order of the program, or in a random legal order from this seed.
    seed : int
        Recorded with the results.
    max_cycles : int, optional
        Stop there.
    events : bool or "accesses"
        Record the event stream; with ``"accesses"`` every request to a memory too.
    engine : "fast", "reference" or ComputeBackend
        Arithmetic: one of ours, with the same bits, or one's own.

    Raises
    ------
    UserError
        For a value that is none, and for options that exclude each other.
    """

    mode: Mode | None = None
    params: Mapping[str, int] | None = None
    strict: bool = False
    retarget: bool = False
    hazards: bool = True
    order: Literal["program"] | int = "program"
    seed: int = 0
    max_cycles: int | None = None
    events: Recorded = False
    engine: Literal["fast", "reference"] | ComputeBackend = "fast"

    def __post_init__(self) -> None:
        """Refuse what is no option."""
        check_options(self.mode or "values+timing", self.order, self.engine, self.events)
        check_numbers(self.params, self.seed, self.max_cycles)
        check_flags(strict=self.strict, retarget=self.retarget, hazards=self.hazards)


Keyword = Any  #: of an option, a parameter of the platform, or an option of the front end
NAMES = frozenset(field.name for field in fields(SimulationOptions))
Function = TypeVar("Function", bound=Callable[..., Any])


def with_keywords(function: Function) -> Function:
    """Show the options among the keyword arguments, where help and notebooks look for them."""
    shown = signature(function)
    *before, more = shown.parameters.values()
    own = signature(SimulationOptions).parameters.values()
    function.__signature__ = shown.replace(parameters=[*before, *own, more])  # type: ignore[attr-defined]
    return function


def options_of(
    given: SimulationOptions | None, keywords: Mapping[str, Keyword]
) -> tuple[SimulationOptions, dict[str, OverrideValue], dict[str, OptionValue]]:
    """Options with the keywords that change them; parameters of the platform; options of the front end."""
    if given is not None and not isinstance(given, SimulationOptions):
        raise ArgumentError(f"options={given!r} are none. Fix: give a kpusim.SimulationOptions.")
    own = {name: value for name, value in keywords.items() if name in NAMES}
    options = SimulationOptions(**own) if given is None else replace(given, **own)
    overrides, more = split_keywords({name: keywords[name] for name in keywords if name not in NAMES})
    return options, overrides, more


def split_keywords(
    given: Mapping[str, OptionValue | OverrideValue],
) -> tuple[dict[str, OverrideValue], dict[str, OptionValue]]:
    """Parameters of the platform, which have dots in their names, and options of the front end."""
    overrides: dict[str, OverrideValue] = {}
    options: dict[str, OptionValue] = {}
    if not given:
        return overrides, options
    known = {option.name for front_end in front_ends() for option in front_end.options}
    for name, value in given.items():
        if "." in name and isinstance(value, (str, int, float)):
            overrides[name] = value
        elif name in known and not isinstance(value, float):
            options[name] = value
        else:
            raise ArgumentError(
                f"there is no option {name!r}. Fix: see help(kpusim.simulate); parameters of the platform "
                "have dots: **{'clock.core_mhz': 800}"
            )
    return overrides, options


MODES = ("values+timing", "timing", "functional")


def check_options(mode: object, order: object, engine: object, events: object) -> None:
    """Refuse options that exclude each other, or are none."""
    if mode not in MODES:
        raise UserError(f"mode={mode!r} is not a mode. Fix: give one of {', '.join(MODES)}.")
    if order != "program" and mode != "functional":
        raise UserError("order is for mode='functional': with timing, the model decides. Fix: leave it out.")
    if order != "program" and (not isinstance(order, int) or order < 0):
        raise UserError(f"order={order!r} is not an order. Fix: give 'program', or a seed of 0 or more.")
    if engine not in ("fast", "reference") and (
        isinstance(engine, str) or not isinstance(engine, ComputeBackend)
    ):
        raise UserError(f"there is no engine {engine!r}. Fix: give 'fast', 'reference' or a ComputeBackend.")
    if events not in (False, True, "accesses"):
        raise UserError(f"events={events!r} is not valid. Fix: give True, False or 'accesses'.")
    if events and mode == "functional":
        raise UserError("mode='functional' has no time to trace. Fix: leave out events.")


def is_count(value: object) -> bool:
    """Return whether it is an integer that the core can count with."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return 0 <= int(value) < 2**63


def check_numbers(params: object, seed: object, max_cycles: object) -> None:
    """Refuse numbers that are none."""
    if params is not None:
        if not isinstance(params, Mapping):
            raise UserError(f"params={params!r} is not a mapping. Fix: give params={{'T': 8}}.")
        for name, value in params.items():
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not isinstance(name, str) or not whole or not -(2**63) <= value < 2**63:
                raise UserError(
                    f"params: {name!r}: {value!r} is not a parameter. Fix: give names and integers."
                )
    if not is_count(seed):
        raise UserError(f"seed={seed!r} is not a seed. Fix: give an integer, 0 or more.")
    if max_cycles is not None and not is_count(max_cycles):
        raise UserError(
            f"max_cycles={max_cycles!r} is not a limit. Fix: give an integer, 0 or more, or None."
        )


def check_flags(**flags: object) -> None:
    """Refuse what is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise UserError(f"{name}={value!r} is neither True nor False. Fix: give one of them.")


def program_and_platform(
    source: Program | StrPath | bytes,
    platform: Platform | StrPath | None,
    overrides: Mapping[str, OverrideValue],
    options: Mapping[str, OptionValue],
) -> tuple[Program, Platform | None]:
    """Choose the program and its platform: the one given, else the program's own, with overrides."""
    if platform is None:
        program = Program.of(source, options=options)
        target = program.platform(**overrides)
        if target is None:
            if overrides:
                raise UserError("overrides need a platform. Fix: give one.")
            return program, None
        program = program.made_for(target)
    else:
        target = platform_beside(platform, origin_of(source))
        target = target.with_(**overrides) if overrides else target
        program = Program.of(source, target, options)
    return program, program.platform() if program._core.for_device else target


def origin_of(source: Program | StrPath | bytes) -> str:
    """File of a program, beside which its platform may stand; empty when there is none."""
    if isinstance(source, Program):
        return source.origin
    if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source):
        return path_text(source)
    return ""


def ordered_loop_values(
    region: str, loops: list[str], moves: list[int], given: Mapping[str, int]
) -> list[int]:
    """Values of the loops around a region, outermost first; those that it does not move with are 0."""
    if not moves:
        if given:
            raise UserError(f"region `{region}` does not move with loops. Fix: leave out the loop values.")
        return []
    if len(loops) <= max(moves):
        raise UserError(f"no task uses region `{region}`, so its loops have no names.")
    needed = [loops[index] for index in moves]
    for name in given:
        if name not in needed:
            raise UserError(f"region `{region}` does not move with `{name}`. Fix: give {', '.join(needed)}.")
    missing = [name for name in needed if name not in given]
    if missing:
        values = ", ".join(f"{name}=0" for name in needed)
        raise UserError(
            f"region `{region}` moves with {', '.join(needed)}. Fix: give their values, as {values}."
        )
    return [given.get(name, 0) for name in loops[: max(moves) + 1]]


def input_digest(array: Array | None, fill: str | int | None) -> str:
    """Return what the manifest says of an input: SHA-256 of its elements, or how it was filled."""
    if array is not None:
        return hashlib.sha256(array.tobytes()).hexdigest()
    if fill is None:
        return "unbound"
    return "zeros" if fill == "zeros" else f"random:{fill}"
