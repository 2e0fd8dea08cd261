"""Effects of axes: main effects, interactions, knees, causes along an axis. Each claim names its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kpusim.errors import MissingPackageError, UserError
from kpusim.sweeps.results import SweepResults, check_some

KNEE = 0.02  #: a value is enough when those beyond it improve the mean by less
LEAST_FOR_PAIRS = 300  #: rows that SALib's HDMR needs
MOST_FOR_PAIRS = 1000  #: of more it takes every so many: its time grows with their square
Axis = tuple[Any, ...]


@dataclass(frozen=True)
class Claim:
    """Something that the table shows.

    Attributes
    ----------
    text : str
        For people.
    rows : tuple of int
        Points that it was computed from.
    numbers : mapping
        The figures in it, by name.
    """

    text: str
    rows: tuple[int, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Write it with its rows."""
        shown = ", ".join(map(str, self.rows[:6])) + (
            f", ... ({len(self.rows)})" if len(self.rows) > 6 else ""
        )
        return f"{self.text} [points {shown}]"


@dataclass(frozen=True)
class Knob:
    """Effects of one axis.

    Attributes
    ----------
    axis : str
        Its name.
    share : float
        Of the variance of the statistic's logarithm that its values alone explain: 0 to 1.
    effect, knee, along, causes : Claim or None
        Mean of each value; the value beyond which more brings little; the rows that differ in this axis
        alone, through the best design; the causes along those.
    """

    axis: str
    share: float
    effect: Claim
    knee: Claim | None
    along: Claim | None
    causes: Claim | None


@dataclass(frozen=True)
class Knobs:
    """Effects of all axes on one statistic, those that matter most first."""

    statistic: str
    knobs: tuple[Knob, ...]
    pairs: tuple[
        tuple[str, str, float], ...
    ]  #: shares that only two axes together explain, the largest first
    method: str
    rows: tuple[int, ...]

    def __str__(self) -> str:
        """Write it for a terminal."""
        lines = [f"{self.statistic}, over {len(self.rows):,} points ({self.method})"]
        for knob in self.knobs:
            lines.append(f"  {knob.axis}: {knob.share:.1%} of the variance")
            lines += [f"    {claim}" for claim in (knob.effect, knob.knee, knob.along, knob.causes) if claim]
        for a, b, share in self.pairs[:5]:
            if share >= 0.005:
                lines.append(f"  {a} with {b}: {share:.1%} of the variance together, beyond each alone")
        return "\n".join(lines) + "\n"


class _Data:
    """A statistic by design: values of axes, logarithm of the mean over programs, points."""

    def __init__(self, results: SweepResults, statistic: str) -> None:
        check_some(results)
        if statistic not in results.columns:
            raise UserError(f"the table has no column `{statistic}`. Fix: columns.csv lists them.")
        platforms = len(results.header["sweep"]["platforms"]) > 1
        follow = set(_derived(results))
        turned = {axis for axis in results.axes if len({row[axis] for row in results.rows}) > 1}
        axes = [axis for axis in results.axes if axis in turned and axis not in follow]
        self.axes = (["platform"] if platforms else []) + axes
        by_design: dict[int, list[dict[str, Any]]] = {}
        for row in results.rows:
            by_design.setdefault(row["design"], []).append(row)
        programs = len(results.header["sweep"]["programs"])
        self.rows: list[list[dict[str, Any]]] = []
        logs: list[float] = []
        for rows in by_design.values():
            values = [row[statistic] for row in rows]
            if len(rows) < programs or any(
                not isinstance(value, (int, float)) or value <= 0 for value in values
            ):
                continue  # failed, or without it
            self.rows.append(rows)
            logs.append(sum(math.log(value) for value in values) / len(values))
        self.y: npt.NDArray[np.float64] = np.array(logs)
        self.x = [tuple(rows[0][axis] for axis in self.axes) for rows in self.rows]
        self.values: list[Axis] = [_sorted({x[index] for x in self.x}) for index in range(len(self.axes))]

    def points(self, designs: Sequence[int]) -> tuple[int, ...]:
        """Return the points of designs."""
        return tuple(row["point"] for design in designs for row in self.rows[design])

    def with_value(self, index: int, value: object) -> list[int]:
        """Designs that have a value of an axis."""
        return [design for design, x in enumerate(self.x) if x[index] == value]

    def is_grid(self) -> bool:
        """Return whether every combination of the values is there once."""
        return len(self.x) == math.prod(map(len, self.values)) == len(set(self.x))


