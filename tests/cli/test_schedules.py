"""`kpusim diff` of two schedules of one GEMM: what differs in them, and what that cost on the critical path.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_schedules
"""

from __future__ import annotations

import csv
import json
import random
import unittest
from collections import Counter
from pathlib import Path

from command import GEMM, FolderTest, kpusim

LOAD_A = "        la = transfer.async(dst=a_mid, src=a)\n"
LOAD_B = "        lb = transfer.async(dst=b_mid, src=b)\n"
INNER = " @max_in_flight(ahead)"
WAIT = "    wait(g)\n"

# what is changed in the text: old, new; the operation, and what is told of it: kind, a, b
EDITS = {
    "single": (INNER, " @max_in_flight(1)", "la", "window", "max_in_flight(4) of k", "max_in_flight(1) of k"),
    "dep": (LOAD_B, LOAD_B.replace(")\n", ", deps=[la])\n"), "lb", "deps", "", "la"),
    "two_deps": ("deps=[start, ma, mb]", "deps=[ma, la, mb]", "g", "deps", "start", "la"),
    "order": (LOAD_A + LOAD_B, LOAD_B + LOAD_A, "la", "order", "after start", "after lb"),
    "carried": ("#! deps g[k-1]", "#! deps g[k-2]", "g", "carried", "g[k-1]", "g[k-2]"),
    "wait": (WAIT, WAIT.replace("(g)", "(g, mb)"), "narrow", "wait", "", "mb"),
    "sync": (LOAD_B, LOAD_B.replace("transfer.async", "transfer.sync"), "lb", "sync", "async", "sync"),
    "region": ("a_l1, (slot * 2 + k mod 2)", "a_l1, (slot * 2 + (k + 1) mod 2)", "ma", "region", "", ""),
    "gone": (LOAD_A, "", "la", "missing", LOAD_A.strip(), ""),
}


