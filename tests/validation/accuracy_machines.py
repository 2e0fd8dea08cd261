"""Measured machines beside the model: the tables and pictures of docs/accuracy_machines.md and docs/machines.

usage: accuracy_machines.py KPUSIM [FOLDER]

FOLDER has one's own copies of the measurements of TPU v4, which have no licence and are not part of this
repository: tpuv4_hbm_copy.csv, tpuv4_gemm_f16.csv, tpuv4_elementwise.csv. Without it, their tables stay.
Cycles are simulated, so the pages are the same on every machine.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "docs" / "accuracy_machines.md"
PAGES = ROOT / "docs" / "machines"
DATA = ROOT / "tests" / "reference" / "silicon"
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e6c8a", "#e08e0b", "#555555", "#00798c")
PEERS = ("mnpusim", "timeloop", "maestro", "scalesim_v3")
Report = dict[str, Any]


class Study(NamedTuple):
    """A file of measurements, and the page that has its tables."""

    name: str
    file: str
    platform: str
    form: str  #: of the table of rows: own, peers, plain; none: classes alone
    picture: bool = False
    kept: bool = True  #: the file is part of the repository

    @property
    def page(self) -> Path:
        """Where its tables are."""
        return PAGES / f"{self.platform}.md"

    @property
    def drawing(self) -> Path:
        """Simulated over measured cycles."""
        return PAGES / f"{self.platform}.svg"


STUDIES = (
    Study("gemmini16", "gemmini16_moca_layers.csv", "gemmini16", "own", picture=True),
    Study("mapped_layers", "gemmini16_firesim_layers.csv", "gemmini16_big", "plain", picture=True),
    Study("mappings", "gemmini16_firesim_mappings.csv", "gemmini16_big", ""),
    Study("workloads", "tpuv3_pytorchsim_artifact.csv", "tpu_v3_core", "peers", picture=True),
    Study("copies", "tpuv4_hbm_copy.csv", "tpu_v4_core", "", kept=False),
    Study("products", "tpuv4_gemm_f16.csv", "tpu_v4_core", "", kept=False),
    Study("vector_work", "tpuv4_elementwise.csv", "tpu_v4_core", "", kept=False),
    Study("grid", "wormhole_gemm.csv", "wormhole", "plain"),
)


def report_of(kpusim: str, rows: Path, platform: str, *options: str) -> Report:
    """Return what `kpusim validate` says of a file, as JSON."""
    command = [kpusim, "validate", str(rows), "--platform", platform, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: Report = json.loads(done.stdout)
    return report


def percent(share: float) -> str:
    """Write it as "12.3 %"."""
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """Write it as "+12.3 %"."""
    return f"{100 * share:+.1f} %"


def table(head: str, rows: list[list[str]]) -> str:
    """Return a table of Markdown; columns of `head` are cut by |."""
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def class_cells(group: Report) -> list[str]:
    """Return a class of rows."""
    return [
        group["class"],
        str(group["rows"]),
        percent(group["median"]),
        percent(group["mean"]),
        percent(group["p90"]),
        signed(group["signed_mean"]),
        "-" if group["rank_correlation"] is None else f"{group['rank_correlation']:.3f}",
    ]


def class_table(report: Report) -> str:
    """Errors by class, and how pairs of mappings are ordered."""
    rows = [class_cells(group) for group in report["classes"]]
    text = table("class | rows | median | mean | p90 | signed mean | rank correlation", rows)
    pairs = report["pairs"]
    if pairs["all"] == 0:
        return text
    share = percent(pairs["ordered_as_measured"] / pairs["all"])
    said = f"{pairs['ordered_as_measured']} of {pairs['all']} pairs of mappings of one layer that differ by"
    return f"{text}\n\n{said} over 10 % are ordered as measured: {share}."


def cause_text(row: Report) -> str:
    """Shares of the array's cycles."""
    causes = row.get("causes")
    if not causes:
        return "-"
    stall = f" ({causes['largest_stall']})" if causes["largest_stall"] else ""
    names = ("useful", "fill_drain", "padding", "stalled")
    return " / ".join(f"{100 * causes[name]:.0f}" for name in names) + stall


def peer_errors(row: Report) -> list[str]:
    """Return the errors of the other simulators, against the same measurement."""
    others = row.get("others", {})
    return [signed(others[name] / row["measured"] - 1) if name in others else "-" for name in PEERS]


