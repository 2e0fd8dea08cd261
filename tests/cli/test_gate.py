"""Gates for CI: `check --ci`, files of budgets, and reports in JUnit XML.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_gate
"""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import unittest
from pathlib import Path

import junit_form
from command import GEMM, KPUSIM, ROOT, FolderTest, kpusim

COPY = """device "npm_lite.nem"
program copy:
buffer X : DDR (size = 4096, align = 64)
buffer Y : DDR (size = 4096, align = 64)
buffer T : L2 (size = 4096, align = 64)
load = transfer.async(dst=region(T, 0, 4096), src=region(X, 0, 4096))
save = transfer.async(dst=region(Y, 0, 4096), src=region(T, 0, 4096), deps=[load])
"""
RACE = COPY.replace(", deps=[load]", "")
TWO = 'device "npm_lite.nem"\nprogram two:\nbuffer X : DDR (size = 8192, align = 64)\n'
TWO += "buffer T : L2 (size = 4096, align = 64)\nbuffer Y : DDR (size = 4096, align = 64)\n"
# an empty range, whose token orders nothing
EMPTY = TWO + "loop i in [1..0]:\n    load = transfer.async(dst=region(T, 0, 4096), src=region(X, 0, 4096))\n"
EMPTY += "endloop\nsave = transfer.async(dst=region(Y, 0, 4096), src=region(X, 0, 4096), deps=[load])\n"
# two loads to one place
WAW = TWO + "a = transfer.async(dst=region(T, 0, 4096), src=region(X, 0, 4096))\n"
WAW += "b = transfer.async(dst=region(T, 0, 4096), src=region(X, 4096, 4096))\n"
# a load while the bytes are still read
WAR = WAW.replace(
    "b = ", "c = transfer.async(dst=region(Y, 0, 4096), src=region(T, 0, 4096), deps=[a])\nb = "
)
WAR = WAR.replace("src=region(X, 4096, 4096))", "src=region(X, 4096, 4096), deps=[a])")
UNWRITTEN = COPY.replace("dst=region(T, 0, 4096)", "dst=region(T, 0, 2048)")
UNWRITTEN = UNWRITTEN.replace("src=region(X, 0, 4096)", "src=region(X, 0, 2048)").replace(
    "T : L2", "T : L1[0]"
)
# the table of npm_lite holds 16 tasks, which wait for one that the wait holds up (docs/schedule_checker.md)
TABLE = """device "npm_lite.nem"
program table:
buffer X : DDR (size = 4096, align = 64)
buffer Y : DDR (size = 262144, align = 64)
buffer T : L2 (size = 4096, align = 64)
loop i in [0..0]:
    a = transfer.async(dst=region(T, 0, 4096), src=region(X, 0, 4096))
    wait(a)
    b = transfer.async(dst=region(Y, 0, 4096), src=region(T, 0, 4096))
endloop
loop k in [1..32] @max_in_flight(32):
    c = transfer.async(dst=region(Y, k * 4096, 4096), src=region(T, 0, 4096), deps=[b])
endloop
"""
# more values of its parameters than are tried
VALUES = COPY.replace("program copy:", "program copy:\n#! param N = 4 in [1..4096]")
VALUES = VALUES.replace("load =", "loop i in [1..N]:\nload =").replace("save =", "endloop\nsave =")


def misspelt(program: str) -> str:
    """Return the program for a device that there is not."""
    return program.replace("npm_lite.nem", "npm_lit.nem")


