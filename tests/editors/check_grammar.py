"""Tokenises every NEM text of the repository with the TextMate grammar, and compares scopes with a lexer.

usage: check_grammar.py path/to/kpusim [FOLDER...]

FOLDERs hold further NEM files: build/release/tests/conformance/nem has those of the conformance tests.
The engine is textmate-grammar-python; the lexer below shares nothing with the grammar. Opcodes are those of
`kpusim list opcodes` and of the language, and the grammar must name exactly them; docs/nem/opcode_pages.py
writes them into it.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GRAMMAR = ROOT / "editors" / "nem.tmLanguage.json"

KEYWORDS = {"program", "device", "const", "buffer", "let", "loop", "endloop", "in", "out", "include", "wait"}
KEYWORDS |= {"region", "mod"}
TYPES = {"i4", "i8", "i16", "i32", "u8", "u16", "u32", "f16", "bf16", "f32", "posit8", "posit16"}
TYPES |= {
    "f8e4m3",
    "f8e5m2",
    "f6e2m3",
    "f6e3m2",
    "f4e2m1",
    "posit8_es1",
    "posit8_es2",
    "posit16_es0",
    "posit16_es2",
}
LEVELS = {"DDR", "L2", "L1"}
LINES_AT_ONCE = 100

# Opcodes of the language, whether or not this build executes them.
LANGUAGE = """
transfer store gemm matmul conv2d conv1d conv3d depthwise_conv2d relu sigmoid tanh exp log sqrt abs neg
gelu silu leaky_relu add sub mul div min max pow clamp maxpool avgpool transpose reshape slice concat
split pad gather reduce_sum reduce_max reduce_min argmax argmin layernorm rmsnorm softmax log_softmax
cast quantize dequantize compute
"""

TOKEN = re.compile(
    r"""(?P<meta>\#!(?!/)[^\n]*) | (?P<comment>\#[^\n]*) | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<decorator>@\s*[A-Za-z_]\w*)
      | (?P<call>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*?)(?=\s*\.\s*(?:async|sync)\b)
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?)(?!\w) | (?P<bad>\d+[A-Za-z_]\w*) | (?P<integer>\d+)
      | (?P<form>(?<=\.)(?:async|sync)\b) | (?P<name>[A-Za-z_]\w*) | (?P<other>\S)""",
    re.VERBOSE | re.ASCII,
)
SCOPES = {
    "meta": "meta.preprocessor",
    "comment": "comment.line",
    "string": "string.quoted",
    "decorator": "entity.name.function.decorator",
    "float": "constant.numeric.float",
    "integer": "constant.numeric.integer",
    "bad": "invalid.illegal.number",
    "form": "storage.modifier.async",
}


def opcodes_of(kpusim: str) -> set[str]:
    """Return the names of the opcode table, and of the language."""
    text = subprocess.run([kpusim, "list", "opcodes", "--json"], check=True, capture_output=True).stdout
    return {row["opcode"] for row in json.loads(text)} | set(LANGUAGE.split())


def opcode_rule(grammar: dict) -> dict:
    """Return the grammar's rule for opcodes."""
    return grammar["repository"]["call"]["patterns"][0]