def row_cells(row: Report, form: str) -> list[str]:
    """Return a row of the long table."""
    cells = [
        row["row"],
        f"{row['measured']:.0f}",
        f"{row['simulated']:.0f}" if "simulated" in row else "-",
        signed(row["error"]) if "error" in row else "-",
    ]
    if form == "own":
        cells[2:2] = [percent(row["noise"])]
        cells.append(f"{row['own_choice']:.0f}" if "own_choice" in row else "-")
    remark = row["remark"]
    if form == "peers":
        cells += peer_errors(row)
        remark = remark.split("; mnpusim")[0] if not remark.startswith("mnpusim") else ""
    return [*cells, cause_text(row), remark]


def peer_text(report: Report) -> str:
    """Mean errors of the rows that all simulators have, ours first."""
    rows = [
        row
        for row in report["rows"]
        if "error" in row and all(name in row.get("others", {}) for name in PEERS)
    ]
    ours = percent(sum(abs(row["error"]) for row in rows) / len(rows))
    theirs = [
        percent(sum(abs(row["others"][name] / row["measured"] - 1) for row in rows) / len(rows))
        for name in PEERS
    ]
    head = (
        f"mean of the {len(rows)} rows that all have | kpusim | mNPUsim | Timeloop | MAESTRO | SCALE-Sim v3"
    )
    return table(head, [["abs. error", ours, *theirs]])


HEADS = {
    "own": "row | measured | noise | simulated | error | own choice",
    "plain": "row | measured | simulated | error",
    "peers": "row | measured | simulated | error | mNPUsim | Timeloop | MAESTRO | SCALE-Sim v3",
}


def row_table(report: Report, form: str) -> str:
    """Return every row."""
    head = HEADS[form] + " | useful / fill / padding / stalled, % | remark"
    return table(head, [row_cells(row, form) for row in report["rows"]])


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


def marks_of(name: str) -> tuple[str, str]:
    """Between which a page has what the script writes."""
    return f"<!-- {name}: written by accuracy_machines.py -->", f"<!-- {name}: end -->"


def replaced(page: Path, text: str, name: str, content: str) -> str:
    """Return the page with another table between the marks of this name."""
    marks = marks_of(name)
    pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"{page}: there is not one place for `{name}`")
    return pattern.sub(lambda _: f"{marks[0]}\n\n{content}\n\n{marks[1]}", text)


def part_of(page: Path, name: str) -> str:
    """Return what stands between the marks of this name."""
    marks = marks_of(name)
    return page.read_text(encoding="utf-8").split(marks[0])[1].split(marks[1])[0]


def last_class(study: Study) -> list[str]:
    """Cells of the class of all rows in the study's page."""
    lines = [
        line
        for line in part_of(study.page, f"{study.name} classes").splitlines()
        if line.startswith("| all |")
    ]
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


def summary() -> str:
    """Return all studies, from their pages."""
    rows = []
    for study in STUDIES:
        cells = last_class(study)
        rows.append(
            [f"[{study.platform}](machines/{study.platform}.md)", f"`{study.file}`", *cells[1:5], cells[6]]
        )
    return table("machine | measurements | rows | median | mean | p90 | rank correlation", rows)


def main() -> None:
    """Write the tables and pictures of the pages."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    for study in STUDIES:
        if not study.kept and len(sys.argv) == 2:
            continue
        folder = DATA if study.kept else Path(sys.argv[2])
        options = () if study.form == "own" else ("--no-own-choice",)
        report = report_of(sys.argv[1], folder / study.file, study.platform, *options)
        page = study.page
        text = replaced(page, page.read_text(encoding="utf-8"), f"{study.name} classes", class_table(report))
        if study.form:
            text = replaced(page, text, f"{study.name} rows", row_table(report, study.form))
        if study.form == "peers":
            text = replaced(page, text, "peers", peer_text(report))
        page.write_text(text, encoding="utf-8")
        if study.picture:
            study.drawing.write_text(picture(report), encoding="utf-8")
    MAIN.write_text(replaced(MAIN, MAIN.read_text(encoding="utf-8"), "machines", summary()), encoding="utf-8")


if __name__ == "__main__":
    main()
