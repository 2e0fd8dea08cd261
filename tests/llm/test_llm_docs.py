"""The page on language models: its commands are run as they are written, on the configurations of the tests.

usage: test_llm_docs.py --update    with KPUSIM: writes down what they print now
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
import check_page  # noqa: E402

PAGE = ROOT / "docs/language_models.md"
CONFIGS = Path(__file__).parent / "configs"


class Page(check_page.Page):
    """A page whose numbers may differ, until they are written down anew."""

    def session(self, line: int, text: str, varying: bool) -> str:
        """Run the commands of a console block."""
        return super().session(line, text, varying and not self.update)


def checked(folder: Path, *, update: bool) -> tuple[str, Page]:
    """Return the page as it would be now, and what is wrong with it."""
    page = Page(Path(os.environ["KPUSIM"]).resolve(), PAGE, folder, update)
    for path in CONFIGS.iterdir():
        shutil.copy(path, folder)
    for name, module in (("kpusim-llm", "-m kpusim.llm.command"), ("python", "")):
        script = folder / "tools" / name
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' {module} \"$@\"\n")
        script.chmod(0o755)
    return page.run(), page


def test_page(tmp_path: Path) -> None:
    """Commands print what the page says, but for numbers."""
    _, page = checked(tmp_path, update=False)
    assert not page.failures, "\n".join(page.failures)
    assert page.commands >= 4


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python of the page works, and says something."""
    for path in CONFIGS.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
        assert len(capsys.readouterr().out) > 100


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        text, page = checked(Path(temporary), update="--update" in sys.argv)
        print("\n".join(page.failures))
        if "--update" in sys.argv and not page.failures:
            PAGE.write_text(text, encoding="utf-8")
