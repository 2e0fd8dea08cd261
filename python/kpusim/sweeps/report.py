"""Page of a sweep: scatter, parallel coordinates, table, which knob matters, best points explained."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from kpusim.errors import KpusimError, MissingPackageError, UserError
from kpusim.sweeps.knobs import knobs_of
from kpusim.sweeps.results import SweepResults, check_free, check_some

#: Statistics that the page has beside axes, objectives and constraints; the table on disk has all.
SHOWN = (
    "time.total_us", "cycles.total", "predicted.cycles", "energy.total_uj", "energy.low_uj", "energy.high_uj",
    "power.average_w", "power.peak_w", "area.total_mm2", "bytes.dram.read", "bytes.dram.write",
    "utilization.compute", "utilization.dram_bandwidth", "cycles.compute", "cycles.memory_stall",
    "cycles.other",
)  # fmt: skip
EXPLAINED = 3  #: best points that are run again and explained
CAUSES = 9  #: of a kind of unit, in a picture; the others are summed up


def write_report(results: SweepResults, path: Path, *, force: bool = False) -> None:
    """Write the page: one file that needs no network.

    Parameters
    ----------
    results : SweepResults
        A sweep.
    path : Path
        The page; an existing one is kept unless `force`.
    force : bool
        Replace it.

    Raises
    ------
    UserError
        For a page that exists or cannot be written, and a sweep without rows.
    """
    check_free(path, force)
    check_some(results)
    try:
        path.write_text(page_of(results), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Fix: give a name that can be written.") from None


def page_of(results: SweepResults) -> str:
    """Return the page as text."""
    template = resources.files("kpusim.sweeps").joinpath("report.html").read_text(encoding="utf-8")
    # a `<` could end the script in which the data stands
    data = json.dumps(data_of(results), separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(", ".join(item["name"] for item in results.header["sweep"]["programs"]))
    parts = {"@TITLE@": title, "@PLOTLY@": _plotly(), "@DATA@": data}
    return re.sub("|".join(parts), lambda found: parts[found[0]], template)


def data_of(results: SweepResults) -> dict[str, Any]:
    """Collect what the page shows."""
    sweep = results.header["sweep"]
    objectives = [name.removeprefix("-") for name in results.objectives]
    head = ["point", "design", "program", "platform", *results.axes, "fidelity", "error", "feasible", "front"]
    constrained = [name for name in results.columns if any(name in text for text in sweep["constraints"])]
    stats = [name for name in dict.fromkeys([*objectives, *constrained, *SHOWN]) if name in results.columns]
    names = list(dict.fromkeys([*head, *stats]))
    return {
        "columns": [
            {"name": name, "unit": results.columns[name][0], "meaning": results.columns[name][1],
             "values": [_short(row[name]) for row in results.rows]}
            for name in names
        ],
        "axes": [axis for axis in results.axes if axis in names],
        "objectives": results.objectives,
        "stats": stats,
        "causes": causes_along(results),
        "knobs": [_knobs(results, name) for name in objectives],
        "best": [_explained(results, row) for row in results.best(EXPLAINED)],
        "how": {
            "version": results.header["version"],
            "sweep": json.dumps(sweep, indent=1),
            "points": len(results.rows),
            "failed": sum(bool(row["error"]) for row in results.rows),
            "designs": len({row["design"] for row in results.rows}),
            "front": len({row["design"] for row in results.front()}),
            "simulated": sum(row["fidelity"] == "simulate" for row in results.rows),
        },
    }  # fmt: skip


def _short(value: object) -> object:
    """Six digits are enough for a page; the table on disk has all."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def causes_along(results: SweepResults) -> dict[str, dict[str, Any]]:
    """Return the share of each cause in the time of each kind of unit, at each value of each axis."""
    names = [name for name in results.columns if name.startswith("causes.")]
    kinds = sorted({name.split(".")[1] for name in names}, key=lambda kind: (kind != "device", kind))
    found: dict[str, dict[str, Any]] = {}
    for axis in results.axes:
        values = sorted({row[axis] for row in results.rows}, key=lambda v: (isinstance(v, str), v))
        if len(values) < 2:
            continue
        found[axis] = {"values": [str(value) for value in values], "kinds": {}}
        rows = {value: [row for row in results.rows if row[axis] == value] for value in values}
        for kind in kinds:
            own = [name for name in names if name.startswith(f"causes.{kind}.")]
            sums = [{name: sum(row[name] or 0 for row in rows[value]) for name in own} for value in values]
            found[axis]["kinds"][kind] = _shares(sums, kind)
    return found


def _shares(sums: list[dict[str, float]], kind: str) -> dict[str, list[float]]:
    totals = [sum(at.values()) or 1 for at in sums]
    names = sorted(sums[0], key=lambda name: -sum(at[name] for at in sums))
    shares = {
        name.removeprefix(f"causes.{kind}."): [
            round(at[name] / total, 4) for at, total in zip(sums, totals, strict=True)
        ]
        for name in names[:CAUSES]
    }
    if len(names) > CAUSES:
        shares["others"] = [
            round(sum(at[name] for name in names[CAUSES:]) / total, 4)
            for at, total in zip(sums, totals, strict=True)
        ]
    return {name: share for name, share in shares.items() if any(share)}


def _knobs(results: SweepResults, name: str) -> dict[str, Any]:
    try:
        knobs = knobs_of(results, name)
    except MissingPackageError:
        raise
    except UserError as error:
        return {"statistic": name, "knobs": [], "pairs": [], "method": str(error)}
    return {
        "statistic": name,
        "method": knobs.method,
        "knobs": [
            {"axis": knob.axis, "share": round(knob.share, 5),
             "claims": [str(claim) for claim in (knob.effect, knob.knee, knob.along, knob.causes) if claim]}
            for knob in knobs.knobs
        ],
        "pairs": [(a, b, round(share, 5)) for a, b, share in knobs.pairs[:10]],
    }  # fmt: skip


def _explained(results: SweepResults, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point, run again; where that is not possible, why."""
    number = row["point"]
    try:
        point = results.point(number)
        text = str(point.run(events=True).explain())
        command = point.command()
    except KpusimError as error:
        text, command = f"not run again: {error}", ""
    return {"point": number, "command": command, "text": text}


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPackageError("reports need Plotly. Fix: pip install 'kpusim[sweep]'.") from None
    return str(get_plotlyjs())
