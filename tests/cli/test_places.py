"""Programs that carry places: the line of the compiler that made a program comes back in every message.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_places
"""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path

import sarif_form
from test_command import SMALL, STUCK, kpusim

# The window is wider than the slots: `load` of iteration 2 meets `load` and `save` of iteration 0.
WINDOW = """device "npm_lite.nem"
program window:
buffer X : DDR (size = 65536, align = 64)
buffer Y : DDR (size = 65536, align = 64)
buffer T : L2 (size = 8192, align = 64)
loop i in [0..15] @max_in_flight(3):
    let slot = region(T, i mod 2 * 4096, 4096)
    load = transfer.async(dst=slot, src=region(X, i * 4096, 4096))
    save = transfer.async(dst=region(Y, i * 4096, 4096), src=slot, deps=[load])
endloop
"""
SAFE = WINDOW.replace("in_flight(3)", "in_flight(2)")
FILE = "my compiler/net.py"  # the blank must be escaped in a URI
STATEMENT = re.compile(r"let |loop |wait\(|\w+ = \w|[\w.]+\.(async|sync)\b")


def line_of(statement: int) -> int:
    """Return the line that the source map gives a statement."""
    return 100 + 7 * statement


def place_of(statement: int) -> str:
    """Return the same as messages show it."""
    return f"{FILE}:{line_of(statement)}:3"


def with_places(text: str) -> str:
    """Return a program of one statement a line, each with a place of its own."""
    head, lines = [f"#! program {json.dumps({'source_file': [FILE]})}"], []
    for line in text.splitlines():
        if STATEMENT.match(line.strip()):
            lines.append(f'#! {{"place": {len(head) - 1}}}')
            head.append(f'#! place {{"line": {line_of(len(head) - 1)}, "column": 3}}')
        lines.append(line)
    return "\n".join(head + lines) + "\n"


