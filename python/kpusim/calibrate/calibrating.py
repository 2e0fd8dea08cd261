"""Fits parameters of a platform to measured times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kpusim.calibrate.fitting import Problem, Vector, check_count, confidence, fit
from kpusim.calibrate.found import Calibration, Compared, Errors
from kpusim.calibrate.holding import Plan, plan_of
from kpusim.calibrate.measured import Measurements, read_measured
from kpusim.calibrate.parameters import parameters_of
from kpusim.calibrate.simulating import Progress, Simulations, Values, simulations
from kpusim.calibrate.written import Stated, stated_of
from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform

StrPath = str | os.PathLike[str]
SLACK = 1e-3  #: by which an error may be above the stated one: it was written with so many digits


def calibrate(
    measured: StrPath, platform: StrPath, fit: Sequence[str], *,
    bounds: Mapping[str, tuple[float, float]] | None = None, hold_out: str | None = None,
    sets: Mapping[str, OverrideValue] | None = None, keep_outliers: bool = False, seed: int = 0,
    workers: int | None = None, progress: Progress | None = None,
) -> Calibration:  # fmt: skip
    """Fit parameters of a platform to measured times.

    Parameters
    ----------
    measured : path
        File of measurements; docs/calibration.md has its columns.
    platform : str or path
        Name or file of the platform as it is now. What rows state as shapes or models is compiled for it.
    fit : sequence of str
        Names of parameters, as ``--set`` takes them.
    bounds : mapping, optional
        Least and largest value by name; default: an eighth of the value, and eight times.
    hold_out : str, optional
        ``size``, ``type``, ``class`` or a fraction: rows that the fit does not see, to judge it by.
    sets : mapping, optional
        Parameters to change before.
    keep_outliers : bool
        Fit rows too that are far from all others.
    seed : int
        Of the rows that a fraction holds out.
    workers : int, optional
        Processes; default: one a core.
    progress : callable, optional
        Is given the simulations so far.

    Returns
    -------
    Calibration
        The platform with the fitted values, their confidence, and errors before and after.

    Raises
    ------
    UserError
        For bad data, with the row and the fix, and for parameters that the data cannot tell apart.
    """
    data = read_measured(Path(measured))
    base = Platform.load(platform)
    start = base.with_(**sets) if sets else base
    parameters = parameters_of(start, list(fit), bounds or {})
    plan = plan_of(hold_out, data.rows, seed)
    left = [i for i in range(len(data.rows)) if plan.in_turn or i not in plan.splits[0].held]
    check_count(len(left), len(parameters))
    source = stated_of(base.source)
    made_for = source.made_for if source else base.source
    program_platform = _program_platform(made_for, sets or {})
    with simulations(
        data, base.source, program_platform, sets=sets, workers=workers, progress=progress
    ) as simulated:
        fits = Fits(data, simulated, keep_outliers)
        begin = np.array([parameter.start for parameter in parameters])
        problem = Problem(data, left, parameters, simulated)
        found = fits.fit(problem, begin)
        fitted = confidence(problem, found)
        before, after = simulated.at([{}, problem.point(found)])
        result = Calibration(
            data, base.source, made_for, dict(sets or {}), start, start.with_(**problem.point(found)), fitted,
            fits.compared("fitted", left, before, after),
        )  # fmt: skip
        if not plan.in_turn:
            result.held_out = fits.compared(plan.splits[0].name, plan.splits[0].held, before, after)
        fits.turns(result, plan, problem, found, before)
        result.by_cause = fits.causes(before, after)
        result.spans = fits.spans(before, after)
        result.simulated = {
            row.name: (b[data.statistic], a[data.statistic])
            for row, b, a in zip(data.rows, before, after, strict=True)
        }
        result.runs = simulated.runs
    return result


def _program_platform(made_for: str, sets: Mapping[str, OverrideValue]) -> Platform:
    platform = Platform.load(made_for)
    return platform.with_(**sets) if sets else platform


class Fits:
    """Fits of one file, and tables of errors."""

    def __init__(self, data: Measurements, simulated: Simulations, keep_outliers: bool) -> None:
        self._data, self._simulated, self._keep = data, simulated, keep_outliers

    def fit(self, problem: Problem, start: Vector) -> Vector:
        """Do the same as ``fitting.fit``; outliers are told with their file."""
        try:
            return fit(problem, start, keep_outliers=self._keep)
        except UserError as error:
            text = str(error)
            if not text.startswith("line "):
                raise
            lines = (f"{self._data.path}:{line.removeprefix('line ')}" for line in text.splitlines())
            raise UserError("\n".join(lines)) from None

    def turns(
        self, result: Calibration, plan: Plan, problem: Problem, found: Vector, before: list[Values]
    ) -> None:
        """Hold out each group in turn."""
        if not plan.in_turn:
            return
        for split in plan.splits:
            rows = [i for i in problem.rows if i not in split.held]
            part = Problem(self._data, rows, problem.parameters, self._simulated)
            try:
                after = self._simulated.at([part.point(self.fit(part, found))])[0]
            except UserError as error:
                result.notes.append(f"without `{split.name}` nothing was fitted: {error}")
                continue
            result.by_split.append(self.compared(split.name, split.held, before, after))

    def compared(
        self, name: str, rows: Sequence[int], before: Sequence[Values], after: Sequence[Values]
    ) -> Compared:
        """Errors of some rows."""
        return Compared(name, Errors.of(self._signed(rows, before)), Errors.of(self._signed(rows, after)))

    def _signed(self, rows: Sequence[int], values: Sequence[Values]) -> list[float]:
        return [values[i][self._data.statistic] / self._data.rows[i].measured - 1 for i in rows]

    def causes(self, before: Sequence[Values], after: Sequence[Values]) -> list[Compared]:
        """Errors by what bounds rows before the fit."""
        groups: dict[str, list[int]] = {}
        for i, values in enumerate(before):
            groups.setdefault(cause_of(values), []).append(i)
        return [self.compared(name, groups[name], before, after) for name in sorted(groups)]

    def spans(self, before: Sequence[Values], after: Sequence[Values]) -> list[Compared]:
        """Errors of spans that were measured."""
        names = dict.fromkeys(name for row in self._data.rows for name in row.spans)
        found = []
        for name in names:
            errors: list[list[float]] = [[], []]
            for i, row in enumerate(self._data.rows):
                if name in row.spans:
                    for list_, values in zip(errors, (before, after), strict=True):
                        list_.append((values[i].get(name, 0.0) - row.spans[name]) / row.measured)
            found.append(Compared(name, Errors.of(errors[0]), Errors.of(errors[1])))
        return found


def cause_of(values: Values) -> str:
    """Name what most of a row's time went to: compute, or the largest cause of stalls of any kind of unit."""
    parts = {name: values.get(f"cycles.{name}", 0.0) for name in ("compute", "memory_stall", "other")}
    largest = max(parts, key=lambda name: parts[name])
    if largest == "compute":
        return largest
    stalls: dict[str, float] = {}
    for key, value in values.items():
        if ".stalled." in key and not key.startswith("causes.device."):
            cause = key.rpartition(".")[2]
            stalls[cause] = stalls.get(cause, 0.0) + value
    return max(stalls, key=lambda name: stalls[name]) if stalls else largest


