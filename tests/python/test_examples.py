"""The tutorial notebook and the scripts, executed as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/python"


def output_of(script: Path) -> str:
    """Return what a script prints."""
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_first_nem_program() -> None:
    """It ends with cycles and energy of a run."""
    printed = output_of(EXAMPLES / "first_nem_program.py")
    assert re.search(r"cycles\.total: [\d,]+ cycle\n", printed)
    assert "save: " in printed


def test_why_is_my_schedule_slow() -> None:
    """The window is the first cause; two iterations in flight are faster, and then DRAM is what bounds."""
    printed = output_of(EXAMPLES / "why_is_my_schedule_slow.py")
    parts = printed.strip().split("\n\n")
    assert "stalled.issue_window" in parts[0].splitlines()[1]
    assert "operand_dram_bandwidth" in parts[1].splitlines()[1]
    speedup = re.search(r"speedup ([\d.]+)x", printed)
    assert speedup is not None
    assert float(speedup[1]) > 1.3


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook(path: Path) -> None:
    """Every cell runs; the file is stored without outputs."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    drawn = sum(".get_figure()" in cell.source for cell in notebook.cells)
    assert len(pictures) >= drawn