def corpus(more: list[Path]) -> Iterator[tuple[str, str]]:
    """Name and text of every NEM file, and of every NEM block of the language guide."""
    folders = [ROOT / "examples", ROOT / "platforms", ROOT / "isa" / "nem", *more]
    for path in sorted(path for folder in folders for path in folder.rglob("*.nem")):
        yield str(path), path.read_bytes().decode("utf-8", errors="replace")
    for page in sorted((ROOT / "docs" / "nem").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```nem[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            yield f"{page.relative_to(ROOT)}:{line}", block.group(1)


def wanted_scope(kind: str, text: str, opcodes: set[str]) -> str | None:
    """Start of a scope that a token must carry; None where the grammar is free."""
    if kind == "call":
        return "support.function.opcode" if text in opcodes else None
    if kind == "name":
        if text in KEYWORDS:
            return "keyword."
        return "storage.type" if text in TYPES else "support.constant.level" if text in LEVELS else None
    return SCOPES.get(kind)


def unique_lines(
    corpus_texts: Iterator[tuple[str, str]], failures: list[str], least: int = 50
) -> tuple[int, dict[str, str]]:
    """Count of texts, and where each different line stands first. No construct of the grammar spans lines."""
    texts, places = 0, {}
    for name, text in corpus_texts:
        texts += 1
        for number, line in enumerate(re.split(r"\r?\n", text), 1):
            if line.strip():
                places.setdefault(line, f"{name}:{number}")
    if texts < least:
        failures.append(f"only {texts} texts were found")
    return texts, places


def scopes_of(parser: object, lines: list[str]) -> Iterator[tuple[str, dict[int, list[str]]]]:
    """Each line with the scopes of its characters, by column."""
    for start in range(0, len(lines), LINES_AT_ONCE):
        part = lines[start : start + LINES_AT_ONCE]
        found: list[dict[int, list[str]]] = [{} for _ in part]
        element = parser.parse_string("\n".join(part) + "\n")
        for (line, column), content, scopes in element.flatten() if element else []:
            for offset in range(len(content.rstrip("\n"))):
                found[line][column + offset] = scopes
        yield from zip(part, found, strict=True)


def check_line(
    place: str,
    line: str,
    found: dict[int, list[str]],
    tokens: re.Pattern[str],
    wanted_of: Callable[[str, str], str | None],
) -> tuple[int, list[str]]:
    """Count of tokens compared, and what differs; `wanted_of` the kind and text of a token."""
    count, failures = 0, []
    for token in tokens.finditer(line):
        kind = token.lastgroup or "other"
        wanted = wanted_of(kind, token.group(kind))
        bad_escape = kind == "string" and re.search(r"\\[^nt\\\"]", re.sub(r"\\[nt\\\"]", "", token.group()))
        scopes = [scope for column in range(*token.span()) for scope in found.get(column, [])]
        where = f"{place}:{token.start() + 1}: `{token.group()[:40]}`"
        if wanted is not None:
            count += 1
            if not any(scope.startswith(wanted) for scope in found.get(token.start(), [])):
                failures.append(f"{where} has {found.get(token.start(), [])}, not {wanted}")
        if kind != "bad" and not bad_escape and any("invalid" in scope for scope in scopes):
            failures.append(f"{where} is called invalid")
    return count, failures


def main() -> int:
    """Compare everything; 1 when anything differs."""
    kpusim, *folders = sys.argv[1:]
    more = [Path(folder).resolve() for folder in folders]
    logging.disable(logging.WARNING)  # the engine reports every blank that has no scope
    from textmate_grammar.parsers.base import LanguageParser

    grammar = json.loads(GRAMMAR.read_text(encoding="utf-8"))
    opcodes = opcodes_of(kpusim)
    listed = re.search(r"\(\?:(.*?)\)\(\?=", opcode_rule(grammar)["match"])
    named = set(listed.group(1).replace("\\", "").split("|")) if listed else set()
    failures = []
    if named != opcodes:
        command = f"python3 docs/nem/opcode_pages.py --update {kpusim}"
        failures.append(
            f"grammar and opcode table differ in {', '.join(sorted(named ^ opcodes))}. Fix: run {command}"
        )
    parser = LanguageParser(grammar)
    texts, places = unique_lines(corpus(more), failures)
    tokens = 0
    for line, found in scopes_of(parser, list(places)):
        count, differences = check_line(
            places[line], line, found, TOKEN, lambda kind, text: wanted_scope(kind, text, opcodes)
        )
        tokens += count
        failures += differences
    for failure in failures[:50]:
        print(failure)
    print(f"{texts} texts, {len(places)} different lines, {tokens} tokens compared, {len(failures)} failures")
    return 1 if failures or tokens < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
