"""`kpusim diff` and the budgets of `kpusim run` as a compiler's CI meets them.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_diff
"""

from __future__ import annotations

import csv
import json
import tempfile
import unittest
from pathlib import Path

from command import GEMM, kpusim

# `--set` of each pinned parameter to a value that gemm_relu can run with on npm_lite
CHANGES = {
    "clock.core_mhz": "900",
    "engine.array.rows": "32",
    "engine.array.cols": "128",
    "engine.array.dataflow": "ws",
    "engine.array.timing": "compat",
    "engine.l1.size_bytes": "1048576",
    "engine.l1.banks": "8",
    "engine.l1.bytes_per_cycle": "64",
    "engine.dma.channels": "3",
    "engine.dma.bytes_per_cycle": "32",
    "engine.vector.lanes": "32",
    "sequencer.max_active_tokens": "32",
    "l2.size_bytes": "2097152",
    "l2.banks": "8",
    "l2.bytes_per_cycle": "64",
    "system_dma.channels": "2",
    "system_dma.max_outstanding_bursts": "8",
    "ddr.device": "DDR4-3200",
    "ddr.channels": "4",
    "ddr.data_rate_mtps": "2400",
}

PARAMETRIC = """device "npm_lite.nem"
program copies:
#! param T = 4 in [1..64]
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 8192, align = 64)
loop i in [0..T - 1] @max_in_flight(2):
    t = transfer.async(dst=region(m, (i mod 2) * 4096, 4096), src=region(x, 0, 4096))
endloop
"""


class RunsTest(unittest.TestCase):
    """A temporary folder with one run of gemm_relu in it."""

    work: Path
    base: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example once, with its events."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = Path(folder.name)
        cls.base = cls.run_gemm("base", "--events", cls.work / "base" / "events.kpuev")

    @classmethod
    def run_gemm(cls, name: str, *options: object) -> Path:
        """A run of gemm_relu, without values."""
        out = cls.work / name
        result = kpusim("run", GEMM, "--mode", "timing", "--quiet", "-o", out, *options)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return out

    def diff(self, a: Path, b: Path, *options: object, code: int = 0) -> dict:
        """The difference of two runs as data."""
        result = kpusim("diff", a, b, "--json", *options)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)


