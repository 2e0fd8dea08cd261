"""Launches of kernels through the command: cycles computed by hand, errors, limits, files.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_launch
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

KPUSIM = os.environ["KPUSIM"]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"

spec = importlib.util.spec_from_file_location("library", FOLDER / "library.py")
assert spec is not None and spec.loader is not None
library = importlib.util.module_from_spec(spec)
sys.modules["library"] = library
spec.loader.exec_module(library)


class Launch(unittest.TestCase):
    """A kernel `k` in a program that launches it."""

    def setUp(self) -> None:
        """A folder for the files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def prepare(self, kernel: str, case: object) -> list[str]:
        """Write the program; the command that runs it."""
        (self.work / "k.kern").write_text(kernel)
        (self.work / "p.nem").write_text(library.program("k", case))
        command = [KPUSIM, "run", str(self.work / "p.nem")]
        for name, array in case.reads.items():
            np.save(self.work / f"{name}.npy", array)
            command += ["--input", f"{name}={self.work / name}.npy"]
        return command

    def run_it(self, command: list[str], code: int = 0) -> str:
        """Run it, and return what it prints."""
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def case(self, **options: object) -> object:
        """Buffers x (256 words) and o (256 words)."""
        settings = {
            "file": "k.kern",
            "reads": {"x": np.arange(256, dtype=np.uint32)},
            "writes": {"o": np.zeros(256, np.uint32)},
            "expected": None,
            "grid": (1,),
        }
        settings.update(options)
        return library.Case(**settings)


class Copies(Launch):
    """Cost of copies and work together, of straight code: nothing but copies, waits and work."""

    STEPS, BYTES = 8, 16384
    COPY = 'async_load(x, {slot}, {at}, {bytes}, "{slot}")'
    WORK = "loop w in 0..{work}: let a = w + 1 endloop"

    def time(self, steps: list[str]) -> int:
        """Return the cycles of the statements of a body in which copies come from L2."""
        body = " ".join(f"block: {step} endblock" for step in steps)
        words = self.BYTES // 4
        slots = f", even: workgroup u32[{words}], odd: workgroup u32[{words}]"
        kernel = f"kernel k workgroup(1) (x: read u32[], o: output u32[]{slots}): {body} endkernel"
        case = self.case(reads={"x": np.arange(words * self.STEPS, dtype=np.uint32)}, far=("x",))
        command = [*self.prepare(kernel, case), "--quiet", "--force", "-o", str(self.work / "out")]
        self.run_it(command)
        with (self.work / "out" / "kernels.csv").open() as file:
            return sum(int(row["busy_cycles"]) + int(row["stalled_cycles"]) for row in csv.DictReader(file))

    def law(self, work: int) -> None:
        """One buffer: n (c + k); two: c + (n - 1) max(c, k) + k, with one copy on its way at a time."""
        n, steps = self.STEPS, range(self.STEPS)
        working = self.WORK.format(work=work)
        slots = ["even" if i % 2 == 0 else "odd" for i in steps]
        loads = [self.COPY.format(slot=slots[i], at=i * self.BYTES, bytes=self.BYTES) for i in steps]
        waits = [f'async_wait("{slot}")' for slot in slots]
        copy = (self.time([f"{loads[i]} {waits[i]}" for i in steps])) / n
        step = (self.time([working] * n)) / n
        one = self.time([f"{loads[i]} {waits[i]} {working}" for i in steps])
        ahead = [*loads[1:], ""]
        two = self.time([loads[0], *(f"{waits[i]} {ahead[i]} {working}" for i in steps)])
        self.assertLess(abs(one / (n * (copy + step)) - 1), 0.05, (copy, step, one))
        wanted = copy + (n - 1) * max(copy, step) + step
        self.assertLess(abs(two / wanted - 1), 0.05, (copy, step, two, wanted))
        self.assertLess(two, one)

    def test_overlap(self) -> None:
        """Copies that take longer than the work, about as long, and shorter."""
        for work in (20, 80, 140, 400):
            with self.subTest(work=work):
                self.law(work)


