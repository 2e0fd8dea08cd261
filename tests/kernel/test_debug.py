"""`kpusim debug`: where it stops, and what it shows.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_debug
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
import unittest
from pathlib import Path

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
        """Return the answers, as lines."""
        return self.answers(
            self.prepare(KERNEL, self.case(grid=(2,), args=(3,))), *verbs, code=code, mode=mode
        )

    def answers(
        self, command: list[str], *verbs: str, code: int = 0, mode: str = "values+timing"
    ) -> list[str]:
        """Return the same, of a command that runs the program."""
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
        self.assertIn("1 of 4 invocations (2), print means (2, 0, 0)", said[-1])

    def test_tasks_cycles_units(self) -> None:
        """Tasks, cycles and units show what is under way, and what waits for what."""
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

    def test_a_watch_over_two_launches(self) -> None:
        """A buffer of the second one is another place, not a change."""
        command = self.prepare(KERNEL, self.case(grid=(1,), args=(3,)))
        program = self.work / "p.nem"
        again = 'again = compute.async in r_o_L1 out r_x_L1 op="k" grid=[1] args=[3] deps=[launch]\n'
        lines = program.read_text().splitlines(keepends=True)
        program.write_text("".join(line for line in lines if not line.startswith("o")) + again)
        verbs = ["break line 4", "continue", "watch x 4 4", "delete 1", "watch o 4 4"]
        said = self.answers(command, *verbs, *["continue"] * 3)
        self.assertIn("3: o 4 4: was 00 00 00 00, is 03 00 00 00", said)
        self.assertIn("3: o 4 4: was 00 00 00 00, is 09 00 00 00", said)  # zeros at the start of the second
        self.assertFalse(any("2: x 4 4: was" in line for line in said), said)

    def test_steps_without_kernels(self) -> None:
        """There is nothing to step."""
        program = self.work / "p.nem"
        program.write_text("program p:\nbuffer a : DDR (size = 16)\nbuffer b : L2 (size = 16)\n"
                           "let x = region(a, 0, 16) elem=u32, shape=[4], layout=N\n"
                           "let y = region(b, 0, 16) elem=u32, shape=[4], layout=N\n"
                           "t = transfer.async(dst=y, src=x)\n")  # fmt: skip
        command = [KPUSIM, "debug", str(program), "--fill", "zeros", "--platform", "npm_lite"]
        said = self.answers(command, "step", "break line 2", "break region r", "task")
        self.assertIn("error: the program launches no kernel, so it has no statements.", said[1])
        self.assertIn("error: the program launches no kernel. Fix: break at a task or a cycle.", said[2])
        self.assertEqual(said[3], said[2])
        self.assertIn("the program is finished at cycle ", said[4])

    def test_mistakes(self) -> None:
        """They cost nothing; the session goes on."""
        for verb, text in (
            ("brake", "error: `brake` is not a verb. Fix: help lists them."),
            ("break line x", "error: `x` is not a number of 64 bits. Fix: give one, like 12 or 0x0c."),
            ("break task z", "error: no task `z`. Fix: name a token of the program."),
            ("break", "error: `break` ends too early. Fix: help shows what follows."),
            ("print sum", "error: no kernel is under way. Fix: break at a line or region, or step."),
            (
                "watch l3 0 4",
                "error: `l3` is not a memory. Fix: write ddr, l2 or l1[0], or a buffer of a kernel "
                "that is under way.",
            ),
            (
                "break line 99",
                "error: no statement of a kernel is at line 99. Fix: there are some at k.kern:2 to 12.",
            ),
            (
                "break line 8",
                "error: no statement of a kernel is at line 8. Fix: there are some at k.kern:2 to 12 "
                "(the next one is 9).",
            ),
            (
                "break line z.kern:2",
                "error: no statement of a kernel is at z.kern:2. Fix: there are some at k.kern.",
            ),
            ("break line :2", "error: `:2` names no file. Fix: write FILE:N or N."),
            ("break region z", "error: no region `z`. Fix: name one of adding."),
            ("continue 3", "error: `3` is too much after `continue`. Fix: help shows what follows."),
            ("lane 70000", "error: no workgroup has more than 65536 invocations. Fix: give 0 to 65535."),
            ("group 4294967296", "error: there is no workgroup 4294967296. Fix: give one below 2^32."),
            ("step 0", "error: step 0 goes nowhere. Fix: give 1 or more."),
            ("bytes ddr 0 99999", "error: 99999 bytes. Fix: give 1 to 4096."),
            ("delete 7", "error: no breakpoint or watch 7. Fix: list shows them."),
        ):
            with self.subTest(verb):
                said = [line.replace(f"{self.work}/", "") for line in self.session(verb, "where")]
                self.assertEqual(said[1:], [text, "cycle 0, between tasks"])
        said = self.session(
            "break line 9",
            "continue",
            "print z",
            "print o[999]",
            "print o[1, 2]",
            "print sum[0]",
            "print o[1",
            "lanes z",
            "lane 4",
            "bytes z 0 4",
            "bytes o 1020 5",
            "continue",
            "delete 1",
            "continue",
            "continue",
        )
        for text in (
            "no variable or buffer `z` here. Fix: print shows the variables that there are; buffers stand in "
            "the head of the kernel.",
            "`o` is u32[256], so `999` is not a place there. Fix: stay below its sizes.",
            "`o` is u32[256]. Fix: give it one index, or a range like 0..8.",
            "`sum` is u32. Fix: give it no index.",
            "`o[1` has no `]`. Fix: write o[0].",
            "no variable `z` here. Fix: print shows those there are.",
            "the workgroup has 4 invocations. Fix: give 0 to 3.",
            "`z` is not a memory, and no buffer of kernel `k`. Fix: write ddr, l2, l1[0], or a name of its "
            "head.",
            "bytes 1020 to 1025 are outside of `o`, which has 1024. Fix: stay inside.",
        ):
            self.assertIn("error: " + text, said)
        self.assertIn("error: the run is over. Fix: quit, and begin again.", said)

    def test_values_of_all_invocations(self) -> None:
        """Invocations that diverge are named; what they have differs."""
        said = self.session(
            "break line 10",
            "continue",
            "lanes sum",
            "lane 1",
            "where",
            "print o[0..3]",
            "print x",
            "print x[ 3 ]",
        )
        self.assertEqual(said[4:8], [f"{i}: sum = {3 * i}" for i in range(4)])
        self.assertIn("1 of 4 invocations (2), print means (1, 0, 0), which does not execute it", said[9])
        self.assertEqual(said[10:13], ["o[0..3] = 0 0 0", "x = u32[256]", "  0 1 2 3 4 5 ... 255"])
        self.assertEqual(said[13], "x[3] = 3")

    def test_one_workgroup(self) -> None:
        """Others do not stop it."""
        said = self.session("group 1", "break line k.kern:12", "continue", "print i", "continue")
        self.assertEqual(said[1], "workgroup (1, 0, 0)")
        self.assertIn("workgroup (1, 0, 0)", said[4])
        self.assertEqual(said[5], "i = 4")
        self.assertTrue(said[6].startswith("the program is finished"), said)

    def test_cycles_inside_of_a_kernel(self) -> None:
        """The device stands at that cycle; variables are those of the statements that began before."""
        lines = self.session("break line 6", "continue")
        first = int(lines[-1].split()[1].rstrip(","))
        said = self.session(f"cycle {first}", "where", "print j", "step", "cycle 2", "units")
        self.assertEqual(said[1], f"at cycle {first}")
        self.assertTrue(said[2].startswith(f"cycle {first}, kernel `k`"), said)
        self.assertTrue(said[2] == said[3], said)
        self.assertEqual(said[4][:4], "j = ")
        later = int(said[6].split()[1].rstrip(","))
        self.assertEqual(said[7], f"at cycle {later + 2}")
        self.assertTrue(any(line.split() == ["e0_vpu0", "busy.useful"] for line in said[9:]), said)

    def test_it_stays_where_it_fails(self) -> None:
        """All that is there can be looked at, in every mode; there is no way on."""
        kernel = KERNEL.replace("sum = sum + 100", 'trap(sum, "odd")')
        for mode in ("values+timing", "functional"):
            command = self.prepare(kernel, self.case(grid=(2,), args=(3,)))
            said = self.answers(command, "continue", "print sum", "print i", "continue", "where", mode=mode)
            with self.subTest(mode):
                self.assertTrue(said[1].startswith("the simulation failed: "), said)
                self.assertIn("1 of 4 invocations (2)", said[2])
                self.assertEqual(
                    said[3:6], ["sum = 6", "i = 2", "error: the run is over. Fix: quit, and begin again."]
                )
                self.assertEqual(said[6], said[2])

    def test_what_happened_is_told(self) -> None:
        """Races, and accesses outside of buffers, with the end."""
        head = "kernel k workgroup(4) (x: read u32[], o: output u32[], n: u32):"
        kernel = f"{head} o[0] = lid.x o[n * 400] = 1 endkernel"
        said = self.answers(self.prepare(kernel, self.case(grid=(1,), args=(3,))), "continue")
        self.assertTrue(any("store" in line and "1200" in line for line in said), said)
        self.assertTrue(any("hazards (kernel" in line for line in said), said)

    def test_atomics_barriers_and_workgroup_memory(self) -> None:
        """A step is a statement of all that stand there; a watch sees memory that has no address."""
        kernel = """kernel k workgroup(4) (x: read u32[], o: output u32[], n: u32, t: workgroup u32[4]):
            t[lid.x] = x[gid.x] + n
            barrier
            let old = atomic_add(o[0], 1)
            if lid.x < 2:
                t[lid.x] = old
            else:
                t[lid.x] = 7
            endif
        endkernel"""
        command = self.prepare(kernel, self.case(grid=(2,), args=(3,)))
        said = self.answers(
            command,
            "step",
            "step",
            "print t",
            "watch t 4 4",
            "step",
            "step",
            "lanes old",
            "print o[0]",
            "step",
            "step",
            "print t",
            "continue",
            "continue",
        )
        self.assertIn("`barrier`", said[4])
        self.assertEqual(said[5:7], ["t = u32[4]", "  3 4 5 6"])
        self.assertIn("atomic_add(o[0], 1)", said[9])
        self.assertEqual(said[12:17], ["0: old = 0", "1: old = 1", "2: old = 2", "3: old = 3", "o[0] = 4"])
        self.assertIn("2 of 4 invocations (0 to 1)", said[18])
        self.assertIn("1: t 4 4: was 04 00 00 00, is 01 00 00 00", said[19])
        self.assertIn("2 of 4 invocations (2 to 3)", said[20])
        self.assertEqual(said[22], "  0 1 5 6")
        self.assertIn(
            "1: t 4 4: was 01 00 00 00, is 00 00 00 00", said
        )  # the next workgroup begins with zeros

    def endless(self) -> list[str]:
        """Return a program whose kernel does not end."""
        kernel = KERNEL.replace("o[i] = sum", "while sum < 1000: o[i] = sum endwhile")
        command = self.prepare(kernel, self.case(grid=(1,), args=(3,)))
        return [command[0], "debug", *command[2:]]

    def busy(self, process: int) -> None:
        """Waits until it computes."""

        def ticks() -> int:
            state, *numbers = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            self.assertNotEqual(state, "Z", "it has ended")
            return int(numbers[10])

        least = ticks() + 10
        while ticks() < least:
            time.sleep(0.01)

    def test_interrupts(self) -> None:
        """An interrupted script is over; what was found is said. So does the end of its time."""
        pipe = subprocess.PIPE
        for options, code, text in (([], 130, ""), (["--timeout", "2"], 2, "error: stopped after 2 seconds")):
            command = [*self.endless(), *options]
            with (
                self.subTest(code),
                subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process,
            ):
                assert process.stdin is not None
                process.stdin.write(b"continue\nprint i\n")
                process.stdin.flush()
                if code == 130:
                    self.busy(process.pid)
                    process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code)
                self.assertNotIn("i = ", out.decode())
                self.assertIn(text, err.decode())

    def test_a_terminal(self) -> None:
        """There is a prompt; Ctrl-C stops the program, and then the session."""
        command = self.endless()
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(command[0], command)
        said = ""

        def until(text: str) -> None:
            nonlocal said
            while text not in said:
                said += os.read(terminal, 4096).decode()
            said = said[said.index(text) + len(text) :]

        until("at the beginning\r\n(kpusim) ")
        os.write(terminal, b"continue\n")
        self.busy(pid)
        os.write(terminal, b"\x03")
        until("interrupted\r\ncycle ")
        until("(kpusim) ")
        os.write(terminal, b"print n\n")
        until("n = 3\r\n(kpusim) ")
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)
        os.close(terminal)

    def test_a_program_is_a_file(self) -> None:
        """Standard input has the verbs."""
        self.assertIn("debug reads verbs from standard input. Fix:", self.run_it([KPUSIM, "debug", "-"], 1))

    def test_quitting(self) -> None:
        """Within a kernel too."""
        self.assertEqual(self.session("break line 2", "continue", "quit", "where")[-1][:5], "cycle")


if __name__ == "__main__":
    unittest.main()
