"""Pictures of a run: where its units' time went, as HTML and through matplotlib, which is an extra."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from kpusim import _core
from kpusim.errors import UserError
from kpusim.frames import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kpusim.run import Run

#: One colour for each kind of time, from useful work to idle; readable to the colour-blind.
COLOURS = ("#2a9d4a", "#5fb3c9", "#c8423a", "#e5b73b", "#e3e3e3")


def shares(run: Run) -> dict[str, list[float]]:
    """Of every unit, the share of the run that it spent in each kind of time, in order of the legend."""
    total = run.cycles
    found: dict[str, list[float]] = {}
    units = run.stats.under("units")
    names = dict.fromkeys(key.split(".", 1)[0] for key in units)
    for name in names:
        causes = units.under(name)
        found[name] = [
            sum(float(causes.get(cause, 0)) for cause in band) / total if total else 0.0
            for _, band in _core.cause_bands()
        ]
    return found


def labels() -> list[str]:
    """The kinds of time."""
    return [label for label, _ in _core.cause_bands()]


def page_of(run: Run) -> str:
    """The run as a piece of HTML: a headline, and a bar for each unit."""
    head = f"<b>{html.escape(run.program)}</b>"
    if run.platform:
        head += f" on <b>{html.escape(run.platform)}</b>"
    head += f", {html.escape(run.mode)}: {run.cycles:,} cycles"
    if "time.total_us" in run.stats:
        head += f" = {run.stats['time.total_us']:,.2f} us"
    if "energy.total_uj" in run.stats:
        head += f", {run.stats['energy.total_uj']:.4g} uJ"
    notes = []
    if not run.complete:
        notes.append("incomplete: it did not come to its end")
    if count := run.stats.get("hazards.count", 0):
        notes.append(f"{count:,} hazards: the values may be wrong")
    warning = "".join(f"<div style='color:#c8423a'>{note}</div>" for note in notes)
    rows = "".join(row_of(name, parts) for name, parts in shares(run).items())
    legend = " ".join(
        f"<span style='display:inline-block;width:1em;height:0.8em;background:{colour}'></span> {label}"
        for colour, label in zip(COLOURS, labels(), strict=True)
    )
    table = f"<table>{rows}</table><div>{legend}</div>" if rows else ""
    return f"<div>{head}{warning}{table}</div>"


def row_of(name: str, parts: list[float]) -> str:
    """A unit's row: its name, its bar, its useful share."""
    pieces = "".join(
        f"<span title='{label} {part:.1%}' style='display:inline-block;height:1em;"
        f"width:{part * 100:.3f}%;background:{colour}'></span>"
        for part, colour, label in zip(parts, COLOURS, labels(), strict=True)
        if part > 0
    )
    bar = f"<div style='width:24em;white-space:nowrap;font-size:0.8em;line-height:1'>{pieces}</div>"
    return (
        f"<tr><td style='text-align:left'>{html.escape(name)}</td><td>{bar}</td>"
        f"<td style='text-align:right'>{parts[0]:.1%}</td></tr>"
    )


def figure_of(run: Run, kind: str) -> Figure:
    """A matplotlib figure of the run."""
    kinds = {"units": draw_units, "power": draw_power, "ops": draw_ops}
    if not isinstance(kind, str) or kind not in kinds:
        raise UserError(f"there is no plot {kind!r}. Fix: give one of {', '.join(kinds)}.")
    if run.mode == "functional":
        raise UserError("a functional run has no time to plot. Fix: use mode values+timing or timing.")
    # not pyplot: no window, no state of the process
    figure: Figure = extra("matplotlib.figure", "plot").Figure(figsize=(9, 4.5), layout="constrained")
    kinds[kind](run, figure.add_subplot())
    return figure


def draw_units(run: Run, axes: Axes) -> None:
    """Where each unit's time went."""
    found = shares(run)
    names = list(found)
    left = [0.0] * len(names)
    for band, (label, colour) in enumerate(zip(labels(), COLOURS, strict=True)):
        widths = [100 * found[name][band] for name in names]
        axes.barh(names, widths, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the run, %", title=title_of(run))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=len(COLOURS), fontsize="small")


def draw_power(run: Run, axes: Axes) -> None:
    """Power over time, by where it goes."""
    power = run.power
    ends = (power.time_ns + power.dt_ns)[-1:]
    edges = np.concatenate([power.time_ns, ends]) / 1000
    below = 0 * power.total
    for source, watts in power.watts.items():
        if not watts.any():
            continue
        axes.stairs(below + watts, edges, baseline=below, fill=True, label=source)
        below = below + watts
    corners = power.by("corner")
    if corners and below.any():
        low, high = corners["low"].total, corners["high"].total
        band = "low to high corner of the table"
        axes.stairs(high, edges, baseline=low, fill=True, color="black", alpha=0.12, label=band)
    axes.set(xlabel="time, us", ylabel="power, W", title=title_of(run))
    if below.any():
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def draw_ops(run: Run, axes: Axes) -> None:
    """The operations to which most cycles are charged."""
    most = 20
    rows = sorted(run.ops, key=lambda row: -row.charged_cycles)[:most]
    axes.barh([row.id for row in rows], [row.charged_cycles for row in rows], color=COLOURS[0])
    axes.invert_yaxis()
    axes.set(xlabel="charged cycles", title=title_of(run))


def title_of(run: Run) -> str:
    """What ran on what."""
    return f"{run.program} on {run.platform}: {run.cycles:,} cycles"
