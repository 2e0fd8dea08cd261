"""A release is refused where its version does not stand, and builds say which commit they are of.

usage: test_release.py CMAKE
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CMAKE = sys.argv[1]


def read(name: str) -> str:
    """Return a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


class Release(unittest.TestCase):
    """Release of the sources as they are."""

    def test_one_version(self) -> None:
        """Builds and citations name the same."""
        version = re.search(r"^project\(kpusim VERSION ([\d.]+)", read("CMakeLists.txt"), re.MULTILINE)
        assert version is not None
        self.assertIn(f"\nversion: {version[1]}\n", read("CITATION.cff"))

    def test_another_version_is_refused(self) -> None:
        """Before anything is made."""
        with tempfile.TemporaryDirectory() as name:
            for path in ("scripts/release.sh", "CMakeLists.txt", "CITATION.cff", "CHANGELOG.md"):
                (Path(name) / path).parent.mkdir(exist_ok=True)
                (Path(name) / path).write_text(read(path))
            steps = (
                ("CMakeLists.txt", r"(?<=kpusim VERSION )[\d.]+"),
                ("CITATION.cff", r"(?<=\nversion: )[\d.]+"),
                ("CHANGELOG.md", r"(?<=\n## )Unreleased"),
                ("a commit", ""),
            )
            for path, place in steps:
                command = ["bash", f"{name}/scripts/release.sh", "99.1.0"]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(path if place else "not a git repository", done.stderr)
                if place:
                    file = Path(name) / path
                    file.write_text(re.sub(place, "99.1.0", file.read_text(), count=1))


class Revision(unittest.TestCase):
    """Findings of cmake/revision.cmake."""

    def test_of_a_repository(self) -> None:
        """Its commit; marked when files differ; nothing outside."""
        with tempfile.TemporaryDirectory() as name:
            out = Path(name) / "revision.cpp"
            self.assertEqual(self.found(name, out), "")
            git = ["git", "-C", name, "-c", "user.name=n", "-c", "user.email=e"]
            (Path(name) / "file").write_text("1")
            for step in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "first"]):
                subprocess.run([*git, *step], check=True)
            commit = subprocess.run(
                [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
            ).stdout
            self.assertEqual(self.found(name, out), commit[:12])
            written = out.stat().st_mtime_ns
            self.assertEqual(self.found(name, out), commit[:12])
            self.assertEqual(out.stat().st_mtime_ns, written)  # else each build would link again
            (Path(name) / "file").write_text("2")
            self.assertEqual(self.found(name, out), f"{commit[:12]}-dirty")

    def found(self, source: str, out: Path) -> str:
        """Return the revision that it writes."""
        script = ROOT / "cmake" / "revision.cmake"
        subprocess.run([CMAKE, f"-DSOURCE={source}", f"-DOUT={out}", "-P", str(script)], check=True)
        match = re.search(r'revision = "(.*)";', out.read_text())
        assert match is not None
        return match[1]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
