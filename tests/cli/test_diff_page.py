"""The page of `kpusim diff --html`: its data, as other files have it, and as a browser shows it.

usage: KPUSIM=path/to/kpusim [CHROMIUM=chromium] python3 -m unittest test_diff_page

Without a browser what it shows is not tested.
"""

from __future__ import annotations

import csv
import html.parser
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

from command import GEMM, FolderTest, kpusim

CHROMIUM = os.environ.get("CHROMIUM", "")
# Names that break out of what is not escaped: of operations, and of the program.
NASTY = "</script><script>document.title='out'</script>"
QUOTED = "say \"x\" & 'y' <b>größer 層"
NAMES = f"""device "npm_lite.nem"
program nasty:
#! op {json.dumps({"id": NASTY, "op_type": QUOTED})}
#! op {json.dumps({"id": QUOTED, "op_type": "@DATA@ @SCRIPT@"})}
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 8192, align = 64)
#! {{"op": 0}}
a = transfer.async(dst=region(m, 0, 4096), src=region(x, 0, 4096))
#! {{"op": 1}}
b = transfer.async(dst=region(m, 4096, 4096), src=region(x, 0, 4096))
"""
LONG = """device "npm_lite.nem"
program long:
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 8192, align = 64)
loop i in [0..99999] @max_in_flight(2):
    t = transfer.async(dst=region(m, (i mod 2) * 4096, 64), src=region(x, 0, 64))
endloop
"""
TWICE = """device "npm_lite.nem"
program copies:
#! tensor {"id": "kept", "elem": "F16", "shape": [8, 16], "buffer": "PLACE"}
#! tensor {"id": "x", "role": "INPUT", "elem": "I8", "shape": [4096], "buffer": "x"}
buffer x : DDR (size = 4096, align = 64)
buffer far : DDR (size = 4096, align = 64)
buffer near : L2 (size = 4096, align = 64)
t = transfer.async(dst=region(near, 0, 4096), src=region(x, 0, 4096))
u = transfer.async(dst=region(far, 0, 4096), src=region(near, 0, 4096), deps=[t])
"""


def data_of(page: Path) -> dict:
    """Return the data in a page."""
    text = page.read_text(encoding="utf-8")
    return json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])


def rows_of(run: Path) -> dict[str, dict[str, str]]:
    """Rows of a run's ops.csv."""
    with (run / "ops.csv").open(newline="", encoding="utf-8") as file:
        return {row["op"]: row for row in csv.DictReader(file)}


