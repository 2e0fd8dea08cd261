"""Drawings of a run for notebooks: where its units' time went, as HTML."""

from __future__ import annotations

import html

from kpusim import _core
from kpusim.run.view import RunView

#: One colour for each kind of time, from useful work to idle; readable to the colour-blind.
COLOURS = ("#2a9d4a", "#5fb3c9", "#c8423a", "#e5b73b", "#e3e3e3")


def shares(run: RunView) -> dict[str, list[float]]:
    """Return the share of the run that every unit spent in each kind of time, in order of the legend."""
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
    """Return the kinds of time."""
    return [label for label, _ in _core.cause_bands()]


def page_of(run: RunView) -> str:
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
    """Return a unit's row: its name, its bar, its useful share."""
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