class DiffTest(RunsTest):
    """Changes between two runs."""

    def test_a_run_and_itself(self) -> None:
        """Nothing is printed as data, every list is empty, exit 0, even at a tolerance of 0."""
        result = kpusim("diff", self.base, self.base, "--tolerance", "0%")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        found = self.diff(self.base, self.base)
        self.assertTrue(found["equal"])
        for key in ("parameters", "program", "data", "statistics", "operations"):
            self.assertEqual(found[key], [], key)
        self.assertIsNone(found["first_divergence"])

    def test_a_repeated_run(self) -> None:
        """The same run again, into another folder, is no difference either."""
        self.assertTrue(self.diff(self.base, self.run_gemm("again"))["equal"])

    def test_the_changed_parameter_comes_first(self) -> None:
        """Each pinned parameter, changed alone, is the first that is named, with both values."""
        for path, value in CHANGES.items():
            with self.subTest(path=path):
                other = self.run_gemm(path, "--set", f"{path}={value}")
                first = self.diff(self.base, other)["parameters"][0]
                self.assertEqual((first["name"], first["b"]), (path, value))
                self.assertNotEqual(first["a"], value)

    def test_statistics_and_operations(self) -> None:
        """Values of both runs stand side by side; changes of the operations sum to that of the run."""
        other = self.run_gemm("narrow", "--set", "ddr.channels=1")
        found = self.diff(self.base, other, "--threshold", "0")
        stats = [json.loads((run / "stats.json").read_text())["stats"] for run in (self.base, other)]
        self.assertEqual(found["statistics"][0]["key"], "cycles.total")
        self.assertEqual(
            {row["key"] for row in found["statistics"]},
            {
                key
                for key in stats[0].keys() | stats[1].keys()
                if stats[0].get(key, {}).get("value") != stats[1].get(key, {}).get("value")
            },
        )
        for row in found["statistics"]:
            for side, stat in zip("ab", stats, strict=True):
                expected = stat[row["key"]]["value"] if row["key"] in stat else None
                self.assertEqual(row[side], expected, row["key"])
        change = sum(op["charged_cycles_b"] - op["charged_cycles_a"] for op in found["operations"])
        self.assertEqual(change, found["statistics"][0]["change"])
        fewer = self.diff(self.base, other, "--threshold", "5%")
        self.assertEqual(len(fewer["statistics"]) + fewer["small_changes"], len(found["statistics"]))
        self.assertGreater(fewer["small_changes"], 0)

    def test_tolerance(self) -> None:
        """Exit 3 when cycles differ by more than the tolerance in either direction, 0 below it."""
        other = self.run_gemm("slow", "--set", "ddr.channels=1")
        cycles = [
            json.loads((run / "stats.json").read_text())["stats"]["cycles.total"]["value"]
            for run in (self.base, other)
        ]
        self.assertGreater(cycles[1], 1.1 * cycles[0])
        self.diff(self.base, other, "--tolerance", "10%", code=3)
        self.diff(other, self.base, "--tolerance", "2", code=3)
        self.diff(self.base, other, "--tolerance", "1000%")
        text = kpusim("diff", self.base, other, "--tolerance", "10%")
        self.assertIn("cycles.total differs", text.stderr)
        self.assertIn("beyond tolerance", text.stdout)

    def test_first_task(self) -> None:
        """With events, the first task whose times differ is named, with what its unit did meanwhile."""
        changes = {
            "engine.vector.lanes": "8",
            "l2.read_latency_cycles": "9",
            "sequencer.dispatch_cycles": "3",
        }
        for path, value in changes.items():
            out = self.work / f"{path}.events"
            self.run_gemm(out.name, "--set", f"{path}={value}", "--events", out / "events.kpuev")
            with self.subTest(path=path):
                first = self.diff(self.base, out)["first_divergence"]
                times = [self.task_times(run) for run in (self.base, out)]
                step = {"issued": 0, "ready": 1, "began": 2, "ended": 3}[first["step"]]
                for side, run in zip("ab", times, strict=True):
                    self.assertEqual(first[side], run[first["task"]][step])
                when = min(first["a"], first["b"])
                for task, steps in times[0].items():
                    for a, b in zip(steps, times[1][task], strict=True):
                        self.assertTrue(a == b or min(a, b) >= when, (task, steps, times[1][task]))
                self.assertTrue(first["why"])
                if path == "engine.vector.lanes":
                    self.assertEqual(first["step"], "ended")
                    self.assertEqual(first["causes"][0]["cause"], "busy.useful")

    def task_times(self, run: Path) -> dict[str, tuple[int, ...]]:
        """Issue, ready, begin and end of each task, in cycles of 1 GHz; read from the event file."""
        data = (run / "events.kpuev").read_bytes()
        size = int.from_bytes(data[16:24], "little")
        info = json.loads(data[32 : 32 + size])
        steps: dict[int, dict[str, int]] = {}
        statements: dict[int, dict] = {}
        values: dict[int, dict[int, int]] = {}
        for at in range(32 + size, len(data) - 4, 32):
            kind = data[at + 26]
            task = int.from_bytes(data[at + 16 : at + 20], "little")
            cycle = int.from_bytes(data[at : at + 8], "little") // 1000
            value = int.from_bytes(data[at + 8 : at + 16], "little", signed=True)
            if kind == 0:
                statement = info["statements"][int.from_bytes(data[at + 20 : at + 24], "little")]
                statements[task] = statement
                values[task] = {len(statement["loops"]) - 1: value}
            if kind == 1:  # an outer loop's value
                values[task][int.from_bytes(data[at + 24 : at + 26], "little")] = value
            if kind in (0, 2, 3, 4):
                name = {0: "issued", 2: "ready", 3: "began", 4: "ended"}[kind]
                if kind == 3:
                    steps[task].setdefault(name, cycle)
                else:
                    steps.setdefault(task, {})[name] = cycle
        order = ("issued", "ready", "began", "ended")

        def label(task: int) -> str:
            loops = [f"{v}={values[task][depth]}" for depth, v in enumerate(statements[task]["loops"])]
            return statements[task]["name"] + (f"[{' '.join(loops)}]" if loops else "")

        return {label(task): tuple(row[name] for name in order) for task, row in steps.items()}

    def test_without_events(self) -> None:
        """When a run has no event file, the difference says how to get one."""
        other = self.run_gemm("no_events", "--set", "ddr.channels=1")
        found = self.diff(self.base, other)
        self.assertIsNone(found["first_divergence"])
        self.assertIn("--events", found["no_divergence"])
        self.assertIn(str(other), found["no_divergence"])

    def test_programs(self) -> None:
        """A changed parameter of the program, or a changed line of it, is named."""
        program = self.work / "copies.nem"
        runs = []
        for name, text, options in (
            ("four", PARAMETRIC, ()),
            ("five", PARAMETRIC, ("--param", "T=5")),
            ("deep", PARAMETRIC.replace("max_in_flight(2)", "max_in_flight(1)"), ()),
        ):
            program.write_text(text)
            runs.append(self.work / name)
            run = ("run", program, "--mode", "timing", "--quiet", "-o", runs[-1], *options)
            self.assertEqual(kpusim(*run).returncode, 0)
        found = self.diff(runs[0], runs[1])
        self.assertEqual(found["parameters"][0], {"name": "param.T", "a": "4", "b": "5"})
        self.assertEqual(found["program"], [])
        found = self.diff(runs[0], runs[2])
        self.assertEqual(found["parameters"], [])
        self.assertEqual(len(found["program"]), 1)
        self.assertIn("max_in_flight(2)", found["program"][0]["a"])
        self.assertIn("max_in_flight(1)", found["program"][0]["b"])

    def test_bad_folders(self) -> None:
        """A folder that is no run folder, or a damaged one, is refused by name."""
        damaged = self.work / "damaged"
        damaged.mkdir()
        good = (self.base / "stats.json").read_text()
        for text in ("", "[]", good[:200], good.replace('"schema": 1', '"schema": 2'), '{"schema": 1}'):
            (damaged / "stats.json").write_text(text)
            result = kpusim("diff", self.base, damaged)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("damaged", result.stderr)
        for a, b in ((self.work, self.base), (self.base, self.work / "absent")):
            result = kpusim("diff", a, b)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("Fix:", result.stderr)
        self.assertEqual(kpusim("diff", self.base, self.base, "--tolerance", "-1%").returncode, 1)


