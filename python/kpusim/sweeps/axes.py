"""Axes of a sweep: lists and ranges of values, and values that follow from others."""

from __future__ import annotations

import difflib
import graphlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kpusim.base.tables import front_ends
from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform
from kpusim.sweeps.formula import Formula
from kpusim.sweeps.quantity import Quantity, quantity_of, whole

OPTION, PARAM = "option.", "param."  #: axes of the front end's options, and of the program's parameters
SCALE = "scale."  #: axes that are factors of groups of parameters
MOST_VALUES = 100_000  #: of one axis
_RANGE = re.compile(r"(?P<first>[^.].*?)\s*\.\.\s*(?P<last>[^*+]+?)\s*(?:(?P<kind>[*+])\s*(?P<step>\S.*?))?")


@dataclass(frozen=True)
class Kind:
    """A kind of axis: a platform's parameter, an option of programs, a program's parameter."""

    name: str
    type: str  # as Parameter.type; "free" of an option
    unit: str

    def value(self, quantity: Quantity, text: str) -> OverrideValue:
        """A number as the platform takes it; a UserError for another unit, or a part of a whole number."""
        try:
            number = whole(quantity.in_unit(self.unit).value)
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from None
        if self.type == "integer" and not isinstance(number, int):
            raise UserError(
                f"{self.name} is a whole number{_of(self.unit)}, and `{text}` gives {number:g}. "
                "Fix: give a whole one; a formula has floor, ceil and round."
            )
        return number


def _of(unit: str) -> str:
    return f" of {unit}" if unit else ""


@dataclass(frozen=True)
class Axis:
    """A parameter and the values that it takes."""

    name: str
    values: tuple[OverrideValue, ...]


@dataclass(frozen=True)
class Derived:
    """A parameter that follows from others."""

    kind: Kind
    formula: Formula


def kind_of(name: str) -> Kind:
    """Find what a name on an axis stands for; a UserError names the nearest one that there is."""
    if name.startswith(PARAM) and name != PARAM:
        return Kind(name, "integer", "")
    if name.startswith(OPTION):
        known = sorted({OPTION + option.name for front_end in front_ends() for option in front_end.options})
        if (plain := name.replace("-", "_")) in known:
            return Kind(plain, "free", "")
        raise UserError(unknown("option", name, known, "`kpusim run --help` names them."))
    rows = {row.path: row for row in Platform.parameters()}
    if name in rows:
        return Kind(name, rows[name].type, rows[name].unit)
    raise UserError(unknown("parameter of platforms", name, rows))


def unknown(
    what: str, name: str, known: Iterable[str], otherwise: str = "`kpusim list params` names them."
) -> str:
    """Return a message for a name that is not known, with the nearest one."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"there is no {what} `{name}`. Fix: {f'did you mean `{near[0]}`?' if near else otherwise}"


def units_of_numbers() -> dict[str, str]:
    """Units of the parameters that are numbers of platforms: a group's factor (``scale.array``) is none."""
    rows = Platform.parameters()
    numbers = [row for row in rows if row.type in ("integer", "real")]
    return {row.path: row.unit for row in numbers if not row.path.startswith(SCALE)}


def axis_of(name: str, written: object) -> Axis | Derived:
    """An axis as a sweep states it: a list, a range ``64..512*2`` or ``1..4+1``, a formula, one value."""
    kind = kind_of(name)
    if isinstance(written, str) and kind.type in ("integer", "real"):
        if ".." in written:
            return _distinct(kind, _range(kind, written))
        if quantity_of(written) is None:
            return Derived(kind, Formula.parse(written))
    items = written if isinstance(written, Sequence) and not isinstance(written, str) else [written]
    if not items:
        raise UserError(f"{name} has no values. Fix: give at least one, or leave the axis out.")
    return _distinct(kind, [_single(kind, item) for item in items])


def _distinct(kind: Kind, values: Sequence[OverrideValue]) -> Axis:
    seen: set[OverrideValue] = set()
    for value in values:
        if value in seen:
            raise UserError(f"{kind.name} has the value {value} twice. Fix: give it once.")
        seen.add(value)
    return Axis(kind.name, tuple(values))


