"""Players of advice: what a message says after "Fix:" is done, and the message does not come again.

Every text of the package with a "Fix:" is known by its file and its constant parts; what a format fills in is
written ``{}``. A test file has cases for the texts of its part of the package, and reasons for those that
cannot be played.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kpusim
import pytest

PACKAGE = Path(kpusim.__file__).parent
#: Folders of the package that have tests of their own; "" stands for all the rest.
PARTS = ("kpu/", "torch/", "pallas/", "sweeps/", "llm/", "calibrate/", "reduce/")
Step = Callable[[], object]


def manual(main: Callable[[list[str]], object], part: str) -> str:
    """Return the help of a verb of the package, which has this in it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert part in said.getvalue()
    return said.getvalue()


@dataclass(frozen=True)
class Text:
    """A literal with a fix: its file in the package, its line, and the text."""

    file: str
    line: int
    text: str

    def is_in(self, message: str) -> bool:
        """Return whether the message was made of it."""
        pattern = ".*".join(re.escape(part) for part in self.text.strip().split("{}"))
        return re.search(pattern, message, re.DOTALL) is not None


@dataclass(frozen=True)
class Case:
    """A mistake, the text that it is refused with, and what follows its advice, in the working folder.

    `text` is the end of the literal, with all that it advises; no other literal of the file has it.
    """

    file: str
    text: str
    mistake: Step
    followed: Sequence[Step]

    def __str__(self) -> str:
        """Name of the test."""
        words = re.findall(r"\w+", self.text)
        return f"{self.file}:{'_'.join(words)[:60]}"


@cache
def texts() -> tuple[Text, ...]:
    """Return every literal of the package that has a fix; documentation is none."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = [part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values]
        documents = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        skipped = {id(node) for node in parts + documents if isinstance(node, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                text = node.value
            else:
                continue
            if "Fix:" in text:
                found.append(Text(path.relative_to(PACKAGE).as_posix(), node.lineno, text))
    return tuple(found)


def text_of(file: str, piece: str) -> Text:
    """Return the only text of a file that has the piece."""
    found = {text.text: text for text in texts() if text.file == file and piece in text.text}
    found = {piece: found[piece]} if piece in found else found
    assert len(found) == 1, f"{file}: {piece!r} is in {len(found)} texts: {list(found)}"
    return next(iter(found.values()))


def told(step: Step, *, may_raise: bool) -> str:
    """Return what a step says: its error, its warnings, and the text or list of texts that it returns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = step()
        except Exception as error:
            if not may_raise:
                raise
            return str(error)
    said = [str(one.message) for one in caught]
    said += [result] if isinstance(result, str) else result if isinstance(result, list) else []
    return "\n".join(map(str, said))


def play(case: Case) -> None:
    """Make the mistake, then follow the advice."""
    text = text_of(case.file, case.text)
    assert "Fix: " in case.text and text.text.strip().endswith(case.text), f"{text} advises something else"
    said = told(case.mistake, may_raise=True)
    assert text.is_in(said), f"{text}\nis not what was said:\n{said}"
    assert case.followed
    for step in case.followed:
        assert not text.is_in(told(step, may_raise=False))


def check_complete(part: str, cases: Sequence[Case], reasons: Mapping[tuple[str, str], str]) -> None:
    """Every text of a part of the package is played, or there is a reason that it is not."""
    played = {text_of(case.file, case.text) for case in cases}
    excused = {text_of(*key) for key in reasons}
    assert all(reasons.values())
    assert not played & excused
    wanted = {t for t in texts() if (t.file.startswith(part) if part else not t.file.startswith(PARTS))}
    same = {(text.file, text.text) for text in played | excused}
    missing = [text for text in sorted(wanted, key=str) if (text.file, text.text) not in same]
    assert not missing, "neither a case nor a reason:\n" + "\n".join(map(str, missing))
    assert {text.file for text in played | excused} == {text.file for text in wanted}
