"""Constraints on a machine: comparisons of statistics and parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kpusim.errors import UserError
from kpusim.sweeps.axes import OPTION, PARAM, SCALE, units_of_numbers, unknown
from kpusim.sweeps.formula import Formula, NoValueError
from kpusim.sweeps.quantity import Quantity, quantity_of


@dataclass(frozen=True)
class Names:
    """Names that formulas over results may use, with units: statistics, parameters, numeric axes."""

    stats: Mapping[str, str]
    axes: Sequence[str]
    units: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the units."""
        units = units_of_numbers()
        units |= {name: "" for name in self.axes if name.startswith((OPTION, PARAM, SCALE))}
        object.__setattr__(self, "units", units | dict(self.stats))

    def check(self, name: str, what: str = "statistic or parameter") -> None:
        """A UserError for a name that there is not."""
        known = self.stats if what == "statistic" else self.units
        if name not in known:
            raise UserError(unknown(what, name, known, "`kpusim list stats --platform NAME` names them."))


@dataclass(frozen=True)
class Constraint:
    """A comparison, and whether results are needed for it."""

    formula: Formula
    of_design: bool  #: parameters alone decide it, before anything runs
    exact: bool  #: areas and parameters decide it, which predictions have as simulations do

    @classmethod
    def parse(cls, text: str, names: Names) -> Constraint:
        """Read one; a UserError says what is wrong with it."""
        formula = Formula.parse(text)
        if not formula.compares:
            raise UserError(f"`{text}` compares nothing. Fix: write such as power.average_w < 2.")
        if not formula.names:
            raise UserError(f"`{text}` names no statistic. Fix: write such as power.average_w < 2.")
        for name in sorted(formula.names):
            names.check(name)
        # units that do not fit are told now, not after hours
        with suppress(NoValueError):
            formula.holds({name: Quantity(1.5, names.units[name]) for name in formula.names})
        bound = bounds_of(formula)
        below = bound is not None and (bound.most < 0 or (bound.most == 0 and bound.open_above))
        if bound is not None and below and bound.name in names.stats:
            raise UserError(f"`{text}` never holds: no statistic is below 0. Fix: give a bound above 0.")
        measured = formula.names & names.stats.keys()
        return cls(formula, not measured, all(name.startswith("area.") for name in measured))


@dataclass(frozen=True)
class Bounds:
    """Bounds of a name by a number: ``power.average_w < 2``, in the unit that it is written in."""

    name: str
    unit: str
    least: float
    most: float
    open_below: bool
    open_above: bool


def bounds_of(formula: Formula) -> Bounds | None:
    """Return the bounds that a formula of that form states; None for any other."""
    for sign, mirrored in (("<=", ">="), (">=", "<="), ("<", ">"), (">", "<")):
        left, found, right = formula.text.partition(sign)
        if not found:
            continue
        number, name = quantity_of(right), left.strip()
        if number is None:
            number, name, sign = quantity_of(left), right.strip(), mirrored
        if number is None or formula.names != {name}:
            return None
        if sign in ("<", "<="):
            return Bounds(name, number.unit, -math.inf, number.value, True, sign == "<")
        return Bounds(name, number.unit, number.value, math.inf, sign == ">", True)
    return None


def check_together(constraints: Sequence[Constraint]) -> None:
    """A UserError for two that exclude each other."""
    stated = [(item, bounds_of(item.formula)) for item in constraints]
    for index, (item, bounds) in enumerate(stated):
        for other, others in stated[:index]:
            if bounds is None or others is None or bounds.name != others.name or bounds.unit != others.unit:
                continue
            least, most = max(bounds.least, others.least), min(bounds.most, others.most)
            closed = not (bounds.open_above if bounds.most <= others.most else others.open_above) and not (
                bounds.open_below if bounds.least >= others.least else others.open_below
            )
            if least > most or (least == most and not closed):
                raise UserError(
                    f"`{item.formula.text}` and `{other.formula.text}` exclude each other. Fix: change "
                    f"one of them."
                )
