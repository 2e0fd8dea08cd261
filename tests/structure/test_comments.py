"""Doc comments name their subject or begin with a verb: "Returns the bytes of a row", not "Of a row"."""

from __future__ import annotations

import ast
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPP = {".cpp", ".hpp", ".inl"}
#: First words of comments that have lost their subject.
REFUSED = re.compile(r"(Of|What|Those|By|Behind|Than|How|Which)\b", re.IGNORECASE)
#: A doc comment of C++, before a declaration or after it, with the text of its first line.
DOC = re.compile(r"(?P<before>.*?)///(?P<trailing><?) ?(?P<text>.*)")

Found = list[tuple[int, str]]


def in_cpp(text: str) -> Found:
    """Return line and first line of each doc comment that begins with a refused word."""
    found, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        comment = DOC.match(line)
        goes_on = inside and comment is not None and not comment["before"].strip()
        inside = comment is not None
        if comment and not goes_on and REFUSED.match(comment["text"]):
            found.append((number, comment["text"]))
    return found


def in_python(text: str) -> Found:
    """Return line and first line of each docstring that begins with a refused word."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said and REFUSED.match(said):
                found.append((node.body[0].lineno, said.splitlines()[0]))
    return found


def refused(path: Path, text: str) -> Found:
    """Return what is refused in a source; nothing for other files."""
    return in_cpp(text) if path.suffix in CPP else in_python(text) if path.suffix == ".py" else []


class Comments(unittest.TestCase):
    """Doc comments of all sources."""

    def test_each_has_a_subject_or_a_verb(self) -> None:
        """No doc comment begins with a refused word."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        self.assertGreater(len(names), 1000)
        bad = [
            f"{name}:{line}: {text}"
            for name in names
            if (path := ROOT / name).suffix in CPP | {".py"} and path.is_file()
            for line, text in refused(path, path.read_text(encoding="utf-8"))
        ]
        self.assertEqual(bad, [], "Fix: begin with a verb (Returns ...), or with what the comment is about.")

    def test_bad_ones_are_found(self) -> None:
        """Bad comments before and after declarations, of modules, classes and functions are found."""
        cpp = "\n".join(
            (
                "/// Of the fastest program, its bytes.",
                "int bytes();",
                "/// Returns the bytes,",
                "/// of all programs: a second line may begin with any word.",
                "int all();",
                "int cost;  ///< what a transfer takes",
                "int size;  ///< bytes of a transfer",
                "// Of no declaration: no doc comment.",
                "/// Offset of the first byte.",
            )
        )
        self.assertEqual([line for line, _ in in_cpp(cpp)], [1, 6])
        python = (
            '"""What a module has."""\nclass A:\n    """Those."""\n    def f():\n        """By hand."""\n'
        )
        self.assertEqual([line for line, _ in in_python(python)], [1, 3, 5])
        self.assertEqual(in_python('def f():\n    """Return what it has."""\n'), [])
        self.assertEqual(refused(Path("a.md"), "/// Of a page"), [])


if __name__ == "__main__":
    unittest.main()