def knobs_of(results: SweepResults, statistic: str) -> Knobs:
    """Find what each axis does to a statistic.

    On a full grid the shares are exact: variances of means, as in the analysis of variance (Sobol' indices of
    the grid). Of a sample SALib estimates them.

    Raises
    ------
    UserError
        For a statistic that the table has not, and fewer than two designs with it.
    """
    data = _Data(results, statistic)
    if len(data.x) < 2:
        raise UserError(
            f"fewer than two designs have {statistic}. Fix: sweep more, or see the errors in the table."
        )
    shares, pairs, method = _exact(data) if data.is_grid() else _estimated(data)
    knobs = [_knob(data, index, shares[index]) for index in range(len(data.axes))]
    knobs.sort(key=lambda knob: -knob.share)
    return Knobs(statistic, tuple(knobs), tuple(pairs), method, data.points(range(len(data.x))))


# ---- shares of the variance


def _exact(data: _Data) -> tuple[list[float], list[tuple[str, str, float]], str]:
    shape = tuple(map(len, data.values))
    positions = [{value: at for at, value in enumerate(values)} for values in data.values]
    grid = np.empty(shape)
    for x, y in zip(data.x, data.y, strict=True):
        grid[tuple(position[value] for position, value in zip(positions, x, strict=True))] = y
    total = float(grid.var())
    count = len(shape)
    alone = [_explained(grid, {index}) for index in range(count)]
    scale = total if total > 0 else 1.0
    pairs = [
        (data.axes[a], data.axes[b], max(0.0, _explained(grid, {a, b}) - alone[a] - alone[b]) / scale)
        for a, b in itertools.combinations(range(count), 2)
    ]
    pairs.sort(key=lambda pair: -pair[2])
    return [value / scale for value in alone], pairs, "a full grid: exact shares"


def _explained(grid: npt.NDArray[np.float64], axes: set[int]) -> float:
    """Variance of the means over all other axes."""
    others = tuple(axis for axis in range(grid.ndim) if axis not in axes)
    return float(grid.mean(axis=others).var()) if others else float(grid.var())


