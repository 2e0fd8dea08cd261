"""The pages of the package and the docstrings: every example prints what it says."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize(("name", "least"), [("python", 20), ("deploy", 16)])
def test_page(name: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page are one session, in a folder with the examples."""
    page = ROOT / f"docs/{name}.md"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    blank = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(doctest.DocTestParser().get_doctest(blank, {}, page.name, str(page), 0))
    assert runner.tries > least
    assert runner.failures == 0


def test_debugging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's session from Python, on the program of the page."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/debugging.md").read_text(encoding="utf-8")
    for name, content in re.findall(r"^```\w+ (sum\.\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content)
    [block] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(doctest.DocTestParser().get_doctest(block, {}, "debugging.md", "debugging.md", 0))
    assert runner.tries > 3
    assert runner.failures == 0


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's lines of Python run as they stand."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "gemm.pftrace").stat().st_size > 0


@pytest.mark.parametrize("name", ["kpusim", "platform", "program", "simulation", "nem", "results", "errors"])
def test_docstrings(name: str) -> None:
    """Examples in docstrings run."""
    module = importlib.import_module("kpusim" if name == "kpusim" else f"kpusim.{name}")
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0
