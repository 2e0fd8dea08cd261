"""Helpers for tests of the command."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

KPUSIM = os.environ["KPUSIM"]
ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "examples" / "gemm_relu" / "gemm_relu.nem"


def kpusim(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command; its output as text."""
    return subprocess.run(
        [KPUSIM, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False
    )


class FolderTest(unittest.TestCase):
    """A temporary folder."""

    work: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Make the folder."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = Path(folder.name)

    def write(self, name: str, text: str) -> Path:
        """Write a file into the folder."""
        path = self.work / name
        path.write_text(text)
        return path
