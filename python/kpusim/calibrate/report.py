"""A calibration as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kpusim.calibrate.calibrating import Check
from kpusim.calibrate.found import Calibration, Compared

LOOSE = 0.5  #: of an interval's width over its value: beyond it the data hardly tells the parameter


def text_of(found: Calibration) -> str:
    """Return the report."""
    rows = found.all_rows.after.rows
    lines = [f"{found.data.path.name}: {rows} rows fitted on {found.source}, {found.runs:,} simulations", ""]
    names = [item.parameter.name for item in found.fitted]
    width = max(map(len, [*names, "parameter"]))
    lines.append(f"{'parameter':{width}} {'before':>10} {'fitted':>10} {'std. error':>10}   95 % interval")
    for item in found.fitted:
        lines.append(
            f"{item.parameter.name:{width}} {item.parameter.start:>10.6g} {item.value:>10.6g} "
            f"{item.error:>10.3g}   {item.low:.6g} to {item.high:.6g} {item.parameter.unit}".rstrip()
        )
    sections: list[tuple[str, Sequence[Compared]]] = [("rows", [found.all_rows])]
    if found.held_out is not None:
        sections.append(("held out", [found.held_out]))
    sections += [
        ("held out in turn", found.by_split), ("by cause", found.by_cause), ("measured spans", found.spans),
    ]  # fmt: skip
    titles = "".join(f" {title:>18}" for title in ("median", "mean", "90th percentile"))
    head = f"{'|simulated - measured| / measured':34} {'rows':>5}{titles}"

    lines += ["", head]
    for title, items in sections:
        lines += [_line(f"{title}: {item.name}", item) for item in items]
    lines += [f"note: {note}" for note in notes_of(found)]
    return "\n".join(lines) + "\n"


def _line(name: str, item: Compared) -> str:
    pairs = (
        (item.before.median, item.after.median), (item.before.mean, item.after.mean),
        (item.before.p90, item.after.p90),
    )  # fmt: skip
    cells = " ".join(f"{f'{100 * before:.2f} -> {100 * after:.2f} %':>18}" for before, after in pairs)
    return f"{name:34} {item.before.rows:>5} {cells}"


def notes_of(found: Calibration) -> list[str]:
    """Return what a user should know of the fit."""
    notes = list(found.notes)
    for item in found.fitted:
        name = item.parameter.name
        if item.at_bound:
            notes.append(
                f"`{name}` ends at its bound {item.value:g}: --bound {name}=LO:HI gives it more room."
            )
        if item.high - item.low > LOOSE * abs(item.value):
            notes.append(f"`{name}` is hardly told by these rows: {item.low:.4g} to {item.high:.4g}.")
    if found.held_out is not None and found.held_out.after.mean > found.held_out.before.mean:
        notes.append("rows that were held out are further off than before: the fit does not carry over.")
    return notes


def json_of(found: Calibration) -> str:
    """Write all of it as JSON."""
    tree: dict[str, Any] = {
        "schema": 1,
        "data": {"file": found.data.path.name, "sha256": found.data.digest, "unit": found.data.unit},
        "platform": found.source,
        "simulations": found.runs,
        "parameters": [
            {
                "name": item.parameter.name, "unit": item.parameter.unit, "before": item.parameter.start,
                "fitted": item.value, "standard_error": item.error, "low": item.low, "high": item.high,
                "bounds": [item.parameter.low, item.parameter.high], "at_bound": item.at_bound,
            }
            for item in found.fitted
        ],
        "errors": {
            "fitted": asdict(found.all_rows),
            "held_out": None if found.held_out is None else asdict(found.held_out),
            "held_out_in_turn": [asdict(item) for item in found.by_split],
            "by_cause": [asdict(item) for item in found.by_cause],
            "spans": [asdict(item) for item in found.spans],
        },
        "rows": [
            {"name": row.name, "line": row.line, "measured": row.measured,
             "before": found.simulated[row.name][0], "after": found.simulated[row.name][1]}
            for row in found.data.rows
        ],
        "notes": notes_of(found),
    }  # fmt: skip
    return json.dumps(tree, indent=1) + "\n"


def check_text(name: str, found: Check) -> str:
    """Write one line on a platform that is held against measurements."""
    verdict = "within" if found.passed else "above"
    return (
        f"{name}: mean error {100 * found.errors.mean:.2f} % of {found.errors.rows} rows (median "
        f"{100 * found.errors.median:.2f} %, 90th percentile {100 * found.errors.p90:.2f} %), {verdict} "
        f"{100 * found.bound:.2f} %\n"
    )


def check_json(found: Check) -> str:
    """Return the same as JSON."""
    tree = {"schema": 1, "errors": asdict(found.errors), "bound": found.bound, "passed": found.passed}
    return json.dumps(tree, indent=1) + "\n"
