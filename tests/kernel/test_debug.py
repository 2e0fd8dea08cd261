"""`kpusim debug`: where it stops, and what it shows.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_debug
"""

from __future__ import annotations

import subprocess
import unittest

from test_launch import KPUSIM, Launch

KERNEL = """kernel k workgroup(4) (x: read u32[], o: output u32[], n: u32):
    let i = gid.x
    let sum = 0
    region "adding":
        loop j in 0..n:
            sum = sum + x[i] * j
        endloop
    endregion
    if lid.x == 2:
        sum = sum + 100
    endif
    o[i] = sum
endkernel
"""


class Debug(Launch):
    """A kernel over two workgroups of four invocations."""

    def session(self, *verbs: str, code: int = 0, mode: str = "values+timing") -> list[str]:
        """The answers, as lines."""
        command = self.prepare(KERNEL, self.case(grid=(2,), args=(3,)))
        command[1] = "debug"
        result = subprocess.run([*command, "--mode", mode], check=False, input="\n".join(verbs) + "\n",
                                capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout.splitlines()

    def test_lines_and_variables(self) -> None:
        """It stops before a statement of the line; variables of its block are there."""
        for mode in ("values+timing", "functional"):
            said = self.session("break line 6", "continue", "print", "print j", "continue", "print j",
                                "lane 3", "print i", "print x[3]", mode=mode)  # fmt: skip
            with self.subTest(mode):
                self.assertEqual(said[:3], ["at the beginning", "1: line 6", "1: line 6"])
                self.assertIn(
                    "line 6, `sum = sum + x[i] * j`, workgroup (0, 0, 0), 4 of 4 invocations", said[3]
                )
                self.assertEqual(said[4:9], ["n = 3", "i = 0", "sum = 0", "j = 0", "j = 0"])
                self.assertEqual(said[11:], ["j = 1", "invocation 3 of the workgroup", "i = 3", "x[3] = 3"])

    def test_regions_and_steps(self) -> None:
        """A step is a statement; with a lane chosen, one that it executes."""
        said = self.session("break region adding", "continue", "step", "step", "where", "step 2", "print j")
        self.assertIn('`region "adding":`', said[3])
        self.assertIn("`loop j in 0..n:`", said[5])
        self.assertIn("`sum = sum + x[i] * j`", said[7])
        self.assertEqual(said[8], said[7])
        self.assertEqual(said[-1], "j = 2")
        said = self.session("break line 9", "lane 1", "continue", "step", "where")
        self.assertIn("`o[i] = sum`", said[-1])  # invocation 1 does not take the branch
        said = self.session("break line 9", "lane 2", "continue", "step", "where")
        self.assertIn("`sum = sum + 100`", said[-1])
        self.assertIn("1 of 4 invocations, print means (2, 0, 0)", said[-1])

    def test_tasks_cycles_units(self) -> None:
        """What is under way, and what waits for what."""
        said = self.session("break task launch", "task", "continue", "units", "tasks", "continue", "tasks")
        self.assertTrue(said[2].startswith("a task is complete at cycle "), said)
        self.assertTrue(said[3].startswith("1: task launch: complete at cycle "), said)
        self.assertTrue(any(line.startswith("e0_vpu0 ") for line in said))
        self.assertTrue(any(line.startswith("#4 o2_o waiting, waits for #3") for line in said), said)
        self.assertIn("3 complete", said)
        self.assertEqual(said[-1], "5 complete")
        said = self.session(
            "cycle 100", "where", "break cycle 250", "continue", "where", "list", "delete 1", "list"
        )
        self.assertEqual(said[1:3], ["at cycle 100", "cycle 100, between tasks"])
        self.assertEqual(said[4], "1: cycle 250: reached at cycle 250")
        self.assertEqual(said[-1], "nothing stops it")

    def test_watches(self) -> None:
        """The bytes before and after; the statement that wrote them is over."""
        said = self.session("watch l1[0] 8 4", "continue", "print sum", "bytes l1[0] 0 16", "continue")
        self.assertIn("1: l1[0] 8 4: was 00 00 00 00, is 6a 00 00 00", said)
        self.assertIn("00 00 00 00 03 00 00 00 6a 00 00 00 09 00 00 00", said)
        self.assertTrue(said[-1].startswith("the program is finished at cycle "), said)

    def test_mistakes(self) -> None:
        """They cost nothing; the session goes on."""
        for verb, text in (
            ("brake", "error: `brake` is no verb. Fix: help lists them."),
            ("break line x", "error: `x` is no number of 64 bits. Fix: give one, like 12 or 0x0c."),
            ("break task z", "error: no task `z`. Fix: name a token of the program."),
            ("break", "error: `break` ends too early. Fix: help shows what follows."),
            ("print sum", "error: no kernel stands still. Fix: break at a line or region, or step."),
            ("watch l3 0 4", "error: `l3` is no memory. Fix: write ddr, l2 or l1[0]."),
            ("bytes ddr 0 99999", "error: 99999 bytes. Fix: give 1 to 4096."),
            ("delete 7", "error: no breakpoint or watch 7. Fix: list shows them."),
        ):
            with self.subTest(verb):
                self.assertEqual(self.session(verb, "where")[1:], [text, "cycle 0, between tasks"])
        said = self.session("break line 9", "continue", "print z", "print o[999]", "continue", "delete 1",
                            "continue", "continue")  # fmt: skip
        self.assertIn("error: no variable `z` here. Fix: print shows those there are.", said)
        self.assertIn("error: `o` has 256 elements. Fix: give an index below.", said)
        self.assertIn("error: the run is over. Fix: quit, and begin again.", said)

    def test_a_program_is_a_file(self) -> None:
        """Standard input has the verbs."""
        self.assertIn("debug reads verbs from standard input. Fix:", self.run_it([KPUSIM, "debug", "-"], 1))

    def test_quitting(self) -> None:
        """Within a kernel too."""
        self.assertEqual(self.session("break line 2", "continue", "quit", "where")[-1][:5], "cycle")


if __name__ == "__main__":
    unittest.main()
