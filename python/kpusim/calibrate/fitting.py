"""Bounded least squares over parameters of a platform, and what the data says about them.

Residuals are logarithms of simulated over measured time, so that twice as slow is as wrong as twice as fast;
measured spans add theirs as shares of the row. Whole parameters are rounded where rows are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kpusim.base.extras import extra
from kpusim.calibrate.measured import Measurements, Row
from kpusim.calibrate.parameters import Parameter
from kpusim.calibrate.simulating import Point, Simulations, Values
from kpusim.errors import UserError

Vector = npt.NDArray[np.float64]
COARSE, FINE = 0.1, 0.02  #: steps of slopes, as shares of a parameter's size
UNSEEN = 1e-3  #: of a slope: changed by its size, a parameter moves rows by less than this
ALIKE = 0.05  #: smallest singular value of normalised slopes; two alike at 0.9975 have it
SHARE = 0.3  #: part in the direction that rows do not see from which on a parameter is named
CLASS = 3  #: rows of a class that outliers are told by; where it has fewer, by all rows
OUTLIER, FAR = 8.0, 0.3  #: so many standard deviations of the others, and at least this logarithm
SCATTERED, FURTHER, REACH = 16, 1, 2.5  #: points around the start, fits from the best of them
POLISH = (0.05, 0.01, 0.002)
INTERVAL = 0.95


@dataclass(frozen=True)
class Fitted:
    """A parameter after the fit.

    Attributes
    ----------
    parameter : Parameter
        Which.
    value : float
        What it is now.
    error : float
        Standard error.
    low, high : float
        Ends of the 95 % interval.
    """

    parameter: Parameter
    value: float
    error: float
    low: float
    high: float

    @property
    def at_bound(self) -> bool:
        """Return whether only its bounds keep it there."""
        return self.value in (self.parameter.low, self.parameter.high)


class Problem:
    """Rows, parameters, and how far the one is off with values of the other."""

    def __init__(
        self,
        data: Measurements,
        rows: Sequence[int],
        parameters: Sequence[Parameter],
        simulations: Simulations,
    ) -> None:
        self.rows = list(rows)
        self.parameters = list(parameters)
        self._all, self._statistic = data.rows, data.statistic
        self._simulations = simulations
        self.scales = np.array([parameter.scale for parameter in parameters])

    def point(self, x: Sequence[float] | Vector) -> Point:
        """Return the values as overrides."""
        pairs = zip(self.parameters, x, strict=True)
        return {parameter.name: parameter.value(float(value)) for parameter, value in pairs}

    def residuals(self, points: Sequence[Vector]) -> list[Vector]:
        """Return the residuals of all rows for each point, followed by those of spans."""
        found = self._simulations.at([self.point(x) for x in points])
        return [self._of(values) for values in found]

    def _of(self, values: Sequence[Values]) -> Vector:
        times = [np.log(values[i][self._statistic] / self._all[i].measured) for i in self.rows]
        spans = [
            (values[i].get(name, 0.0) - span) / self._all[i].measured
            for i in self.rows
            for name, span in self._all[i].spans.items()
        ]
        return np.array(times + spans)

    def slopes(self, x: Vector, share: float, sides: Sequence[int] = (1, -1)) -> Vector:
        """Residuals by parameter, each in units of its scale: differences to these sides, in the bounds."""
        points, spans = [], []
        for index, parameter in enumerate(self.parameters):
            step = parameter.step(share)
            ends = []
            inside = x[index] + step <= parameter.high
            for sign in sides if inside or -1 in sides else (0, -1):
                moved = x.copy()
                moved[index] = parameter.value(float(x[index] + sign * step))
                ends.append(moved)
            points += ends
            spans.append((ends[0][index] - ends[1][index]) / parameter.scale)
        found = self.residuals(points)
        columns = [(found[2 * i] - found[2 * i + 1]) / span for i, span in enumerate(spans)]
        return np.array(columns).T


def check_distinct(parameters: Sequence[Parameter], slopes: Vector) -> None:
    """A UserError that names what the rows do not depend on, or cannot tell apart."""
    sizes = np.sqrt(np.mean(slopes**2, axis=0))
    if unseen := [parameters[i].name for i in range(len(parameters)) if sizes[i] < UNSEEN]:
        raise UserError(
            f"no row depends on {' and '.join(f'`{name}`' for name in unseen)}. Fix: leave it out of --fit, "
            "or measure what it slows down."
        )
    if len(parameters) < 2:
        return
    normal = slopes / np.linalg.norm(slopes, axis=0)
    _, singular, directions = np.linalg.svd(normal, full_matrices=False)
    if singular[-1] >= ALIKE:
        return
    parts = np.abs(directions[-1])
    alike = [i for i in np.argsort(-parts) if parts[i] >= SHARE * parts.max()]
    names = " and ".join(f"`{parameters[i].name}`" for i in sorted(alike))
    told = f"smallest singular value {singular[-1]:.3g}"
    if len(alike) == 2:
        told = f"correlation {normal[:, alike[0]] @ normal[:, alike[1]]:+.4f}"
    raise UserError(
        f"the rows cannot tell {names} apart ({told}): more of one and less of the other give the same "
        "times. Fix: fit one of them, or measure rows in which they differ."
    )


def check_count(rows: int, parameters: int) -> None:
    """A UserError where there are too few rows."""
    if rows < parameters + 2:
        raise UserError(
            f"{rows} rows are too few for {parameters} parameters. Fix: measure {parameters + 2} or more, "
            "or fit fewer parameters."
        )


def fit(problem: Problem, start: Vector, *, keep_outliers: bool) -> Vector:
    """Return the values with the least squares.

    Raises
    ------
    UserError
        For too few rows, parameters that the rows cannot tell apart, and rows that are far off.
    """
    check_count(len(problem.rows), len(problem.parameters))
    check_distinct(problem.parameters, problem.slopes(start, COARSE))
    found = [_least_squares(problem, begin, "soft_l1", COARSE) for begin in _starts(problem, start)]
    robust = min(found, key=lambda x: float(np.sum(np.abs(problem.residuals([x])[0]))))
    if not keep_outliers:
        _check_outliers(problem, robust)
    return _polished(problem, _least_squares(problem, robust, "linear", FINE))


def _starts(problem: Problem, start: Vector) -> list[Vector]:
    """Return where fits begin: times have steps, so one start may end in a hollow beside the best place."""
    sampling: Any = extra("scipy.stats", "`kpusim calibrate`", "calibrate").qmc
    shares = sampling.Halton(len(start), scramble=False).random(SCATTERED + 1)[1:]
    points = []
    for share in shares:
        factors = REACH ** (2 * share - 1)
        moved = np.where(start == 0, share * problem.scales, start * factors)
        points.append(np.array([p.value(v) for p, v in zip(problem.parameters, moved, strict=True)], float))
    sums = [float(np.sum(np.abs(found))) for found in problem.residuals(points)]
    return [start, *(points[i] for i in np.argsort(sums)[:FURTHER])]


def _least_squares(problem: Problem, start: Vector, loss: str, share: float) -> Vector:
    optimize: Any = extra("scipy.optimize", "`kpusim calibrate`", "calibrate")
    low = np.array([parameter.low for parameter in problem.parameters]) / problem.scales
    high = np.array([parameter.high for parameter in problem.parameters]) / problem.scales
    margin = 1e-9 * (high - low)  # a start on a bound would have no side to go to
    begin = np.clip(start / problem.scales, low + margin, high - margin)
    sides = (1, -1) if share == FINE else (1, 0)  # far from the end one side will do
    result = optimize.least_squares(
        lambda z: problem.residuals([z * problem.scales])[0],
        begin,
        jac=lambda z: problem.slopes(z * problem.scales, share, sides),
        bounds=(low, high), loss=loss, f_scale=0.05, xtol=share**2 / 2, ftol=1e-5, gtol=1e-9, max_nfev=12,
    )  # fmt: skip
    values = result.x * problem.scales
    return np.array([p.value(v) for p, v in zip(problem.parameters, values, strict=True)], float)


def _polished(problem: Problem, start: Vector) -> Vector:
    """The best of the neighbours, until none is better: times have steps, and whole numbers have gaps."""
    best, least = start, float(np.sum(problem.residuals([start])[0] ** 2))
    for share in POLISH:
        for _ in range(8):
            points = [*_neighbours(problem, best, share), *_newton(problem, best, share)]
            sums = [float(np.sum(found**2)) for found in problem.residuals(points)]
            at = int(np.argmin(sums))
            if sums[at] >= least * (1 - 1e-4):
                break
            best, least = points[at], sums[at]
    return best


def _neighbours(problem: Problem, x: Vector, share: float) -> list[Vector]:
    points = []
    for index, parameter in enumerate(problem.parameters):
        for sign in (1, -1):
            moved = x.copy()
            moved[index] = parameter.value(x[index] + sign * parameter.step(share))
            points.append(moved)
    return points


def _newton(problem: Problem, x: Vector, share: float) -> list[Vector]:
    """Return where straight slopes lead to, and half of the way."""
    slopes, residuals = problem.slopes(x, share), problem.residuals([x])[0]
    step = np.linalg.lstsq(slopes, -residuals, rcond=None)[0] * problem.scales
    return [
        np.array([p.value(v) for p, v in zip(problem.parameters, x + part * step, strict=True)], float)
        for part in (1.0, 0.5)
    ]


def _check_outliers(problem: Problem, x: Vector) -> None:
    """Rows that are far from those of their class: a class that is off as a whole lacks a parameter."""
    count = len(problem.rows)
    residuals = problem.residuals([x])[0][:count]
    groups = [problem._all[i].group for i in problem.rows]
    middles = {}
    for group in set(groups):
        own = [residual for residual, other in zip(residuals, groups, strict=True) if other == group]
        middles[group] = np.median(own if len(own) >= CLASS else residuals)
    distances = np.abs(residuals - np.array([middles[group] for group in groups]))
    spread = 1.4826 * float(np.median(distances))
    far = [i for i in range(count) if distances[i] > max(OUTLIER * spread, FAR)]
    if not far:
        return
    others = float(np.median(np.expm1(np.abs(np.delete(residuals, far)))))
    lines = [_outlier_line(problem, i, float(np.exp(residuals[i]))) for i in far]
    raise UserError(
        "\n".join(
            f"{line}, and the others are {100 * others:.1f} % off in the median. Fix: measure it again, say "
            "in `flag` why it does not count, or give --keep-outliers."
            for line in lines
        )
    )


def _outlier_line(problem: Problem, index: int, ratio: float) -> str:
    row: Row = problem._all[problem.rows[index]]
    return f"line {row.line}: error: `{row.name}` is an outlier: the fit gives {ratio:.3g} times its time"


def confidence(problem: Problem, x: Vector) -> list[Fitted]:
    """Standard errors and intervals, from the slopes at the fit and what is left of the residuals."""
    stats: Any = extra("scipy.stats", "`kpusim calibrate`", "calibrate")
    residuals = problem.residuals([x])[0]
    slopes = problem.slopes(x, FINE)
    check_distinct(problem.parameters, slopes)
    freedom = len(residuals) - len(problem.parameters)
    variance = float(residuals @ residuals) / freedom
    errors = np.sqrt(np.diag(variance * np.linalg.inv(slopes.T @ slopes))) * problem.scales
    rounding = np.array([parameter.whole / 12 for parameter in problem.parameters])  # variance within a step
    errors = np.sqrt(errors**2 + rounding)
    quantile = float(stats.t.ppf((1 + INTERVAL) / 2, freedom))
    return [
        Fitted(parameter, parameter.value(float(value)), float(error), float(value - quantile * error),
               float(value + quantile * error))
        for parameter, value, error in zip(problem.parameters, x, errors, strict=True)
    ]  # fmt: skip
