"""Ctrl-C, SIGTERM, SIGHUP and time limits at any moment: no exit 0 with losses, nothing temporary left."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import time
import unittest
from pathlib import Path

from support import KPUSIM, SafetyTest, kpusim

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOMENTS = (0.0, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.7)


def start(*arguments: object, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start the command; signals are as they are at the beginning of a process."""

    def restore() -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        [KPUSIM, *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore,
    )


def await_handlers(process: subprocess.Popen[str]) -> None:
    """Wait until main() has begun: before, a signal is nobody's."""
    caught = 0
    while not caught >> (signal.SIGTERM - 1) & 1 and process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16)
        time.sleep(0.002)


class SignalTest(SafetyTest):
    """Files that a signal leaves."""

    def check_folder(self, code: int, out: Path, *traces: Path) -> None:
        """Exit 0 and `complete` go together, and then everything is there."""
        self.assert_nothing_temporary()
        stats = out / "stats.json"
        complete = stats.exists() and json.loads(stats.read_text())["complete"]
        self.assertEqual(complete, code == 0)
        if complete:
            for path in (out / "ops.csv", out / "manifest.json", *traces):
                self.assertTrue(path.exists(), path)

    def test_while_simulating(self) -> None:
        """Every signal leaves partial results once the simulation runs; before, nothing."""
        kept = 0
        for number in SIGNALS:
            for i, moment in enumerate(MOMENTS):
                with self.subTest(number=number, moment=moment):
                    out, vcd = self.work / f"out{number}{i}", self.work / f"vcd{number}{i}"
                    process = start(
                        "run",
                        self.endless,
                        "--fill",
                        "zeros",
                        "-o",
                        out,
                        "--vcd",
                        vcd,
                        "--max-cycles",
                        10**12,
                    )
                    time.sleep(moment)
                    process.send_signal(number)
                    _, text = process.communicate(timeout=30)
                    # before main() has begun a signal is nobody's
                    self.assertIn(process.returncode, (130, -number), text)
                    self.check_folder(process.returncode, out, vcd)
                    kept += (out / "stats.json").exists() and vcd.exists()
        self.assertGreaterEqual(kept, 6)

    def test_while_writing(self) -> None:
        """A signal while traces are written removes what is half; a finished run is whole."""
        codes = set()
        for i, moment in enumerate((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2)):
            with self.subTest(moment=moment):
                out = self.work / f"writing{i}"
                traces = [self.work / f"trace{i}{j}" for j in range(3)]
                options = zip(("--vcd", "--stalls", "--konata"), traces, strict=True)
                words = [word for pair in options for word in pair]
                process = start(
                    "run",
                    self.endless,
                    "--fill",
                    "zeros",
                    "--quiet",
                    "-o",
                    out,
                    "--max-cycles",
                    400_000,
                    *words,
                )
                time.sleep(moment)
                process.send_signal(signal.SIGTERM)
                _, text = process.communicate(timeout=30)
                codes.add(process.returncode)
                self.assertIn(process.returncode, (130, 2), text)
                self.assert_nothing_temporary()
                if process.returncode == 2:  # the limit was reached, and everything written
                    self.assertTrue(all(path.exists() for path in traces))

    def test_twice(self) -> None:
        """The second signal ends the process at once."""
        out = self.work / "twice"
        process = start(
            "run",
            self.endless,
            "--fill",
            "zeros",
            "-o",
            out,
            "--max-cycles",
            10**12,
            "--vcd",
            self.work / "twice.vcd",
        )
        time.sleep(0.5)
        await_handlers(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assert_nothing_temporary()

    def test_hang_up_under_nohup(self) -> None:
        """Who ignores SIGHUP goes on."""
        command = f"trap '' HUP; exec {KPUSIM} run {self.endless} --fill zeros --quiet --timeout 0.6"
        process = subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)
        process.send_signal(signal.SIGHUP)
        _, text = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 2, text)
        self.assertIn("0.6 seconds", text)

    def test_every_verb(self) -> None:
        """A verb that waits for its input, or works, ends at the first signal, and when its time is up."""
        waiting = [
            ("run", "-"),
            ("check", "-"),
            ("asm", "-", "-o", self.work / "never"),
            ("disasm", "-"),
            ("dram", "-"),
            ("dram", "-", "--commands", self.work / "commands"),
        ]
        for command in waiting:
            for number in SIGNALS:
                process = start(*command, stdin=subprocess.PIPE)
                await_handlers(process)
                time.sleep(0.05)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=10), 130, command)
                process.communicate()
            process = start(*command, "--timeout", 0.1, stdin=subprocess.PIPE)
            self.assertEqual(process.wait(timeout=30), 2, command)
            assert process.stderr is not None
            self.assertIn("0.1 seconds", process.stderr.read())
            process.communicate()
        self.assertFalse((self.work / "never").exists())
        self.assert_nothing_temporary()

    def test_time_limits(self) -> None:
        """A time limit is a number of seconds, for every verb."""
        commands = [
            self.run_of(),
            ("check", self.program),
            ("disasm", self.container),
            ("list", "opcodes"),
            ("explain", self.events),
            ("diff", self.recorded, self.recorded),
            ("dram", self.requests),
            ("export", self.events, "--vcd", self.work / "limited.vcd"),
            ("asm", self.program, "-o", self.work / "limited.kpu"),
        ]
        for command in commands:
            for value in ("nan", "-1", "0", "inf", "1e9", "soon", ""):
                done = kpusim(*command, f"--timeout={value}")
                self.assertEqual(done.returncode, 1, (command, value))
                self.assertIn("--timeout", done.stderr)
                self.assertIn("Fix:", done.stderr)
            self.assertEqual(kpusim(*command, "--timeout", 50).returncode, 0)

    def test_endless_dram_trace(self) -> None:
        """Statistics of what was replayed until the signal."""
        process = start("dram", "-", "--json", stdin=subprocess.PIPE)
        await_handlers(process)
        assert process.stdin is not None
        process.stdin.write("".join(f"{i}: read {i * 64:#x}\n" for i in range(20_000)))
        process.stdin.flush()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        result = json.loads(text)
        self.assertIs(result["complete"], False)
        self.assertGreater(result["reads"], 1000)

    def test_long_pause(self) -> None:
        """A pause of 10^15 ns is answered at once; with every refresh as a command, a signal ends it."""
        trace = self.work / "pause.csv"
        trace.write_text("0,R,0x0,0\n1,R,0x40,1000000000000000\n")
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = kpusim("dram", trace, "--json")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used, 1)
        self.assertGreater(json.loads(done.stdout)["refreshes"], 10**11)
        process = start("dram", trace, "--commands", "/dev/null")
        await_handlers(process)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
        self.assertEqual(process.returncode, 130)

    def test_huge_files(self) -> None:
        """200 GB of nothing, and endless devices, are refused without being read."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        huge = self.work / "huge"
        with huge.open("wb") as file:
            file.truncate(200 << 30)
        for path in (huge, Path("/dev/zero")):
            for command in (
                ("run", path),
                ("check", path),
                ("asm", path, "-o", self.work / "never"),
                ("disasm", path),
                ("export", path, "--vcd", self.work / "never"),
                ("explain", path),
                ("dram", path),
                (*self.run_of(), f"--input=x={path}"),
                (*self.run_of(), "--platform", path),
                (*self.run_of(), "--expect-cycles", path),
                (*self.run_of(), "--estimates", path),
            ):
                with self.subTest(command=command):
                    done = kpusim(*command)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertNotIn("internal error", done.stderr)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, 10)
        self.assertFalse((self.work / "never").exists())


if __name__ == "__main__":
    unittest.main()
