"""The page on sweeps: its tutorial is run as it is written, with the picture that it makes."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = ROOT / "docs/sweeps.md"
MODEL = "mobilenet_v2"


def same(expected: str, found: str) -> bool:
    """Return whether a text is what was expected, where `...` stands for anything."""
    return doctest.OutputChecker().check_output(
        expected, found, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )


def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, commands and Python of the page, in order."""
    made = [sys.executable, "-B", str(ROOT / "tests/networks/models.py"), MODEL]
    subprocess.run(made, check=True, capture_output=True)
    for file in (ROOT / "build/networks").glob(f"{MODEL}.onnx*"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    blocks = re.findall(r"```(yaml|console|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert [kind for kind, _ in blocks].count("console") >= 4
    for kind, text in blocks:
        if kind == "yaml":
            (tmp_path / text.split("\n")[0].removeprefix("# ")).write_text(text)
        elif kind == "python":
            exec(compile(text, str(PAGE), "exec"), {})
        else:
            line, _, expected = text.partition("\n")
            words = ["sh", "-c", line.removeprefix("$ ")]
            environment = {**os.environ, "PATH": path}
            result = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
            assert result.returncode == 0, result.stderr
            assert same(expected, result.stdout), f"{line}\n{result.stdout}"
    assert (tmp_path / "memory.png").stat().st_size > 5000 and (tmp_path / "memory.html").exists()
    assert (PAGE.parent / "sweeps/memory.png").exists()
