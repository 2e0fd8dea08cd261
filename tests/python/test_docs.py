"""The page of the package and the docstrings: every example prints what it says."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/python.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of the page are one session, in a folder with the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (PAGE.parent / target).exists(), target
    blank = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(doctest.DocTestParser().get_doctest(blank, {}, PAGE.name, str(PAGE), 0))
    assert runner.tries > 20
    assert runner.failures == 0


@pytest.mark.parametrize("name", ["kpusim", "platform", "program", "simulation", "nem", "results", "errors"])
def test_docstrings(name: str) -> None:
    """Examples in docstrings run."""
    module = importlib.import_module("kpusim" if name == "kpusim" else f"kpusim.{name}")
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0
