"""--dram-traffic and --dram-page, of runs and of `kpusim dram`: sums, streams, the page, what is refused.

usage: KPUSIM=path/to/kpusim [CHROMIUM=chromium] python3 -m unittest test_dram_traffic
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from command import GEMM, kpusim

CHROMIUM = os.environ.get("CHROMIUM", "")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BURST = ("--set", "ddr.fidelity=burst")
COUNTS = ("reads", "writes", "row_hits", "row_misses", "row_conflicts", "activates", "turn_arounds")


def sums(path: Path) -> dict[str, int]:
    """The columns of counts, each summed."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: sum(int(row[name]) for row in rows) for name in COUNTS}


def page_data(path: Path) -> Any:  # noqa: ANN401
    """Return what a page has in it."""
    text = path.read_text(encoding="utf-8")
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert not re.search(r'(src|href)="?(http|//)', text), "the page needs another file"
    return json.loads(data)


class DramTraffic(unittest.TestCase):
    """A folder for each test."""

    def setUp(self) -> None:
        """Make it."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def run_of(self, program: Path, *options: object) -> dict[str, Any]:
        """Statistics of a run that must succeed."""
        done = kpusim("run", program, "--mode", "timing", "--quiet", "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {key: row["value"] for key, row in json.loads(done.stdout)["stats"].items()}

    def test_sums_are_the_statistics(self) -> None:
        """Sums over programs, devices, clocks, channels: bursts and activates are those that took energy."""
        table, streams, page = self.work / "banks.csv", self.work / "streams.csv", self.work / "page.html"
        events = self.work / "events"
        for name, options in (
            ("gemm_relu", ()),
            ("digits", ("--platform", "swkpu-v1")),
            ("gemm_rmsnorm", ("--set", "ddr.channels=4", "--bin-ns", "333")),
            ("conv_pool", ("--platform", "core128-hbm2", "--set", "clock.core_mhz=700")),
        ):
            with self.subTest(program=name):
                program = EXAMPLES / name / f"{name}.nem"
                stats = self.run_of(
                    program,
                    *BURST,
                    *options,
                    "--dram-traffic",
                    table,
                    "--dram-page",
                    page,
                    "--events",
                    events,
                )
                found = sums(table)
                wanted = {
                    kind: stats[f"energy.count.dram.{kind[:-1]}"] for kind in ("reads", "writes", "activates")
                }
                self.assertEqual({kind: found[kind] for kind in wanted}, wanted)
                bursts = found["reads"] + found["writes"]
                self.assertGreater(bursts, 0)
                self.assertEqual(found["row_hits"] + found["row_misses"] + found["row_conflicts"], bursts)
                by = ("--dram-traffic-by", "stream")
                done = kpusim("export", events, "--dram-traffic", streams, *by)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sums(streams), found)
                data = page_data(page)
                self.assertEqual(data["total"], [found[name] for name in COUNTS])
                self.assertEqual(
                    [sum(column) for column in zip(*data["cells"], strict=True)][3:], data["total"]
                )
                streamed = [
                    sum(column) for column in zip(*data["streams"], strict=True) if isinstance(column[0], int)
                ]
                self.assertEqual(streamed, data["total"])

    def test_streams_are_who_asked(self) -> None:
        """Reads and writes of each task are the bytes that it asked for."""
        memory, streams = self.work / "memory.csv", self.work / "streams.csv"
        by = ("--dram-traffic-by", "stream")
        self.run_of(GEMM, *BURST, "--memory-trace", memory, "--dram-traffic", streams, *by)
        asked: dict[tuple[str, str, str], int] = {}
        with memory.open() as file:
            for row in csv.DictReader(file):
                key = row["unit"], row["task"].partition("[")[0], row["access"]
                if row["level"] == "dram":
                    asked[key] = asked.get(key, 0) + int(row["bytes"])
        with streams.open() as file:
            told = {
                (row["unit"], row["task"], kind[:-1]): 64 * int(row[kind])
                for row in csv.DictReader(file)
                for kind in ("reads", "writes")
                if int(row[kind])
            }
        self.assertEqual(told, asked)

    def test_export_writes_the_same_and_parts(self) -> None:
        """The same bytes as the run; windows and filters leave out the rest."""
        events, table, again = (self.work / name for name in ("events", "table", "again"))
        self.run_of(GEMM, *BURST, "--dram-traffic", table, "--events", events)
        self.assertEqual(kpusim("export", events, "--dram-traffic", again).returncode, 0)
        self.assertEqual(again.read_bytes(), table.read_bytes())
        parts = []
        for words in (("--trace-filter", "ddr0"), ("--trace-filter", "ddr1")):
            self.assertEqual(kpusim("export", events, "--dram-traffic", again, *words).returncode, 0)
            parts.append(sums(again))
        whole = sums(table)
        self.assertEqual({name: sum(part[name] for part in parts) for name in COUNTS}, whole)
        halves = []
        for window in (":30000", "30000:"):
            words = ("--dram-traffic", again, "--trace-window", window)
            self.assertEqual(kpusim("export", events, *words).returncode, 0)
            halves.append(sums(again))
        self.assertEqual({name: sum(half[name] for half in halves) for name in COUNTS}, whole)

    @unittest.skipUnless(CHROMIUM, "no chromium")
    def test_page_in_a_browser(self) -> None:
        """The script runs to its end: tables have the rows and numbers, and the heat map is painted."""
        page, shot = self.work / "page.html", self.work / "page.png"
        self.run_of(GEMM, *BURST, "--dram-page", page)
        data = page_data(page)
        dom = self.browse("--dump-dom", page)
        self.browse(f"--screenshot={shot}", page)
        rows = dom.partition('<table id="streams">')[2].partition("</table>")[0].count("<tr>")
        self.assertEqual(rows, 1 + len(data["streams"]))
        self.assertIn(f"{data['total'][5]:,} activates", dom)
        self.assertIn("bursts that each bank served", dom)
        self.assertGreater(shot.stat().st_size, 50_000)

    def test_run_that_leaves_dram_alone(self) -> None:
        """A table with its head only, and a page that comes to its end."""
        program, table, page = self.work / "inside.nem", self.work / "table", self.work / "page.html"
        program.write_text(
            "program inside:\nbuffer m : L2 (size = 128)\nbuffer n : L1[0] (size = 128)\n"
            "a = transfer.async(dst=region(n, 0, 128), src=region(m, 0, 128))\n"
        )
        platform = ("--platform", "npm_lite", "--allow-hazards")
        self.run_of(program, *platform, *BURST, "--dram-traffic", table, "--dram-page", page)
        self.assertEqual(len(table.read_text().splitlines()), 1)
        self.assertEqual(page_data(page)["total"], [0] * len(COUNTS))
        if CHROMIUM:
            self.assertIn("0 activates", self.browse("--dump-dom", page))

    def browse(self, action: str, page: Path) -> str:
        """Return what headless Chromium prints of a page."""
        browser = (
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={self.work}/browser", "--window-size=1300,1220", "--hide-scrollbars",
        )  # fmt: skip
        done = subprocess.run(
            [*browser, action, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_is_refused(self) -> None:
        """A DRAM without controllers, a recording without banks: one error with a fix, and no file."""
        table, events = self.work / "table", self.work / "events"
        done = kpusim("run", GEMM, "--mode", "timing", "--quiet", "--dram-traffic", table)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"has no banks .*Fix: run it with --set ddr\.fidelity=burst")
        self.run_of(GEMM, *BURST, "--events", events)
        done = kpusim("export", events, "--dram-page", table)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"no uses of DRAM banks.*Fix: ")
        self.assertFalse(table.exists())

    def test_replayed_traces(self) -> None:
        """`kpusim dram`: sums are its figures, whatever the bins; tasks of a memory trace are streams."""
        memory, table, page = (self.work / name for name in ("memory.csv", "table", "page"))
        self.run_of(GEMM, "--memory-trace", memory)
        for options in ((), ("--channels", 2, "--bin-ns", 100), ("--ranks", 2, "--bin-ns", 1e9)):
            for by in ("bank", "stream"):
                with self.subTest(options=options, by=by):
                    outputs = ("--dram-traffic", table, "--dram-traffic-by", by, "--dram-page", page)
                    done = kpusim("dram", memory, "--json", *options, *outputs)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    figures, found = json.loads(done.stdout), sums(table)
                    self.assertEqual(found["activates"], figures["activates"])
                    self.assertEqual(found["writes"], figures["writes"])
                    self.assertEqual(found["reads"], figures["reads"] - figures["forwarded_reads"])
                    bursts = found["reads"] + found["writes"]
                    self.assertAlmostEqual(found["row_hits"] / bursts, figures["row_hit_rate"])
                    self.assertEqual(page_data(page)["total"], [found[name] for name in COUNTS])
        with table.open() as file:
            self.assertIn(("sdma0", "lb"), {(row["unit"], row["task"]) for row in csv.DictReader(file)})
        done = kpusim("dram", memory, "--dram-traffic", table, "--bin-ns", 0.1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "--bin-ns 0.1: .*Fix: give 0.625")
        done = kpusim("dram", memory, "--dram-traffic", table, "--dram-page", table)
        self.assertRegex(done.stderr, "two outputs would be written there. Fix:")


if __name__ == "__main__":
    unittest.main()
