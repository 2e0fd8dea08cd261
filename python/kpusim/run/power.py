"""Power over time, by where it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.base.extras import extra
from kpusim.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

FloatArray = npt.NDArray[np.float64]


class PowerOf:
    """Mean power over time of one component, engine, unit or operation.

    Attributes
    ----------
    dynamic, static : ndarray of float64, shape (n,)
        Mean power of each bin, W.
    dynamic_yj, static_yj : tuple of int
        The energies in yoctojoules, 10^-24 J: sums of these integers are exact.
    """

    def __init__(self, column: _core.PowerColumn) -> None:
        self.dynamic, self.static, dynamic_yj, static_yj = column
        self.dynamic_yj: tuple[int, ...] = tuple(dynamic_yj)
        self.static_yj: tuple[int, ...] = tuple(static_yj)

    @property
    def total(self) -> FloatArray:
        """Dynamic and static, W."""
        return self.dynamic + self.static

    @property
    def energy_yj(self) -> int:
        """Energy of the run, dynamic and static, in yoctojoules."""
        return sum(self.dynamic_yj) + sum(self.static_yj)

    @property
    def energy_uj(self) -> float:
        """Energy of the run, dynamic and static, uJ."""
        return self.energy_yj / 10**18

    def __repr__(self) -> str:
        """Energy of the run."""
        return f"PowerOf({len(self.dynamic)} bins, {self.energy_uj:.4g} uJ)"


class Power:
    """Mean power over time, by where it goes.

    Attributes
    ----------
    time_ns, dt_ns : ndarray of float64, shape (n,)
        Start and width of each bin; the last may be shorter.
    watts : dict of ndarray, each (n,)
        Mean power of each source: array, vector, l1, l2, noc, dma, ctrl, dram_dyn, dram_bg, phy_dyn,
        phy_static, static.
    total : ndarray, shape (n,)
        Their sum, W.
    op : list of str
        Operation with most dynamic energy in each bin.
    """

    def __init__(self, recording: _core.Recording, bin_ns: float | None) -> None:
        self._recording, self._bin_ns = recording, bin_ns
        rest = dict(recording.power(bin_ns))
        self.time_ns = rest.pop("time_ns")
        self.dt_ns = rest.pop("dt_ns")
        self.total = rest.pop("total")
        self.op: list[str] = list(rest.pop("op"))
        self.watts: dict[str, FloatArray] = rest

    def by(self, what: str) -> dict[str, PowerOf]:
        """Divide the power, dynamic and static apart: each of these sums to the same total.

        Parameters
        ----------
        what : {"component", "engine", "unit", "op", "corner"}
            Of engines, ``device`` has the units of none; of operations, ``__background`` has what is of none,
            all static power too. ``corner`` is no sum: the total at the table's corners ``low``, ``high``.

        Raises
        ------
        UserError
            For anything else.
        """
        kinds = ("component", "engine", "unit", "op", "corner")
        if what not in kinds:
            raise UserError(f"there is no power by {what!r}. Fix: give one of {', '.join(kinds)}.")
        columns = self._recording.power_by(self._bin_ns, what)
        return {name: PowerOf(column) for name, column in columns.items()}

    def to_pandas(self) -> DataFrame:
        """Return a row for each bin: ``time_ns``, ``dt_ns``, the sources in W, ``total``, ``op``.

        Raises
        ------
        MissingPackageError
            Without pandas.
        """
        columns = {"time_ns": self.time_ns, "dt_ns": self.dt_ns, **self.watts, "total": self.total}
        return extra("pandas", "to_pandas").DataFrame({**columns, "op": self.op}, copy=True)

    @property
    def energy_uj(self) -> float:
        """Energy of the run: the sum of power times width, uJ."""
        return float(self.total @ self.dt_ns) * 1e-3

    @property
    def average_w(self) -> float:
        """Mean power, W; 0 for a run without time."""
        time = float(self.dt_ns.sum())
        return self.energy_uj * 1e3 / time if time else 0.0

    @property
    def peak_w(self) -> float:
        """Largest mean power of a bin, W; 0 for a run without time."""
        return float(self.total.max(initial=0.0))

    def __len__(self) -> int:
        """Count the bins."""
        return len(self.total)

    def __repr__(self) -> str:
        """Average, peak and energy."""
        watts = f"average {self.average_w:.4g} W, peak {self.peak_w:.4g} W"
        return f"Power({len(self)} bins, {watts}, {self.energy_uj:.4g} uJ)"
