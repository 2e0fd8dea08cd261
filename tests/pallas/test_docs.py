"""The page: its blocks print what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks are one session."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/pallas.md").read_text(encoding="utf-8")
    blank = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(blank, {}, "pallas.md", "pallas.md", 0))
    assert runner.tries >= 10
    assert runner.failures == 0
