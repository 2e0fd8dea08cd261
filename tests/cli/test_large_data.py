"""Weights stay mapped: a run without values never reads them, one with values holds them once.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_large_data
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KPUSIM = os.environ["KPUSIM"]
MIB = 1 << 20
BYTES = 512 * MIB

PROGRAM = """program large:
{data}
buffer w : DDR (size = {bytes}, align = 64)
buffer y : DDR (size = 4096, align = 64)
buffer m : L2 (size = 4096, align = 64)
a = transfer.async(dst=region(m, 0, 4096), src=region(w, 4096, 4096))
b = transfer.async(dst=region(y, 0, 4096), src=region(m, 0, 4096), deps=[a])
"""


def peak_bytes(*arguments: str) -> int:
    """Return the most memory that a run of the command held at one time; it must succeed."""
    # a small parent: what a child holds is counted from the fork on, when it still is its parent's copy
    measure = (
        "import resource, subprocess, sys\n"
        "code = subprocess.run(sys.argv[1:], stdout=2).returncode\n"
        "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", measure, KPUSIM, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    code, peak = map(int, result.stdout.split())
    if code != 0:
        raise AssertionError(f"{arguments}: exit {code}\n{result.stderr}")
    return peak * 1024


class LargeDataTest(unittest.TestCase):
    """Half a GiB of weights, most of them a hole of the file."""

    @classmethod
    def setUpClass(cls) -> None:
        """The weights, as a side file of the text and in a container."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = Path(folder.name)
        side = cls.work / "large.nem.0.data"
        digest = hashlib.sha256()
        with side.open("wb") as file:
            file.truncate(BYTES)
            file.seek(BYTES - 4)
            file.write(b"end.")
        with side.open("rb") as file:
            while block := file.read(MIB):
                digest.update(block)
        entry = f'#! data {{"name":"w","size":"{BYTES}","sha256":"{digest.hexdigest()}","buffer":"w"}}'
        cls.text = cls.work / "large.nem"
        cls.text.write_text(PROGRAM.format(data=entry, bytes=BYTES))
        cls.device = ["--platform", "npm_pro", "--set", "ddr.size_bytes=1073741824", "--quiet"]

    def test_timing(self) -> None:
        """The weights are not read: neither their checksum nor their bytes."""
        peak = peak_bytes("run", str(self.text), *self.device, "--mode", "timing")
        self.assertLess(peak, 64 * MIB)

    def test_values(self) -> None:
        """One copy, its map of written bytes, and the program."""
        out = self.work / "out"
        peak = peak_bytes("run", str(self.text), *self.device, "-o", str(out))
        self.assertLess(peak, BYTES + BYTES // 8 + 64 * MIB)

    def test_damage_is_found_by_who_reads(self) -> None:
        """A changed byte stops a run with values and a check, and not a run of the time."""
        side = self.work / "large.nem.0.data"
        with side.open("r+b") as file:
            file.seek(BYTES // 2)
            file.write(b"x")
        try:
            peak_bytes("run", str(self.text), *self.device, "--mode", "timing")
            for verb in ("run", "check"):
                quiet = self.device if verb == "run" else self.device[:-1]
                result = subprocess.run(
                    [KPUSIM, verb, str(self.text), *quiet], capture_output=True, text=True, check=False
                )
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stdout + result.stderr, r"SHA-256 differs .*Fix: \S")
        finally:
            with side.open("r+b") as file:
                file.seek(BYTES // 2)
                file.write(b"\0")


if __name__ == "__main__":
    unittest.main()