@dataclass(frozen=True)
class Check:
    """Errors of a platform on a file of measurements.

    Attributes
    ----------
    errors : Errors
        As they are now.
    bound : float
        What the mean must not exceed.
    stated : Stated or None
        What the platform's file says of its own fit.
    """

    errors: Errors
    bound: float
    stated: Stated | None

    @property
    def passed(self) -> bool:
        """Return whether it does not."""
        return self.errors.mean <= self.bound + SLACK


def check(
    measured: StrPath, platform: StrPath, *, max_error: float | None = None, workers: int | None = None,
    sets: Mapping[str, OverrideValue] | None = None, progress: Progress | None = None,
) -> Check:  # fmt: skip
    """Compare a platform with measurements, and with the error that its file states.

    Parameters
    ----------
    measured, platform, sets, workers, progress
        As of :func:`calibrate`.
    max_error : float, optional
        Largest mean error, as a share; default: what the platform's file states.

    Raises
    ------
    UserError
        Where no error is stated, and for bad data.
    """
    data = read_measured(Path(measured))
    base = Platform.load(platform)
    stated = stated_of(base.source)
    if max_error is None and stated is None:
        raise UserError(
            f"`{platform}` states no error: it was not written by kpusim calibrate. Fix: give --max-error."
        )
    made_for = _program_platform(stated.made_for if stated else base.source, sets or {})
    with simulations(data, base.source, made_for, sets=sets, workers=workers, progress=progress) as simulated:
        values = simulated.at([{}])[0]
    signed = [found[data.statistic] / row.measured - 1 for found, row in zip(values, data.rows, strict=True)]
    bound = max_error if max_error is not None or stated is None else stated.mean
    return Check(Errors.of(signed), float(bound or 0.0), stated)