# program, exit code of --ci, kinds of its errors there
CHECKS = {
    "clean": (COPY, 0, set()),
    "raw": (RACE, 4, {"raw"}),
    "waw": (WAW, 4, {"waw"}),
    "war": (WAR, 4, {"war"}),
    "unwritten": (UNWRITTEN, 4, {"uninitialised-read"}),
    "empty": (EMPTY, 4, {"empty-token"}),
    "table": (TABLE, 4, {"deadlock"}),
    "misspelt": (misspelt(COPY), 5, {"no-device"}),
    "misspelt_name": (COPY.replace('"npm_lite.nem"', "npm_lit"), 5, {"no-device"}),
    "none": (COPY.split("\n", 1)[1], 5, {"no-device"}),
    "target": ('#! program {"targetName": "npm_lite"}\n' + COPY.split("\n", 1)[1], 5, {"no-device"}),
    "misspelt_raw": (misspelt(RACE), 4, {"raw", "no-device"}),
    "values": (VALUES, 6, {"not-proved"}),
    "misspelt_values": (misspelt(VALUES), 5, {"no-device", "not-proved"}),
    "wrong": (
        misspelt(COPY).replace("region(Y, 0, 4096)", "region(Y, 0, 8192)"),
        1,
        {"no-device", "verifier"},
    ),
}
NOT_CHECKED = "so that capacities, units, opcodes, types and the token table are not checked"


class CheckTest(FolderTest):
    """Findings with which --ci lets no program pass."""

    def test_exit_codes(self) -> None:
        """Each group has its code, the first that applies; without --ci a warning is no error, but said."""
        for name, (text, code, kinds) in CHECKS.items():
            with self.subTest(name=name):
                program = self.write(f"{name}.nem", text)
                gated = kpusim("check", program, "--ci", "--json")
                self.assertEqual(gated.returncode, code, gated.stdout)
                found = json.loads(gated.stdout)["diagnostics"]
                self.assertEqual({row["kind"] for row in found if row["severity"] == "error"}, kinds, found)
                plain = kpusim("check", program)
                self.assertEqual(plain.returncode, 1 if code == 1 else 0, plain.stdout)
                said = "no-device" in kinds and name != "none"  # a program of no device may be meant so
                self.assertEqual(NOT_CHECKED in plain.stdout, said, plain.stdout)

    def test_containers(self) -> None:
        """The same from a container, whose device and target are fields."""
        for name in ("clean", "raw", "misspelt", "none", "target"):
            with self.subTest(name=name):
                program, container = self.write(f"{name}.nem", CHECKS[name][0]), self.work / f"{name}.kpu"
                self.assertEqual(kpusim("asm", program, "-o", container).returncode, 0)
                gated = kpusim("check", container, "--ci")
                self.assertEqual(gated.returncode, CHECKS[name][1], gated.stdout)

    def test_a_device_given(self) -> None:
        """--platform is a device: what was not checked is checked then."""
        for name in ("misspelt", "none", "target"):
            program = self.write(f"{name}.nem", CHECKS[name][0])
            self.assertEqual(kpusim("check", program, "--ci", "--platform", "npm_lite").returncode, 0)

    def test_other_warnings(self) -> None:
        """They stay warnings, and are errors with --strict, which changes no other code."""
        program = self.write("loop.nem", EMPTY.replace(", deps=[load]", ""))
        warned = kpusim("check", program, "--ci")
        self.assertEqual((warned.returncode, warned.stdout.count("warning")), (0, 1), warned.stdout)
        self.assertEqual(kpusim("check", program, "--ci", "--strict").returncode, 1)
        self.assertEqual(kpusim("check", self.write("race.nem", RACE), "--ci", "--strict").returncode, 4)

    def test_schedules_without_data(self) -> None:
        """A topology has times alone: a gate says that the schedule is not checked."""
        topology = ROOT / "examples" / "resnet18" / "resnet18.csv"
        self.assertEqual(kpusim("check", topology).returncode, 0)
        gated = kpusim("check", topology, "--ci", "--platform", "npm_lite")
        self.assertEqual(gated.returncode, 6, gated.stdout)
        self.assertIn("the schedule is not checked", gated.stdout)

    def test_long_programs(self) -> None:
        """A gate follows bytes and the token table where `check` ends; what it leaves out is exit 6."""
        text = COPY.replace("load =", "loop i in [1..140000]:\n    load =").replace("save =", "    save =")
        program = self.write("long.nem", text + "endloop\n")
        gated = kpusim("check", program, "--ci")
        self.assertEqual(gated.returncode, 0, gated.stdout)
        self.assertNotIn("not checked", gated.stdout)
        # a read of bytes that nobody wrote, after 280,000 tasks
        last = "last = transfer.async(dst=region(Y, 0, 64), src=region(N, 0, 64))\n"
        late = text + "endloop\nwait(save)\n" + last
        late = self.write("late.nem", late.replace("buffer T", "buffer N : L1[0] (size = 64)\nbuffer T"))
        self.assertEqual(kpusim("check", late).returncode, 0)
        found = kpusim("check", late, "--ci")
        self.assertEqual(found.returncode, 4, found.stdout)
        self.assertIn("`last` reads", found.stdout)
        longest = self.write("longer.nem", (text + "endloop\n").replace("140000", "9000000"))
        longer = kpusim("check", longest, "--ci")
        self.assertEqual(longer.returncode, 6, longer.stdout)
        self.assertIn("not checked: the program has more than 4194304 tasks", longer.stdout)

    def test_help(self) -> None:
        """The help lists the codes with the kinds of findings."""
        text = " ".join(kpusim("check", "--help").stdout.split())
        hazards = "raw, war, waw, uninitialised-read, empty-token, deadlock"
        self.assertIn(f"4 hazards ({hazards}), 5 no device is known (no-device), 6 ", text)
        self.assertIn("(not-proved, not-checked)", text)
        self.assertIn(
            "4 hazards, 5 no known device, 6 a check left out", " ".join(kpusim("--help").stdout.split())
        )