def _estimated(data: _Data) -> tuple[list[float], list[tuple[str, str, float]], str]:
    try:
        from SALib.analyze import hdmr, rbd_fast
    except ImportError:
        raise MissingPackageError("knobs of a sample need SALib. Fix: pip install 'kpusim[sweep]'.") from None
    count = len(data.axes)
    scale = [max(1, len(values) - 1) for values in data.values]
    x = np.array(
        [[v.index(at) / most for v, at, most in zip(data.values, row, scale, strict=True)] for row in data.x]
    )
    problem = {"num_vars": count, "names": data.axes, "bounds": [[0, 1]] * count}
    if len(data.x) >= LEAST_FOR_PAIRS and 1 < count <= 10:
        every = slice(None, None, max(1, len(data.x) // MOST_FOR_PAIRS))
        found = hdmr.analyze(problem, x[every], data.y[every], maxorder=2, print_to_console=False, seed=1)
        shares = [max(0.0, float(share)) for share in found["S"][:count]]
        both = itertools.combinations(range(count), 2)
        pairs = [
            (data.axes[a], data.axes[b], max(0.0, float(share)))
            for (a, b), share in zip(both, found["S"][count:], strict=True)
        ]
        pairs.sort(key=lambda pair: -pair[2])
        return shares, pairs, "a sample: shares by SALib's HDMR"
    found = rbd_fast.analyze(problem, x, data.y, print_to_console=False, seed=1)
    shares = [min(1.0, max(0.0, float(share))) for share in found["S1"]]
    why = f"a sample: shares by SALib's RBD-FAST; pairs need a full grid or {LEAST_FOR_PAIRS} designs"
    return shares, [], why


# ---- one axis


def _knob(data: _Data, index: int, share: float) -> Knob:
    means = {value: float(data.y[data.with_value(index, value)].mean()) for value in data.values[index]}
    low, high = min(means, key=lambda v: means[v]), max(means, key=lambda v: means[v])
    ratio = math.exp(means[high] - means[low])
    rows = data.points([*data.with_value(index, low), *data.with_value(index, high)])
    effect = Claim(
        f"smallest at {_text(low)}, on average {ratio:.3g} times as large at {_text(high)}",
        rows,
        {"ratio": ratio},
    )
    along = _slice(data, index)
    return Knob(
        data.axes[index],
        share,
        effect,
        _knee(data, index, means),
        _along(data, index, along),
        _causes(data, index, along),
    )


def _knee(data: _Data, index: int, means: Mapping[Any, float]) -> Claim | None:
    """Return the smallest value whose mean is within KNEE of the best one at or above it."""
    values = data.values[index]
    if len(values) < 3 or any(isinstance(value, (str, bool)) for value in values):
        return None
    bound = math.log1p(KNEE)
    for at, value in enumerate(values[:-1]):
        best = min(means[other] for other in values[at:])
        if means[value] - best <= bound:
            gain = math.exp(means[value] - best) - 1
            rows = data.points([d for other in values[at:] for d in data.with_value(index, other)])
            brings = f"{gain:.1%} at most" if gain > 0 else "nothing"
            text = f"{_text(value)} is enough: larger ones bring {brings}"
            return Claim(text, rows, {"knee": float(value), "gain": gain})
    last, before = values[-1], values[-2]
    gain = math.exp(means[before] - means[last]) - 1
    rows = data.points([*data.with_value(index, before), *data.with_value(index, last)])
    return Claim(f"no knee: {_text(last)} still brings {gain:.1%} over {_text(before)}", rows, {"gain": gain})


def _slice(data: _Data, index: int) -> list[int]:
    """Designs that differ from the best one in this axis alone, by its value."""
    best = data.x[int(np.argmin(data.y))]
    found = [
        d for d, x in enumerate(data.x) if x[:index] == best[:index] and x[index + 1 :] == best[index + 1 :]
    ]
    return sorted(found, key=lambda design: data.values[index].index(data.x[design][index]))


def _along(data: _Data, index: int, designs: Sequence[int]) -> Claim | None:
    if len(designs) < 2:
        return None
    first = data.y[designs[0]]
    steps = ", ".join(f"{_text(data.x[d][index])}: {math.exp(data.y[d] - first):.3f}" for d in designs)
    return Claim(f"through the best design, in units of the first: {steps}", data.points(designs))


def _causes(data: _Data, index: int, designs: Sequence[int]) -> Claim | None:
    """Say where the device's time goes at both ends, and which unit's share by a cause changes most."""
    if len(designs) < 2:
        return None
    before, after = (_shares(data.rows[design]) for design in (designs[0], designs[-1]))
    if not before or not after:
        return None
    parts = [
        f"{name.split('.')[-1]} {before.get(name, 0.0):.1%} -> {after.get(name, 0.0):.1%}"
        for name in ("device.busy.compute", "device.stalled.memory", "device.idle.other")
    ]
    causes = [
        name for name in sorted({*before, *after}) if not name.startswith("device.") and not _follows(name)
    ]
    numbers: dict[str, float] = {}
    text = f"of the time, {', '.join(parts)}"
    if causes:
        moved = max(causes, key=lambda name: abs(after.get(name, 0.0) - before.get(name, 0.0)))
        numbers = {"before": before.get(moved, 0.0), "after": after.get(moved, 0.0)}
        kind, cause = moved.split(".", 1)
        text += f"; of {kind}, {cause} {numbers['before']:.1%} -> {numbers['after']:.1%}"
    return Claim(text, data.points([designs[0], designs[-1]]), numbers)


def _follows(cause: str) -> bool:
    """Return whether it is that others are not ready: it says nothing of this kind of unit."""
    return ".idle." in cause or cause.endswith((".issue_window", ".dependency"))


def _shares(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Share of the time of each kind of unit by cause, over programs."""
    totals: dict[str, float] = {}
    kinds: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            if name.startswith("causes.") and isinstance(value, (int, float)):
                kind = name.split(".")[1]
                totals[name.removeprefix("causes.")] = totals.get(name.removeprefix("causes."), 0.0) + value
                kinds[kind] = kinds.get(kind, 0.0) + value
    return {name: value / kinds[name.split(".")[0]] for name, value in totals.items() if value}


def _derived(results: SweepResults) -> list[str]:
    stated = results.header["sweep"]["axes"]
    return [name for name, values in stated.items() if isinstance(values, str)]


def _sorted(values: set[Any]) -> Axis:
    if any(isinstance(value, str) for value in values):
        return tuple(sorted(values, key=str))
    return tuple(sorted(values))


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
