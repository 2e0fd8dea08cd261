"""The page of `explain --html`, as headless Chromium renders it, and the command around it.

The environment names the command (KPUSIM) and the browser (CHROMIUM); without a browser the rendering is
not tested.
"""

from __future__ import annotations

import csv
import html.parser
import itertools
import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KPUSIM = os.environ["KPUSIM"]
CHROMIUM = os.environ.get("CHROMIUM", "")
EXAMPLE = ROOT / "examples/gemm_relu/gemm_relu.nem"
WIDTH, HEIGHT = 1280, 2400
# With a token table of one entry: `after` takes it and waits for `second`, which needs it to be issued.
STUCK = """device "npm_lite.nem"
program stuck:
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 12288, align = 64)
loop i in [0..0]:
    first = transfer.sync(dst=region(m, 0, 4096), src=region(x, 0, 4096))
    second = transfer.async(dst=region(m, 4096, 4096), src=region(x, 0, 4096), deps=[first])
endloop
after = transfer.async(dst=region(m, 8192, 4096), src=region(m, 4096, 4096), deps=[second])
"""


def kpusim(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command; its exit code must be `code`."""
    result = subprocess.run(
        [KPUSIM, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False
    )
    if result.returncode != code:
        raise AssertionError(f"exit {result.returncode}, not {code}: {result.stderr}")
    return result


class Elements(html.parser.HTMLParser):
    """Attributes and text of every element of a page, by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, str]]] = {}
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.setdefault(tag, []).append({name: value or "" for name, value in attrs})

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data.strip())

    def of_class(self, tag: str, name: str) -> list[dict[str, str]]:
        """Return the elements of a tag with a class."""
        return [element for element in self.found.get(tag, []) if element.get("class") == name]


class ExplainTest(unittest.TestCase):
    """Each test has a folder with a traced run of an example in it."""

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example once."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = Path(cls.folder.name) / "run"
        kpusim("run", EXAMPLE, "--mode", "timing", "--quiet", "-o", cls.run_folder,
               "--events", cls.run_folder / "events.kpuev")  # fmt: skip
        cls.stats = json.loads((cls.run_folder / "stats.json").read_text())["stats"]

    @classmethod
    def tearDownClass(cls) -> None:
        """Remove the folder."""
        cls.folder.cleanup()

    def total(self) -> int:
        """Cycles of the run."""
        return int(self.stats["cycles.total"]["value"])

    def page(self, run: Path) -> Path:
        """The page of a run."""
        page = Path(self.folder.name) / "page.html"
        kpusim("explain", run, "--html", page)
        return page


class Command(ExplainTest):
    """Text and JSON of the command."""

    def test_sums_close(self) -> None:
        """Operations, terms, units, segments and shares sum to cycles.total; units agree with stats.json."""
        data = json.loads(kpusim("explain", self.run_folder, "--json").stdout)
        self.assertEqual(data["cycles"], self.total())
        self.assertEqual(sum(op["charged_cycles"] for op in data["operations"]), self.total())
        for op in data["operations"]:
            self.assertEqual(sum(term["cycles"] for term in op["terms"]), op["charged_cycles"])
        for unit in data["units"]:
            self.assertEqual(sum(unit["causes"].values()), self.total())
            for cause, cycles in unit["causes"].items():
                self.assertEqual(self.stats[f"units.{unit['unit']}.{cause}"]["value"], cycles)
        path = data["critical_path"]
        self.assertEqual(sum(share["cycles"] for share in path["shares"]), self.total())
        self.assertEqual(path["segments"][0]["from"], 0)
        self.assertEqual(path["segments"][-1]["to"], self.total())
        for before, after in itertools.pairwise(path["segments"]):
            self.assertEqual(before["to"], after["from"])

    def test_roofs_hold(self) -> None:
        """No operation is above the roof of compute or of a level, and none moves more than a level can."""
        for point in json.loads(kpusim("explain", self.run_folder, "--json").stdout)["roofline"]:
            for level in point["levels"].values():
                self.assertLessEqual(level["attained_bytes_per_cycle"], level["peak_bytes_per_cycle"])
            if point["operations"] > 0:
                self.assertLessEqual(point["attained"], point["roof"])

    def test_same_bytes_again(self) -> None:
        """The same event file gives the same bytes, from the folder or by its name."""
        first = kpusim("explain", self.run_folder, "--json", "--bounds-only").stdout
        events = self.run_folder / "events.kpuev"
        self.assertEqual(kpusim("explain", events, "--json", "--bounds-only").stdout, first)

    def test_folder_without_events(self) -> None:
        """The error says how to get them."""
        bare = Path(self.folder.name) / "bare"
        kpusim("run", EXAMPLE, "--mode", "timing", "--quiet", "-o", bare)
        error = kpusim("explain", bare, code=1).stderr
        self.assertIn(f"--force --events {bare}/events.kpuev", error)

    def test_events_of_another_run(self) -> None:
        """An event file that was left by an earlier run is not taken for this one's."""
        other = Path(self.folder.name) / "other"
        kpusim("run", EXAMPLE, "--mode", "timing", "--quiet", "-o", other, "--set", "ddr.channels=4")
        (other / "events.kpuev").write_bytes((self.run_folder / "events.kpuev").read_bytes())
        self.assertIn("another run", kpusim("explain", other, code=1).stderr)

    def test_damaged_file(self) -> None:
        """A file that is cut off is refused, naming it."""
        damaged = Path(self.folder.name) / "damaged.kpuev"
        damaged.write_bytes((self.run_folder / "events.kpuev").read_bytes()[:-100])
        self.assertIn("damaged.kpuev", kpusim("explain", damaged, code=1).stderr)
        self.assertIn("missing.kpuev", kpusim("explain", "missing.kpuev", code=1).stderr)

    def test_unknown_operation(self) -> None:
        """The nearest name is named."""
        self.assertIn("`narrow`", kpusim("explain", self.run_folder, "narow", code=1).stderr)

    def test_deadlock(self) -> None:
        """A deadlocked run is explained up to there, and said to be incomplete."""
        program = Path(self.folder.name) / "stuck.nem"
        program.write_text(STUCK)
        events = Path(self.folder.name) / "stuck.kpuev"
        kpusim("run", program, "--mode", "timing", "--quiet", "--events", events,
               "--set", "sequencer.max_active_tokens=1", code=2)  # fmt: skip
        self.assertIn("INCOMPLETE", kpusim("explain", events).stdout)


