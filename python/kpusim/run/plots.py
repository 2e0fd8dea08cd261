"""Pictures of a run through matplotlib, an extra: each draws into axes of the caller or of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from kpusim import _core
from kpusim.base.extras import extra
from kpusim.errors import UserError
from kpusim.run.drawing import COLOURS, labels, shares
from kpusim.run.traffic import LEVELS, Access, Level
from kpusim.run.view import RunView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of causes, as on the page of `explain`; others are grey.
CAUSES = {
    "busy.useful": "#2f7d4f", "busy.fill_drain": "#8fc46b", "busy.padding": "#d3c64f",
    "busy.overhead": "#9aa86a", "busy.compute": "#2f7d4f", "stalled.memory": "#c0392b",
    "stalled.operand_dram_bandwidth": "#c0392b", "stalled.operand_dram_latency": "#e67e22",
    "stalled.operand_dram_bank_conflict": "#ef9a9a", "stalled.operand_dram_turnaround": "#f4b266",
    "stalled.operand_dram_imbalance": "#7b241c", "stalled.refresh": "#8d6e63",
    "stalled.operand_interconnect": "#7e57c2", "stalled.operand_bank_conflict": "#c2185b",
    "stalled.operand_sram_access": "#ec407a", "stalled.dma_issue": "#1e88e5",
    "stalled.backpressure": "#00897b", "stalled.structural": "#546e7a", "stalled.configuration": "#5c6bc0",
    "stalled.dependency": "#90a4ae", "stalled.issue_window": "#b7c3cc", "idle.other": "#dfe4ea",
}  # fmt: skip
#: Colours of the levels of memory.
LEVEL_COLOURS = {"dram": "#c0392b", "l2": "#d9822b", "l1": "#2f6db5"}


def figure_of(run: RunView, kind: str) -> Figure:
    """A matplotlib figure of the run."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"there is no plot {kind!r}. Fix: give one of {', '.join(KINDS)}.")
    figure: Figure = KINDS[kind](run, None).get_figure()
    return figure


def axes_of(run: RunView, axes: Axes | None, size: tuple[float, float] = (9, 4.5)) -> Axes:
    """Return the axes to draw into: those given, or those of a new figure."""
    if run.mode == "functional":
        raise UserError("a functional run has no time to plot. Fix: use mode values+timing or timing.")
    figures = extra("matplotlib.figure", "plot")
    if axes is None:
        # not pyplot: no window, no state of the process
        axes = figures.Figure(figsize=size, layout="constrained").add_subplot()
    return axes


def title_of(run: RunView) -> str:
    """Say what ran on what."""
    return f"{run.program} on {run.platform}: {run.cycles:,} cycles"


def draw_units(run: RunView, axes: Axes | None) -> Axes:
    """Draw where each unit's time went."""
    axes = axes_of(run, axes)
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
    return axes


def draw_ops(run: RunView, axes: Axes | None) -> Axes:
    """Return the operations to which most cycles are charged."""
    axes = axes_of(run, axes)
    most = 20
    rows = sorted(run.ops, key=lambda row: -row.charged_cycles)[:most]
    axes.barh([row.id for row in rows], [row.charged_cycles for row in rows], color=COLOURS[0])
    axes.invert_yaxis()
    axes.set(xlabel="charged cycles", title=title_of(run))
    return axes


