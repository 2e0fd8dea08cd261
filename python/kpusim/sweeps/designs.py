"""The designs of a sweep: every combination of its axes, or a sample of them, numbered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kpusim.errors import MissingPackageError, UserError
from kpusim.platform import OverrideValue
from kpusim.sweeps.axes import OPTION, PARAM, derived_values
from kpusim.sweeps.machines import Machines
from kpusim.sweeps.spec import Spec, SpecError

MOST_POINTS = 1_000_000  #: designs times programs of one sweep


@dataclass(frozen=True)
class Design:
    """A machine, and how programs are compiled for it.

    Attributes
    ----------
    number : int
        From 0.
    platform : str
        As in the sweep.
    values : mapping
        Of each axis, derived ones too.
    """

    number: int
    platform: str
    values: Mapping[str, OverrideValue]

    def sets(self) -> dict[str, OverrideValue]:
        """Parameters of the platform."""
        return {k: v for k, v in self.values.items() if not k.startswith((OPTION, PARAM))}

    def options(self) -> dict[str, OverrideValue]:
        """Return the options of the program's front end."""
        return {k.removeprefix(OPTION): v for k, v in self.values.items() if k.startswith(OPTION)}

    def params(self) -> dict[str, int]:
        """Parameters of the program."""
        return {k.removeprefix(PARAM): int(v) for k, v in self.values.items() if k.startswith(PARAM)}


class Space:
    """Combinations of platforms and axes, by number; the last axis turns fastest."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.lengths = [len(spec.platforms), *(len(axis.values) for axis in spec.axes)]
        self.size = math.prod(self.lengths)
        self._machines = Machines(spec)
        self._rules = [item.formula for item in spec.constraints if item.of_design]
        self._in_rules = frozenset[str]().union(*(rule.names for rule in self._rules))
        self._in_derived = frozenset[str]().union(*(item.formula.names for item in spec.derived))

    def indices(self, index: int) -> list[int]:
        """Return which value of each axis, the platforms' first, a combination has."""
        found: list[int] = []
        for length in reversed(self.lengths):
            index, rest = divmod(index, length)
            found.append(rest)
        return found[::-1]

    def index(self, indices: list[int]) -> int:
        """Return the number of a combination."""
        number = 0
        for length, at in zip(self.lengths, indices, strict=True):
            number = number * length + at
        return number

    def design(self, number: int, index: int) -> Design:
        """Return a combination, as the design of this number."""
        platform, *rest = self.indices(index)
        name = self.spec.platforms[platform]
        values = {axis.name: axis.values[at] for axis, at in zip(self.spec.axes, rest, strict=True)}
        if self.spec.derived:
            try:
                known = self._machines.parameters(name, values, self._in_derived)
                values |= derived_values(self.spec.derived, known)
            except UserError as error:
                where = ", ".join(f"{key}={value}" for key, value in values.items())
                raise SpecError(("axes",), f"for {where}: {error}" if where else str(error)) from None
        return Design(number, name, values)

    def admits(self, design: Design) -> bool:
        """Return whether it keeps the constraints that parameters alone decide."""
        if not self._rules:
            return True
        known = self._machines.parameters(design.platform, design.values, self._in_rules)
        return all(rule.holds(known) for rule in self._rules)


def designs_of(spec: Spec, space: Space) -> list[Design]:
    """Return the designs of a sweep that does not search, in order; the same for the same sweep."""
    picked = _CHOOSERS[spec.sample](spec, space)
    found: list[Design] = []
    for index in picked:
        design = space.design(len(found), index)
        if space.admits(design):
            found.append(design)
    if not found:
        texts = ", ".join(f"`{item.formula.text}`" for item in spec.constraints if item.of_design)
        raise SpecError(("constraints",), f"no design keeps {texts}. Fix: widen them, or the axes.")
    return found


def check_designs(spec: Spec) -> None:
    """A SpecError for a sweep that is too large to run, has no design, or one without its derived values."""
    space = Space(spec)
    check_size(spec, space)
    if spec.sample != "search" and (spec.derived or any(item.of_design for item in spec.constraints)):
        designs_of(spec, space)


def check_size(spec: Spec, space: Space) -> None:
    """A sweep that is too large to run is refused with what to use."""
    designs = spec.count if spec.sample != "grid" else space.size
    points = designs * len(spec.programs)
    if points > MOST_POINTS:
        where = ("sample", spec.sample) if spec.sample != "grid" else ("axes",)
        raise SpecError(
            where,
            f"{points:,} points ({designs:,} designs, {len(spec.programs)} programs) are more than a "
            f"sweep runs "
            f"({MOST_POINTS:,}). Fix: take a sample of them, `sample: {{lhs: 1000}}`, or let a search "
            f"choose, "
            "`sample: {search: 1000}`.",
        )


def _all(spec: Spec, space: Space) -> Iterator[int]:
    return iter(range(space.size))


def _random(spec: Spec, space: Space) -> Iterator[int]:
    """Different ones, in the order in which they were drawn."""
    generator = np.random.default_rng(spec.seed)
    if spec.count >= space.size:
        return iter(generator.permutation(space.size).tolist())
    seen: dict[int, None] = {}
    while len(seen) < spec.count:
        seen[space.index([int(generator.integers(length)) for length in space.lengths])] = None
    return iter(seen)


def _spread(kind: str) -> Callable[[Spec, Space], Iterator[int]]:
    """Points that fill the space evenly; those that fall on the same values stand once."""

    def choose(spec: Spec, space: Space) -> Iterator[int]:
        try:
            from scipy.stats import qmc
        except ImportError:
            raise MissingPackageError("this sample needs SciPy. Fix: pip install 'kpusim[sweep]'.") from None
        generator = np.random.default_rng(spec.seed)
        dimensions = len(space.lengths)
        if kind == "lhs":
            cube = qmc.LatinHypercube(dimensions, rng=generator).random(spec.count)
        else:
            power = max(0, math.ceil(math.log2(spec.count)))  # Sobol' points balance in powers of two
            cube = qmc.Sobol(dimensions, rng=generator).random_base2(power)[: spec.count]
        lengths = np.array(space.lengths)
        cells = np.minimum((cube * lengths).astype(np.int64), lengths - 1)
        return iter(dict.fromkeys(space.index(row) for row in cells.tolist()))

    return choose


_CHOOSERS: dict[str, Callable[[Spec, Space], Iterator[int]]] = {
    "grid": _all, "random": _random, "lhs": _spread("lhs"), "sobol": _spread("sobol"),
}  # fmt: skip
