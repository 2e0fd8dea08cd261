"""The table of SRAM macros follows from CACTI's column, and its script reads what CACTI writes.

usage: test_area_sram.py

CACTI itself is not here: ``platforms/area_sram.py --cacti zigzag --check 10`` computes rows again with it.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "platforms"))

import area_sram  # noqa: E402

#: A binary that gives every macro one square millimetre for each 1024 bytes, and none to words of 16 bytes.
FAKE = """#!/usr/bin/env python3
import re, sys
path = sys.argv[2]
text = open(path).read()
size, width = (int(re.search(rf"-{name} \\(bytes\\) (\\d+)", text)[1]) for name in ("size", "block size"))
if width != 16:
    open(path + ".out", "w").write(f"Capacity (bytes), Area (mm2), \\n{size}, {size / 1024}, \\n")
"""


class Table(unittest.TestCase):
    """area_sram.csv."""

    def test_used_areas_follow(self) -> None:
        """The last column is the envelope of the third, and not far above it."""
        raw = area_sram.read_table()
        self.assertEqual(list(raw), area_sram.grid())
        used = area_sram.envelope(raw)
        with area_sram.TABLE.open(encoding="utf-8") as file:
            rows = list(csv.reader(line for line in file if not line.startswith("#")))[1:]
        for size, width, mm2, stands in rows:
            area = used[int(size), int(width)]
            self.assertAlmostEqual(float(stands) / area, 1, places=10)
            self.assertLessEqual(area, 1.3 * float(mm2))

    def test_envelope(self) -> None:
        """Dips are filled, bytes of larger macros are never dearer, wider macros never smaller."""
        raw: dict[area_sram.Macro, float | None] = {
            (size, width): float(size) for size, width in area_sram.grid()
        }
        self.assertEqual(area_sram.envelope(raw), raw)
        raw[4096, 8] = 1.0
        raw[8192, 8] = 20000.0
        used = area_sram.envelope(raw)
        self.assertEqual(used[8192, 8], 20000)
        self.assertEqual(used[4096, 8], 10000)  # half of twice as much is as dear
        self.assertEqual(used[16384, 8], 20000)
        self.assertEqual(used[8192, 32], 20000)
        self.assertEqual(used[8192, 4], 8192)


class Script(unittest.TestCase):
    """With a binary that is none."""

    def test_reads_what_cacti_writes(self) -> None:
        """An area, and none where there is no result."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "zigzag" / "cacti" / "cacti_master"
            folder.mkdir(parents=True)
            (folder / "cacti").write_text(FAKE, encoding="utf-8")
            found = area_sram.cacti_folder(Path(temporary))
            self.assertEqual(area_sram.run_cacti(found, 4096, 8), 4)
            self.assertIsNone(area_sram.run_cacti(found, 4096, 16))
            wrong = area_sram.differences(found, [(4096, 8), (4096, 16)])
            self.assertEqual(len(wrong), 2)
            self.assertIn("CACTI gives 4", wrong[0])
            with self.assertRaises(SystemExit):
                area_sram.cacti_folder(folder.parent)


if __name__ == "__main__":
    unittest.main()