def draw_power(run: RunView, axes: Axes | None, by: str = "source") -> Axes:
    """Power over time, by where it goes."""
    power = run.power
    if by == "source":
        parts = {source: watts for source, watts in power.watts.items() if watts.any()}
    else:
        parts = {name: part.total for name, part in power.by(by).items() if part.total.any()}
    axes = axes_of(run, axes)
    most = 12
    order = sorted(parts, key=lambda name: -float(parts[name].sum()))
    kept = [name for name in parts if name in order[:most]]
    drawn = {name: parts[name] for name in kept}
    if len(parts) > most:
        drawn["others"] = np.sum([parts[name] for name in order[most:]], axis=0)
    ends = (power.time_ns + power.dt_ns)[-1:]
    edges = np.concatenate([power.time_ns, ends]) / 1000
    below = 0 * power.total
    palette = extra("matplotlib", "plot").colormaps["tab20"]
    for index, (name, watts) in enumerate(drawn.items()):
        axes.stairs(below + watts, edges, baseline=below, fill=True, label=name, color=palette(index % 20))
        below = below + watts
    corners = power.by("corner")
    if corners and below.any():
        low, high = corners["low"].total, corners["high"].total
        band = "low to high corner of the table"
        axes.stairs(high, edges, baseline=low, fill=True, color="black", alpha=0.12, label=band)
    axes.set(xlabel="time, us", ylabel="power, W", title=title_of(run))
    if below.any():
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def draw_timeline(run: RunView, axes: Axes | None, units: Iterable[str] = ()) -> Axes:
    """Draw the states of each unit over time, a row each: cause by colour; idle time is empty."""
    timeline = run.timeline
    patterns = list(units)
    chosen = [
        name for name in timeline.units if not patterns or any(fnmatchcase(name, one) for one in patterns)
    ]
    if not chosen:
        wanted, known = ", ".join(patterns), ", ".join(timeline.units)
        raise UserError(f"no unit has a name like {wanted}. Fix: give patterns of {known}.")
    working = np.array([not name.startswith("idle.") for name in timeline.causes])[timeline.cause]
    rows = [name for name in chosen if (timeline.of(name) & working).any()]
    axes = axes_of(run, axes, (10, 0.8 + 0.28 * max(len(rows), 6)))
    seen: dict[str, None] = {}
    for row, name in enumerate(rows):
        mine = timeline.of(name) & working
        for cause in np.unique(timeline.cause[mine]):
            chosen_rows = mine & (timeline.cause == cause)
            start, width = timeline.start[chosen_rows], (timeline.end - timeline.start)[chosen_rows]
            bars = list(zip(start.tolist(), width.tolist(), strict=True))
            label = timeline.causes[cause]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=CAUSES.get(label, "#999999"), linewidth=0)
            seen[label] = None
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlim=(0, max(1, run.cycles)), ylim=(len(rows) - 0.5, -0.5))
    axes.set(xlabel="core cycle", title=title_of(run))
    add_legend(axes, [name for name in timeline.causes if name in seen])
    return axes


def draw_stalls(run: RunView, axes: Axes | None) -> Axes:
    """Draw where each unit's time went, cause by cause; idle time is left out."""
    axes = axes_of(run, axes, (10, 5))
    units = dict.fromkeys(key.split(".", 1)[0] for key in run.stats.under("units"))
    causes = [name for name in _core.cause_names() if not name.startswith("idle.") and name in CAUSES]
    share = 100 / max(1, run.cycles)
    stacks = {name: run.stats.under(f"units.{name}") for name in units if name != "device"}
    rows = [name for name, row in stacks.items() if any(row.get(cause, 0) for cause in causes)]
    left = np.zeros(len(rows))
    drawn = []
    for cause in causes:
        widths = np.array([share * stacks[name].get(cause, 0) for name in rows])
        if not widths.any():
            continue
        axes.barh(rows, widths, left=left, color=CAUSES[cause])
        left += widths
        drawn.append(cause)
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the run, %", title=title_of(run))
    add_legend(axes, drawn)
    return axes


def add_legend(axes: Axes, causes: Iterable[str]) -> None:
    """Say at the right which colour is which cause."""
    patch = extra("matplotlib.patches", "plot").Patch
    handles = [patch(color=CAUSES.get(name, "#999999"), label=name) for name in causes]
    axes.legend(handles=handles, fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))