class PlacesTest(unittest.TestCase):
    """Containers with and without places."""

    def setUp(self) -> None:
        """Make the work folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def container(self, name: str, text: str) -> Path:
        """Assemble a program."""
        source, path = self.work / f"{name}.nem", self.work / f"{name}.kpu"
        source.write_text(text)
        made = kpusim("asm", source, "-o", path)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def test_text_keeps_places(self) -> None:
        """`asm` of what `disasm` wrote gives the container, byte for byte."""
        path = self.container("window", with_places(WINDOW))
        text = kpusim("disasm", path).stdout
        self.assertIn(f'#! place {{"line":{line_of(0)},"column":3}}', text)
        self.assertEqual(self.container("again", text).read_bytes(), path.read_bytes())

    def test_findings(self) -> None:
        """`check` says where: the text by the emitter's line, JSON and SARIF field by field."""
        path = self.container("window", with_places(WINDOW))
        listed = kpusim("check", path).stdout.splitlines()
        self.assertTrue(
            listed[0].startswith(f"{place_of(2)}: warning: hazard (waw): task `load` (i=2)"), listed
        )
        self.assertIn(f"while task `load` (i=0) at {place_of(2)} writes them", listed[0])
        self.assertTrue(
            listed[1].startswith(f"{place_of(3)}: warning: hazard (raw): task `save` (i=2)"), listed
        )
        found = json.loads(kpusim("check", path, "--json").stdout)["diagnostics"]
        first = {
            key: found[1][key] for key in ("file", "line", "column", "kind", "statement", "task", "iteration")
        }
        self.assertEqual(
            first,
            {
                "file": FILE,
                "line": line_of(3),
                "column": 3,
                "kind": "raw",
                "statement": 3,
                "task": "save",
                "iteration": {"i": 2},
            },
        )
        self.assertEqual(found[1]["buffer"], "T")
        self.assertEqual(found[1]["bytes"], {"first": 0, "last": 4095})
        self.assertEqual(found[1]["other"], {"statement": 2, "task": "load", "iteration": {"i": 0}})
        self.assertEqual(found[1]["related"], [{"file": FILE, "line": line_of(2), "column": 3}])
        self.check_sarif(kpusim("check", path, "--sarif").stdout)

    def check_sarif(self, text: str) -> list[dict]:
        """Each result of the window has the emitter's line, the statement and the other task."""
        log = json.loads(text)
        sarif_form.build("sarifLog", log)
        results = log["runs"][0]["results"]
        self.assertGreater(len(results), 0)
        for result in results:
            for key, statement in (
                ("locations", result["properties"]["statement"]),
                ("relatedLocations", result["properties"]["other"]["statement"]),
            ):
                (location,) = result[key]
                physical = location["physicalLocation"]
                self.assertEqual(physical["artifactLocation"]["uri"], "my%20compiler/net.py")
                self.assertEqual(physical["region"], {"startLine": line_of(statement), "startColumn": 3})
                (logical,) = location["logicalLocations"]
                name = {2: "load", 3: "save"}[statement]
                self.assertEqual(
                    logical, {"name": name, "fullyQualifiedName": f"statement[{statement}]", "kind": "task"}
                )
        return results

    def test_findings_without_places(self) -> None:
        """The text is what it was; JSON and SARIF still name statement, task, iteration and bytes."""
        path = self.container("window", WINDOW)
        listed = kpusim("check", path).stdout.splitlines()
        self.assertTrue(listed[0].startswith(f"{path}: warning: hazard (waw): task `load` (i=2)"), listed)
        found = json.loads(kpusim("check", path, "--json").stdout)["diagnostics"][1]
        self.assertEqual((found["file"], found["line"], found["statement"]), (str(path), 0, 3))
        self.assertEqual(found["other"], {"statement": 2, "task": "load", "iteration": {"i": 0}})
        log = json.loads(kpusim("check", path, "--sarif").stdout)
        sarif_form.build("sarifLog", log)
        (related,) = log["runs"][0]["results"][1]["relatedLocations"]
        self.assertEqual(related["logicalLocations"][0]["fullyQualifiedName"], "statement[2]")

    def test_unknown_opcode(self) -> None:
        """Mistakes in a statement name it: task and statement, and the line where there is one."""
        text = SMALL.replace("c = relu.async", "c = rellu.async")
        plain = self.container("plain", text)
        message = "error: unknown opcode `rellu` of task `c` (statement 6). Fix: did you mean `relu`?"
        result = kpusim("check", plain)
        self.assertEqual((result.returncode, result.stdout), (1, f"{plain}: {message}\n"))
        result = kpusim("run", plain, "--fill", "zeros")
        self.assertEqual((result.returncode, result.stderr), (1, f"{plain}: {message}\n"))
        placed = self.container("placed", with_places(text))
        self.assertEqual(kpusim("check", placed).stdout, f"{place_of(6)}: {message}\n")
        log = json.loads(kpusim("check", placed, "--sarif").stdout)
        sarif_form.build("sarifLog", log)
        (result,) = log["runs"][0]["results"]
        self.assertEqual(result["properties"], {"statement": 6})
        (location,) = result["locations"]
        self.assertEqual(location["physicalLocation"]["region"], {"startLine": line_of(6), "startColumn": 3})
        self.assertEqual(location["logicalLocations"][0]["fullyQualifiedName"], "statement[6]")

    def test_bad_places(self) -> None:
        """A table that contradicts itself is refused by the field."""
        text = with_places(SMALL).replace(f'"line": {line_of(0)}', '"line": 0')
        source = self.work / "bad.nem"
        source.write_text(text)
        result = kpusim("check", source)
        self.assertEqual(result.returncode, 1)
        self.assertIn("place[0].line is 0; 1 to 2147483647 are allowed. Fix:", result.stdout)

    def test_races_of_a_run(self) -> None:
        """A hazard that happened is at the emitter's line, in the message and in the file of hazards."""
        path, hazards = self.container("window", with_places(WINDOW)), self.work / "hazards.sarif"
        ran = kpusim("run", path, "--fill", "random:1", "--hazards", hazards)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(f"first at {place_of(2)}", ran.stderr)
        self.assertRegex(ran.stderr, rf"task `load` \(i=\d+\) at {place_of(2)} writes")
        results = self.check_sarif(hazards.read_text())
        for result in results:
            self.assertEqual(result["properties"]["buffer"], "T")
            self.assertEqual(result["properties"]["bytes"], {"first": 0, "last": 4095})
            self.assertIn("i", result["properties"]["iteration"])

    def test_deadlock(self) -> None:
        """Each task of the chain is at its line."""
        path = self.container("stuck", with_places(STUCK))
        ran = kpusim("run", path, "--fill", "zeros", "--set", "sequencer.max_active_tokens=1")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("deadlock", ran.stderr)
        self.assertIn(f"task `after` at {place_of(3)}", ran.stderr)
        self.assertIn(f"at {place_of(2)}", ran.stderr)

    def test_fault(self) -> None:
        """A region that leaves its buffer in some iteration alone is at the task's line."""
        text = WINDOW.replace("region(X, i * 4096, 4096)", "region(X, 61440 / (17 - i) * i, 4096)")
        path = self.container("fault", with_places(text))
        ran = kpusim("run", path, "--fill", "zeros", "--allow-hazards")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn(place_of(2), ran.stderr)

    def explained(self, program: Path) -> Path:
        """The folder of a run of a program."""
        out = self.work / f"run_{program.suffix[1:]}"
        ran = kpusim("run", program, "--fill", "zeros", "-o", out, "--events", out / "events")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return out

    def test_explanations(self) -> None:
        """`explain` names the emitter's line of each task: text, JSON and the page."""
        out = self.explained(self.container("safe", with_places(SAFE)))
        self.assertIn(f"load[i=0] ({FILE}:{line_of(2)})", kpusim("explain", out).stdout)
        self.assertIn(f" x save ({FILE}:{line_of(3)}): ", kpusim("explain", out, "save").stdout)
        self.assertIn(f"  made of  {FILE}:{line_of(3)}\n", kpusim("explain", out, "save[i=3]").stdout)
        found = json.loads(kpusim("explain", out, "--json").stdout)
        segments = found["critical_path"]["segments"]
        self.assertGreater(len(segments), 0)
        for row in segments:
            line = line_of({"load": 2, "save": 3}[row["task"].split("[")[0]])
            self.assertEqual(row["place"], {"file": FILE, "line": line, "column": 3})
        page = self.work / "page.html"
        self.assertEqual(kpusim("explain", out, "--html", page).returncode, 0)
        self.assertIn(f"load[i=0] at {FILE}:{line_of(2)}", page.read_text())

    def test_explanations_without_places(self) -> None:
        """Programs without places are explained without them."""
        for program in (self.container("safe", SAFE), self.work / "safe.nem"):
            out = self.explained(program)
            self.assertIn("ends", kpusim("explain", out, "save[i=3]").stdout)
            self.assertNotIn("made of", kpusim("explain", out, "save[i=3]").stdout)
            self.assertNotIn('"place"', kpusim("explain", out, "--json").stdout)

    def test_differences(self) -> None:
        """The first task that differs between two runs is at the emitter's line."""
        path, runs = self.container("small", with_places(SMALL)), []
        for megahertz in (1000, 500):
            runs.append(self.work / f"run{megahertz}")
            options = ["--set", f"ddr.data_rate_mtps={megahertz * 3}"]
            made = kpusim(
                "run", path, "--fill", "zeros", "-o", runs[-1], "--events", runs[-1] / "events", *options
            )
            self.assertEqual(made.returncode, 0, made.stderr)
        text = kpusim("diff", *runs).stdout
        self.assertIn(f"  at {FILE}:{line_of(4)}\n", text)
        first = json.loads(kpusim("diff", *runs, "--json").stdout)["first_divergence"]
        self.assertEqual(first["place"], f"{FILE}:{line_of(4)}")


if __name__ == "__main__":
    unittest.main()
