"""Pages of measured machines hold what the command says; fields of real machines have sources.

usage: KPUSIM=build/release/bin/kpusim test_accuracy_machines.py
"""

from __future__ import annotations

import csv
import json
import os
import re
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

import accuracy_machines
from accuracy_machines import (
    DATA,
    MAIN,
    ROOT,
    STUDIES,
    Study,
    class_table,
    last_class,
    part_of,
    report_of,
    row_cells,
    summary,
)

KPUSIM = os.environ["KPUSIM"]
#: Platforms that describe a machine that somebody measured.
REAL = ("gemmini16", "gemmini16_big", "tpu_v3_core", "tpu_v4_core", "wormhole")
#: Source of a field: where it is from, and what that says.
SOURCE = re.compile(r"#\s*\[(study|rtl|doc|set|ours)\]\s*\S+")
FIELD = re.compile(r"[a-z_0-9]+:\s*\S+")
#: Labels that describe the file, not the machine.
LABELS = ("name:", "version:", "description:", "extends:", "calibration_row:")
#: Every so many rows are simulated again.
SAMPLED = {"gemmini16": 9, "mapped_layers": 9, "workloads": 5, "grid": 9}
ROWS = {study.name: DATA / study.file for study in STUDIES}


def page_rows(study: Study) -> list[list[str]]:
    """Cells of the long table of a study."""
    lines = [line for line in part_of(study.page, f"{study.name} rows").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def counted_rows(study: Study, in_all_or_class: bool = False) -> list[tuple[float, float]]:
    """Measured and simulated cycles of the rows of a page that count in the total, or also in a class."""
    at = 3 if study.form == "own" else 2
    rows = [row for row in page_rows(study) if row[at] != "-" and "not counted" not in row[-1]]
    alone = "counts in its class alone"
    return [(float(row[1]), float(row[at])) for row in rows if in_all_or_class or alone not in row[-1]]


def without_source(text: str) -> list[str]:
    """Return the lines of a platform that set a field and do not say where its value is from."""
    return [
        line
        for line in text.splitlines()
        if FIELD.search(line.partition("#")[0]) and not line.startswith(LABELS) and not SOURCE.search(line)
    ]


class Page(unittest.TestCase):
    """Beside the command and the file of rows."""

    def test_every_row_is_there(self) -> None:
        """With what was measured."""
        for study in (study for study in STUDIES if study.form):
            lines = [
                line for line in ROWS[study.name].read_text(encoding="utf-8").splitlines() if line[0] != "#"
            ]
            column = {
                "gemmini16": "median",
                "mapped_layers": "tiled_cycles",
                "workloads": "tpuv3",
                "grid": "ns",
            }
            given = [float(row[column[study.name]]) for row in csv.DictReader(lines)]
            with self.subTest(study.name):
                for row, measured in zip(page_rows(study), given, strict=True):
                    self.assertAlmostEqual(float(row[1]), measured, delta=0.51)

    def test_sample(self) -> None:
        """Some rows, simulated again."""
        for study in (study for study in STUDIES if study.form):
            lines = ROWS[study.name].read_text(encoding="utf-8").splitlines(keepends=True)
            with tempfile.TemporaryDirectory() as folder:
                sample = Path(folder) / "sample.csv"
                chosen = lines[2 :: SAMPLED[study.name]]
                sample.write_text("".join([lines[1], *chosen]), encoding="utf-8")
                report = report_of(KPUSIM, sample, study.platform, "--no-own-choice")
            there = page_rows(study)
            self.assertEqual(len(report["rows"]), len(chosen))
            self.assertGreater(len(chosen), 4)
            for row in report["rows"]:
                with self.subTest(row["row"]):
                    cells = row_cells(row, study.form)
                    if study.form == "own":  # not simulated here
                        matches = [one for one in there if one[:5] + one[6:] == cells[:5] + cells[6:]]
                    else:
                        matches = [one for one in there if one == cells]
                    self.assertTrue(matches, cells)

    def test_the_compiler_has_a_choice(self) -> None:
        """For every layer that is simulated; the sample above runs some of them again."""
        for study in STUDIES:
            if study.form == "own":
                for row in page_rows(study):
                    self.assertEqual(row[3] == "-", row[5] == "-", row)

    def test_summary_of_all(self) -> None:
        """The line of all rows, computed from the table; the main page's table, from the machines'."""
        for study in (study for study in STUDIES if study.form):
            errors = [abs(simulated / measured - 1) for measured, simulated in counted_rows(study)]
            deciles = statistics.quantiles(errors, n=10, method="inclusive")
            figures = statistics.median(errors), statistics.fmean(errors), deciles[8]
            with self.subTest(study.name):
                self.assertEqual(last_class(study)[:2], ["all", str(len(errors))])
                for said, computed in zip(last_class(study)[2:5], figures, strict=True):
                    of_page = float(said.split()[0])  # of cycles that are rounded
                    self.assertAlmostEqual(of_page, 100 * computed, delta=0.06)
        self.assertIn(summary(), MAIN.read_text(encoding="utf-8"))

    def test_bars(self) -> None:
        """The pages reach what they were asked for, in the tables that are made here."""
        by_name = {study.name: study for study in STUDIES}
        workloads = page_rows(by_name["workloads"])
        kernels = [row for row in workloads if row[0].startswith(("gemm", "conv", "attention"))]
        self.assertEqual(len(kernels), 11)
        errors = [abs(float(row[3].split()[0])) for row in kernels]
        self.assertLess(statistics.median(errors), 15)
        compared = [row for row in workloads if "-" not in row[4:8]]
        self.assertEqual(len(compared), 16)
        mean = statistics.fmean(abs(float(row[3].split()[0])) for row in compared)
        peers = [statistics.fmean(abs(float(row[at].split()[0])) for row in compared) for at in range(4, 8)]
        self.assertLess(mean, min(peers) / 2)
        said = part_of(by_name["workloads"].page, "peers").splitlines()
        cells = next(line for line in said if line.startswith("| abs. error")).strip("|").split("|")[1:]
        for cell, value in zip(cells, [mean, *peers], strict=True):
            self.assertAlmostEqual(float(cell.split()[0]), value, delta=0.11)

    def test_pictures(self) -> None:
        """Each has a point for each row that counts."""
        for study in (study for study in STUDIES if study.picture):
            with self.subTest(study.name):
                points = study.drawing.read_text(encoding="utf-8").count("fill-opacity")
                self.assertEqual(points, len(counted_rows(study, True)))

    def test_script_knows_its_places(self) -> None:
        """A page without the marks is refused."""
        with self.assertRaises(SystemExit):
            accuracy_machines.replaced(MAIN, "no marks", "rows", "x")

    def test_classes_have_pairs(self) -> None:
        """Mappings of one layer have pairs, and only they."""
        group = {"class": "all", "rows": 2, "median": 0.1, "mean": 0.1, "p90": 0.1, "signed_mean": 0.1}
        report = {
            "classes": [{**group, "rank_correlation": None}],
            "pairs": {"all": 4, "ordered_as_measured": 3},
        }
        self.assertIn("3 of 4 pairs", class_table(report))
        report["pairs"] = {"all": 0, "ordered_as_measured": 0}
        self.assertNotIn("pairs", class_table(report))


class Sources(unittest.TestCase):
    """Sources of the fields of real machines."""

    def test_each_field_has_one(self) -> None:
        """Also of those that extend another; what is set names its rows."""
        for name in REAL:
            text = (ROOT / "platforms" / f"{name}.textproto").read_text(encoding="utf-8")
            with self.subTest(name):
                self.assertEqual(without_source(text), [])
                self.assertEqual("[set]" in text.partition("\nname:")[2], "calibration_row:" in text)

    def test_all_real_machines_are_listed(self) -> None:
        """A platform of a study is one of them."""
        self.assertEqual({study.platform for study in STUDIES}, set(REAL))

    def test_one_without_is_found(self) -> None:
        """Or the test above is worth nothing."""
        self.assertEqual(without_source('  rows: 16\n  cols: 16  # [rtl] a row\nname: "x"\n'), ["  rows: 16"])
        self.assertEqual(without_source("  rows: 16  # [ours]"), ["  rows: 16  # [ours]"])
        self.assertEqual(without_source("  rows: 16  # because"), ["  rows: 16  # because"])


class Command(unittest.TestCase):
    """Refusals of the command and its exit codes."""

    def refused(self, *arguments: str) -> str:
        """Return what it says."""
        done = subprocess.run([KPUSIM, "validate", *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Fix: ", done.stderr)
        return done.stderr

    def test_missing_platform(self) -> None:
        """It is no default: what was measured is one machine."""
        self.assertIn("--platform", self.refused(str(ROWS["gemmini16"])))

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
        lines = ROWS["gemmini16"].read_text(encoding="utf-8").splitlines(keepends=True)
        small = next(line for line in lines if line.startswith("yololitenet,conv,7"))
        done = subprocess.run(
            [KPUSIM, "validate", "-", "--platform", "gemmini16"], input=lines[1] + small, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        last = done.stdout.splitlines()[-1]
        self.assertRegex(last, r"^1 rows: \|error\| median .* %, mean .* %, p90 .* %, rank correlation -$")

    def test_measurements_of_ones_own(self) -> None:
        """The forms of TPU v4, whose data is not here, with figures of ours."""
        texts = {
            "kernel,rows,cols,bytes,us\nmine,1024,1024,2097152,2.5\n": "copy up to 4 MB",
            "set,M,N,K,fusion_us\nmine,128,128,128,1.3\nmine,2048,128,128,3\n": "GEMM above 896 a side",
            'op,shape,us\nadd,"(1024, 64)",2.1\nrelu,"(640,)",0.9\n': "activation",
        }
        for text, name in texts.items():
            done = subprocess.run(
                [KPUSIM, "validate", "-", "--platform", "tpu_v4_core", "--json"], input=text,
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            report = json.loads(done.stdout)
            with self.subTest(name):
                self.assertIn(name, [group["class"] for group in report["classes"]])
                self.assertEqual(report["classes"][-1]["rows"], 2 if "op," in text else 1)
                self.assertTrue(all(0 < row["simulated"] < 1e6 for row in report["rows"]))

    def test_explain(self) -> None:
        """Explanations say what would have to differ for a row, by its name or line; others are refused."""
        rows = str(ROWS["workloads"])
        command = [KPUSIM, "validate", rows, "--platform", "tpu_v3_core", "--json", "--explain"]
        done = subprocess.run([*command, "gemm_512x512x512"], capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        self.assertEqual(report["measured"], 9490)
        changes = {change["parameter"]: change for change in report["changes"]}
        launch = changes["sequencer.launch_cycles"]
        self.assertGreater(launch["needed"], launch["now"])  # it is too fast
        self.assertAlmostEqual(launch["cycles"], 9490, delta=95)
        by_line = subprocess.run([*command, "4"], capture_output=True, text=True, check=True)
        self.assertEqual(by_line.stdout, done.stdout)
        said = self.refused(rows, "--platform", "tpu_v3_core", "--explain", "gemm_512")
        self.assertIn("did you mean `gemm_", said)


if __name__ == "__main__":
    unittest.main()
