"""The page on calibration: its commands and its Python are run as they are written.

usage: test_calibrate_docs.py --update    with KPUSIM: writes down what they print now
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
import check_page  # noqa: E402

PAGE = ROOT / "docs/calibration.md"


class Page(check_page.Page):
    """A page whose numbers may differ, until they are written down anew."""

    def session(self, line: int, text: str, varying: bool) -> str:
        """Run the commands of a console block."""
        return super().session(line, text, varying and not self.update)


def checked(folder: Path, *, update: bool) -> tuple[str, Page]:
    """Return the page as it would be now, and what is wrong with it."""
    page = Page(Path(os.environ["KPUSIM"]).resolve(), PAGE, folder, update)
    script = folder / "tools/kpusim-calibrate"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m kpusim.calibrate.command \"$@\"\n")
    script.chmod(0o755)
    page.environment["SOURCE_DATE_EPOCH"] = "1767225600"
    return page.run(), page


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands print what the page says, but for numbers; its Python finds both parameters."""
    _, page = checked(tmp_path, update=False)
    assert not page.failures, "\n".join(page.failures)
    assert page.commands >= 4
    assert not check_page.check_links(PAGE)
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(block, str(PAGE), "exec"), {})
    assert "ddr.data_rate_mtps: 2" in capsys.readouterr().out


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        text, page = checked(Path(temporary), update="--update" in sys.argv)
        print("\n".join(page.failures))
        if "--update" in sys.argv and not page.failures:
            PAGE.write_text(text, encoding="utf-8")
