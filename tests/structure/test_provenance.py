"""NOTICE says where each data file is from: each file has a row, each row a file and a licence.

usage: test_provenance.py
"""

from __future__ import annotations

import re
import subprocess
import unittest
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: Endings of files that are data, wherever they stand.
DATA = {".bin", ".cfg", ".csv", ".gz", ".header", ".jpg", ".npy", ".npz", ".onnx", ".parquet", ".png", ".pt",
        ".sched", ".tar", ".xml", ".zip"}  # fmt: skip
#: Places whose files are data.
FOLDERS = ("platforms/*.textproto", "platforms/*.nem", "tests/fuzz/corpus/*", "tests/reference/*.json")


class Row(NamedTuple):
    """A row of NOTICE's table."""

    files: str  #: a pattern, in which * stands for slashes too
    source: str
    licence: str


def tracked() -> list[str]:
    """Return all files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]


def rows() -> list[Row]:
    """Return the rows of NOTICE."""
    lines = [
        line for line in (ROOT / "NOTICE").read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines[2:]]


def is_data(name: str) -> bool:
    """Return whether it must have a row."""
    return Path(name).suffix in DATA or any(fnmatchcase(name, pattern) for pattern in FOLDERS)


class Provenance(unittest.TestCase):
    """Sources of data files."""

    def test_each_file_has_one_row(self) -> None:
        """Also a new one."""
        table = rows()
        for name in filter(is_data, tracked()):
            with self.subTest(name):
                found = [row.files for row in table if fnmatchcase(name, row.files)]
                self.assertEqual(
                    len(found), 1, f"rows of NOTICE: {found}. Fix: give it one, with source and licence."
                )

    def test_each_row_has_files(self) -> None:
        """Rows of files that went go too; a source and a licence are said."""
        names = tracked()
        for row in rows():
            with self.subTest(row.files):
                self.assertTrue(any(fnmatchcase(name, row.files) for name in names))
                self.assertTrue(row.source and row.licence)

    def test_new_data_is_found(self) -> None:
        """New data is found, which makes the first test worth something."""
        for name in ("tests/reference/silicon/x.csv", "platforms/new.textproto", "examples/x/photo.jpg"):
            self.assertTrue(is_data(name))
        self.assertFalse(is_data("docs/budgets.schema.json"))

    def test_one_version(self) -> None:
        """CITATION.cff has the project's."""
        version = re.search(r"project\(kpusim VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
        assert version is not None
        self.assertIn(f"\nversion: {version[1]}\n", (ROOT / "CITATION.cff").read_text())


if __name__ == "__main__":
    unittest.main()