class BudgetTest(RunsTest):
    """A run that is judged leaves its files, and exits with 3 when it fails."""

    def judged(self, code: int, *options: object) -> str:
        """Run with a budget; the exit code is checked, and that the files are there. Standard error."""
        out = self.work / "judged"
        result = kpusim("run", GEMM, "--mode", "timing", "--quiet", "-o", out, "--force", "--json", *options)
        self.assertEqual(result.returncode, code, result.stderr)
        if code in (0, 3):
            self.assertTrue(json.loads((out / "stats.json").read_text())["complete"])
            self.assertEqual((out / "stats.json").read_text(), result.stdout)
        return result.stderr

    def test_cycles(self) -> None:
        """Against itself, a baseline holds at 0 %; a slower run fails, its worst operations first."""
        self.judged(0, "--expect-cycles", self.base)
        self.judged(0, "--expect-cycles", self.base / "stats.json", "--tolerance", "0%")
        slow = ("--set", "ddr.channels=1")
        text = self.judged(3, "--expect-cycles", self.base, "--tolerance", "2%", *slow)
        with (self.base / "ops.csv").open() as file:
            before = {row["op"]: int(row["charged_cycles"]) for row in csv.DictReader(file)}
        with (self.work / "judged" / "ops.csv").open() as file:
            after = {row["op"]: int(row["charged_cycles"]) for row in csv.DictReader(file)}
        worst = max(after, key=lambda op: after[op] - before[op])
        self.assertIn(worst, text.splitlines()[1])
        self.judged(0, "--expect-cycles", self.base, "--tolerance", "1000%", *slow)
        fast = self.judged(0, "--expect-cycles", self.base, "--set", "ddr.channels=4")
        self.assertIn("new baseline", fast)

    def test_the_edge_of_the_tolerance(self) -> None:
        """A run that takes exactly what is allowed passes; one cycle more fails."""
        document = json.loads((self.base / "stats.json").read_text())
        cycles = document["stats"]["cycles.total"]["value"]
        baseline = self.work / "baseline.json"
        for expected, code in ((cycles, 0), (cycles - 1, 3)):
            document["stats"]["cycles.total"]["value"] = expected
            baseline.write_text(json.dumps(document))
            self.judged(code, "--expect-cycles", baseline)

    def test_power(self) -> None:
        """The average is judged, with the tolerance on top; the peak is stated."""
        stats = json.loads((self.base / "stats.json").read_text())["stats"]
        watts = stats["power.average_w"]["value"]
        self.judged(0, "--power-budget", watts * 1.01)
        self.judged(3, "--power-budget", watts / 1.21, "--tolerance", "20%")
        text = self.judged(0, "--power-budget", watts / 1.19, "--tolerance", "20%")
        self.assertIn(f"peak {stats['power.peak_w']['value']:.4g} W", text)

    def test_estimates(self) -> None:
        """A side file fills the columns of ops.csv; what is off by more than allowed fails the run."""
        with (self.base / "ops.csv").open() as file:
            ops = {row["op"]: row for row in csv.DictReader(file) if int(row["charged_cycles"]) > 0}
        right = self.work / "right.csv"
        right.write_text(
            "op,cycles,energy_pj\n"
            + "".join(
                f"{op},{row['charged_cycles']},{row['energy_pj']}\n"
                for op, row in ops.items()
                if op != "__background"
            )
        )
        self.judged(0, "--estimates", right, "--check-estimates", "0.001%")
        with (self.work / "judged" / "ops.csv").open() as file:
            rows = {row["op"]: row for row in csv.DictReader(file)}
        for op in set(ops) - {"__background"}:
            self.assertEqual(rows[op]["estimated_cycles"], ops[op]["charged_cycles"])
            self.assertEqual(float(rows[op]["cycles_over_estimate"]), 1)
            self.assertEqual(float(rows[op]["energy_over_estimate"]), 1)
        op = max(set(ops) - {"__background"}, key=lambda op: int(ops[op]["charged_cycles"]))
        cycles = int(ops[op]["charged_cycles"])
        for estimate, code in ((cycles * 10 // 8, 3), (cycles * 10 // 12, 3), (cycles * 100 // 95, 0)):
            side = self.work / "side.csv"
            side.write_text(f"op,cycles\n{op},{estimate}\n")
            text = self.judged(code, "--estimates", side, "--check-estimates", "10%")
            self.assertEqual(op in text, code == 3)
        self.judged(0, "--estimates", side)

    def test_estimates_of_the_program(self) -> None:
        """Estimates that the program carries are judged without a side file."""
        program = self.work / "estimated.nem"
        operation = '#! op {"id": "copy", "op_type": "Copy", "estimated_cycles": "1"}'
        text = PARAMETRIC.replace("buffer x", f"{operation}\nbuffer x")
        program.write_text(text.replace("    t = ", '    #! {"op": 0}\n    t = '))
        result = kpusim("run", program, "--mode", "timing", "--quiet", "--check-estimates", "10%")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("copy", result.stderr)

    def test_bad_budgets(self) -> None:
        """Baselines, estimates and options that cannot be judged are refused before the run."""
        program = ("run", GEMM, "--mode", "timing", "--quiet")
        side = self.work / "bad.csv"
        for text in (
            "op,cycles\nlla,5\n",
            "op,cycles\nla,x\n",
            "op,cycles\nla,1\nla,1\n",
            "op\nla\n",
            "",
            'op,cycles\n"la,5\n',
            "op,cycles\nla,1,2\n",
        ):
            side.write_text(text)
            result = kpusim(*program, "--estimates", side)
            self.assertEqual(result.returncode, 1, (text, result.stderr))
            self.assertIn("bad.csv", result.stderr)
        incomplete = self.work / "incomplete.json"
        incomplete.write_text(
            (self.base / "stats.json").read_text().replace('"complete": true', '"complete": false')
        )
        for options in (
            ("--check-estimates", "10%"),
            ("--tolerance", "2%"),
            ("--expect-cycles", self.work / "absent.json"),
            ("--expect-cycles", incomplete),
            ("--power-budget", "0"),
            ("--expect-cycles", self.base, "--tolerance", "two"),
            ("--expect-cycles", self.base, "--mode", "functional", "--fill", "zeros"),
        ):
            result = kpusim(*program, *options)
            self.assertEqual(result.returncode, 1, (options, result.stderr))
            self.assertIn("Fix:", result.stderr)

    def test_a_failed_run_stays_failed(self) -> None:
        """A run that does not end exits with 2, whatever its budget."""
        self.judged(2, "--expect-cycles", self.base, "--max-cycles", "100")


if __name__ == "__main__":
    unittest.main()
