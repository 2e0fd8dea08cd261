"""Draws a picture of README.md: a block diagram of the device, and what each unit did when, from one run.

usage: overview.py KPUSIM [--check]

Blocks and lines are those of `kpusim list modules`, which lists the bindings of the model itself; shares and
stretches of time are the run's own. --check compares with the picture that is there.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("overview.svg")
PROGRAM, PLATFORM = "examples/gemm_relu/gemm_relu.nem", "npm_lite"
FIRST, LAST = 0, 9000  #: core cycles of the timeline
KINDS = {
    "useful work": "#2a9d4a",
    "fill, padding, overhead": "#5fb3c9",
    "waits for memory": "#c8423a",
    "other waits": "#e5b73b",
    "idle": "#e9e9e9",
}
WIDTH, LEFT, COLUMNS, ROW = 960, 92, 840, 19
#: Causes that begin with these are waits for memory.
MEMORY = ("stalled.operand_", "stalled.refresh", "stalled.memory")
TITLES = {
    "array_unit": "systolic array",
    "vector_unit": "vector unit",
    "dma_unit": "DMA",
    "memory": "memory",
    "sequencer": "sequencer: starts tasks, waits for tokens",
    "interconnect": "interconnect: links and ports",
}


class Module(NamedTuple):
    """A module of the device."""

    name: str
    kind: str


def kind_of(cause: str) -> str:
    """The kind of time that a cause is, as in the bars of reports."""
    names = list(KINDS)
    if cause in ("busy.useful", "busy.compute"):
        return names[0]
    if cause.startswith("busy."):
        return names[1]
    if cause.startswith(MEMORY):
        return names[2]
    return names[3] if cause.startswith("stalled.") else names[4]


def run(kpusim: str, folder: Path) -> tuple[dict[str, float], list[dict[str, str]]]:
    """Statistics of the run, and its stretches of time."""
    stalls = folder / "stalls.csv"
    words = [kpusim, "run", PROGRAM, "--platform", PLATFORM, "--fill", "random:1", "--quiet"]
    subprocess.run([*words, "-o", folder / "run", "--stalls", stalls], cwd=ROOT, check=True)
    stats = json.loads((folder / "run/stats.json").read_text())["stats"]
    with open(stalls, newline="") as file:
        return {key: row["value"] for key, row in stats.items()}, list(csv.DictReader(file))


def device(kpusim: str) -> tuple[list[Module], list[tuple[str, str]]]:
    """Its modules, and which is bound to which."""
    words = [kpusim, "list", "modules", "--platform", PLATFORM]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    modules = [Module(*found) for found in re.findall(r"^  (\w+) \((\w+)\)$", text, re.MULTILINE)]
    return modules, re.findall(r"^  (\w+)\.\w+ -> (\w+)\.\w+$", text, re.MULTILINE)


def box(x: float, y: float, width: float, height: float, lines: list[str], parts: list[float]) -> str:
    """A block: its name, what it is, and a bar of the kinds of its time."""
    text = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" class="b"/>'
    middle, first = x + width / 2, y + (17 if len(lines) > 1 else height / 2 + 4)
    for number, line in enumerate(lines):
        style = "n" if number == 0 else "t"
        text += f'<text x="{middle}" y="{first + 14 * number:g}" class="{style}">{escape(line)}</text>'
    start = x + 8
    for part, colour in zip(parts, KINDS.values(), strict=False):
        if wide := part * (width - 16):
            text += (
                f'<rect x="{start:.1f}" y="{y + height - 13}" width="{wide:.1f}" height="7" fill="{colour}"/>'
            )
            start += wide
    return text


def shares(stats: dict[str, float], unit: str) -> list[float]:
    """Return what a unit spent in each kind of time."""
    found = dict.fromkeys(KINDS, 0.0)
    for key, value in stats.items():
        if key.startswith(f"units.{unit}.") and re.fullmatch(
            r"(busy|stalled|idle)\.\w+", rest := key.split(".", 2)[2]
        ):
            found[kind_of(rest)] += float(value)
    total = sum(found.values())
    return [part / total for part in found.values()] if total else []


def diagram(modules: list[Module], bindings: list[tuple[str, str]], stats: dict[str, float]) -> str:
    """Sequencer above the units, interconnect below them, memories below that; a line for each binding."""
    by_kind = defaultdict(list)
    for module in modules:
        by_kind[module.kind].append(module)
    units = by_kind["array_unit"] + by_kind["vector_unit"] + by_kind["dma_unit"]
    levels = {"e0_l1": "L1 scratchpad", "l2": "L2 scratchpad"}
    memories = sorted(by_kind["memory"], key=lambda module: (module.name not in levels, module.name))
    places: dict[str, tuple[float, float]] = {}
    text = ""
    for row, names, height in ((96, units, 52), (252, memories, 52)):
        step = (WIDTH - 24) / len(names)
        for number, module in enumerate(names):
            wide = min(step - 12, 190)
            x = 12 + step * number + (step - wide) / 2
            title = levels.get(module.name, "DDR channel") if module.kind == "memory" else TITLES[module.kind]
            text += box(
                round(x, 1), row, round(wide, 1), height, [module.name, title], shares(stats, module.name)
            )
            places[module.name] = (x + wide / 2, row)
    [sequencer] = by_kind["sequencer"]
    [links] = by_kind["interconnect"]
    text += box(160, 24, WIDTH - 320, 34, [f"{sequencer.name}   {TITLES['sequencer']}"], [])
    text += box(24, 186, WIDTH - 48, 30, [f"{links.name}   {TITLES['interconnect'].split(': ')[1]}"], [])
    lines = ""
    for first, second in bindings:
        for name, other in ((first, second), (second, first)):
            if name not in places:
                continue
            x, y = places[name]
            if other == sequencer.name:
                lines += f"M{max(170, min(x, WIDTH - 170)):.0f} 58L{x:.0f} {y}"
            elif other == links.name:
                lines += f"M{x:.0f} {y + 52}V186" if y < 186 else f"M{x:.0f} 216V{y}"
    return f'<path d="{lines}" class="l"/>{text}'


def timeline(rows: list[dict[str, str]], units: list[str], top: int) -> str:
    """A row for each unit: of each column of cycles the kind of time that most of it was."""
    per_column = (LAST - FIRST) / COLUMNS
    spent: dict[str, list[dict[str, float]]] = {
        unit: [defaultdict(float) for _ in range(COLUMNS)] for unit in units
    }
    for row in rows:
        start, end = int(row["start_ps"]) / 1000 - FIRST, int(row["end_ps"]) / 1000 - FIRST
        if row["unit"] not in spent or end <= 0 or start >= LAST - FIRST:
            continue
        start, end = max(start, 0), min(end, LAST - FIRST)
        for column in range(int(start / per_column), min(COLUMNS, int(end / per_column) + 1)):
            inside = min(end, (column + 1) * per_column) - max(start, column * per_column)
            spent[row["unit"]][column][kind_of(row["cause"])] += max(inside, 0)
    text = ""
    paths: dict[str, str] = defaultdict(str)
    for number, (unit, columns) in enumerate(spent.items()):
        y = top + ROW * number
        text += f'<text x="{LEFT - 8}" y="{y + 12}" class="r">{escape(unit)}</text>'
        kinds = [
            max(KINDS, key=lambda kind, held=held: held.get(kind, 0.0)) if held else "idle"
            for held in columns
        ]
        begin = 0
        for column in range(1, COLUMNS + 1):
            if column == COLUMNS or kinds[column] != kinds[begin]:
                paths[kinds[begin]] += f"M{LEFT + begin} {y}h{column - begin}v15h-{column - begin}z"
                begin = column
    text += "".join(f'<path d="{path}" fill="{KINDS[kind]}"/>' for kind, path in paths.items())
    bottom = top + ROW * len(spent)
    for cycle in range(FIRST, LAST + 1, 1000):
        x = LEFT + (cycle - FIRST) / per_column
        text += f'<path d="M{x:.0f} {bottom}v4" class="l"/>'
        text += f'<text x="{x:.0f}" y="{bottom + 16}" class="t">{cycle:,}</text>'
    return text


def picture(kpusim: str) -> str:
    """The whole of it, as SVG."""
    with tempfile.TemporaryDirectory() as name:
        stats, rows = run(kpusim, Path(name))
    modules, bindings = device(kpusim)
    busy = {key.split(".")[1] for key in stats if key.startswith("units.")}
    units = [module.name for module in modules if module.name in busy]
    head = f"gemm_relu on {PLATFORM}: {stats['cycles.total']:,} cycles, {stats['energy.total_uj']:.0f} uJ"
    second = f"What each unit did, core cycles {FIRST:,} to {LAST:,}: every cycle of every unit has one cause"
    first = f"The device. Bars: where the time of the whole run went. {head}"
    text = f'<text x="12" y="14" class="h">{escape(first)}</text>'
    text += diagram(modules, bindings, stats)
    text += f'<text x="12" y="336" class="h">{escape(second)}</text>'
    text += timeline(rows, units, 346)
    height = 346 + ROW * len(units) + 48
    x = LEFT
    for kind, colour in KINDS.items():
        text += f'<rect x="{x}" y="{height - 20}" width="12" height="12" fill="{colour}"/>'
        text += f'<text x="{x + 17}" y="{height - 10}" class="k">{kind}</text>'
        x += 40 + 7 * len(kind)
    style = (
        "text{font:12px sans-serif;fill:#222;text-anchor:middle}.h,.k{text-anchor:start}"
        ".h{font-weight:bold;font-size:13px}.n{font-weight:bold}.t{font-size:11px;fill:#555}.r{text-anchor:end}"
        ".b{fill:#f7f7f7;stroke:#888}.l{stroke:#999;fill:none}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{text}</svg>\n'
    )


def main() -> None:
    """Writes it, or compares it."""
    text = picture(str(Path(sys.argv[1]).resolve()))
    if "--check" not in sys.argv:
        PICTURE.write_text(text, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != text:
        sys.exit(
            f"{PICTURE}: the run is another one now. Fix: python3 {Path(__file__).relative_to(ROOT)} KPUSIM."
        )


if __name__ == "__main__":
    main()
