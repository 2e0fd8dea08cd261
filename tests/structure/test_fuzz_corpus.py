"""Kept inputs of the fuzzers: an archive for each target, which unpacks, and packs again to the same files.

usage: test_fuzz_corpus.py
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def targets() -> set[str]:
    """Names of the fuzzers that are built."""
    text = (ROOT / "tests/fuzz/CMakeLists.txt").read_text(encoding="utf-8")
    return set(re.findall(r"(?:kpu_fuzz|add_executable)\(fuzz_(\w+)", text))


class Archives(unittest.TestCase):
    """Archives of tests/fuzz/corpus."""

    def test_one_for_each_target(self) -> None:
        """And nothing else: a file beside them is an input that no fuzzer reads."""
        self.assertGreater(len(targets()), 5)
        self.assertEqual({path.name for path in CORPUS.iterdir()}, {f"{name}.tar.gz" for name in targets()})

    def test_files_alone(self) -> None:
        """Plain ones, by their names, so that unpacking writes into its folder only."""
        for path in CORPUS.glob("*.tar.gz"):
            with self.subTest(path.name), tarfile.open(path) as archive:
                members = archive.getmembers()
                self.assertTrue(members)
                self.assertTrue(
                    all(item.isfile() and re.fullmatch(r"[\w.-]+", item.name) for item in members)
                )

    def test_unpacked_and_packed(self) -> None:
        """The script, on a copy: the same files in the same order, without owners and times of a machine."""
        with tempfile.TemporaryDirectory() as name:
            tree = Path(name)
            (tree / "scripts").mkdir()
            shutil.copy(ROOT / "scripts/fuzz_corpus.sh", tree / "scripts")
            shutil.copytree(CORPUS, tree / "tests/fuzz/corpus")
            for target in targets():
                with self.subTest(target):
                    for step in ("unpack", "pack"):
                        words = ["bash", tree / "scripts/fuzz_corpus.sh", step, target, tree / "files"]
                        subprocess.run(words, check=True)
                    with (
                        tarfile.open(CORPUS / f"{target}.tar.gz") as kept,
                        tarfile.open(tree / f"tests/fuzz/corpus/{target}.tar.gz") as made,
                    ):
                        for old, new in zip(kept.getmembers(), made.getmembers(), strict=True):
                            self.assertEqual((old.name, old.tobuf()), (new.name, new.tobuf()))


if __name__ == "__main__":
    unittest.main()