class Page(ExplainTest):
    """Views of a browser."""

    def render(self, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Render with a profile of its own."""
        if not CHROMIUM:
            self.skipTest("no chromium")
        return subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--enable-logging=stderr",
             f"--user-data-dir={self.folder.name}/profile", f"--window-size={WIDTH},{HEIGHT}",
             "--virtual-time-budget=5000", *options, page.as_uri()],
            capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip

    def test_needs_nothing_else(self) -> None:
        """No script, style, picture or font from elsewhere, and a page of moderate size."""
        text = self.page(self.run_folder).read_text(encoding="utf-8")
        self.assertEqual(text.replace("http://www.w3.org/2000/svg", "").count("http"), 0)
        self.assertNotIn("@import", text)
        self.assertLess(len(text), 1_000_000)

    def test_rendered(self) -> None:
        """The browser draws every part from the data, without an error."""
        page = self.page(self.run_folder)
        result = self.render(page, "--dump-dom")
        self.assertNotIn("Uncaught", result.stderr)
        dom = Elements(result.stdout)
        data = json.loads(kpusim("explain", self.run_folder, "--json").stdout)
        self.assertIn(f"gemm_relu on npm_lite: {self.total():,} cycles", dom.texts)
        # the bar of the run is whole
        self.assertAlmostEqual(sum(float(r["width"]) for r in dom.of_class("rect", "term")), 1200, delta=1)
        # the path covers the time axis: bars side by side over its whole width
        path = sorted((float(r["x"]), float(r["width"])) for r in dom.of_class("rect", "path"))
        self.assertEqual(len(path), len(data["critical_path"]["segments"]))
        self.assertAlmostEqual(sum(width for _, width in path), 1200 - 92, delta=len(path) * 0.4)
        working = [u for u in data["units"] if u["unit"] != "device" and
                   any(not cause.startswith("idle") for cause in u["causes"])]  # fmt: skip
        for unit in working:
            self.assertIn(unit["unit"], dom.texts)
        self.assertGreater(len(dom.of_class("rect", "state")), len(working))
        self.assertEqual(len(dom.of_class("rect", "bound")), len(data["what_if"]))
        points = sum(1 for p in data["roofline"] for level in p["levels"].values()
                     if p["operations"] > 0 and level["bytes"] > 0)  # fmt: skip
        self.assertEqual(len(dom.of_class("circle", "point")), points)
        self.assertGreaterEqual(len(dom.of_class("line", "roof")), 2)
        # power: a layer for each unit that spends dynamic energy, and the static one; they span the time axis
        drawn = dom.of_class("polygon", "power")
        units = self.units_with_energy()
        self.assertEqual(len(drawn), len(units) + 1)
        for polygon in drawn:
            corners = [float(point.split(",")[0]) for point in polygon["points"].split()]
            self.assertEqual((min(corners), max(corners)), (92, 1200))
        self.assertTrue(any(text.startswith("ddr0 ") and "dynamic" in text for text in dom.texts))
        self.assertFalse([r for r in dom.found["polygon"] if "NaN" in str(r)])
        self.assertFalse([r for r in dom.found["rect"] if "NaN" in str(r)])
        self.assertFalse([r for r in dom.found["circle"] if "NaN" in str(r)])

    def units_with_energy(self) -> set[str]:
        """Units of the run with dynamic energy, from its power trace."""
        trace = Path(self.folder.name) / "power.csv"
        kpusim("export", self.run_folder, "--power", trace, "--power-by", "unit")
        with trace.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return {
            name
            for name in rows[0]
            if name.endswith("_dynamic_w") and any(float(row[name]) > 0 for row in rows)
        }

    def test_power_sums_to_the_statistics(self) -> None:
        """The page's power has the energy of the run, at every level."""
        text = self.page(self.run_folder).read_text(encoding="utf-8")
        data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])["power"]
        total = self.stats["energy.total_uj"]["value"]
        self.assertEqual(data["total_uj"], total)
        for rows in data["by"].values():
            parts = sum(row["dynamic_uj"] + row["static_uj"] for row in rows)
            self.assertAlmostEqual(parts / total, 1, places=12)

    def test_screenshot(self) -> None:
        """The picture has the size of the window and is not empty paper."""
        picture = Path(self.folder.name) / "page.png"
        self.render(self.page(self.run_folder), f"--screenshot={picture}")
        content = picture.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        self.assertEqual((width, height), (WIDTH, HEIGHT))
        self.assertGreater(len(content), 50_000)  # a page without drawings compresses to a tenth of it
        keep = os.environ.get("KEEP_PICTURE")
        if keep:
            Path(keep).write_bytes(content)


if __name__ == "__main__":
    unittest.main()
