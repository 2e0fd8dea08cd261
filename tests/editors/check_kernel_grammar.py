"""Check kernels (`.kern`) as check_grammar.py does: scopes of every kernel, words of the tables.

usage: check_kernel_grammar.py path/to/kpusim
       check_kernel_grammar.py --update path/to/kpusim

Statements and operations are those of `kpusim list kernels`; the grammar must name exactly
them, and docs/kernels.md all of them. `--update` writes them into the grammar.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator

from check_grammar import ROOT, check_line, scopes_of, unique_lines

GRAMMAR = ROOT / "editors" / "kern.tmLanguage.json"
PAGE = ROOT / "docs" / "kernels.md"
TYPES = "bool u32 i32 u64 f32 u8 i8 u16 i16 f16 bf16 i4 bytes".split()
ACCESS = "read write read_write uniform workgroup output".split()
HEAD = "kernel endkernel rules workgroup else in".split()
TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?P<string>"[^"\n]*")
      | (?P<float>\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+)(?:f32)?)(?!\w)
      | (?P<integer>(?:0[xX][0-9a-fA-F]+|\d+)(?:[ui]32|u64)?)(?!\w) | (?P<bad>\d\w+)
      | (?P<axis>(?:gid|wgid|lid)(?=\s*\.)) | (?P<call>[A-Za-z_]\w*(?=\s*[({]))
      | (?P<name>[A-Za-z_]\w*) | (?P<other>\S)""",
    re.VERBOSE | re.ASCII,
)
SCOPES = {
    "comment": "comment.line",
    "string": "string.quoted",
    "float": "constant.numeric.float",
    "integer": "constant.numeric.integer",
    "bad": "invalid.illegal.number",
    "axis": "variable.language",
}


def tables(kpusim: str) -> dict[str, set[str]]:
    """Return the words of each rule of the grammar.

    Those of statements, of the head and of ends of blocks; statements with operands in parentheses;
    operations.
    """
    text = subprocess.run([kpusim, "list", "kernels", "--json"], check=True, capture_output=True).stdout
    rules = {"statement": set(HEAD), "command": set(), "operation": {"bits"}}
    for row in json.loads(text):
        name, form = row["name"], row["form"]
        if form.endswith("(...)") and form.startswith("statement"):
            rules["command"].add(name)
        elif form.startswith("statement"):
            rules["statement"] |= {name, form.partition(" to ")[2]} - {"", "assign", "store"}
        elif re.match(rf"{name}[({{]", form):
            rules["operation"].add(name)
    return rules


def corpus() -> Iterator[tuple[str, str]]:
    """Name and text of every file of kernels, and of every kernel on the page."""
    for path in sorted(
        path for folder in ("examples", "compiler") for path in (ROOT / folder).rglob("*.kern")
    ):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    for block in re.finditer(r"^```text \w+\.kern\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        yield f"docs/kernels.md:{page.count(chr(10), 0, block.start()) + 1}", block.group(1)


def listed(grammar: dict, rule: str) -> set[str]:
    """Return the words of a rule."""
    found = re.search(r"\(\?:(.*?)\)", grammar["repository"][rule]["match"])
    return set(found.group(1).split("|")) if found else set()


def update(kpusim: str) -> None:
    """Write the tables' words into the grammar, longest first."""
    text = GRAMMAR.read_text(encoding="utf-8")
    grammar = json.loads(text)
    for rule, words in tables(kpusim).items():
        match = grammar["repository"][rule]["match"]
        new = re.sub(
            r"\(\?:.*?\)", f"(?:{'|'.join(sorted(words, key=lambda w: (-len(w), w)))})", match, count=1
        )
        text = text.replace(json.dumps(match), json.dumps(new))
    GRAMMAR.write_text(text, encoding="utf-8")


def main() -> int:
    """Compare everything; 1 when anything differs."""
    if sys.argv[1] == "--update":
        update(sys.argv[2])
        return 0
    rules = tables(sys.argv[1])
    logging.disable(logging.WARNING)  # the engine reports every blank that has no scope
    from textmate_grammar.parsers.base import LanguageParser

    grammar = json.loads(GRAMMAR.read_text(encoding="utf-8"))
    failures = []
    for rule, words in rules.items():
        if listed(grammar, rule) != words:
            failures.append(
                f"grammar and table differ in {listed(grammar, rule) ^ words}. Fix: run with --update"
            )
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    page = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", prose))))
    failures += [
        f"docs/kernels.md lacks `{word}`. Fix: write it there"
        for word in set().union(*rules.values()) - page - set(HEAD)
    ]

    def wanted(kind: str, text: str) -> str | None:
        if kind == "call" and text in rules["operation"]:
            return "support.function"
        if kind in ("call", "name"):
            keyword = text in rules["statement"] and text not in ACCESS
            if keyword or (kind == "call" and text in rules["command"]):
                return "keyword."
            return "storage.type" if text in TYPES else None
        return SCOPES.get(kind)

    parser = LanguageParser(grammar)
    texts, places = unique_lines(corpus(), failures, 8)
    tokens = 0
    for line, found in scopes_of(parser, list(places)):
        count, differences = check_line(places[line], line, found, TOKEN, wanted)
        tokens += count
        failures += differences
    for failure in failures[:50]:
        print(failure)
    print(f"{texts} texts, {len(places)} different lines, {tokens} tokens compared, {len(failures)} failures")
    return 1 if failures or tokens < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
