"""Result of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kpusim.calibrate.fitting import Fitted
from kpusim.calibrate.measured import Measurements
from kpusim.platform import OverrideValue, Platform


@dataclass(frozen=True)
class Errors:
    """Error of rows: |simulated - measured| / measured.

    Attributes
    ----------
    rows : int
        How many.
    median, mean, p90 : float
        Of them.
    signed : float
        Mean of the signed ones.
    """

    rows: int
    median: float
    mean: float
    p90: float
    signed: float

    @classmethod
    def of(cls, signed: Sequence[float]) -> Errors:
        """Summary of signed errors."""
        values = np.abs(signed)
        return cls(len(signed), float(np.median(values)), float(np.mean(values)),
                   float(np.quantile(values, 0.9)), float(np.mean(signed)))  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """Rows before and after a fit."""

    name: str
    before: Errors
    after: Errors


@dataclass
class Calibration:
    """Result of a fit.

    Attributes
    ----------
    data : Measurements
        What it was fitted to.
    source : str
        Name or path of the platform before.
    made_for : str
        Name or path of the platform that the programs were compiled for.
    sets : dict
        Changes of it that were given.
    before, platform : Platform
        Without and with the fitted values.
    fitted : list of Fitted
        The parameters, with their confidence.
    all_rows, held_out : Compared
        Errors of the rows that were fitted, and of those that were held out.
    by_cause : list of Compared
        Errors by what most of a row's time went to.
    by_split : list of Compared
        Of each group that was held out in turn.
    spans : list of Compared
        Errors of measured spans, as shares of their rows.
    notes : list of str
        What was not done, and why.
    simulated : dict
        Cycles or microseconds by row, before and after.
    runs : int
        Simulations that it took.
    """

    data: Measurements
    source: str
    made_for: str
    sets: dict[str, OverrideValue]
    before: Platform
    platform: Platform
    fitted: list[Fitted]
    all_rows: Compared
    held_out: Compared | None = None
    by_cause: list[Compared] = field(default_factory=list)
    by_split: list[Compared] = field(default_factory=list)
    spans: list[Compared] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    simulated: dict[str, tuple[float, float]] = field(default_factory=dict)
    runs: int = 0

    @property
    def values(self) -> dict[str, float]:
        """The fitted values by name."""
        return {item.parameter.name: item.value for item in self.fitted}