class SchedulesTest(FolderTest):
    """A temporary folder with runs in it."""

    base: Path
    text: str

    @classmethod
    def setUpClass(cls) -> None:
        """Run the example as it is, and with its loads one at a time."""
        super().setUpClass()
        cls.text = GEMM.read_text()
        cls.base = cls.run_of("base", cls.text)

    @classmethod
    def run_of(cls, name: str, text: str, *options: object, events: bool = True) -> Path:
        """The run of a text, without values."""
        program, out = cls.work / f"{name}.nem", cls.work / name
        program.write_text(text)
        recorded = ("--events", out / "events.kpuev") if events else ()
        run = (
            "run",
            program,
            "--mode",
            "timing",
            "--quiet",
            "--allow-hazards",
            "-o",
            out,
            "--force",
            *recorded,
        )
        result = kpusim(*run, *options)
        assert result.returncode == 0, result.stderr
        return out

    def edited(self, name: str) -> Path:
        """The run of the example with an edit."""
        old, new = EDITS[name][:2]
        self.assertEqual(self.text.count(old), 1, name)
        text = self.text.replace(old, new)
        if name == "gone":
            text = text.replace(", deps=[la]", "")
        return self.run_of(name, text)

    @staticmethod
    def diff(a: Path, b: Path) -> dict:
        """The difference of two runs as data."""
        result = kpusim("diff", a, b, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


class StatementsTest(SchedulesTest):
    """The first difference of the statements of each operation."""

    def test_edits(self) -> None:
        """Edits are named, with the lines of both texts; the other way round as well."""
        for name, (_, _, op, kind, a, b) in EDITS.items():
            with self.subTest(name=name):
                other = self.edited(name)
                rows = {row["op"]: row for row in self.diff(self.base, other)["schedule"]}
                if kind == "region":  # the line of the declaration in each
                    a, b = (
                        next(line.strip() for line in text.splitlines() if "let a_in" in line)
                        for text in ((run / "program.nem").read_text() for run in (self.base, other))
                    )
                    self.assertNotEqual(a, b)
                self.assertEqual((rows[op]["kind"], rows[op]["a"], rows[op]["b"]), (kind, a, b), rows)
                back = {row["op"]: row for row in self.diff(other, self.base)["schedule"]}
                if kind != "order":  # of two tasks that changed places, either may have moved
                    self.assertEqual((back[op]["kind"], back[op]["a"], back[op]["b"]), (kind, b, a), back)
                for side, run in (("line_a", self.base), ("line_b", other)):
                    lines = (run / "program.nem").read_text().splitlines()
                    if rows[op][side] is None:
                        self.assertEqual((name, side), ("gone", "line_b"))
                        continue
                    start = "loop k" if kind == "window" else f"{op} ="
                    self.assertTrue(lines[rows[op][side] - 1].strip().startswith(start), rows[op])
                also = {"single": {"lb", "ma", "mb", "g"}, "gone": {"ma"}, "region": {"g"}}
                self.assertEqual(set(rows), {op} | also.get(name, set()))

    def test_text(self) -> None:
        """The text says the same in a line for each operation."""
        text = kpusim("diff", self.base, self.edited("dep")).stdout
        self.assertRegex(
            text, r"schedule: 1 operation differs[^\n]*\n  lb +deps: with la  \(lines \d+, \d+\)\n"
        )

    def test_moved(self) -> None:
        """A shuffled program has the fewest tasks moved: those outside of a longest common subsequence."""
        count, generator = 24, random.Random(1)
        head = 'device "npm_lite.nem"\nprogram shuffled:\nbuffer X : DDR (size = 65536, align = 64)\n'
        head += "buffer T : L2 (size = 65536, align = 64)\n"
        tasks = [
            f"t{i} = transfer.async(dst=region(T, {i * 64}, 64), src=region(X, {i * 64}, 64))\n"
            for i in range(count)
        ]
        base = self.run_of("ordered", head + "".join(tasks), events=False)
        for trial in range(6):
            order = list(range(count))
            generator.shuffle(order)
            other = self.run_of(f"shuffled{trial}", head + "".join(tasks[i] for i in order), events=False)
            longest = [1] * count
            for i in range(count):
                longest[i] += max((longest[j] for j in range(i) if order[j] < order[i]), default=0)
            rows = self.diff(base, other)["schedule"]
            self.assertEqual({row["kind"] for row in rows}, {"order"})
            self.assertEqual(len(rows), count - max(longest))
            moved = {row["op"] for row in rows}
            kept = [i for i in order if f"t{i}" not in moved]
            self.assertEqual(kept, sorted(kept))

    def test_operations_of_several_tasks(self) -> None:
        """Tasks without names are the n-th of their operation; one difference is told, others counted."""
        head = 'device "npm_lite.nem"\nprogram copies:\n#! op {"id": "first", "op_type": "Copy"}\n'
        head += '#! op {"id": "second", "op_type": "Copy"}\nbuffer X : DDR (size = 65536, align = 64)\n'
        head += "buffer T : L2 (size = 65536, align = 64)\n"

        def copies(op: int, offsets: list[int]) -> str:
            return "".join(
                f'#! {{"op": {op}}}\ntransfer.async(dst=region(T, {o}, 64), src=region(X, {o}, 64))\n'
                for o in offsets
            )

        a = self.run_of("some", head + copies(0, [0, 64, 128]) + copies(1, [1024]), events=False)
        b = self.run_of("more", head + copies(0, [0, 192, 256]) + copies(1, [1024, 2048]), events=False)
        rows = self.diff(a, b)["schedule"]
        self.assertEqual(
            [(row["op"], row["kind"], row["further"]) for row in rows],
            [("first", "statement", 1), ("second", "missing", 0)],
        )
        self.assertIn("region(X, 64, 64)", rows[0]["a"])
        self.assertIn("region(X, 192, 64)", rows[0]["b"])
        self.assertEqual((rows[1]["a"], rows[1]["line_a"]), ("", None))

    def test_the_same(self) -> None:
        """The same program on another device has the same schedule."""
        other = self.run_of("narrow", self.text, "--set", "ddr.channels=1")
        self.assertEqual(self.diff(self.base, other)["schedule"], [])


class PathTest(SchedulesTest):
    """Losses of the runs, on the critical path and beside it."""

    @staticmethod
    def explained(run: Path) -> dict[str, Counter[str]]:
        """Return the cycles of the critical path by operation (here: task) and kind, as `explain` has it."""
        document = json.loads(kpusim("explain", run, "--json", "--bounds-only").stdout)
        cycles: dict[str, Counter[str]] = {}
        for segment in document["critical_path"]["segments"]:
            op = segment["task"].split("[")[0]
            cycles.setdefault(op, Counter())[segment["kind"]] += segment["to"] - segment["from"]
        return cycles

    @staticmethod
    def charged(run: Path) -> dict[str, dict[str, str]]:
        """Return the rows of ops.csv."""
        with (run / "ops.csv").open() as file:
            return {row["op"]: row for row in csv.DictReader(file)}

    def pairs(self) -> list[tuple[Path, Path]]:
        """Runs to compare: other schedules, and another device."""
        others = [self.edited(name) for name in ("single", "order", "two_deps", "gone")]
        others.append(self.run_of("narrow", self.text, "--set", "ddr.channels=1"))
        return [(self.base, other) for other in others] + [(others[0], others[1])]

    def test_the_path(self) -> None:
        """Each operation has what the two critical paths spend in it; all changes are what the run lost."""
        for a, b in self.pairs():
            with self.subTest(a=a.name, b=b.name):
                found = self.diff(a, b)["critical_path"]
                paths = [self.explained(run) for run in (a, b)]
                rows = {row["op"]: row for row in found["on_path"]}
                totals = [
                    json.loads((run / "stats.json").read_text())["stats"]["cycles.total"]["value"]
                    for run in (a, b)
                ]
                self.assertEqual([found["cycles_a"], found["cycles_b"]], totals)
                self.assertEqual(sum(row["change"] for row in rows.values()), totals[1] - totals[0])
                for op in set(paths[0]) | set(paths[1]):
                    cycles = [path.get(op, Counter()).total() for path in paths]
                    if op in rows:
                        self.assertEqual([rows[op]["a"], rows[op]["b"]], cycles)
                        causes = rows[op]["causes"]
                        self.assertEqual(sum(part["change"] for part in causes), rows[op]["change"])
                        self.assertTrue(all(part["change"] == part["b"] - part["a"] != 0 for part in causes))
                    else:
                        self.assertEqual(cycles[0], cycles[1], op)
                self.assertLessEqual(set(rows), set(paths[0]) | set(paths[1]))
                sizes = [abs(row["change"]) for row in found["on_path"]]
                self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_beside_the_path(self) -> None:
        """Work of units for an operation, in ops.csv, is what the path has and what is beside it."""
        for a, b in self.pairs():
            with self.subTest(a=a.name, b=b.name):
                rows = {row["op"]: row for row in self.diff(a, b)["critical_path"]["off_path"]}
                for side, run in (("a", a), ("b", b)):
                    path = self.explained(run)
                    for op, row in self.charged(run).items():
                        if op == "__background" or op not in rows:
                            continue
                        groups = ("busy.", "stalled.")
                        all_cycles = sum(int(value) for key, value in row.items() if key.startswith(groups))
                        beside = all_cycles - path.get(op, Counter())["executes"]
                        self.assertEqual(rows[op][side], beside, (op, side))

    def test_charged_cycles_mislead(self) -> None:
        """With the loads in the other order charged cycles change hands; the path tells the loss."""
        found = self.diff(self.base, self.edited("order"))
        charged = {
            row["op"]: row["charged_cycles_b"] - row["charged_cycles_a"] for row in found["operations"]
        }
        lost = found["critical_path"]["cycles_b"] - found["critical_path"]["cycles_a"]
        on_path = {row["op"]: row["change"] for row in found["critical_path"]["on_path"]}
        self.assertGreater(abs(charged["la"]), 20 * abs(lost))
        self.assertGreater(abs(charged["la"]), 10 * abs(on_path["la"]))

    def test_without_events(self) -> None:
        """Without events, or with those of another run, the difference says why it has no path."""
        other = self.run_of("no_events", self.text, "--set", "ddr.channels=1", events=False)
        found = self.diff(self.base, other)
        self.assertIsNone(found["critical_path"])
        self.assertIn("no_events has no events", found["no_critical_path"])
        (other / "events.kpuev").write_bytes((self.base / "events.kpuev").read_bytes())
        found = self.diff(self.base, other)
        self.assertIsNone(found["critical_path"])
        self.assertIn("is of another run", found["no_critical_path"])
        self.assertIn("is of another run", kpusim("diff", self.base, other).stdout)

    def test_a_program_that_cannot_be_read(self) -> None:
        """A damaged text of a program leaves the rest of the difference."""
        other = self.run_of("damaged", self.text, "--set", "ddr.channels=1")
        (other / "program.nem").write_text("const a = b\n")
        found = self.diff(self.base, other)
        self.assertEqual(found["schedule"], [])
        self.assertIn("forward reference", found["no_schedule"])
        self.assertIsNotNone(found["critical_path"])
        self.assertIn("schedules are not compared", kpusim("diff", self.base, other).stdout)


if __name__ == "__main__":
    unittest.main()