class Units(Launch):
    """A launch spreads its workgroups over the units that are free."""

    def busy(self, units: int, groups: int) -> list[int]:
        """Busy cycles of each vector unit."""
        kernel = (
            "kernel k workgroup(8) (x: read u32[], o: output u32[], t: workgroup u32[8]): "
            "loop i in 0..50: let a = i + lid.x endloop t[lid.x] = x[gid.x] barrier "
            "o[gid.x] = t[7 - lid.x] endkernel"
        )
        command = self.prepare(kernel, self.case(grid=(groups,)))
        command += ["--quiet", "--force", "-o", str(self.work / "out"), "--set", "engine.vector.lanes=8",
                    "--set", f"engine.vector.vpu_count={units}"]  # fmt: skip
        self.run_it(command)
        out = np.load(self.work / "out" / "outputs" / "o.npy").ravel()[: 8 * groups]
        expected = np.arange(8 * groups).reshape(-1, 8)[:, ::-1].ravel()
        self.assertTrue(np.array_equal(out, expected))
        stats = json.loads((self.work / "out" / "stats.json").read_text())["stats"]
        self.assertEqual(stats["cycles.unattributed"]["value"], 0)
        self.total = stats["cycles.total"]["value"]
        kinds = ("useful", "padding")
        return [sum(stats[f"units.e0_vpu{u}.busy.{kind}"]["value"] for kind in kinds) for u in range(units)]

    def test_workgroups_spread(self) -> None:
        """Each unit has its share; together they do what one does."""
        one = self.busy(1, 8)
        alone = self.total
        for units in (2, 4):
            each = self.busy(units, 8)
            self.assertEqual(sum(each), sum(one))
            self.assertEqual(max(each), sum(one) // units, each)
            self.assertLess(self.total, alone)

    def test_no_more_units_than_workgroups(self) -> None:
        """The others have nothing to do."""
        self.assertEqual(sum(cycles > 0 for cycles in self.busy(4, 2)), 2)


class Errors(Launch):
    """Refusals of what does not fit; what goes wrong ends with its own code."""

    def refused(self, kernel: str, text: str, *options: str, code: int = 1, **case: object) -> None:
        """The command says so."""
        self.assertIn(text, self.run_it([*self.prepare(kernel, self.case(**case)), *options], code))

    good = "kernel k workgroup(8) (x: read u32[], o: output u32[]): o[gid.x] = x[gid.x] endkernel"

    def test_binding(self) -> None:
        """Operands, types, scalars, grid."""
        self.refused(
            self.good.replace("kernel k", "kernel kk"),
            "no kernel `k` in the program's files. Fix: did you mean `kk`?",
        )
        self.refused(
            self.good.replace("x: read u32", "x: read i32"), "buffer `x` of `i32` cannot be bound to region"
        )
        command = self.prepare(self.good, self.case())
        program = (self.work / "p.nem").read_text()
        (self.work / "p.nem").write_text(program.replace("elem=u32", "elem=i4"))
        self.assertIn("is of i4; a kernel's elements are whole bytes. Fix: ", self.run_it(command, 1))
        self.refused(
            self.good.replace("u32[])", "u32[], n: u32)"), "kernel `k` takes 1 scalars, the launch gives 0."
        )
        self.refused(
            self.good.replace("u32[])", "u32[], w: write u32[])"),
            "kernel `k` takes 1 inputs and 2 outputs, the launch gives 1 and 1.",
        )
        self.refused(self.good, "the grid has 0 workgroups along axis 0.", grid=(0,))
        self.refused(self.good, "workgroup * dispatch dimensions overflow u32 global id.", grid=(2**40,))
        self.refused(
            self.good.replace("x: read u32[]", "x: read u32[300]"),
            "buffer `x` has 1024 bytes but requires at least 1200 bytes (300 "
            "elements of u32). Fix: provide a larger input buffer.",
        )
        self.refused(
            self.good.replace("u32[])", "u32[], t: workgroup u32[1000000])"),
            "workgroup memory of kernel `k` needs 4000000 bytes, but L1 has",
        )
        self.refused(self.good, "kernels load and store in L1", far=("x",))

    def test_mistakes_have_their_place(self) -> None:
        """File, line and column of the kernel's text."""
        self.refused("kernel k workgroup(8) (x: read u32[], o: output u32[]):\n  o[gid.x] = y\nendkernel",
                     "k.kern:2:3: error: kernel `k`, `o[gid.x] = y`: reference to "
                     "undeclared variable `y`.")  # fmt: skip
        self.refused("kernel k workgroup(8) (:", "k.kern:1:24: error: expected a buffer or scalar")

    def test_a_file_without_kernels(self) -> None:
        """Named, not as if the program named none."""
        self.refused("# nothing", "no kernel `k`: the program's file k.kern has no kernels. Fix:")

    def test_a_file_of_kernels_alone(self) -> None:
        """`check` checks it; there is nothing to run."""
        file = self.work / "k.kern"
        check = [KPUSIM, "check", str(file)]
        file.write_text("# mine\n" + self.good)
        self.assertEqual(self.run_it(check), "")
        for verb in ("run", "debug", "disasm"):
            self.assertIn(
                "this file holds kernels, not a program. Fix:", self.run_it([KPUSIM, verb, str(file)], 1)
            )
        file.write_text(self.good.replace("= x[gid.x]", "= y"))
        self.assertIn(f"{file}:1:57: error: kernel `k`, `o[gid.x] = y`: reference to", self.run_it(check, 1))
        file.write_text(self.good + "\n" + self.good)
        self.assertIn(f"{file}:2:8: error: a second kernel `k`. Fix: rename one.", self.run_it(check, 1))

    def test_a_missing_file(self) -> None:
        """Named, with the fix."""
        command = self.prepare(self.good, self.case())
        (self.work / "k.kern").unlink()
        self.assertIn("cannot find the file of kernels k.kern. Fix:", self.run_it(command, 1))

    def test_a_trap_is_a_fault(self) -> None:
        """Exit 2, with invocation and region."""
        kernel = self.good.replace(
            "o[gid.x] = x[gid.x]", 'region "check": if gid.x == 3: trap(7, "bad") endif endregion'
        )
        for mode in ("functional", "values+timing"):
            self.refused(
                kernel,
                'region check, line 1, `trap(7, "bad")`, invocation (3, 0, 0): '
                "reference dispatch trapped: address=7, tag=`bad`.",
                "--mode",
                mode,
                code=2,
            )

    def test_an_endless_loop_has_a_limit(self) -> None:
        """Exit 2 in both modes."""
        kernel = self.good.replace("o[gid.x] =", "while true: let a = 1 endwhile o[gid.x] =")
        self.refused(
            kernel, "did not end within its limit", "--mode", "functional", "--max-steps", "1000", code=2
        )
        self.refused(kernel, "stopped at the limit of 100000 cycles", "--max-cycles", "100000", code=2)

    def test_an_endless_loop_ends_when_asked(self) -> None:
        """At its time, and by Ctrl-C, also where a whole kernel is one task."""
        kernel = self.good.replace("o[gid.x] =", "while true: let a = 1 endwhile o[gid.x] =")
        for mode in ("functional", "values+timing"):
            self.refused(
                kernel, "after 1 seconds: results are partial", "--mode", mode, "--timeout", "1", code=2
            )
            command = [*self.prepare(kernel, self.case()), "--mode", mode]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                time.sleep(1)
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn(b"interrupted", errors)

    def test_time_without_values(self) -> None:
        """Refused where control depends on data, else the same time."""
        kernel = self.good.replace("o[gid.x] =", "if x[gid.x] == 3: return endif o[gid.x] =")
        self.refused(
            kernel,
            "`if x[gid.x] == 3:` depends on data, so its time is not known without "
            "values. Fix: run with --mode values+timing.",
            "--mode",
            "timing",
        )
        command = [*self.prepare(self.good, self.case(grid=(32,))), "--quiet"]
        cycles = []
        for mode in ("timing", "values+timing"):
            self.run_it([*command, "--mode", mode, "-o", str(self.work / mode)])
            cycles.append(json.loads((self.work / mode / "stats.json").read_text())["stats"]["cycles.total"])
        self.assertEqual(cycles[0], cycles[1])

    def test_time_without_values_of_copies(self) -> None:
        """Where they come from may depend on data, nothing else of them."""
        copy = (
            "async_copy(x, t, window{{32, 8, 1, 8}}({row}, 0i32), "
            "window{{4, 8, 1, 8}}({to}, 0i32), s[{number}])"
        )
        kernel = (
            "kernel k rules(xla) workgroup(1) (x: read u32[256], o: write u32[32], t: workgroup u32[32], "
            "s: workgroup u32[4]): let i = i32(x[3i32]) loop j in 0i32..4i32: {copy} endloop "
            "wait(s, 0i32, 128i32) o[window{{32}}()] = t[window{{32}}()] endkernel"
        )
        case = self.case(writes={"o": np.zeros(32, np.uint32)}, grid=None)
        good = kernel.format(copy=copy.format(row="i + j", to="j", number="0i32"))
        command = [*self.prepare(good, case), "--quiet"]
        self.run_it([*command, "--mode", "values+timing", "-o", str(self.work / "known")])
        for name in ("unknown", "again"):
            self.run_it([*command, "--mode", "timing", "-o", str(self.work / name)])
        cycles = [
            json.loads((self.work / name / "stats.json").read_text())["stats"]["cycles.total"]["value"]
            for name in ("known", "unknown", "again")
        ]
        self.assertEqual(cycles[1], cycles[2])
        self.assertAlmostEqual(cycles[1] / cycles[0], 1, delta=0.1)
        for place in (
            {"row": "j", "to": "i", "number": "0i32"},
            {"row": "j", "to": "j", "number": "i - 3i32"},
        ):
            command = self.prepare(kernel.format(copy=copy.format(**place)), case)
            self.assertIn("depends on data", self.run_it([*command, "--mode", "timing"], 1))
        clipped = copy.format(row="i + j", to="j", number="0i32").replace(
            "window{32, 8, 1, 8}", "clipped{32, 8, 1, 8}"
        )
        command = self.prepare(kernel.format(copy=clipped), case)
        self.assertIn("depends on data", self.run_it([*command, "--mode", "timing"], 1))

    def test_accesses_outside_are_listed(self) -> None:
        """A warning with statement and index; the values are zeros, and dropped."""
        command = self.prepare(self.good, self.case(grid=(33,)))
        text = self.run_it([*command, "--mode", "functional"])
        self.assertIn("`o[gid.x] = x[gid.x]`: load outside buffer `x`, first at index 256; 8 times.", text)
        self.assertIn("store outside buffer `o`, first at index 256; 8 times.", text)

    def test_accesses_outside_are_errors_if_strict(self) -> None:
        """Exit 2 once the run is over."""
        command = [*self.prepare(self.good, self.case(grid=(33,))), "--strict"]
        for mode in ("functional", "values+timing"):
            text = self.run_it([*command, "--mode", mode], 2)
            self.assertIn(
                "error: task `launch`, kernel `k`, line 1, `o[gid.x] = x[gid.x]`: load outside", text
            )

    def test_races_name_both_statements(self) -> None:
        """Exit 2, unless they are allowed; the same in both modes."""
        kernel = self.good.replace("u32[]):", "u32[], t: workgroup u32[8]): t[lid.x] = x[gid.x]").replace(
            "= x[gid.x] endkernel", "= t[7 - lid.x] endkernel"
        )
        command = self.prepare(kernel, self.case())
        for mode in ("functional", "values+timing"):
            text = self.run_it([*command, "--mode", mode], 2)
            self.assertIn("8 hazards (kernel 8)", text)
            self.assertIn(
                "`o[gid.x] = t[7 - lid.x]`, invocation (0, 0, 0), reads `t[7]`, which kernel `k`, line 1, "
                "`t[lid.x] = x[gid.x]`, invocation (7, 0, 0), writes; nothing orders the two",
                text,
            )
            self.run_it([*command, "--mode", mode, "--allow-hazards"])

    def test_kernels_of_a_container_have_the_lines_that_disasm_writes(self) -> None:
        """In findings, in mistakes, and in the table of statements."""
        first = "kernel first workgroup(1) (o: output u32[]): if true: o[0] = 1 endif endkernel "
        command = self.prepare(first + self.good, self.case(grid=(33,)))
        self.run_it([KPUSIM, "asm", str(self.work / "p.nem"), "-o", str(self.work / "p.kpu")])
        (self.work / "k.kern").unlink()
        self.run_it([KPUSIM, "disasm", str(self.work / "p.kpu"), "-o", str(self.work / "q.nem")])
        text = self.run_it(
            [*(str(self.work / "p.kpu") if part.endswith("p.nem") else part for part in command), "-o",
             str(self.work / "out")]
        )  # fmt: skip
        statement = "o[gid.x] = x[gid.x]"
        line = 1 + (self.work / "k.kern").read_text().splitlines().index(f"    {statement}")
        self.assertGreater(line, 6)
        self.assertIn(f"kernel `k`, line {line}, `{statement}`: load outside", text)
        kept = (self.work / "out" / "program.kern").read_text().splitlines()
        self.assertEqual(kept[line - 1].strip(), statement)
        self.assertIn(f'"k","",{line},', (self.work / "out" / "kernels.csv").read_text())

    def test_disasm_keeps_other_kernels(self) -> None:
        """A file of kernels that stands there already is not replaced by another one."""
        self.prepare(self.good, self.case())
        container = str(self.work / "p.kpu")
        self.run_it([KPUSIM, "asm", str(self.work / "p.nem"), "-o", container])
        there = self.work / "there"
        there.mkdir()
        (there / "k.kern").write_text("kernel other workgroup(1) (): endkernel")
        self.assertIn(
            "holds other kernels", self.run_it([KPUSIM, "disasm", container, "-o", str(there / "p.nem")], 1)
        )
        self.assertIn('op="k"', self.run_it([KPUSIM, "disasm", container]))


class Folders(Launch):
    """The folder of a run has all of its program."""

    good = Errors.good

    def keep(self, name: str, kernel: str) -> Path:
        """Run into a folder, with events."""
        out = self.work / name
        command = self.prepare(kernel, self.case(grid=(32,)))
        self.run_it([*command, "--quiet", "-o", str(out), "--events", str(out / "events.kpuev")])
        return out

    def test_it_runs_again(self) -> None:
        """And `explain` simulates changes of it."""
        out = self.keep("out", self.good)
        (self.work / "k.kern").unlink()
        text = self.run_it([KPUSIM, "explain", str(out)])
        self.assertIn("What if, simulated", text)
        self.assertNotIn("not done", text)
        again = [KPUSIM, "run", str(out / "program.nem"), "--platform", str(out / "platform.textproto")]
        again += ["--quiet", "-o", str(self.work / "again"), "--input", f"x={self.work}/x.npy"]
        self.run_it(again)
        stats = [json.loads((folder / "stats.json").read_text()) for folder in (out, self.work / "again")]
        self.assertEqual(stats[0], stats[1])

    def test_several_files(self) -> None:
        """Kernels of all of them are there, and `--force` leaves none of an earlier run."""
        command = self.prepare(self.good, self.case(grid=(32,)))
        (self.work / "more.kern").write_text("kernel other workgroup(1) (): endkernel")
        program = self.work / "p.nem"
        text = program.read_text()
        program.write_text(text.replace("#! kernels k.kern", "#! kernels k.kern\n#! kernels more.kern"))
        out = self.work / "out"
        self.run_it([*command, "--quiet", "-o", str(out)])
        self.assertEqual((out / "program.kern").read_text().count("endkernel"), 2)
        self.assertEqual((out / "program.nem").read_text().count("#! kernels"), 1)
        self.run_it([KPUSIM, "check", str(out / "program.nem")])
        plain = FOLDER.parent / "gemm_relu" / "gemm_relu.nem"
        self.run_it([KPUSIM, "run", str(plain), "--fill", "zeros", "--quiet", "-o", str(out), "--force"])
        self.assertFalse((out / "program.kern").exists())

    def test_a_changed_kernel_is_a_difference(self) -> None:
        """`diff` shows its line."""
        one = self.keep("one", self.good)
        two = self.keep("two", self.good.replace("= x[gid.x]", "= x[gid.x] * 3"))
        text = self.run_it([KPUSIM, "diff", str(one), str(two)])
        lines = ["kernels, line 2", "    -     o[gid.x] = x[gid.x]", "    +     o[gid.x] = x[gid.x] * 3\n"]
        self.assertIn("\n".join(lines), text)


if __name__ == "__main__":
    unittest.main()
