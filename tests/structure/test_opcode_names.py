"""Names of opcodes in the compiler are names of the table.

usage: test_opcode_names.py KPUSIM

What the compiler asks of an opcode is a column of its row (isa/traits.hpp). Names are left where a formula is
recognised or made, as strings: a misspelt one would never match. Strings where a name stands must be those of
opcodes or of kernel operations; outside of the importers, names stand nowhere else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

#: Functions, with the place of the argument that is an opcode, or a list of them.
TAKERS = {
    "add": 0, "add_node": 0, "apply": 0, "become": 2, "binary": 0, "compute": 0, "emit": 0, "find_opcode": 0,
    "find_spec": 0, "has_unit_for": 0, "holds": 0, "is": 1, "is_any": 1, "is_named": 1, "is_supported": 1,
    "made_by": -1, "make_node": 0, "normalised": 1, "reduce": 0, "reduced": 2, "replace_node": 1, "takes": 0,
    "takes_groups": 1, "unary": 0,
}  # fmt: skip
#: What stands before a name: comparisons, and names that rules make.
COMPARED = re.compile(r"\bspec(?:\(\)|_)?\s*(?:\.|->)\s*name\s*(?:==|!=)\s*$")
MADE = re.compile(
    r"\breturn(?:[^;{}]*\?)?\s*$|\b(?:opcode|narrows)\s*=[^;]*$|push_back\(\s*\{[^,;]*$|(?<![.>])\bname\s*==\s*$"
)
#: Files with the second kind.
MAKERS = {
    "compiler/mapping/tiling.cpp",
    "compiler/passes/affine.cpp",
    "compiler/passes/fit/fit_lines.cpp",
    "compiler/passes/merge_groups.cpp",
    *(
        f"compiler/passes/rules/{rules}.cpp"
        for rules in ("activation_rules", "arithmetic_rules", "norm_forms")
    ),
}
#: Other places where a string with the name of an opcode stands: folder or file, and what is before it.
ELSEWHERE = {
    "compiler/kernels/operations.cpp": "rows of the table",
    "compiler/quantize/export": "tables of opcodes and operators of ONNX",
    "compiler/tile_schedule": "words of schedules",
    "compiler/scale_sim": "types of layers",
    "compiler/pipeline/typed.cpp": "the stage quantize",
    "compiler/graph/resizing.hpp": "modes of rounding",
}
#: Importers: names of operators and attributes of models are mixed with those of opcodes.
IMPORTERS = ("compiler/onnx", "compiler/pallas")


class Found(NamedTuple):
    """A string in a source."""

    file: str
    line: int
    text: str
    opcode: bool  #: it stands where a name of an opcode does


def blank(match: re.Match[str]) -> str:
    """As many blanks and line ends."""
    return re.sub(r"[^\n]", " ", match.group(0))


def takes_name(stack: list[tuple[str, int]]) -> bool:
    """Whether a string in these open calls is an argument that is a name, or in a list of names."""
    in_list = bool(stack) and stack[-1][0] == "{"
    function, place = stack[-2 if in_list else -1] if len(stack) > in_list else ("", 0)
    return TAKERS.get(function) in (place, -1) and in_list == (function == "is_any")


def strings(file: str, text: str) -> Iterator[Found]:
    """All string literals but those of comments and includes."""
    text = re.sub(r'//[^\n]*|#include[^\n]*|R"(\w*)\(.*?\)\1"', blank, text, flags=re.DOTALL)
    stack: list[tuple[str, int]] = []
    line, counted = 1, 0
    token = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|[()\[\]{},;]')
    for match in token.finditer(text):
        part, at = match.group(0), match.start()
        if part[0] == '"':
            before = text[max(0, at - 120) : at]
            line, counted = line + text.count("\n", counted, at), at
            named = COMPARED.search(before) or (file in MAKERS and MADE.search(before)) or takes_name(stack)
            of_model = part == '""' or (file.startswith(IMPORTERS) and part[1].isupper())
            yield Found(file, line, part[1:-1], bool(named) and not of_model)
        elif part in "([{":
            name = re.search(r"(\w+)\s*(?:<[^<>;]*>)?\s*$", text[max(0, at - 60) : at])
            stack.append((name.group(1) if name and part == "(" else part, 0))
        elif part in ")]}":
            stack and stack.pop()
        elif stack:
            function, place = stack[-1]
            stack[-1] = (function, place + 1 if part == "," else 0)


def names_of(kpusim: str) -> set[str]:
    """Names of opcodes, and of operations that are kernels."""
    listed = subprocess.run([kpusim, "list", "opcodes", "--json"], capture_output=True, check=True).stdout
    names = {row["opcode"] for row in json.loads(listed)}
    for file in (ROOT / "compiler/kernels").glob("*.kern"):
        names |= set(re.findall(r"^\s*kernel (\w+)", file.read_text(), re.MULTILINE))
    return names


class OpcodeNames(unittest.TestCase):
    """Strings of all sources of the compiler."""

    names: set[str]
    found: list[Found]

    @classmethod
    def setUpClass(cls) -> None:
        """Read the table, and the sources."""
        cls.names = names_of(KPUSIM)
        cls.found = []
        for path in sorted((ROOT / "compiler").rglob("*.[ch]pp")):
            cls.found += strings(path.relative_to(ROOT).as_posix(), path.read_text())

    def test_are_known(self) -> None:
        """Where an opcode is named, it is one."""
        wrong = [
            f"{f.file}:{f.line}: {f.text!r}" for f in self.found if f.opcode and f.text not in self.names
        ]
        self.assertFalse(
            wrong, "\n".join(["no opcode or kernel operation. Fix: use one of `kpusim list opcodes`", *wrong])
        )

    def test_stand_where_they_are_found(self) -> None:
        """A new function that takes a name is among TAKERS, or its names would not be checked."""
        wrong = [
            f"{f.file}:{f.line}: {f.text!r}"
            for f in self.found
            if f.text in self.names and not f.opcode and not f.file.startswith((*IMPORTERS, *ELSEWHERE))
        ]
        self.assertFalse(
            wrong, "\n".join(["Fix: add the function to TAKERS, or the place to ELSEWHERE", *wrong])
        )

    def test_none_is_asked_by_class(self) -> None:
        """Classes group lists and pages; the compiler has columns for what it asks."""
        asked = [
            f"{path.relative_to(ROOT)}"
            for path in sorted((ROOT / "compiler").rglob("*.[ch]pp"))
            if re.search(r"op_class\s*(?:==|!=|\))|case OpcodeClass", path.read_text())
        ]
        self.assertFalse(asked, "Fix: ask a column of isa/traits.hpp, or add one")

    def test_misspelt_names_are_found(self) -> None:
        """Every place with a name of the table is one where another string would be reported."""
        places = [f for f in self.found if f.opcode]
        self.assertGreater(len(places), 500)
        source = 'if (is(node, "softmx") || node.spec().name == "gem") become(r, id, "sofmax", {a});'
        self.assertEqual(
            [f.text for f in strings("compiler/x.cpp", source) if f.opcode], ["softmx", "gem", "sofmax"]
        )


if __name__ == "__main__":
    KPUSIM = sys.argv.pop()
    unittest.main()
