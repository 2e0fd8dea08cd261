"""Measured machines beside the model: the tables and pictures of docs/accuracy_machines.md.

usage: accuracy_machines.py KPUSIM

Cycles are simulated, so the page is the same on every machine.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy_machines.md"
PICTURE = ROOT / "docs" / "machines" / "gemmini16.svg"
ROWS = ROOT / "tests" / "reference" / "silicon" / "gemmini16_moca_layers.csv"
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e6c8a", "#e08e0b", "#555555", "#00798c")
Report = dict[str, Any]


def report_of(kpusim: str, rows: Path, *options: str) -> Report:
    """What `kpusim validate` says of a file, as JSON."""
    command = [kpusim, "validate", str(rows), "--platform", "gemmini16", "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: Report = json.loads(done.stdout)
    return report


def percent(share: float) -> str:
    """As "12.3 %"."""
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """As "+12.3 %"."""
    return f"{100 * share:+.1f} %"


def table(head: str, rows: list[list[str]]) -> str:
    """A table of Markdown; columns of `head` are cut by |."""
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def class_table(report: Report) -> str:
    """Errors by class."""
    rows = [
        [
            group["class"],
            str(group["rows"]),
            percent(group["median"]),
            percent(group["mean"]),
            percent(group["p90"]),
            signed(group["signed_mean"]),
            "-" if group["rank_correlation"] is None else f"{group['rank_correlation']:.3f}",
        ]
        for group in report["classes"]
    ]
    return table("class | rows | median | mean | p90 | signed mean | rank correlation", rows)


def row_cells(row: Report) -> list[str]:
    """A row of the long table."""
    causes = row.get("causes")
    ours = "-"
    if causes:
        stall = f" ({causes['largest_stall']})" if causes["largest_stall"] else ""
        names = ("useful", "fill_drain", "padding", "stalled")
        ours = " / ".join(f"{100 * causes[name]:.0f}" for name in names) + stall
    return [
        row["row"],
        f"{row['measured']:.0f}",
        percent(row["noise"]),
        f"{row['simulated']:.0f}" if "simulated" in row else "-",
        signed(row["error"]) if "error" in row else "-",
        f"{row['own_choice']:.0f}" if "own_choice" in row else "-",
        ours,
        row["remark"],
    ]


def row_table(report: Report) -> str:
    """Every row."""
    head = "row | measured | noise | simulated | error | own choice"
    head += " | useful / fill / padding / stalled, % | remark"
    return table(head, [row_cells(row) for row in report["rows"]])


def picture(report: Report) -> str:
    """Simulated over measured cycles, logarithmic; lines where both are equal and where they are 20 % off."""
    side, margin = 480, 50
    shown = [row for row in report["rows"] if row["counted"]]
    values = [row[axis] for row in shown for axis in ("measured", "simulated")]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def at(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * side

    def line(factor: float, colour: str) -> str:
        ends = [(10.0**low, 10.0**low * factor), (10.0**high, 10.0**high * factor)]
        (x1, y1), (x2, y2) = [(margin + at(x), margin + side - at(y)) for x, y in ends]
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'

    width = side + 2 * margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {width}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{width}" height="{width}" fill="white"/>',
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}" fill="none" stroke="#999"/>',
        line(1.2, "#ddd"), line(0.8, "#ddd"), line(1.0, "#999"),
    ]  # fmt: skip
    for power in range(low, high + 1):
        x = margin + at(10.0**power)
        y = margin + side - at(10.0**power)
        parts.append(f'<text x="{x:.1f}" y="{margin + side + 15}" text-anchor="middle">1e{power}</text>')
        parts.append(f'<text x="{margin - 5}" y="{y:.1f}" text-anchor="end">1e{power}</text>')
    middle = f'x="{margin + side / 2}" y="{width - 12}" text-anchor="middle"'
    parts.append(f"<text {middle}>measured cycles</text>")
    parts.append(f'<text x="{margin}" y="{margin - 8}">simulated cycles</text>')
    classes = sorted({row["class"] for row in shown})
    for number, name in enumerate(classes):
        colour = COLOURS[number % len(COLOURS)]
        y = margin + 16 + 15 * number
        parts.append(f'<circle cx="{margin + 12}" cy="{y - 4}" r="3" fill="{colour}"/>')
        parts.append(f'<text x="{margin + 20}" y="{y}">{name}</text>')
        for row in (row for row in shown if row["class"] == name):
            place = f'cx="{margin + at(row["measured"]):.1f}" cy="{margin + side - at(row["simulated"]):.1f}"'
            parts.append(f'<circle {place} r="3" fill="{colour}" fill-opacity="0.6"/>')
    return "\n".join([*parts, "</svg>", ""])


def replaced(text: str, name: str, content: str) -> str:
    """The page with another table between the marks of this name."""
    marks = f"<!-- {name}: written by accuracy_machines.py -->", f"<!-- {name}: end -->"
    pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"{PAGE}: there is not one place for `{name}`")
    return pattern.sub(lambda _: f"{marks[0]}\n\n{content}\n\n{marks[1]}", text)


def main() -> None:
    """Write the page's tables and picture."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    report = report_of(sys.argv[1], ROWS)
    text = replaced(PAGE.read_text(encoding="utf-8"), "classes", class_table(report))
    PAGE.write_text(replaced(text, "rows", row_table(report)), encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(report), encoding="utf-8")


if __name__ == "__main__":
    main()
