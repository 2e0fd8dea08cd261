"""Parameters of the machines of a sweep: of their platforms, of axes, and what follows from these."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache

from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform
from kpusim.sweeps.axes import OPTION, PARAM, parameter_values
from kpusim.sweeps.quantity import Quantity
from kpusim.sweeps.spec import Spec

KEPT = 4096  #: machines whose parameters are remembered


class Machines:
    """The platforms of a sweep, with axes."""

    def __init__(self, spec: Spec) -> None:
        self._platforms = {name: Platform.load(source) for name, source in spec.platform_sources.items()}
        self._base = {name: parameter_values(platform) for name, platform in self._platforms.items()}
        self._changed = lru_cache(KEPT)(self._values_of)

    def parameters(
        self, platform: str, values: Mapping[str, OverrideValue], needed: Set[str]
    ) -> dict[str, Quantity]:
        """Return the numbers by name, for formulas that need these names.

        What follows from axes, such as the width of ports from an array's rows, follows from their values.
        """
        known = dict(self._base[platform])
        sets = {name: v for name, v in values.items() if not name.startswith((OPTION, PARAM))}
        if sets and needed & known.keys() - sets.keys():
            known.update(self._changed(platform, tuple(sorted(sets.items()))))
        for name, value in values.items():
            if not isinstance(value, (str, bool)):
                known[name] = Quantity(value, known[name].unit if name in known else "")
        return known

    def _values_of(self, platform: str, sets: tuple[tuple[str, OverrideValue], ...]) -> dict[str, Quantity]:
        try:
            return parameter_values(self._platforms[platform].with_(**dict(sets)))
        except UserError:
            return {}  # no platform takes these values: their points fail, and say so
