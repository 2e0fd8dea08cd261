"""`kpusim debug` in kernels on tiles, and that nobody notices being looked at.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_debug_tiles
"""

from __future__ import annotations

import json
import re
import subprocess
import unittest

import numpy as np
from test_launch import FOLDER, KPUSIM, Launch, library

KERNEL = """kernel k rules(xla) workgroup(1)
        (x: read f32[64], o: write f32[64], t: workgroup f32[64], s: workgroup u32[2]):
    line("softmax.py:7")
    let most = 0.0
    async_copy(x, t, window{4, 16}(), window{4, 16}(), s[1i32])
    region "rows":
        loop i in 0i32..4i32:
            line("softmax.py:9")
            wait(s, 1i32, select(i == 0i32, 256i32, 0i32))
            let row = t[window{4, 16, 1, 16}(i, 0i32)]
            line("softmax.py:10 (softmax.<locals>.f)")
            most = max(most, reduce_max{0, 1}(row))
            o[window{4, 16, 1, 16}(i, 0i32)] = row * 2.0
        endloop
    endregion
    line("folder/other.py:10")
    let last = most
endkernel
"""
X = np.arange(64, dtype=np.float32)


class Tiles(Launch):
    """A kernel that doubles, row by row."""

    def command(self, kernel: str = KERNEL) -> list[str]:
        """That runs it."""
        return self.prepare(
            kernel, self.case(reads={"x": X}, writes={"o": np.zeros(64, np.float32)}, grid=(), far=("x",))
        )

    def session(self, *verbs: str, mode: str = "values+timing", kernel: str = KERNEL) -> list[str]:
        """Return the answers, as lines, without the first."""
        command = self.command(kernel)
        command[1] = "debug"
        result = subprocess.run(
            [*command, "--mode", mode],
            check=False,
            input="\n".join(verbs),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout.splitlines()[1:]

    def test_lines_of_the_front_end(self) -> None:
        """Once for a line, however many statements it has; of every file, or of one."""
        for mode in ("values+timing", "functional"):
            said = self.session(
                "break line 9",
                *["continue", "print i"] * 2,
                "delete 1",
                "break line 10",
                *["continue", "print i"] * 3,
                "delete 2",
                "break line other.py:10",
                "continue",
                "print most",
                "where",
                mode=mode,
            )
            with self.subTest(mode):
                self.assertIn("softmax.py:9, kernel `k`, `wait(s, 1i32", said[2])
                self.assertEqual([said[3], said[6]], ["i = 0", "i = 1"])
                self.assertIn("softmax.py:10 (softmax.<locals>.f), kernel `k`, `most = max", said[10])
                self.assertEqual([said[11], said[14], said[17]], ["i = 1", "i = 2", "i = 3"])
                self.assertEqual(said[19:21], ["3: line other.py:10"] * 2)
                self.assertEqual(said[22], "most = 63")
                self.assertIn("folder/other.py:10, kernel `k`, `let last = most`", said[23])

    def test_lines_of_the_text(self) -> None:
        """With the file's name, where statements come from another."""
        said = self.session("break line k.kern:12", "continue", "break line 11", "break line 8")
        self.assertIn("`most = max", said[2])
        self.assertIn("error: no statement of a kernel is at line 11.", said[3])
        self.assertIn("softmax.py:7 to 10 (the next one is 9)", said[4])

    def test_tiles(self) -> None:
        """Excerpts, elements, rows; buffers, and what counted at semaphores."""
        said = self.session(
            "break region rows",
            "continue",
            "print",
            "print s",
            "step",
            "step",
            "step",
            "print row",
            "step",
            "print row[0,5]",
            "print row[0, 2..5]",
            "print x[16..18]",
            "print t",
            "print row[1,0]",
            "print row[3]",
            "print most",
            "lanes most",
            "lane 1",
        )
        self.assertIn('`region "rows":`', said[2])
        self.assertEqual(said[3:6], ["most = 0", "s = 2 semaphores", "  0 256"])
        self.assertIn("error: no variable or buffer `row` here.", said[12])
        self.assertEqual(said[15:18], ["row[0, 5] = 5", "row[0, 2..5] = 2 3 4", "x[16..18] = 16 17"])
        self.assertEqual(said[18:20], ["t = f32[64]", "  0 1 2 3 4 5 ... 63"])
        self.assertEqual(said[20:22], [
            "error: `row` is f32[1, 16], so `1` is not a place there. Fix: stay below its sizes.",
            "error: `row` is f32[1, 16]. Fix: give it an index or a range like 0..8 for each size, with "
            "commas.",
        ])  # fmt: skip
        self.assertEqual(said[22:], [
            "most = 0", "error: a kernel on tiles has one invocation. Fix: print shows its variables.",
            "error: the workgroup has 1 invocations. Fix: give 0 to 0.",
        ])  # fmt: skip

    def test_what_nothing_reads_any_more(self) -> None:
        """It is still there for who looks."""
        kernel = KERNEL.replace(
            "let last = most", "let all = t[window{2, 2, 16}()] let last = all let more = last"
        )
        said = self.session(
            "break line other.py:10",
            "continue",
            "step",
            "step",
            "print all[1, 0..2, 14..16]",
            kernel=kernel,
            mode="functional",
        )
        self.assertIn("`let more = last`", said[-4])
        self.assertEqual(said[-3:], ["all[1, 0..2, 14..16] =", "  [1, 0] 46 47", "  [1, 1] 62 63"])

    def test_excerpts(self) -> None:
        """The first rows and columns, and the last ones."""
        kernel = KERNEL.replace("let last = most", "let all = t[window{2, 2, 16}()] let last = all")
        said = self.session(
            "break line other.py:10",
            "continue",
            "step",
            "print all",
            "print all[1, 0..2, 14..16]",
            kernel=kernel,
        )
        self.assertEqual(said[5:11], [
            "all = f32[2, 2, 16]",
            "  [0, 0] 0 1 2 3 4 5 ... 15", "  [0, 1] 16 17 18 19 20 21 ... 31",
            "  [1, 0] 32 33 34 35 36 37 ... 47", "  [1, 1] 48 49 50 51 52 53 ... 63",
            "all[1, 0..2, 14..16] =",
        ])  # fmt: skip
        self.assertEqual(said[11:], ["  [1, 0] 46 47", "  [1, 1] 62 63"])

    def test_watches_and_units(self) -> None:
        """Workgroup memory has no address of its own; and what the device does at that time is shown."""
        said = self.session(
            "break line 9",
            "continue",
            "watch t 4 4",
            "tasks",
            "units",
            "continue",
            "print t[1]",
            "delete 2",
            "delete 1",
            "task",
            "where",
        )
        self.assertIn("2: t 4 4", said)
        self.assertTrue(any(line.endswith(" launch running") for line in said), said)
        self.assertTrue(any(line.startswith("e0_vpu0      busy") for line in said), said)
        at = said.index("2: t 4 4: was 00 00 00 00, is 00 00 80 3f")
        self.assertIn("`let row = t", said[at + 1])
        self.assertEqual(said[at + 2], "t[1] = 1")
        self.assertTrue(said[-2].startswith("a task is complete at cycle"), said)
        self.assertTrue(said[-1].endswith(", between tasks"), said)

    def test_failures(self) -> None:
        """Semaphores that nothing signals, and places outside, are shown with the variables as they were."""
        kernel = KERNEL.replace("(i, 0i32)] = row", "(i * 2i32, 0i32)] = row")
        for mode in ("values+timing", "functional"):
            said = self.session(
                "continue", "print i", "print row[0, 0]", "continue", mode=mode, kernel=kernel
            )
            with self.subTest(mode):
                self.assertIn("the simulation failed: ", said[0])
                self.assertIn("softmax.py:10 (softmax.<locals>.f), kernel `k`, `o[window", said[1])
                self.assertEqual(said[2:4], ["i = 2", "row[0, 0] = 32"])
                self.assertIn("the run is over", said[4])
        said = self.session("continue", "print s", kernel=KERNEL.replace("s[1i32]", "s[0i32]"))
        self.assertIn("softmax.py:9", said[0])
        self.assertEqual(said[2:], ["s = 2 semaphores", "  256 0"])

    def test_containers(self) -> None:
        """They keep the front end's lines; others are those that disasm writes."""
        command = self.command()
        for kernel, verb, text in (
            (KERNEL, "break line 9", "1: line 9"),
            (
                re.sub(r"line\(.*\)", "", KERNEL),
                "break line k.kern:4",
                "1: line k.kern:4",
            ),
        ):
            self.command(kernel)
            subprocess.run([KPUSIM, "asm", command[2], "-o", self.work / "p.kpu"], check=True)
            result = subprocess.run([KPUSIM, "debug", self.work / "p.kpu", "--fill", "zeros"], check=True,
                                    input=verb, capture_output=True, text=True, timeout=60)  # fmt: skip
            self.assertIn(text, result.stdout)
            (self.work / "p.kpu").unlink()


class Unseen(Launch):
    """A run that is looked at takes the same cycles and gives the same bytes."""

    LOOK = "bytes ddr 0 64"  # outputs begin there

    def end(self, command: list[str], *verbs: str) -> tuple[int, str]:
        """Cycles of the run, and the first bytes of its first output."""
        result = subprocess.run(
            [*command[:1], "debug", *command[2:]],
            check=True,
            text=True,
            capture_output=True,
            input="\n".join([*verbs, *["continue"] * 9, self.LOOK]),
            timeout=120,
        )
        lines = result.stdout.splitlines()
        ended = next(line for line in lines if line.startswith("the program is finished at cycle "))
        return int(ended.split()[-1]), lines[-1]

    def alone(self, command: list[str], output: str) -> tuple[int, str]:
        """Return the same, of `run`."""
        self.run_it([*command, "--quiet", "--force", "-o", str(self.work / "out")])
        stats = json.loads((self.work / "out" / "stats.json").read_text())["stats"]
        held = np.load(self.work / "out" / "outputs" / f"{output}.npy").tobytes()[:64]
        return stats["cycles.total"]["value"], held.ljust(64, b"\0").hex(" ")

    def test_library(self) -> None:
        """Every kernel of the library, by statements, cycles, tasks, and by watches."""
        cases = library.cases()
        self.assertGreater(len(cases), 20)
        for name, case in cases.items():
            with self.subTest(name):
                command = self.prepare((FOLDER / case.file).read_text(), case)
                case.file = "k.kern"
                (self.work / "p.nem").write_text(library.program(name, case))
                alone = self.alone(command, next(iter(case.writes)))
                steps = ["step"] * 20 + ["cycle 7", "step 3"] * 10 + ["cycle 101"] * 3 + ["task", "step 1000"]
                for verbs in (steps, ["watch l1[0] 0 16", *["continue"] * 12, "delete 1"]):
                    self.assertEqual(self.end(command, *verbs), alone)

    def test_random_sessions(self) -> None:
        """Whatever is asked, the program ends as it does alone."""
        simt = """kernel k workgroup(4) (x: read u32[], o: output u32[], t: workgroup u32[4], n: u32):
            t[lid.x] = x[gid.x] + n
            barrier
            let row = atomic_add(o[0], t[3 - lid.x])
            region "rows":
                loop i in 0..gid.x:
                    row = row + i
                endloop
            endregion
            o[gid.x + 8] = row
        endkernel"""
        random = np.random.default_rng(1)
        numbers = ["0", "1", "3", "8", "16", "999", "18446744073709551615", "-1", "x"]

        def verb() -> str:
            name = random.choice(["row", "t", "o", "x", "i", "s", "q"])
            a, b = random.choice(numbers, 2)
            line, some = random.integers(1, 16), random.integers(1, 60)
            return str(random.choice([
                f"break line {line}", "break region rows", f"break cycle {9 * some}", "break task launch",
                f"watch {name} {a} {b}", f"watch l1[0] {a} {b}", f"delete {a}", "continue", "step",
                f"step {line}", "task", f"cycle {some}", f"group {a}", "group", f"lane {a}", "lane",
                "print", f"print {name}", f"print {name}[{a}]", f"print {name}[{a}, 0..{b}]", f"lanes {name}",
                f"bytes {name} {a} {b}", "where", "units", "tasks", "list", "help",
            ]))  # fmt: skip

        cleared = ["group", "lane", *(f"delete {i}" for i in range(1, 30))]
        cases = (
            (
                KERNEL,
                {"reads": {"x": X}, "writes": {"o": np.zeros(64, np.float32)}, "grid": (), "far": ("x",)},
            ),
            (simt, {"grid": (2,), "args": (3,)}),
        )
        for kernel, options in cases:
            command = self.prepare(kernel, self.case(**options))
            alone = self.alone(command, "o")
            for session in range(30):
                verbs = [verb() for _ in range(20)]
                with self.subTest(session, verbs=verbs):
                    self.assertEqual(self.end(command, *verbs, *cleared), alone)

    def test_tiles(self) -> None:
        """A kernel on tiles, with copies on their way."""
        command = self.prepare(
            KERNEL, self.case(reads={"x": X}, writes={"o": np.zeros(64, np.float32)}, grid=(), far=("x",))
        )
        alone = self.alone(command, "o")
        self.assertEqual(alone[1], (2 * X[:16]).tobytes().hex(" "))
        for verbs in (
            ["step"] * 40,
            ["cycle 3"] * 200,
            ["break line 9", "watch t 0 4"],
            ["step 3", "cycle 9"] * 5,
        ):
            self.assertEqual(self.end(command, *verbs), alone)


if __name__ == "__main__":
    unittest.main()
