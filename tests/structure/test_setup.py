"""scripts/setup.sh where there is no apt-get: it installs nothing, and names what is missing as others do.

usage: test_setup.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (
    "awk",
    "bash",
    "cmake",
    "dirname",
    "env",
    "g++",
    "grep",
    "ninja",
    "ccache",
    "protoc",
    "python3",
    "as",
    "ld",
)
#: Stands before the compiler, which then finds no header whose name matches.
COMPILER = """#!/bin/bash
text="$(</dev/stdin)"
[[ "$text" =~ {missing} ]] && exit 1
exec /usr/bin/g++ "$@" <<<"$text"
"""


class WithoutApt(unittest.TestCase):
    """A system made of a folder of commands."""

    def checked(
        self, *managers: str, missing: str = "nothing", without: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        """Return how the installation of the command's packages ends, and what it says."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for tool in TOOLS:
                if tool not in without and (place := shutil.which(tool, path="/usr/bin:/bin")):
                    (folder / tool).symlink_to(place)
            for manager in managers:
                (folder / manager).symlink_to("/bin/false")
            (folder / "compiler").write_text(COMPILER.format(missing=missing))
            (folder / "compiler").chmod(0o755)
            script = 'source scripts/setup.sh; install_packages "${command_packages[@]}"; echo went on'
            done = subprocess.run(
                ["/bin/bash", "-c", script],
                cwd=ROOT,
                capture_output=True,
                text=True,
                env={**os.environ, "PATH": name, "CXX": "compiler", "PYTHONDONTWRITEBYTECODE": "1"},
            )
        return done.returncode, done.stdout + done.stderr

    def test_all_there(self) -> None:
        """Whoever installed it: the build goes on."""
        self.assertEqual(self.checked("dnf"), (0, "went on\n"))

    def test_fedora(self) -> None:
        """Names of dnf."""
        code, text = self.checked("dnf", missing="systemc|turbojpeg", without=("ninja",))
        self.assertEqual(code, 1)
        self.assertEqual(
            text,
            "error: no apt-get to install what is missing. Fix: install, by the names for dnf: "
            "ninja-build, systemc-devel, turbojpeg-devel\n",
        )

    def test_arch(self) -> None:
        """Packages that Arch does not have are to be built."""
        code, text = self.checked("pacman", missing="sleef|isl/")
        self.assertEqual(code, 1)
        self.assertIn("names for pacman: SLEEF (from its sources), libisl\n", text)

    def test_unknown_system(self) -> None:
        """Debian's names, as the others are not known."""
        code, text = self.checked(missing="png.h")
        self.assertEqual(code, 1)
        self.assertIn("names for apt: libpng-dev\n", text)

    def test_table(self) -> None:
        """Each row has all columns, and no package stands twice."""
        lines = (ROOT / "scripts" / "packages.txt").read_text().splitlines()
        rows = [line.split(maxsplit=4) for line in lines if not line.startswith("#")]
        self.assertTrue(all(len(row) == 5 for row in rows))
        self.assertEqual(len({row[1] for row in rows}), len(rows))
        page = (ROOT / "docs" / "install.md").read_text()
        for _found_by, *names, what in rows:
            cells = " | ".join(f"`{name}`" if name != "-" else "its sources" for name in names)
            self.assertIn(f"| {what} | {cells} |", page)


if __name__ == "__main__":
    unittest.main()
