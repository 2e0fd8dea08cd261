"""Parameters of a platform that a fit may change, with their bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kpusim.errors import UserError, split_fix
from kpusim.platform import Platform
from kpusim.sweeps.axes import kind_of, parameter_values
from kpusim.sweeps.quantity import quantity_of, whole

WIDTH = 8.0  #: bounds of a parameter are its value over and times this, if none are given
FROM_ZERO = 64.0  #: upper bound of a parameter that is 0, if none is given


@dataclass(frozen=True)
class Parameter:
    """A parameter that is fitted.

    Attributes
    ----------
    name : str
        As ``--set`` takes it.
    unit : str
        Of its values.
    whole : bool
        Whether they are whole numbers.
    start : float
        What it is before the fit.
    low, high : float
        Bounds.
    """

    name: str
    unit: str
    whole: bool
    start: float
    low: float
    high: float

    @property
    def scale(self) -> float:
        """A size of its steps: the fit works on multiples of it."""
        return abs(self.start) or max(1.0, self.high / 8)

    def value(self, number: float) -> float:
        """Return a value that the platform takes: the nearest one in its bounds."""
        inside = min(max(number, self.low), self.high)
        return round(inside) if self.whole else float(f"{inside:.9g}")

    def step(self, share: float) -> float:
        """Return a step to either side."""
        return max(1.0, float(round(share * self.scale))) if self.whole else share * self.scale


def parameters_of(
    platform: Platform, names: Sequence[str], bounds: Mapping[str, tuple[float, float]]
) -> list[Parameter]:
    """The parameters to fit.

    Raises
    ------
    UserError
        For an unknown name, one that is no number, and bounds that the platform's rules refuse.
    """
    if not names:
        raise UserError("no parameter is to be fitted. Fix: name some: --fit ddr.controller_latency_ns.")
    for name in bounds:
        if name not in names:
            raise UserError(f"`{name}` has bounds and is not fitted. Fix: add it to --fit.")
    known = parameter_values(platform)
    found = []
    for index, name in enumerate(names):
        kind = kind_of(name)
        if name in names[:index]:
            raise UserError(f"`{name}` is to be fitted twice. Fix: name it once.")
        if kind.type not in ("integer", "real"):
            raise UserError(f"`{name}` is not a number. Fix: sweep it (`kpusim sweep`).")
        if name not in known:
            raise UserError(
                f"`{name}` has no value of its own. Fix: begin with one: `kpusim calibrate --set {name}=...`."
            )
        start = float(known[name].value)
        whole_only = kind.type == "integer"
        given = bounds.get(name)
        if given is None:
            low, high = _default_bounds(platform, name, start, whole_only)
        else:
            low, high = given
            _check_bounds(platform, name, start, given, whole_only)
        found.append(Parameter(name, known[name].unit, whole_only, start, low, high))
        _check_steps(platform, found[-1])
    return found


def bound_of(text: str) -> tuple[str, tuple[float, float]]:
    """Read ``NAME=LO:HI``."""
    match = re.fullmatch(r"([\w.]+)=([^:]+):([^:]+)", text)
    wrong = UserError(f"`{text}` is not NAME=LO:HI. Fix: write such as ddr.controller_latency_ns=20:200.")
    if match is None:
        raise wrong
    low, high = quantity_of(match[2]), quantity_of(match[3])
    if low is None or high is None:
        raise wrong
    unit = kind_of(match[1]).unit
    return match[1], (float(low.in_unit(unit).value), float(high.in_unit(unit).value))


def _default_bounds(platform: Platform, name: str, start: float, whole_only: bool) -> tuple[float, float]:
    """Return a wide range around the value, narrowed until the platform's rules take both ends."""
    ends = []
    for end in (start / WIDTH, start * WIDTH) if start else (0.0, FROM_ZERO):
        for _ in range(12):
            value = float(round(end)) if whole_only else end
            if _refusal(platform, name, value, whole_only) is None:
                break
            end = (end + start) / 2
        else:
            value = start
        ends.append(value)
    low, high = ends
    if low >= high:
        raise UserError(f"`{name}` can only be {start:g} on this platform. Fix: leave it out of --fit.")
    return low, high


def _check_bounds(
    platform: Platform, name: str, start: float, given: tuple[float, float], whole_only: bool
) -> None:
    low, high = given
    if not low < high:
        raise UserError(f"`{name}`: {low:g} to {high:g} is not a range. Fix: give LO:HI, LO below HI.")
    if not low <= start <= high:
        raise UserError(
            f"`{name}` is {start:g}, outside of its bounds {low:g} to {high:g}. Fix: widen them, or begin "
            f"elsewhere: `kpusim calibrate --set {name}={low:g}`."
        )
    for end in given:
        if whole_only and end != round(end):
            raise UserError(f"`{name}` is a whole number, and its bound {end:g} is not. Fix: round it.")
        if (refused := _refusal(platform, name, end, whole_only)) is not None:
            raise UserError(f"--bound {name}={low:g}:{high:g}: {refused}")


def _check_steps(platform: Platform, parameter: Parameter) -> None:
    """Refuse parameters that take powers of two alone: they have no slope."""
    if not parameter.whole:
        return
    near = [
        value
        for value in (parameter.start + 1, parameter.start - 1)
        if parameter.low <= value <= parameter.high
    ]
    refused = [_refusal(platform, parameter.name, value, True) for value in near]
    if refused and all(refused):
        raise UserError(
            f"`{parameter.name}` cannot be fitted in steps: {split_fix(refused[0] or '')[0]} "
            "Fix: sweep it (`kpusim sweep`), and fit the others at its best value."
        )


def _refusal(platform: Platform, name: str, value: float, whole_only: bool) -> str | None:
    """Return what the platform says of a value; None: it takes it."""
    try:
        platform.with_(**{name: int(value) if whole_only else whole(value)})
    except UserError as error:
        return str(error)
    return None