def _single(kind: Kind, item: object) -> OverrideValue:
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        if isinstance(item, bool) and kind.type in ("boolean", "free"):
            return item
        raise UserError(f"{kind.name}: {item!r} is none of its values. Fix: give {_wanted(kind)}.")
    if kind.type in ("integer", "real"):
        quantity = quantity_of(item) if isinstance(item, str) else Quantity(item)
        if quantity is None:
            raise UserError(f"{kind.name}: `{item}` is not a number. Fix: give {_wanted(kind)}.")
        return kind.value(quantity, str(item))
    if "|" in kind.type and item not in kind.type.split("|"):
        raise UserError(f"{kind.name}: there is no `{item}`. Fix: give {_wanted(kind)}.")
    if kind.type == "boolean":
        if item not in ("true", "false"):
            raise UserError(f"{kind.name}: `{item}` is not a truth value. Fix: give true or false.")
        return item == "true"
    return item


def _wanted(kind: Kind) -> str:
    if "|" in kind.type:
        return f"one of {', '.join(kind.type.split('|'))}"
    known = {"integer": "a whole number", "real": "a number", "boolean": "true or false", "text": "a name"}
    return known.get(kind.type, "a number or a text") + _of(kind.unit)


def _range(kind: Kind, text: str) -> list[OverrideValue]:
    """``first..last*factor``, ``first..last+step``; without either in steps of 1."""
    match = _RANGE.fullmatch(text.strip())
    parts = None if match is None else [quantity_of(match[name] or "1") for name in ("first", "last", "step")]
    if match is None or parts is None or None in parts:
        raise UserError(
            f"{kind.name}: `{text}` is not a range. Fix: write first..last, first..last+step or "
            f"first..last*factor, "
            "such as 512KiB..4MiB*2."
        )
    first, last, step = (part for part in parts if part is not None)
    unit = first.unit or last.unit
    at, end = first.in_unit(unit).value, last.in_unit(unit).value
    grows = match["kind"] == "*"
    by = step.in_unit("" if grows else unit if step.unit else step.unit).value
    if (grows and (by <= 1 or at <= 0)) or (not grows and by <= 0):
        raise UserError(
            f"{kind.name}: `{text}` does not grow. Fix: a factor above 1 of a positive number, or a "
            f"step above 0."
        )
    if at > end:
        raise UserError(f"{kind.name}: `{text}` is empty. Fix: put the smaller end first.")
    values: list[OverrideValue] = []
    index = 0
    while (now := at * by**index if grows else at + by * index) <= end * (1 + 1e-12):
        values.append(kind.value(Quantity(whole(now), unit), text))
        index += 1
        if index > MOST_VALUES:
            raise UserError(f"{kind.name}: `{text}` has over {MOST_VALUES} values. Fix: take larger steps.")
    return values


def in_order(derived: Sequence[Derived]) -> list[Derived]:
    """Sort derived axes so that each comes after those that it needs; a UserError for a circle."""
    by_name = {item.kind.name: item for item in derived}
    needs = {name: item.formula.names & by_name.keys() for name, item in by_name.items()}
    try:
        return [by_name[name] for name in graphlib.TopologicalSorter(needs).static_order()]
    except graphlib.CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise UserError(f"values follow from each other: {circle}. Fix: give one of them a list.") from None


def parameter_values(platform: Platform) -> dict[str, Quantity]:
    """Return the numbers of a platform by path; of several engines the first."""
    units = units_of_numbers()
    found: dict[str, Quantity] = {}
    path: list[str] = []
    for line in map(str.strip, platform.text().splitlines()):
        if line.endswith("{"):
            path.append(line[:-1].strip())
        elif line == "}":
            path.pop()
        else:
            name, _, value = line.partition(": ")
            full = ".".join([*path, name])
            if full in units and full not in found and (number := quantity_of(value)) is not None:
                found[full] = Quantity(number.value, units[full])
    return found


def derived_values(derived: Sequence[Derived], known: Mapping[str, Quantity]) -> dict[str, OverrideValue]:
    """Return the values that follow from known ones, in the order of ``in_order``."""
    numbers = dict(known)
    results: dict[str, OverrideValue] = {}
    for item in derived:
        value = item.kind.value(item.formula.value(numbers), item.formula.text)
        results[item.kind.name] = value
        numbers[item.kind.name] = Quantity(float(value), item.kind.unit)
    return results
