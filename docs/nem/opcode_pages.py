"""Keeps what is generated from the opcode table equal to it: opcodes.md, and the editors' grammar.

usage: opcode_pages.py KPUSIM            exit 1 when one of them is stale
       opcode_pages.py --update KPUSIM   rewrites them

In opcodes.md each opcode has a section `### name`, with a block of facts between two marks. A paragraph
before the facts is written by hand, where there is more to say, and kept.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "opcodes.md"
GRAMMAR = Path(__file__).parents[2] / "editors" / "nem.tmLanguage.json"
BEGIN, END = "<!-- facts -->", "<!-- end of facts -->"
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
    """Return the class under which an opcode stands."""
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
    """Return the default of the platform's cost table, or where the time comes from."""
    if row["status"] == "refused":
        return "-"
    if row["status"] == "movement":
        return "model/dma/dma_unit.md; a store: model/vector/vector_unit.md"
    if row["unit"] == "NMU":
        return "model/timing/systolic.md"
    windows = any(a["name"] == "kernel_shape" for a in row["attribute_details"])
    per = "element of a window" if windows else "element and lane"
    if row["class"] == "view":
        per = "port width of bytes"
    passes = f", {row['passes']} passes" if row["passes"] > 1 else ""
    return f"{row['cycles_per_element']:g} per {per}{passes} (`engine.vector.cost[{row['opcode']}]`)"


def facts(row: dict) -> str:
    """Return the generated block of one opcode."""
    notes = []
    if row["origin"] == "extension":
        notes.append("an extension of kpusim: the language does not have it")
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
    """Split a text into what stands before the first class, and the paragraph of each opcode."""
    head = text.split("\n## ", 1)[0].rstrip()
    notes = {}
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = section.partition("\n")
        notes[name.strip()] = rest.partition(BEGIN)[0].strip()
    return head, notes


def page(rows: list[dict], text: str) -> str:
    """Return the page with fresh facts."""
    head, notes = paragraphs(text)
    parts = [head]
    for key, title in CLASSES.items():
        parts.append(f"## {title}")
        for row in rows:
            if group(row) == key:
                note = notes.get(row["opcode"])
                parts += [f"### {row['opcode']}", *([note] if note else []), facts(row)]
    return "\n\n".join(parts) + "\n"


def grammar(rows: list[dict], text: str) -> str:
    """Return the grammar with the opcodes of the table, longest first."""
    old = json.loads(text)["repository"]["call"]["patterns"][0]["match"]
    names = sorted((row["opcode"] for row in rows), key=lambda name: (-len(name), name))
    new = rf"\b(?:{'|'.join(re.escape(name) for name in names)})(?=\s*\.\s*(?:async|sync)\b)"
    return text.replace(json.dumps(old), json.dumps(new))


def main() -> None:
    """Checks or rewrites."""
    update = "--update" in sys.argv[1:]
    kpusim = next(a for a in sys.argv[1:] if not a.startswith("--"))
    listed = subprocess.run([kpusim, "list", "opcodes", "--json"], check=True, capture_output=True)
    rows = json.loads(listed.stdout)
    stale = []
    for path, generate in ((PAGE, page), (GRAMMAR, grammar)):
        text = path.read_text(encoding="utf-8")
        wanted = generate(rows, text)
        if update:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"stale: {', '.join(stale)}. Fix: python3 docs/nem/opcode_pages.py --update KPUSIM")


if __name__ == "__main__":
    main()