def draw_roofline(run: RunView, axes: Axes | None) -> Axes:
    """Operations per cycle against operations per byte of each level, under the roofs of the device."""
    axes = axes_of(run, axes)
    points: list[dict[str, Any]] = run.explain().data["roofline"]
    whole, *ops = points
    peak = max((point["peak"] for point in points), default=0)
    if not peak or not whole["operations"]:
        raise UserError("the run computed nothing to draw under a roof. Fix: plot a run that has operations.")
    known = [level for level in LEVELS if whole["levels"][level]["intensity"] > 0]
    spots = [
        (level, point["levels"][level]["intensity"], point["attained"], point["active_cycles"])
        for point in ops
        for level in known
        if point["levels"][level]["intensity"] > 0 and point["attained"] > 0
    ]
    reach = [x for _, x, _, _ in spots]
    bandwidths = {level: whole["levels"][level]["peak_bytes_per_cycle"] for level in known}
    first = min([*reach, *(peak / bandwidths[level] for level in known)]) / 3
    last = max([*reach, *(peak / bandwidths[level] for level in known)]) * 3
    x = np.geomspace(first, last, 200)
    most = max(active for *_, active in spots) if spots else 1
    for level, style in zip(known, ("-", "--", ":"), strict=False):  # roofs may lie over each other
        colour = LEVEL_COLOURS[level]
        axes.plot(x, np.minimum(peak, x * bandwidths[level]), style, color=colour, linewidth=1.5,
                  label=f"{level}: {bandwidths[level]:,.4g} B/cycle")  # fmt: skip
        mine = [(i, y, 12 + 150 * active / most) for where, i, y, active in spots if where == level]
        axes.scatter([i for i, _, _ in mine], [y for _, y, _ in mine], s=[size for *_, size in mine],
                     color=colour, alpha=0.55, edgecolors="white", linewidths=0.5)  # fmt: skip
    named = sorted(ops, key=lambda point: -point["active_cycles"])[:3]
    for point in named:
        places = [point["levels"][level]["intensity"] for level in known]
        if max(places, default=0) > 0 and point["attained"] > 0:
            axes.annotate(point["op"], (next(x for x in places if x > 0), point["attained"]), xytext=(5, 4),
                          textcoords="offset points", fontsize="x-small")  # fmt: skip
    axes.set(xscale="log", yscale="log", title=title_of(run))
    axes.set(xlabel="operations per byte of the level", ylabel="operations per cycle")
    axes.legend(fontsize="small", loc="lower right", title=f"compute: {peak:,.0f} operations/cycle")
    return axes


def draw_memory(run: RunView, axes: Axes | None, level: Level = "dram") -> Axes:
    """Draw which addresses of a level were read and written when."""
    traffic = run.traffic
    axes = axes_of(run, axes, (10, 4.5))
    handles = []
    line = extra("matplotlib.lines", "plot").Line2D
    colours: tuple[tuple[Access, str], ...] = (("read", "#2f6db5"), ("write", "#d9822b"))
    for access, colour in colours:
        chosen = traffic.of(level, access)
        middle = (traffic.address + traffic.bytes / 2)[chosen] / 1024
        axes.plot(traffic.cycle[chosen], middle, ".", markersize=1.5, color=colour, rasterized=True)
        total = f"{access}: {traffic.bytes_of(level, access):,} bytes"
        handles.append(line([], [], marker="s", linestyle="", color=colour, label=total))
    axes.set(xlim=(0, max(1, run.cycles)), xlabel="core cycle", ylabel=f"address in {level}, KiB")
    axes.set_title(title_of(run))
    axes.legend(handles=handles, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return axes


def draw_banks(run: RunView, axes: Axes | None, count: str = "bursts") -> Axes:
    """Draw what the banks of DRAM did over time, a row each, channel by channel."""
    banks = run.traffic.banks
    known = {"bursts": banks.counts["reads"] + banks.counts["writes"], **banks.counts}
    if not isinstance(count, str) or count not in known:
        raise UserError(f"banks have no count {count!r}. Fix: give one of {', '.join(known)}.")
    axes = axes_of(run, axes, (10, 5))
    bins, channels, rows = known[count].shape
    if not bins:
        raise UserError("the run left DRAM alone. Fix: plot a run that reads or writes it.")
    grid = known[count].reshape(bins, channels * rows).T
    begin, end = banks.time_ns[0] / 1000, (banks.time_ns[-1] + banks.dt_ns) / 1000
    shown = np.where(grid == 0, np.nan, grid)  # nothing is drawn there
    picture = axes.imshow(shown, aspect="auto", interpolation="nearest", cmap="viridis_r",
                          extent=(begin, end, channels * rows - 0.5, -0.5))  # fmt: skip
    axes.set_yticks([channel * rows + (rows - 1) / 2 for channel in range(channels)], banks.channels)
    for channel in range(1, channels):
        axes.axhline(channel * rows - 0.5, color="black", linewidth=0.6)
    axes.set(xlabel="time, us", ylabel="banks of each channel", title=title_of(run))
    figure = axes.get_figure()
    if figure is not None:
        figure.colorbar(picture, ax=axes, label=count.replace("_", " "))
    return axes


#: Names of :meth:`kpusim.Run.plot`.
KINDS: dict[str, Callable[[RunView, Any], Any]] = {
    "units": draw_units,
    "stalls": draw_stalls,
    "timeline": draw_timeline,
    "power": draw_power,
    "roofline": draw_roofline,
    "memory": draw_memory,
    "banks": draw_banks,
    "ops": draw_ops,
}