class PagesTest(FolderTest):
    """Three runs of gemm_relu: two with events, and one without."""

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example."""
        super().setUpClass()
        cls.two = cls.run_of(GEMM, "two", events=True)
        cls.four = cls.run_of(GEMM, "four", "--set", "ddr.channels=4", events=True)
        cls.bare = cls.run_of(GEMM, "bare", "--set", "ddr.channels=1")

    @classmethod
    def run_of(cls, program: Path, name: str, *options: object, events: bool = False) -> Path:
        """A run without values."""
        out = cls.work / name
        record = ("--events", out / "events.kpuev") if events else ()
        done = kpusim("run", program, "--mode", "timing", "--quiet", "-o", out, *record, *options)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return out

    def page(self, *runs: Path) -> Path:
        """A page of runs."""
        page = self.work / f"{self.id().rsplit('.', 1)[1]}.html"
        done = kpusim("diff", *runs, "--html", page, "--force")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn(f"{page} is written", done.stderr)
        return page


class DataTest(PagesTest):
    """Contents of a page."""

    def test_differences_are_those_of_json(self) -> None:
        """Each further run is in the page with what `diff --json` says of it and the first."""
        runs = (self.two, self.four, self.bare, self.two)
        data = data_of(self.page(*runs))
        self.assertEqual(len(data["differences"]), 3)
        for other, found in zip(runs[1:], data["differences"], strict=True):
            self.assertEqual(found.pop("left_out"), {})
            self.assertEqual(found, json.loads(kpusim("diff", self.two, other, "--json").stdout))
        self.assertEqual([found["equal"] for found in data["differences"]], [False, False, True])

    def test_runs_are_those_of_their_files(self) -> None:
        """Statistics are those of stats.json, operations those of ops.csv, commands those of the manifest."""
        runs = (self.two, self.four, self.bare)
        data = data_of(self.page(*runs))
        self.assertEqual([row["events"] for row in data["runs"]], [True, True, False])
        for folder, run in zip(runs, data["runs"], strict=True):
            stats = json.loads((folder / "stats.json").read_text())["stats"]
            self.assertEqual(run["stats"], {key: stat["value"] for key, stat in stats.items()})
            for key, stat in stats.items():
                self.assertEqual(data["statistics"][key], [stat["unit"], stat["meaning"]])
            rows = rows_of(folder)
            self.assertEqual([data["operations"][row["op"]][0] for row in run["operations"]], list(rows))
            for row in run["operations"]:
                expected = rows[data["operations"][row["op"]][0]]
                self.assertEqual(row["charged"], int(expected["charged_cycles"]))
                self.assertEqual(row["span"], int(expected["span_cycles"]))
                self.assertEqual(row["energy_pj"], float(expected["energy_pj"]))
                causes = sum(int(value) for key, value in expected.items()
                             if key.startswith(("busy.", "stalled.", "idle.")))  # fmt: skip
                self.assertEqual(sum(row["bands"]), causes)
            manifest = json.loads((folder / "manifest.json").read_text())
            self.assertEqual(run["made"]["command_line"], manifest["command_line"])
            self.assertEqual(run["made"]["platform"], manifest["platform"])
            self.assertEqual(run["made"]["energy_table"], manifest["energy"]["table"])
            low, high = run["energy_band"]["low_uj"], run["energy_band"]["high_uj"]
            self.assertTrue(low < run["stats"]["energy.total_uj"] < high)

    def test_timelines_close(self) -> None:
        """Kinds of charged cycles sum to the statistics, bars tile the run, spans are those of ops.csv."""
        data = data_of(self.page(self.two, self.four))
        for run in data["runs"]:
            stats = run["stats"]
            sums = [sum(row["kinds"][kind] for row in run["operations"]) for kind in range(3)]
            keys = ("cycles.compute", "cycles.memory_stall", "cycles.other")
            self.assertEqual(sums, [stats[key] for key in keys])
            for row in run["operations"]:
                self.assertEqual(sum(row["kinds"]), row["charged"])
                if "time" in row:
                    self.assertEqual(row["time"][1] - row["time"][0], row["span"])
            end = 0
            for begin, to, *_ in run["device"]:
                self.assertEqual(begin, end)
                end = to
            self.assertEqual(end, stats["cycles.total"])
            self.assertTrue({"sdma0", "e0_nmu0"} <= {name for name, _ in run["units"]})

    def test_tensors_with_bytes(self) -> None:
        """A tensor that changed place stands there with its size."""
        runs = [self.run_of(self.write(f"{place}.nem", TWICE.replace("PLACE", place)), place)
                for place in ("near", "far")]  # fmt: skip
        data = data_of(self.page(*runs))
        self.assertEqual(data["differences"][0]["places"], [{"name": "kept", "a": "L2", "b": "DRAM"}])
        self.assertEqual(data["tensor_bytes"], {"kept": 256})

    def test_same_bytes_again(self) -> None:
        """The same runs give the same page."""
        first = self.page(self.two, self.four).read_bytes()
        self.assertEqual(self.page(self.two, self.four).read_bytes(), first)

    def test_needs_nothing_else(self) -> None:
        """No script, style, picture or font from elsewhere."""
        text = self.page(self.two, self.four).read_text(encoding="utf-8")
        self.assertEqual(text.replace("http://www.w3.org/2000/svg", "").count("http"), 0)
        self.assertNotIn("@import", text)
        self.assertIsNone(re.search(r"<(link|img|iframe)\b|<script[^>]*\bsrc", text))

    def test_a_long_run_is_a_small_page(self) -> None:
        """100,000 tasks, a million events."""
        run = self.run_of(self.write("long.nem", LONG), "long", "--no-hazards", events=True)
        page = self.page(run, run)
        self.assertLess(page.stat().st_size, 1_000_000)
        data = data_of(page)["runs"][0]
        self.assertEqual(sum(sum(row["kinds"]) for row in data["operations"]), data["stats"]["cycles.total"])

    def test_tolerance(self) -> None:
        """The page is written, and the exit code tells of each run beyond the tolerance."""
        page = self.work / "tolerance.html"
        done = kpusim("diff", self.two, self.two, self.bare, "--html", page, "--tolerance", "1%")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"error: {self.bare}: cycles.total differs", done.stderr)
        self.assertTrue(page.exists())

    def test_json_beside_the_page(self) -> None:
        """Two runs give both at once."""
        done = kpusim("diff", self.two, self.four, "--json", "--html", self.work / "both.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, kpusim("diff", self.two, self.four, "--json").stdout)


class RefusedTest(PagesTest):
    """Refusals, with what to do."""

    def refused(self, *arguments: object) -> str:
        """Standard error of a use that is none."""
        done = kpusim("diff", *arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("Fix:", done.stderr)
        return done.stderr

    def test_existing_file(self) -> None:
        """It stays as it is without --force."""
        page = self.write("mine.html", "mine")
        self.assertIn("mine.html exists", self.refused(self.two, self.four, "--html", page))
        self.assertEqual(page.read_text(), "mine")
        self.assertEqual(kpusim("diff", self.two, self.four, "--html", page, "--force").returncode, 0)
        self.assertIn("<!doctype html>", page.read_text())

    def test_what_cannot_be_written(self) -> None:
        """Said before anything is read."""
        error = self.refused(self.work / "absent", self.two, "--html", self.work / "none" / "page.html")
        self.assertIn("page.html", error)

    def test_several_runs_need_a_page(self) -> None:
        """Text and JSON are of two runs."""
        self.assertIn("--html", self.refused(self.two, self.four, self.bare))
        page = self.work / "never.html"
        self.refused(self.two, self.four, self.bare, "--json", "--html", page)
        self.refused(*[self.two] * 27, "--html", page)
        self.refused(self.two, self.four, "--force")
        self.assertFalse(page.exists())

    def test_no_run(self) -> None:
        """A folder that holds none is named, and no page is left."""
        page = self.work / "never.html"
        self.assertIn("absent", self.refused(self.two, self.four, self.work / "absent", "--html", page))
        self.assertFalse(page.exists())

    def test_events_of_another_run(self) -> None:
        """They are not drawn, and the page says why."""
        other = self.run_of(GEMM, "other", "--set", "ddr.channels=4", events=True)
        (other / "events.kpuev").write_bytes((self.two / "events.kpuev").read_bytes())
        run = data_of(self.page(self.two, other))["runs"][1]
        self.assertEqual((run["events"], run["device"]), (False, []))
        self.assertIn("another run", run["no_events"])
        (other / "events.kpuev").write_bytes((self.two / "events.kpuev").read_bytes()[:-9])
        self.assertIn("events.kpuev", self.refused(self.two, other, "--html", self.work / "damaged.html"))


class Dom(html.parser.HTMLParser):
    """Bars of the timeline, and rows of the table of operations, of a page as a browser left it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.bars: list[dict[str, str]] = []
        self.rows: list[list[str]] = []
        self.inside = self.cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a bar, a row or a cell."""
        found = {name: value or "" for name, value in attrs}
        if tag == "rect" and found.get("data-run"):
            self.bars.append(found)
        if tag == "table":
            self.inside = found.get("id") == "operation_table"
        if self.inside and tag == "tr":
            self.rows.append([])
        if self.inside and tag == "td":
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag: str) -> None:
        """Leave a cell or a table."""
        self.cell = self.cell and tag != "td"
        self.inside = self.inside and tag != "table"

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data.strip())
        if self.cell:
            self.rows[-1][-1] += data

    def operations(self) -> list[list[str]]:
        """Return the rows of the table without head and sum."""
        return [row for row in self.rows if row and row[0] != "sum"]

    def bar_of(self, run: str, op: str) -> tuple[float, float]:
        """Begin and width of the bars of an operation in a run, together."""
        mine = [bar for bar in self.bars if (bar["data-run"], bar["data-op"]) == (run, op)]
        return min(float(bar["x"]) for bar in mine), sum(float(bar["width"]) for bar in mine)


@unittest.skipUnless(CHROMIUM, "no chromium")
class BrowserTest(PagesTest):
    """Views of a browser, and what its buttons do."""

    def shown(self, page: Path, script: str = "") -> Dom:
        """Return the page after a script used it; nothing is said on the console."""
        used = page.with_suffix(".used.html")
        text = page.read_text(encoding="utf-8")
        used.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
        done = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--enable-logging=stderr",
             f"--user-data-dir={self.work}/profile", "--window-size=1360,1800",
             "--virtual-time-budget=5000", "--dump-dom", used.as_uri()],
            capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        self.assertNotIn("CONSOLE", done.stderr)
        self.assertNotIn("NaN", done.stdout.split('id="data"')[0])
        return Dom(done.stdout)

    def press(self, group: str, key: str) -> str:
        """Return a script that presses a button."""
        return f'document.querySelector("#{group} button[data-key={key}]").click();'

    def test_table(self) -> None:
        """Cycles of each run and their difference are those of ops.csv, in its order."""
        dom = self.shown(self.page(self.two, self.four, self.bare))
        runs = [rows_of(run) for run in (self.two, self.four, self.bare)]
        self.assertEqual([row[0] for row in dom.operations()], list(runs[0]))
        for name, kind, *cells in dom.operations():
            cycles = [int(run[name]["charged_cycles"]) for run in runs]
            self.assertEqual(kind, runs[0][name]["type"])
            self.assertEqual([int(cell.replace(",", "")) for cell in cells[:3]], cycles)
            for cell, value in ((cells[3], cycles[1] - cycles[0]), (cells[5], cycles[2] - cycles[0])):
                self.assertEqual(cell, f"{value:+,}".replace("-", "\u2212") if value else "")
        totals = next(row for row in dom.rows if row and row[0] == "sum")
        stats = [json.loads((run / "stats.json").read_text())["stats"] for run in (self.two, self.four)]
        self.assertEqual(totals[2:4], [f"{stat['cycles.total']['value']:,}" for stat in stats])

    def test_sorts_and_filters(self) -> None:
        """A click on a heading sorts by it, a second one the other way; the filter leaves what it names."""
        page = self.page(self.two, self.four)
        cycles = {op: int(row["charged_cycles"]) for op, row in rows_of(self.two).items()}
        head = "document.querySelectorAll('#operation_table th')[2].click();"
        falling = [row[0] for row in self.shown(page, head).operations()]
        self.assertEqual([cycles[op] for op in falling], sorted(cycles.values(), reverse=True))
        rising = [row[0] for row in self.shown(page, head + head).operations()]
        self.assertEqual([cycles[op] for op in rising], sorted(cycles.values()))
        write = "const box = document.getElementById('filter'); box.value = 'TRANSFER'; box.oninput();"
        left = [row[0] for row in self.shown(page, write).operations()]
        self.assertEqual(left, [op for op, row in rows_of(self.two).items() if row["type"] == "transfer"])
        changed = "const tick = document.getElementById('changed'); tick.checked = true; tick.onchange();"
        others = {op: int(row["charged_cycles"]) for op, row in rows_of(self.four).items()}
        left = [row[0] for row in self.shown(page, changed).operations()]
        self.assertEqual(left, [op for op in cycles if cycles[op] != others[op]])

    def test_measures(self) -> None:
        """Spans instead of charged cycles."""
        dom = self.shown(self.page(self.two, self.four), self.press("measure", "span"))
        for name, _, *cells in dom.operations():
            spans = [int(rows_of(run)[name]["span_cycles"]) for run in (self.two, self.four)]
            self.assertEqual([int(cell.replace(",", "")) for cell in cells[:2]], spans)

    def test_alignment(self) -> None:
        """In time bars cover the run; aligned, an operation begins at one place, as long as it took."""
        page = self.page(self.two, self.four, self.bare)
        stats = [json.loads((run / "stats.json").read_text())["stats"]["cycles.total"]["value"]
                 for run in (self.two, self.four, self.bare)]  # fmt: skip
        absolute = self.shown(page)
        width = 1280 - 150
        for run, total in zip("ABC", stats, strict=True):
            bars = [bar for bar in absolute.bars if bar["data-run"] == run]
            end = max(float(bar["x"]) + float(bar["width"]) for bar in bars)
            self.assertAlmostEqual(end - 150, width * total / max(stats), delta=2)
        aligned = self.shown(page, self.press("alignment", "aligned"))
        runs = [rows_of(run) for run in (self.two, self.four, self.bare)]
        cycles = {op: [int(run[op]["charged_cycles"]) for run in runs] for op in runs[0]}
        scale = width / sum(max(values) for values in cycles.values())
        for op in ("la", "lb", "mb", "g"):
            bars = [aligned.bar_of(run, op) for run in "ABC"]
            for begin, _ in bars:
                self.assertAlmostEqual(begin, bars[0][0], delta=0.1)
            for (_, length), value in zip(bars, cycles[op], strict=True):
                self.assertAlmostEqual(length, value * scale, delta=3)

    def test_spans_and_units(self) -> None:
        """The other rows: spans from their own begin or from A's, and units of all runs."""
        page = self.page(self.two, self.four)
        spans = self.press("rows", "spans")
        stats = json.loads((self.two / "stats.json").read_text())["stats"]["cycles.total"]["value"]
        row = {op["op"]: op for op in data_of(page)["runs"][1]["operations"]}
        names = [name for name, _ in data_of(page)["operations"]]
        begin, end = row[names.index("save_ddr")]["time"]
        own = self.shown(page, spans).bar_of("B", "save_ddr")
        self.assertAlmostEqual(own[0], 150 + 1130 * begin / stats, delta=1)
        self.assertAlmostEqual(own[1], 1130 * (end - begin) / stats, delta=1)
        dom = self.shown(page, spans + self.press("alignment", "aligned"))
        self.assertAlmostEqual(dom.bar_of("A", "save_ddr")[0], dom.bar_of("B", "save_ddr")[0], delta=0.1)
        units = self.shown(page, self.press("rows", "units"))
        self.assertIn("sdma0", units.texts)
        self.assertIn("waits for memory", units.texts)

    def test_what_moved(self) -> None:
        """Parameters, statistics and the critical path of the pair that is chosen; energy with its band."""
        page = self.page(self.two, self.four, self.bare)
        for key, value in (("0", "4"), ("1", "1")):
            found = data_of(page)["differences"][int(key)]
            dom = self.shown(page, f"document.querySelectorAll('#pairs button')[{key}].click();")
            self.assertIn("ddr.channels", dom.texts)
            self.assertIn(value, dom.texts)
            self.assertIn(found["statistics"][0]["key"], dom.texts)
            self.assertEqual("Critical path: cycles" in dom.texts, key == "0")
        self.assertIn("dram", dom.texts)
        total = data_of(page)["runs"][0]["stats"]["energy.total_uj"]
        self.assertTrue(any(text.startswith(f"{total:.4g}") for text in dom.texts))

    def test_names_are_text(self) -> None:
        """Names of operations may be anything: they are shown as they are, and run nothing."""
        run = self.run_of(self.write("nasty.nem", NAMES), "nasty", events=True)
        page = self.page(run, run)
        self.assertEqual(page.read_text(encoding="utf-8").count("</script>"), 2)
        self.assertEqual([name for name, _ in data_of(page)["operations"]][:2], [NASTY, QUOTED])
        dom = self.shown(page)
        self.assertEqual([row[0] for row in dom.operations()][:2], [NASTY, QUOTED])
        self.assertIn(NASTY, {bar["data-op"] for bar in dom.bars})
        self.assertFalse("out" in dom.texts)


if __name__ == "__main__":
    unittest.main()
