"""docs/accuracy_machines.md holds what the command says; fields of real machines have sources.

usage: KPUSIM=build/release/bin/kpusim test_accuracy_machines.py
"""

from __future__ import annotations

import csv
import os
import re
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

import accuracy_machines
from accuracy_machines import PAGE, PICTURE, ROOT, ROWS, percent, report_of, row_cells

KPUSIM = os.environ["KPUSIM"]
#: Platforms that describe a machine that somebody measured.
REAL = ("gemmini16",)
#: Of a field: where it is from, and what that says.
SOURCE = re.compile(r"#\s*\[(study|rtl|set|ours)\]\s*\S+")
FIELD = re.compile(r"[a-z_0-9]+:\s*\S+")
#: What describes the file, not the machine.
LABELS = ("name:", "version:", "description:", "calibration_row:")


def page_rows() -> list[list[str]]:
    """Cells of the page's long table."""
    text = PAGE.read_text(encoding="utf-8")
    body = text.split("<!-- rows: written")[1].split("<!-- rows: end")[0]
    lines = [line for line in body.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def without_source(text: str) -> list[str]:
    """Lines of a platform that set a field and do not say where its value is from."""
    return [
        line
        for line in text.splitlines()
        if FIELD.search(line.partition("#")[0]) and not line.startswith(LABELS) and not SOURCE.search(line)
    ]


class Page(unittest.TestCase):
    """Beside the command and the file of rows."""

    def test_every_row_is_there(self) -> None:
        """With what was measured."""
        lines = [line for line in ROWS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        rows = list(csv.DictReader(lines))
        given = [(f"{row['net']} {row['kind']} {row['index']}", row["median"]) for row in rows]
        self.assertEqual([(row[0], row[1]) for row in page_rows()], given)

    def test_sample(self) -> None:
        """Every ninth row, simulated again."""
        lines = ROWS.read_text(encoding="utf-8").splitlines(keepends=True)
        with tempfile.TemporaryDirectory() as folder:
            sample = Path(folder) / "sample.csv"
            sample.write_text("".join([lines[1], *lines[2::9]]), encoding="utf-8")
            report = report_of(KPUSIM, sample, "--no-own-choice")
        page = {row[0]: row for row in page_rows()}
        self.assertGreater(len(report["rows"]), 8)
        for row in report["rows"]:
            with self.subTest(row["row"]):
                cells, there = row_cells(row), page[row["row"]]
                own = 5  # not simulated here
                self.assertEqual(cells[:own] + cells[own + 1 :], there[:own] + there[own + 1 :])

    def test_summary_of_all(self) -> None:
        """The line of all rows, computed from the table."""
        counted = [row for row in page_rows() if row[4] != "-" and "not counted" not in row[7]]
        errors = [abs(float(row[3]) / float(row[1]) - 1) for row in counted]
        deciles = statistics.quantiles(errors, n=10, method="inclusive")
        figures = statistics.median(errors), statistics.fmean(errors), deciles[8]
        wanted = ["all", str(len(errors)), *map(percent, figures)]
        line = next(x for x in PAGE.read_text(encoding="utf-8").splitlines() if x.startswith("| all |"))
        self.assertEqual([cell.strip() for cell in line.strip("|").split("|")][:5], wanted)

    def test_picture(self) -> None:
        """It has a point for each row that counts."""
        counted = [row for row in page_rows() if row[4] != "-" and "not counted" not in row[7]]
        self.assertEqual(PICTURE.read_text(encoding="utf-8").count("fill-opacity"), len(counted))

    def test_script_knows_its_places(self) -> None:
        """A page without the marks is refused."""
        with self.assertRaises(SystemExit):
            accuracy_machines.replaced("no marks", "rows", "x")


class Sources(unittest.TestCase):
    """Of the fields of real machines."""

    def test_each_field_has_one(self) -> None:
        """Also the DRAM device."""
        for name in REAL:
            text = (ROOT / "platforms" / f"{name}.textproto").read_text(encoding="utf-8")
            with self.subTest(name):
                self.assertEqual(without_source(text), [])
                self.assertEqual("[set]" in text.partition("\nname:")[2], "calibration_row:" in text)

    def test_one_without_is_found(self) -> None:
        """Or the test above is worth nothing."""
        self.assertEqual(without_source('  rows: 16\n  cols: 16  # [rtl] a row\nname: "x"\n'), ["  rows: 16"])
        self.assertEqual(without_source("  rows: 16  # [ours]"), ["  rows: 16  # [ours]"])
        self.assertEqual(without_source("  rows: 16  # because"), ["  rows: 16  # because"])


class Refusals(unittest.TestCase):
    """Of the command."""

    def refused(self, *arguments: str) -> str:
        """What it says."""
        done = subprocess.run([KPUSIM, "validate", *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Fix: ", done.stderr)
        return done.stderr

    def test_missing_platform(self) -> None:
        """It is no default: what was measured is one machine."""
        self.assertIn("--platform", self.refused(str(ROWS)))

    def test_unknown_column(self) -> None:
        """With the line and the nearest name."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            path.write_text("net,kind,index,medium\n", encoding="utf-8")
            message = self.refused(str(path), "--platform", "gemmini16")
        self.assertIn("rows.csv:1", message)
        self.assertIn("did you mean `median`", message)

    def test_last_line(self) -> None:
        """It is the summary, also of one row."""
        lines = ROWS.read_text(encoding="utf-8").splitlines(keepends=True)
        small = next(line for line in lines if line.startswith("yololitenet,conv,7"))
        done = subprocess.run(
            [KPUSIM, "validate", "-", "--platform", "gemmini16"], input=lines[1] + small, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        last = done.stdout.splitlines()[-1]
        self.assertRegex(last, r"^1 rows: \|error\| median .* %, mean .* %, p90 .* %, rank correlation -$")


if __name__ == "__main__":
    unittest.main()
