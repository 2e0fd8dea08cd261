"""The pages of the package and the docstrings: every example prints what it says."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import subprocess
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
    for name in re.findall(r"!\[[^\]]*\]\(pictures/([^)]+)\)", text):  # made by the page's own code
        assert (tmp_path / name).stat().st_size > 5000


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


def test_kernel_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its examples run; there is one of each statement and operation; what is refused is named."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/kernel_language.md").read_text(encoding="utf-8")
    blank = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(doctest.DocTestParser().get_doctest(blank, {}, "kernel_language.md", None, 0))
    assert runner.tries > 90
    assert runner.failures == 0
    shown = "".join(re.findall(r"^>>>.*|^\.\.\. .*", text, re.MULTILINE))
    listed = subprocess.run(
        [os.environ["KPUSIM"], "list", "kernels", "--json"], check=True, capture_output=True
    )
    rows = json.loads(listed.stdout)
    unseen = {"assign": "v = v", "store": "o[", "load": "x[", "variable": "sum", "cast": "u32("}
    assert len(rows) > 140
    for row in rows:
        where = text if row["meaning"] == "refused" else shown
        symbol = re.fullmatch(r"(?:a )?(\W+?) ?[ab]", row["form"])
        word = unseen.get(row["name"], symbol.group(1) if symbol else row["name"])
        found = word in where if not word.isidentifier() else re.search(rf"\b{word}\b", where)
        assert found, row


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's lines of Python run as they stand."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "gemm.pftrace").stat().st_size > 0


@pytest.mark.parametrize(
    "name",
    [
        "kpusim",
        "platform",
        "program.program",
        "simulation.simulation",
        "simulation.running",
        "nem",
        "run.results",
        "errors",
    ],
)
def test_docstrings(name: str) -> None:
    """Examples in docstrings run."""
    module = importlib.import_module("kpusim" if name == "kpusim" else f"kpusim.{name}")
    assert doctest.testmod(module, optionflags=OPTIONS).failed == 0
