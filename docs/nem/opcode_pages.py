"""Keeps the facts of opcodes.md equal to the opcode table; the paragraphs between them are written by hand.

usage: opcode_pages.py KPUSIM            exit 1 when the page is stale
       opcode_pages.py --update KPUSIM   rewrites the facts, keeps the paragraphs

Each opcode has a section `### name`, a paragraph, and a block of facts between two marks. A new opcode gets a
section in its class, whose paragraph is to be written: the check fails while it is missing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "opcodes.md"
BEGIN, END = "<!-- facts -->", "<!-- end of facts -->"
MISSING = "(to be written)"
CLASSES = {
    "movement": "Movement",
    "gemm": "Matrix products",
    "conv": "Convolutions",
    "elementwise": "Elementwise",
    "pooling": "Pooling",
    "norm": "Normalization",
    "softmax": "Softmax",
    "view": "Views",
    "reduction": "Reductions",
    "convert": "Conversions",
    "refused": "Not executed",
}


def group(row: dict) -> str:
    """The class under which an opcode stands."""
    return row["status"] if row["status"] in ("movement", "refused") else row["class"]


def types(row: dict) -> str:
    """Variants, those of every device in bold."""
    if row["status"] == "movement":
        return "any"
    names = [f"**{v[:-1]}**" if v.endswith("!") else v for v in row["variants"]]
    return " ".join(name.replace("<", "\\<") for name in names) or "none"


def attributes(row: dict) -> str:
    """Name, kind, default, meaning."""
    texts = []
    for a in row["attribute_details"]:
        default = f" = {a['default']}" if a["default"] else "" if a["required"] else ", optional"
        texts.append(f"`{a['name']}` ({a['kind']}{default}): {a['meaning']}")
    return "; ".join(texts) or "none"


def cycles(row: dict) -> str:
    """The default of the platform's cost table, or where the time comes from."""
    if row["status"] == "refused":
        return "-"
    if row["status"] == "movement":
        return "model/dma/dma_unit.md; a store: model/vector/vector_unit.md"
    if row["unit"] == "NMU":
        return "model/timing/systolic.md"
    per = {"view": "port width of bytes", "pooling": "element of a window"}.get(
        row["class"], "element and lane"
    )
    passes = f", {row['passes']} passes" if row["passes"] > 1 else ""
    return f"{row['cycles_per_element']:g} per {per}{passes} (`engine.vector.cost[{row['opcode']}]`)"


def facts(row: dict) -> str:
    """The generated block of one opcode."""
    notes = []
    if row["status"] == "future":
        notes.append(
            'future: runs on every device, flagged "not in device" where the device does not list it'
        )
    if row["in_place"]:
        notes.append("Y may be the addend C" if row["opcode"].endswith(".acc") else "Y may be an input")
    if row["integers_need_quant"]:
        notes.append("integers only with quant")
    lines = [
        ("operands", f"`{row['operands']}`"),
        ("formula", f"`{row['formula']}`".replace("|", "\\|")),
        ("attributes", attributes(row)),
        ("types", types(row)),
        ("unit", row["unit"]),
        ("cycles", cycles(row)),
        ("energy", ", ".join(f"`{e}`" for e in row["energy"]) if row["status"] != "refused" else "-"),
    ]
    if notes:
        lines.append(("notes", "; ".join(notes)))
    table = "\n".join(f"| {key} | {value} |" for key, value in lines)
    return f"{BEGIN}\n| | |\n|---|---|\n{table}\n{END}"


def paragraphs(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first class, and the paragraph of each opcode."""
    head = text.split("\n## ", 1)[0].rstrip()
    found = re.findall(rf"^### (\S+)\n\n(.*?)\n\n{BEGIN}", text, re.DOTALL | re.MULTILINE)
    return head, dict(found)


def page(rows: list[dict], text: str) -> str:
    """The page with fresh facts."""
    head, notes = paragraphs(text)
    parts = [head]
    for key, title in CLASSES.items():
        parts.append(f"## {title}")
        for row in rows:
            if group(row) == key:
                parts.append(f"### {row['opcode']}\n\n{notes.get(row['opcode'], MISSING)}\n\n{facts(row)}")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Checks or rewrites."""
    update = "--update" in sys.argv[1:]
    kpusim = next(a for a in sys.argv[1:] if not a.startswith("--"))
    listed = subprocess.run([kpusim, "list", "opcodes", "--json"], check=True, capture_output=True)
    text = PAGE.read_text() if PAGE.exists() else "# Opcodes"
    wanted = page(json.loads(listed.stdout), text)
    if update:
        PAGE.write_text(wanted)
    elif wanted != text:
        sys.exit("docs/nem/opcodes.md is stale. Fix: python3 docs/nem/opcode_pages.py --update KPUSIM")
    if MISSING in wanted:
        sys.exit(f"docs/nem/opcodes.md: an opcode has no paragraph ({MISSING}). Fix: write it.")


if __name__ == "__main__":
    main()