class JunitTest(FolderTest):
    """Reports in JUnit XML."""

    def test_checks(self) -> None:
        """A case for each kind, failed when there is an error of it, whatever else is printed."""
        for name, (text, code, kinds) in CHECKS.items():
            for form in ((), ("--json",), ("--sarif",)):
                with self.subTest(name=name, form=form):
                    report = self.work / "report.xml"
                    program = self.write(f"{name}.nem", text)
                    result = kpusim("check", program, "--ci", "--junit", report, *form)
                    self.assertEqual(result.returncode, code, result.stderr)
                    cases = junit_form.read(report.read_text())
                    self.assertEqual(junit_form.failed(cases), kinds)
                    self.assertLessEqual({"verifier", "raw", "no-device", "not-checked"}, set(cases))
                    for kind in kinds:
                        failure = cases[kind].find("failure")
                        self.assertIn("error: ", failure.attrib["message"])
                        self.assertIn(failure.attrib["message"], failure.text)
                        if not form:
                            self.assertIn(failure.attrib["message"], result.stdout)

    def test_warnings_and_refused_programs(self) -> None:
        """Warnings pass with their text; a schedule that was not looked at is skipped."""
        report = self.work / "report.xml"
        kpusim("check", self.write("race.nem", RACE), "--junit", report)
        raw = junit_form.read(report.read_text())["raw"]
        self.assertIn("warning: hazard (raw)", raw.find("system-out").text)
        kpusim("check", self.write("wrong.nem", CHECKS["wrong"][0]), "--junit", report)
        cases = junit_form.read(report.read_text())
        self.assertEqual(junit_form.failed(cases), {"verifier"})
        self.assertIsNotNone(cases["raw"].find("skipped"))

    def test_characters(self) -> None:
        """Whatever a name holds, the report is XML that gives it back, or U+FFFD where no XML may have it."""
        name = "a&b<c>\"d'\t\n\x01\x7f\u00e9\u20ac\U0001f600\ufffe]]>.nem"
        program = os.fsencode(self.work) + b"/" + name.encode() + b"\xff\xc0\xaf"
        Path(os.fsdecode(program)).write_text(RACE)
        report = self.work / "report.xml"
        result = subprocess.run(
            [KPUSIM, "check", program, "--junit", report], capture_output=True, check=False
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        shown = name.replace("\x01", "\ufffd").replace("\ufffe", "\ufffd") + 3 * "\ufffd"
        for case in junit_form.read(report.read_text()).values():
            self.assertEqual(case.attrib["classname"], f"{self.work}/{shown}")


class BudgetFileTest(FolderTest):
    """Files of budgets: written, kept, exceeded, refused."""

    base: Path
    budgets: Path
    written: dict

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example once; it writes its budgets."""
        super().setUpClass()
        cls.base, cls.budgets = cls.work / "base", cls.work / "budgets.json"
        result = kpusim(*cls.run_of("-o", cls.base, "--write-budgets", cls.budgets))
        assert result.returncode == 0, result.stderr
        cls.written = json.loads(cls.budgets.read_text())

    @classmethod
    def run_of(cls, *options: object) -> tuple[object, ...]:
        """A run of the example."""
        return ("run", GEMM, "--mode", "timing", "--quiet", *options)

    def judged(self, code: int, budgets: dict, *options: object) -> str:
        """Run with budgets, and check the exit code, and that the results are there. Standard error."""
        file, out, report = self.work / "judged.json", self.work / "judged", self.work / "judged.xml"
        file.write_text(json.dumps(budgets))
        result = kpusim(*self.run_of("--budgets", file, "-o", out, "--force", "--junit", report, *options))
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertTrue(json.loads((out / "stats.json").read_text())["complete"])
        self.cases = junit_form.read(report.read_text())
        self.assertEqual(bool(junit_form.failed(self.cases)), code == 3)
        return result.stderr

    @staticmethod
    def measured(folder: Path) -> dict[str, float]:
        """Return what a run took, by the place of its budget: from the files that it left."""
        stats = json.loads((folder / "stats.json").read_text())["stats"]
        keys = {
            "cycles": "cycles.total",
            "energy_uj": "energy.total_uj",
            "average_power_w": "power.average_w",
        }
        values = {f"run.{key}": stats[name]["value"] for key, name in keys.items()}
        with (folder / "ops.csv").open() as file:
            for row in csv.DictReader(file):
                if row["op"] == "__background":
                    continue
                place = f"operations.{row['op']}"
                values[f"{place}.cycles"] = int(row["charged_cycles"])
                values[f"{place}.energy_uj"] = float(row["energy_pj"]) / 1e6
                values[f"{place}.average_power_w"] = float(row["power_w"])
        return values

    @staticmethod
    def places(budgets: dict) -> dict[str, float]:
        """Return the budgets of a file by their places."""
        places = {f"run.{key}": value for key, value in budgets.get("run", {}).items()}
        for op, of_op in budgets.get("operations", {}).items():
            places |= {f"operations.{op}.{key}": value for key, value in of_op.items()}
        return places

    def test_written(self) -> None:
        """Budgets are those of the run's files, of it and of every operation; the form is the schema's."""
        found, expected = self.places(self.written), self.measured(self.base)
        self.assertEqual(set(found), set(expected))
        for place, value in found.items():
            self.assertTrue(math.isclose(value, expected[place], rel_tol=1e-9), place)
        schema = json.loads((ROOT / "docs" / "budgets.schema.json").read_text())
        self.conforms(self.written, schema, schema)

    def conforms(self, value: object, schema: dict, root: dict) -> None:
        """Check a value by the part of JSON Schema that the schema uses."""
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        types = {"object": dict, "integer": int, "number": (int, float)}
        if "const" in schema:
            self.assertEqual(value, schema["const"])
        else:
            self.assertIsInstance(value, types[schema["type"]])
        if "minimum" in schema:
            self.assertGreaterEqual(value, schema["minimum"])
        for key in schema.get("required", ()):
            self.assertIn(key, value)
        if isinstance(value, dict):
            for key, inner in value.items():
                part = schema.get("properties", {}).get(key, schema["additionalProperties"])
                self.assertTrue(part, key)
                self.conforms(inner, part, root)

    def test_the_same_run_keeps_them(self) -> None:
        """To the last bit of energy and power, at a tolerance of 0."""
        text = self.judged(0, self.written)
        self.assertIn(f"{len(self.places(self.written))} budgets kept, tolerance 0 %", text)
        self.assertEqual(set(self.cases), {"run", *self.places(self.written)})

    def test_exceeded(self) -> None:
        """Each that a slower run exceeds is listed with figures and percent, the worst first; no other."""
        text = self.judged(3, self.written, "--set", "ddr.channels=1", "--tolerance", "5%")
        took, allowed = self.measured(self.work / "judged"), self.places(self.written)
        limit = {
            place: math.floor(most * 1.05) if place.endswith(".cycles") else most * 1.05
            for place, most in allowed.items()
        }
        beyond = {place for place in allowed if took[place] > limit[place]}
        self.assertGreater(len(beyond), 2)
        self.assertLess(len(beyond), len(allowed))
        self.assertEqual(junit_form.failed(self.cases), beyond)
        lines = text.splitlines()
        self.assertIn(f"{len(beyond)} of {len(allowed)} budgets exceeded, tolerance 5 %", lines[0])
        listed = [line.strip().split(": ")[0] for line in lines[1:]]
        self.assertEqual(listed, sorted(beyond, key=lambda place: -took[place] / max(limit[place], 1e-99)))
        for place in beyond:
            (line,) = (line for line in lines if line.startswith(f"  {place}: "))
            if place.endswith(".cycles"):
                self.assertIn(f"measured {took[place]} cycles, allowed {limit[place]}: ", line)
            share = 100 * (took[place] / limit[place] - 1)
            self.assertIn(f": +{share:.2f} %", line)
            self.assertIn(line.strip(), self.cases[place].find("failure").text)

    def test_the_edge(self) -> None:
        """Exactly what is allowed passes, one cycle or the next number less fails; 0 allows nothing."""
        cycles, joules = (self.written["run"][key] for key in ("cycles", "energy_uj"))
        for key, most, code in (
            ("cycles", cycles, 0),
            ("cycles", cycles - 1, 3),
            ("energy_uj", joules, 0),
            ("energy_uj", math.nextafter(joules, 0), 3),
            ("cycles", 0, 3),
        ):
            text = self.judged(code, {"schema": 1, "run": {key: most}})
            self.assertEqual("none is allowed" in text, most == 0)
        # 100 * 1.15 is less than 115 in binary: 115 of 100 are within 15 % all the same
        op, of_op = next((op, row) for op, row in self.written["operations"].items() if row["cycles"] > 0)
        for share in (7, 15, 31):
            most = of_op["cycles"] * 100 // (100 + share)
            code = 0 if of_op["cycles"] * 100 <= most * (100 + share) else 3
            budgets = {"schema": 1, "operations": {op: {"cycles": most}}, "tolerance_percent": share}
            self.judged(code, budgets)

    def test_tolerance(self) -> None:
        """It is written as it is given, holds where none is given, and gives way to one that is."""
        file = self.work / "margin.json"
        result = kpusim(*self.run_of("--write-budgets", file, "--tolerance", "7%"))
        self.assertEqual(result.returncode, 0, result.stderr)
        written = json.loads(file.read_text())
        self.assertEqual(written, {**self.written, "tolerance_percent": 7})
        tight = {"schema": 1, "run": {"cycles": self.written["run"]["cycles"] * 100 // 105}}
        self.judged(3, tight)
        self.judged(0, {**tight, "tolerance_percent": 7})
        self.judged(3, {**tight, "tolerance_percent": 7}, "--tolerance", "1%")

    def test_with_other_budgets(self) -> None:
        """All that a run is judged by stands in one report."""
        self.judged(0, self.written, "--expect-cycles", self.base, "--power-budget", 1000)
        self.assertLessEqual({"expected cycles", "power budget", "run.cycles"}, set(self.cases))
        self.judged(3, self.written, "--power-budget", "0.001")
        self.assertEqual(junit_form.failed(self.cases), {"power budget"})

    def test_refused(self) -> None:
        """A file that is no file of budgets is one error with the key and a fix, before the run."""
        cases = (
            ("", "no JSON"),
            ("[1]", "no JSON object"),
            ("{}", "`schema` is not 1"),
            ('{"schema": 2, "run": {"cycles": 1}}', "`schema` is not 1"),
            ('{"schema": 1}', "has no budget"),
            ('{"schema": 1, "run": {}}', "has no budget"),
            ('{"schema": 1, "rum": {"cycles": 1}}', "did you mean `run`?"),
            ('{"schema": 1, "run": {"cicles": 1}}', "`run.cicles` is not a key", "did you mean `cycles`?"),
            ('{"schema": 1, "run": {"cycles": 1.5}}', "`run.cycles` is 1.5"),
            ('{"schema": 1, "run": {"cycles": -1}}', "`run.cycles` is -1"),
            ('{"schema": 1, "run": {"energy_uj": -0.5}}', "`run.energy_uj` is -0.5"),
            ('{"schema": 1, "run": {"energy_uj": "1"}}', "`run.energy_uj` is"),
            ('{"schema": 1, "run": {"energy_uj": 1e999}}', "beyond double"),
            ('{"schema": 1, "run": 5}', "`run` is not an object"),
            ('{"schema": 1, "operations": []}', "`operations` is not an object"),
            ('{"schema": 1, "operations": {"la": 5}}', "`operations.la` is not an object"),
            ('{"schema": 1, "operations": {"lla": {"cycles": 5}}}', "did you mean `la`?"),
            ('{"schema": 1, "run": {"cycles": 5, "cycles": 6}}', "`run.cycles` stands twice"),
            ('{"schema": 1, "run": {"cycles": 5}, "tolerance_percent": -1}', "`tolerance_percent` is -1"),
        )
        for text, *words in cases:
            with self.subTest(text=text):
                file = self.write("bad.json", text)
                result = kpusim(*self.run_of("--budgets", file, "-o", self.work / "never"))
                self.assertEqual(result.returncode, 1, result.stderr)
                for word in ("bad.json", "Fix:", *words):
                    self.assertIn(word, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)
                self.assertFalse((self.work / "never").exists())
        for options in (
            ("--budgets", self.work / "absent.json"),
            ("--budgets", self.budgets, "--mode", "functional", "--fill", "zeros"),
            ("--write-budgets", self.work / "no.json", "--mode", "functional", "--fill", "zeros"),
            ("--write-budgets", self.work / "one", "--junit", self.work / "one"),
        ):
            result = kpusim(*self.run_of(*options))
            self.assertEqual(result.returncode, 1, (options, result.stderr))
            self.assertIn("Fix:", result.stderr)

    def test_a_device_without_energy(self) -> None:
        """Where energy is not modelled, it is not written, and a budget of it is refused before the run."""
        beyond = ("--set", "engine.l1.bytes_per_cycle=2048")  # the energy table has ports of up to 1024
        file = self.work / "no_energy.json"
        result = kpusim(*self.run_of("--write-budgets", file, *beyond))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(set(json.loads(file.read_text())["run"]), {"cycles"})
        refused = kpusim(*self.run_of("--budgets", self.budgets, *beyond))
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("energy and power are not modelled", refused.stderr)

    def test_a_failed_run(self) -> None:
        """It stays failed, its budgets are not judged, and it writes none."""
        file, report = self.work / "never.json", self.work / "failed.xml"
        result = kpusim(
            *self.run_of("--budgets", self.budgets, "--write-budgets", file, "--junit", report),
            *("--max-cycles", 100),
        )
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertFalse(file.exists())
        self.assertIn("never.json is not written", result.stderr)
        self.assertEqual(junit_form.failed(junit_form.read(report.read_text())), {"run"})


if __name__ == "__main__":
    unittest.main()
