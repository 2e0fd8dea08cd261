"""Whatever cannot be written is an error: full devices and disks, dying pipes, for each verb and option."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
import unittest
from pathlib import Path

from support import EXTERNAL, KPUSIM, OTHERS, SMALL, WRITES, SafetyTest, kpusim


def dead_pipe() -> int:
    """Return the writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def can_mount() -> bool:
    """Return whether small disks can be mounted: only by root, and in few containers."""
    script = "mount -t tmpfs -o size=64k none /mnt"
    try:
        return (
            subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, check=False).returncode
            == 0
        )
    except OSError:
        return False


class StandardOutputTest(SafetyTest):
    """Exit 0 means that everything was printed."""

    def test_every_option_is_known_here(self) -> None:
        """An option that writes a file cannot be forgotten in these tests."""
        for verb, writes in WRITES.items():
            text = kpusim(verb, "--help").stdout
            found = set(re.findall(r"--[a-z][a-z-]*", re.sub(r"`[^`]*`", "", text)))
            self.assertEqual(found - OTHERS - set(writes), set(), verb)
            self.assertLessEqual(set(writes), found, verb)
        verbs = re.findall(r"^  ([a-z]+) ", kpusim("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
        self.assertEqual(set(verbs), set(WRITES) | EXTERNAL)

    def test_full(self) -> None:
        """A full disk under standard output is exit 1, with the reason."""
        for command in self.printing():
            with self.subTest(command=command), open("/dev/full", "w") as full:
                done = kpusim(*command, stdout=full.fileno())
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("standard output: cannot write: No space left on device. Fix:", done.stderr)

    def test_dying_pipe(self) -> None:
        """So is a reader who went away."""
        for command in self.printing():
            with self.subTest(command=command):
                writer = dead_pipe()
                done = kpusim(*command, stdout=writer)
                os.close(writer)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("standard output: cannot write: Broken pipe. Fix:", done.stderr)

    def test_closed(self) -> None:
        """And no standard output at all; files that are opened do not become it."""
        vcd = self.work / "closed.vcd"
        command = " ".join(map(str, (KPUSIM, *self.run_of(), "--vcd", vcd, "--json")))
        done = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Bad file descriptor", done.stderr)
        self.assertTrue(vcd.read_text().startswith("$"))
        command = " ".join(map(str, (KPUSIM, "run", self.racy, "--fill", "zeros", "--vcd", vcd)))
        done = subprocess.run(["sh", "-c", f"{command} 2>&-"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(vcd.read_text().startswith("$"))
        self.assertNotIn("hazard", vcd.read_text())

    def test_report(self) -> None:
        """A report that cannot be said is missing, too."""
        with open("/dev/full", "w") as full:
            done = kpusim("run", self.program, "--fill", "zeros", stderr=full.fileno(), stdout=full.fileno())
        self.assertEqual(done.returncode, 1)


class FileTest(SafetyTest):
    """Files, devices, pipes and links."""

    def test_full_device(self) -> None:
        """Writing to a full device fails, and leaves it and the link to it as they were."""
        link = self.work / "full"
        link.symlink_to("/dev/full")
        for command in self.writing():
            for target in ("/dev/full", link):
                with self.subTest(command=command, target=target):
                    done = kpusim(*command, target)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("No space left on device. Fix:", done.stderr)
                    self.assertTrue(link.is_symlink() and stat.S_ISCHR(os.stat("/dev/full").st_mode))
        self.assert_nothing_temporary()

    def test_null_and_links(self) -> None:
        """A device stays one; a link stays, and what it names is written."""
        for i, command in enumerate(self.writing()):
            with self.subTest(command=command):
                done = kpusim(*command, "/dev/null")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
                target, link = self.work / f"target{i}", self.work / f"link{i}"
                target.write_text("old")
                link.symlink_to(target.name)
                self.assertEqual(kpusim(*command, link).returncode, 0)
                self.assertTrue(link.is_symlink())
                plain = self.work / f"plain{i}"
                self.assertEqual(kpusim(*command, plain).returncode, 0)
                self.assertEqual(target.read_bytes(), plain.read_bytes())
        self.assert_nothing_temporary()

    def test_pipes(self) -> None:
        """A pipe gets the bytes of the file; one that nobody reads any more is an error."""
        for i, command in enumerate(self.writing()):
            with self.subTest(command=command):
                plain, pipe = self.work / f"file{i}", self.work / f"pipe{i}"
                self.assertEqual(kpusim(*command, plain).returncode, 0)
                if "explain" not in command and "dram" not in command:  # those print as well
                    words = [KPUSIM, *map(str, command), "/dev/stdout"]
                    shown = subprocess.run(words, capture_output=True, check=True).stdout
                    self.assertEqual(shown, plain.read_bytes())
                os.mkfifo(pipe)
                seen: list[bytes] = []
                reader = threading.Thread(target=lambda p=pipe, s=seen: s.append(p.read_bytes()))
                reader.start()
                self.assertEqual(kpusim(*command, pipe).returncode, 0)
                reader.join()
                self.assertEqual(seen, [plain.read_bytes()])
                self.assertTrue(pipe.is_fifo())
                writer = dead_pipe()
                os.set_inheritable(writer, True)
                done = subprocess.run(
                    [KPUSIM, *map(str, command), f"/dev/fd/{writer}"],
                    capture_output=True,
                    text=True,
                    pass_fds=(writer,),
                    check=False,
                )
                os.close(writer)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("Broken pipe. Fix:", done.stderr)
        self.assert_nothing_temporary()

    def test_paths_that_cannot_be(self) -> None:
        """Loops, long names and folders that are none are refused with the system's reason."""
        loop = self.work / "loop"
        loop.symlink_to("loop")
        bad = {
            loop: "Too many levels of symbolic links",
            self.work / ("n" * 256): "File name too long",
            self.program / "below": "Not a directory",
            Path("/" + "d/" * 3000): "File name too long",
        }
        reading = [(verb,) for verb in ("run", "check", "asm", "disasm", "export", "explain", "dram")]
        for path, reason in bad.items():
            for command in self.writing():
                done = kpusim(*command, path)
                self.assertEqual(done.returncode, 1, (command, done.stderr))
                self.assertIn(reason, done.stderr)
                self.assertIn("Fix:", done.stderr)
            for command in reading:
                rest = ("-o", self.work / "never") if command == ("asm",) else ()
                rest = ("--vcd", self.work / "never") if command == ("export",) else rest
                done = kpusim(*command, path, *rest)
                self.assertEqual(done.returncode, 1, (command, done.stderr))
                self.assertIn(reason, done.stderr + done.stdout)
            for option in ("-o", "--platform", "--input=x", "--expect-cycles", "--estimates", "--budgets"):
                words = (f"{option}={path}",) if "=" in option else (option, path)
                done = kpusim(*self.run_of(), *words)
                self.assertEqual(done.returncode, 1, (words, done.stderr))
                self.assertNotIn("internal error", done.stderr)
            self.assertEqual(kpusim("diff", path, path).returncode, 1)
        self.assertFalse((self.work / "never").exists())
        self.assert_nothing_temporary()

    def test_outputs_are_apart(self) -> None:
        """Two outputs in one file are refused, and a name too long for an output is before the run."""
        both = ("--vcd", self.work / "one", "--stalls", self.work / "." / "one")
        self.assertIn("two outputs", kpusim(*self.run_of(), *both).stderr)
        self.assertIn("two outputs", kpusim("export", self.events, *both).stderr)
        long = self.work / "long.nem"
        text = self.endless.read_text().replace(
            "program endless:\n", f"program endless:\nbuffer {'y' * 300} : DDR (size = 4096)\n"
        )
        long.write_text(text + f"t2 = transfer.async(dst=region({'y' * 300}, 0, 64), src=region(x, 0, 64))\n")
        done = kpusim("run", long, "--fill", "zeros", "-o", self.work / "late")
        self.assertEqual(done.returncode, 1)
        self.assertIn("too long for a file", done.stderr)
        self.assertFalse((self.work / "late").exists())

    def test_file_size_limit(self) -> None:
        """A file that may not grow is an error, no death by a signal, and leaves nothing."""
        big = ("--events", self.work / "big.kpuev", "--max-cycles", 200_000)
        words = " ".join(map(str, (KPUSIM, "run", self.endless, "--fill", "zeros", "--quiet", *big)))
        done = subprocess.run(
            ["bash", "-c", f"ulimit -f 16; {words}"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large. Fix:", done.stderr)
        self.assert_nothing_temporary()

    def test_small_stack(self) -> None:
        """Too small a stack is told at once."""
        words = " ".join(map(str, (KPUSIM, *self.run_of())))
        done = subprocess.run(
            ["bash", "-c", f"ulimit -s 64; {words}"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("stack is limited to 64 KiB", done.stderr)
        self.assertIn("Fix:", done.stderr)

    def test_dead_temporaries(self) -> None:
        """Files of a killed run go with the next; those of a living one, and files of others, stay."""
        folder = self.work / "leftovers"
        folder.mkdir()
        dead, alive, other = (folder / f"kpusim-{name}.tmp" for name in ("999999-0", "1-7", "mine"))
        for path in (dead, alive, other):
            path.write_text("half")
        with alive.open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertEqual(kpusim("disasm", self.container, "-o", folder / "out.nem").returncode, 0)
            self.assertEqual(sorted(path.name for path in folder.glob("*.tmp")), [alive.name, other.name])
        shutil.rmtree(folder)

    def test_two_runs_in_one_folder(self) -> None:
        """The second one is refused, and the first one's results are whole."""
        out = self.work / "shared"
        first = subprocess.Popen(
            [KPUSIM, "run", self.endless, "--fill", "zeros", "--quiet", "-o", out, "--timeout", "20"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(200):
            if out.is_dir():
                break
            time.sleep(0.05)
        time.sleep(0.1)
        second = kpusim(*self.run_of(), "-o", out, "--force")
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn("another run writes to the folder. Fix:", second.stderr)
        self.assertEqual(json.loads((out / "manifest.json").read_text())["program"]["name"], "endless")

    def test_outputs_is_a_link(self) -> None:
        """A link in the place of the outputs is refused before the run, forced or not."""
        elsewhere, out = self.work / "elsewhere", self.work / "linked"
        elsewhere.mkdir()
        out.mkdir()
        (out / "outputs").symlink_to(elsewhere)
        for force in ((), ("--force",)):
            done = kpusim(*self.run_of(), "-o", out, *force)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is a link", done.stderr)
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_control_characters(self) -> None:
        """Names with control characters are escaped where people read them, and kept in JSON and files."""
        name = "a\x1b[31m\u202eb\r\u009b"
        path = self.work / name
        path.write_text(SMALL.replace("program small", "program small\n#! op " + json.dumps({"id": name})))
        shown = "a\\x1b[31m\\u202eb\\x0d\\u009b"
        missing = kpusim("run", self.work / (name + ".none")).stderr
        self.assertIn(shown, missing)
        self.assertNotIn("\x1b", missing)
        found = kpusim("check", path)
        self.assertIn(shown, found.stdout)
        self.assertNotRegex(found.stdout, "[\x1b\r\u202e\u009b]")
        data = json.loads(kpusim("check", path, "--json").stdout)
        self.assertIn(
            name, json.dumps(data, ensure_ascii=False).replace("\\u001b", "\x1b").replace("\\r", "\r")
        )

    def test_events_of_any_name(self) -> None:
        """An event file of any name in the folder of its run is found."""
        runs = [self.work / f"named{i}" for i in range(2)]
        for run in runs:
            done = kpusim(*self.run_of(), "-o", run, "--events", run / "my trace.bin")
            self.assertEqual(done.returncode, 0, done.stderr)
        told = kpusim("explain", runs[0], "--bounds-only")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(kpusim("export", runs[0], "--stalls", self.work / "s.csv").returncode, 0)
        plain = kpusim("export", runs[0] / "my trace.bin", "--stalls", self.work / "t.csv")
        self.assertEqual(plain.returncode, 0)
        self.assertEqual((self.work / "s.csv").read_bytes(), (self.work / "t.csv").read_bytes())
        self.assertNotIn("has no events", kpusim("diff", *runs).stdout)

    @unittest.skipUnless(can_mount(), "small disks cannot be mounted here")
    def test_full_disk(self) -> None:
        """On a disk of 64 KiB that is full, nothing ends with 0, and nothing temporary is left."""
        disk = self.work / "disk"
        disk.mkdir()
        folder = (*self.run_of(), "-o")
        for command in (*self.writing(), folder):
            words = " ".join(map(str, command))
            script = (
                f"mount -t tmpfs -o size=64k,nr_inodes=20 none {disk} &&"
                f" head -c 64k /dev/zero > {disk}/filler;"
                f"{KPUSIM} {words} {disk}/out; echo $?; find {disk} -name '*.tmp';"
                f"grep -s complete {disk}/out/stats.json"
            )
            with self.subTest(command=command):
                done = subprocess.run(
                    ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False
                )
                self.assertEqual(done.stdout, "1\n", done.stderr)
                self.assertRegex(done.stderr, "No space left on device|its disk has")

    @unittest.skipUnless(can_mount(), "small disks cannot be mounted here")
    def test_disk_fills_between_files(self) -> None:
        """A run folder that the disk has half room for never says that it is complete."""
        disk = self.work / "half"
        disk.mkdir()
        for free in range(4, 64, 4):
            script = (
                f"mount -t tmpfs -o size={free}k none {disk} && {KPUSIM} {' '.join(map(str, self.run_of()))}"
                f" -o {disk}/out --vcd {disk}/out/v; echo $?;"
                f" find {disk} -name '*.tmp'; cat {disk}/out/stats.json"
            )
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False
            )
            code, _, stats = done.stdout.partition("\n")
            with self.subTest(free=free):
                self.assertNotIn(".tmp", stats)
                complete = bool(stats) and json.loads(stats)["complete"]
                self.assertEqual(complete, code == "0", done.stderr)


if __name__ == "__main__":
    unittest.main()
