"""The kpusim command as a user meets it: files it leaves, sums that close, bad input, limits, interrupts.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_command
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import pickle
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections import defaultdict
from pathlib import Path

import numpy as np
import sarif_form

KPUSIM = os.environ["KPUSIM"]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "digits"

# A transfer chain and a relu: the smallest program with every kind of unit.
SMALL = """device "npm_lite.nem"
program small:
buffer x : DDR (size = 4096, align = 64)
buffer y : DDR (size = 4096, align = 64)
buffer m : L2 (size = 4096, align = 64)
buffer s : L1[0] (size = 4096, align = 64)
let x0 = region(x, 0, 4096) elem=i8, shape=[4096], layout=C
let m0 = region(m, 0, 4096) elem=i8, shape=[4096], layout=C
let s0 = region(s, 0, 4096) elem=i8, shape=[4096], layout=C
let y0 = region(y, 0, 4096) elem=i8, shape=[4096], layout=C
a = transfer.async(dst=m0, src=x0)
b = transfer.async(dst=s0, src=m0, deps=[a])
c = relu.async in s0 out s0 deps=[b]
d = store.async(dst=m0, src=s0, deps=[c])
e = transfer.async(dst=y0, src=m0, deps=[d])
"""

ENDLESS = """device "npm_lite.nem"
program endless:
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 8192, align = 64)
loop i in [0..1099511627775] @max_in_flight(2):
    t = transfer.async(dst=region(m, (i mod 2) * 4096, 4096), src=region(x, 0, 4096))
endloop
"""


def kpusim(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command; its output as text."""
    return subprocess.run(
        [KPUSIM, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=100, check=False
    )


class CommandTest(unittest.TestCase):
    """A temporary folder with the small program in it."""

    def setUp(self) -> None:
        """Write the program and its input."""
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.work = Path(self.folder.name)
        self.program = self.work / "small.nem"
        self.program.write_text(SMALL)
        self.x = self.work / "x.npy"
        np.save(self.x, np.arange(4096).astype(np.int8))

    def refused(self, result: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
        """Check the exit code and that the message has these words, a fix included, and is no crash."""
        text = result.stderr + result.stdout
        self.assertEqual(result.returncode, code, text)
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn("internal error", text)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file into the work folder."""
        path = self.work / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


class RunTest(CommandTest):
    """Files that a run leaves, and sums that close."""

    def setUp(self) -> None:
        """Run the digits network once with every trace."""
        super().setUp()
        self.out = self.work / "out"
        inputs = [
            f"--input={n}={DIGITS / 'data' / n}.npy" for n in ("images", "w1", "b1", "w2", "b2", "w3", "b3")
        ]
        self.command = ["run", DIGITS / "digits.nem", "--platform", "npm_lite", *inputs]
        traces = ["--events", self.work / "e", "--vcd", self.work / "v", "--stalls", self.work / "s"]
        result = kpusim(*self.command, "-o", self.out, *traces, "--power", self.work / "p")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.report = result.stdout
        document = json.loads((self.out / "stats.json").read_text())
        self.assertEqual(document["schema"], 1)
        self.assertIs(document["complete"], True)
        for key, entry in document["stats"].items():
            self.assertEqual(set(entry), {"value", "unit", "meaning"}, key)
        self.stats = {key: entry["value"] for key, entry in document["stats"].items()}

    def test_accounts_close(self) -> None:
        """Causes sum to the cycles, parts and energies to their totals, stall rows to the statistics."""
        total = self.stats["cycles.total"]
        parts = ("cycles.compute", "cycles.memory_stall", "cycles.other")
        self.assertEqual(sum(self.stats[part] for part in parts), total)
        units: dict[str, int] = defaultdict(int)
        for key, value in self.stats.items():
            if key.startswith("units."):
                units[key.split(".")[1]] += value
                self.assertFalse(key.endswith("unattributed") and value)
        for unit, cycles in units.items():
            self.assertEqual(cycles, total, unit)
        for unit in (
            "e0_nmu0",
            "e0_cstl0",
            "e0_cstl1",
            "e0_dma0",
            "e0_dma1",
            "e0_vpu0",
            "sdma0",
            "ddr0",
            "device",
        ):
            self.assertIn(unit, units)
        rows: dict[str, int] = defaultdict(int)
        with (self.work / "s").open() as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                rows[f"units.{row['unit']}.{row['cause']}"] += int(row["cycles"])
        for key, value in self.stats.items():
            if key.startswith("units."):
                self.assertEqual(rows.get(key, 0), value, key)
        dynamic, static = self.stats["energy.dynamic_uj"], self.stats["energy.static_uj"]
        self.assertAlmostEqual((dynamic + static) / self.stats["energy.total_uj"], 1, places=9)
        with (self.out / "ops.csv").open() as file:
            ops = list(csv.DictReader(line for line in file if not line.startswith("#")))
        self.assertEqual(sum(int(op["charged_cycles"]) for op in ops), total)
        self.assertAlmostEqual(
            sum(float(op["energy_pj"]) for op in ops) * 1e-6 / self.stats["energy.total_uj"], 1, places=9
        )
        self.assertEqual(sum(int(op["macs"]) for op in ops), self.stats["ops.macs"])
        self.assertEqual(self.stats["ops.macs"], 320 * (64 * 9 * 16 + 16 * 144 * 32 + 128 * 10))

    def test_power_trace_integrates_to_the_energy(self) -> None:
        """At any bin size the power trace holds all of the energy."""
        for bin_ns in (10, 1000, 7300, 10**9):
            path = self.work / f"power{bin_ns}"
            result = kpusim("export", self.work / "e", "--power", path, "--bin-ns", bin_ns)
            self.assertEqual(result.returncode, 0, result.stderr)
            with path.open() as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
            energy_uj = sum(float(row["total_w"]) * float(row["dt_ns"]) for row in rows) * 1e-3
            self.assertAlmostEqual(energy_uj / self.stats["energy.total_uj"], 1, places=6)
            columns = [name for name in rows[0] if name.endswith("_w") and name != "total_w"]
            for row in rows:
                self.assertAlmostEqual(sum(float(row[c]) for c in columns), float(row["total_w"]), delta=1e-6)

    def test_export_equals_direct_writing(self) -> None:
        """Traces made from the event file are the same bytes as those made by the run."""
        result = kpusim(
            "export",
            self.work / "e",
            "--vcd",
            self.work / "v2",
            "--stalls",
            self.work / "s2",
            "--power",
            self.work / "p2",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        for kind in "vsp":
            self.assertEqual((self.work / kind).read_bytes(), (self.work / f"{kind}2").read_bytes(), kind)

    def test_vcd_opens_in_an_independent_reader(self) -> None:
        """vcd2fst reads the VCD, which holds causes, queue depths, tokens, bandwidth and power."""
        result = subprocess.run(
            ["vcd2fst", self.work / "v", self.work / "f"], capture_output=True, text=True, check=False
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater((self.work / "f").stat().st_size, 1000)
        header = (self.work / "v").read_text().split("$enddefinitions")[0]
        for word in ("e0_nmu0", "sdma0", "ddr0", "power", "tokens", "queue", "timescale"):
            self.assertIn(word, header)

    def test_two_runs_leave_the_same_bytes(self) -> None:
        """Every file but the manifest is the same; tracing changes nothing."""
        again = self.work / "again"
        self.assertEqual(kpusim(*self.command, "-o", again).returncode, 0)
        for path in self.out.rglob("*"):
            if path.is_file() and path.name != "manifest.json":
                self.assertEqual(
                    path.read_bytes(), (again / path.relative_to(self.out)).read_bytes(), path.name
                )
        a, b = (json.loads((d / "manifest.json").read_text()) for d in (self.out, again))
        for key in a:
            if not any(word in key for word in ("time", "command", "path")):
                self.assertEqual(a[key], b[key], key)

    def test_report_names_the_essentials(self) -> None:
        """A person sees cycles, causes, bytes and energy without a manual."""
        for word in (str(self.stats["cycles.total"]), "e0_nmu0", "DRAM", "uJ", "utilization"):
            self.assertIn(word.lower(), self.report.lower().replace(",", ""))

    def test_profile_tags(self) -> None:
        """A tag stands in ops.csv, stall trace, VCD and event file; a loop gives its own to its tasks."""
        text = SMALL.replace("deps=[b]\n", "deps=[b] @profile(activation)\n") + (
            'loop i in [0..1] @profile("copy 2"):\n    f = transfer.sync(dst=m0, src=x0, deps=[e])\nendloop\n'
        )
        out, program = self.work / "tags", self.write("tags.nem", text)
        traces = ["--stalls", self.work / "s", "--vcd", self.work / "v", "--events", self.work / "e"]
        result = kpusim("run", program, "--input", f"x={self.x}", "-o", out, *traces)
        self.assertEqual(result.returncode, 0, result.stderr)
        for path, key in ((out / "ops.csv", "op"), (self.work / "s", "task")):
            with path.open() as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
            self.assertEqual({row["profile"] for row in rows if row[key] == "c"}, {"activation"}, path)
            self.assertEqual({row["profile"] for row in rows if row[key] == "f"}, {"copy 2"}, path)
            self.assertEqual({row["profile"] for row in rows if row[key] in "abde"}, {""}, path)
        self.assertIn("sc@activation ", (self.work / "v").read_text())
        self.assertEqual(kpusim("export", self.work / "e", "--stalls", self.work / "s2").returncode, 0)
        self.assertEqual((self.work / "s2").read_bytes(), (self.work / "s").read_bytes())

    def test_token_table_in_functional_mode(self) -> None:
        """Functional mode has no token table; it warns when a timed run would stall at it."""
        many = "".join(
            f"r{i} = transfer.async(dst=region(m, {i}, 1), src=region(x, {i}, 1))\n" for i in range(17)
        )
        head = SMALL[: SMALL.index("let x0")]
        options = ("--mode", "functional", "--fill", "zeros", "--quiet")
        result = kpusim("run", self.write("many.nem", head + many), *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("engine 0 had 17 tasks in flight", result.stderr)
        self.assertIn("max_active_tokens = 16", result.stderr)
        few = many[: many.index("r16")]
        result = kpusim("run", self.write("few.nem", head + few), *options)
        self.assertEqual(result.stderr, "")

    def test_modes_and_engines_agree(self) -> None:
        """Timing mode, the other value engine and the slow stepper give the same cycles and energy."""
        for options in (["--mode", "timing"], ["--values", "reference"], ["--stepper", "oracle"]):
            out = self.work / options[1]
            result = kpusim(*self.command, "-o", out, *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            stats = json.loads((out / "stats.json").read_text())["stats"]
            for key, value in self.stats.items():
                without_values = key.startswith("values.") and "timing" in options
                if not key.startswith("hazards") and not without_values:
                    self.assertEqual(stats[key]["value"], value, (options, key))
            if "timing" not in options:
                self.assertEqual(
                    (out / "outputs/logits.npy").read_bytes(),
                    (self.out / "outputs/logits.npy").read_bytes(),
                    options,
                )


class BadInputTest(CommandTest):
    """Each bad input ends in exit 1 with what, where and the fix; nothing is written."""

    def test_containers(self) -> None:
        """Missing, truncated, bit-flipped containers and pickles are refused by name."""
        kpu = self.work / "small.kpu"
        self.assertEqual(kpusim("asm", self.program, "-o", kpu).returncode, 0)
        self.assertEqual(kpusim("run", kpu, "--input", f"x={self.x}").returncode, 0)
        good = kpu.read_bytes()
        self.refused(kpusim("run", self.work / "absent.kpu"), "absent.kpu")
        for length in (4, 12, 40, len(good) // 2, len(good) - 1):
            self.refused(kpusim("check", self.write("cut.kpu", good[:length])), "cut.kpu")
        for position in range(0, len(good), max(1, len(good) // 40)):
            flipped = bytearray(good)
            flipped[position] ^= 0x10
            self.refused(kpusim("check", self.write("flipped.kpu", bytes(flipped))), "flipped.kpu")
        self.refused(kpusim("run", self.write("model.kpu", pickle.dumps({"a": 1}))), "pickle")

    def test_text(self) -> None:
        """Syntax errors carry line and column; NUL bytes and bad UTF-8 are named."""
        cases = {
            "buffer x : DDR (size = )\n": (":1:", "error"),
            "const a = 1\nconst b = = 2\n": (":2:11",),
            "const a = 99999999999999999999\n": (":1:11", "64"),
            "const a = 1\0\n": (":1:12",),
            SMALL.replace("out s0", "out nowhere"): ("nowhere",),
            SMALL.replace("relu.async", "rely.async"): ("rely", "relu"),
            SMALL.replace("deps=[b]", "deps=[bb]"): ("bb",),
            SMALL.replace("region(m,", "region(mm,"): ("mm",),
            SMALL.replace("elem=i8", "elem=i9"): ("i9",),
            SMALL.replace("size = 4096", "size = 0"): ("size",),
            SMALL.replace("region(s, 0, 4096)", "region(s, 64, 4096)"): ("s0", "4160", "4096", "Fix:"),
            SMALL.replace("L1[0] (size = 4096", "L1[0] (size = 1048576"): ("L1",),
            SMALL.replace("m : L2 (size = 4096", "m : L2 (size = 2097152"): ("L2",),
            SMALL.replace("x : DDR (size = 4096", "x : DDR (size = 1152921504606846976"): (
                "1152921504606846976",
            ),
        }
        for text, words in cases.items():
            path = self.write("bad.nem", text)
            result = kpusim("check", path)
            with self.subTest(words=words):
                self.refused(result, "bad.nem", *words)
                out = self.work / "never"
                self.refused(kpusim("run", path, "--fill", "zeros", "-o", out), *words)
                self.assertFalse(out.exists())
        self.refused(
            kpusim("check", self.write("bad.nem", SMALL.encode().replace(b"small", b"sm\xffll"))),
            "bad.nem:2:",
        )

    def test_platforms(self) -> None:
        """Unknown platforms, fields and values name the nearest."""
        run = ("run", self.program, "--input", f"x={self.x}")
        self.refused(kpusim(*run, "--platform", "npm_light"), "npm_light", "npm_lite")
        self.refused(kpusim(*run, "--set", "engine.array.rowz=8"), "rowz", "rows")
        self.refused(kpusim(*run, "--set", "engine.array.rows=many"), "rows", "many")
        self.refused(kpusim(*run, "--set", "clock.core_mhz=0"), "core_mhz")
        listing = kpusim("list", "platforms", "--json")
        self.assertIn("swkpu-v1", listing.stdout)
        text = self.write("p.textproto", 'name: "p"\nversion: "1"\nclok { core_mhz: 500 }\n')
        self.refused(kpusim(*run, "--platform", text), "p.textproto:3", "clok", "clock")

    def test_inputs(self) -> None:
        """Missing inputs are all listed; shapes and types must fit."""
        self.refused(kpusim("run", self.program), "x", "--input")
        np.save(self.work / "wide.npy", np.zeros(4096, np.int16))
        self.refused(kpusim("run", self.program, "--input", f"x={self.work / 'wide.npy'}"), "int16", "int8")
        np.save(self.work / "short.npy", np.zeros(7, np.int8))
        self.refused(kpusim("run", self.program, "--input", f"x={self.work / 'short.npy'}"), "7", "4096")
        np.save(self.work / "fortran.npy", np.asfortranarray(np.zeros((64, 64), np.int8)))
        self.refused(kpusim("run", self.program, "--input", f"x={self.work / 'fortran.npy'}"), "ortran")
        self.refused(kpusim("run", self.program, "--input", f"z={self.x}"), "z")
        self.refused(kpusim("run", self.program, "--input", "x=absent.npy"), "absent.npy")

    def test_unknown_words(self) -> None:
        """A word that nobody knows is named, with the nearest one that is known."""
        for words, told in [
            (["expln", "out"], ["`expln` is not a known command of `kpusim`", "`explain`"]),
            (
                ["run", "--platfrom", "tile32"],
                ["`--platfrom` is not a known option of `kpusim run`", "`--platform`"],
            ),
            (["run", "--out", "folder"], ["`--out` is not a known option of `kpusim run`", "`--output`"]),
            ([str(self.program)], ["is a file, no command", f"`kpusim run {self.program}`"]),
            (["run", "--seeed=3", "x.nem"], ["`--seeed` is not a known option of `kpusim run`", "`--seed`"]),
            (["run", "a.nem", "b.nem"], ["`b.nem` is one argument too many", "`kpusim run --help`"]),
            (["run", ""], ["<empty name>", "cannot read"]),
            (["=", "x"], ["kpusim --help"]),
        ]:
            with self.subTest(words=words):
                done = kpusim(*words)
                self.assertEqual(done.returncode, 1)
                for text in told:
                    self.assertIn(text, done.stderr)

    def test_usage(self) -> None:
        """Wrong words of the command line end in exit 1."""
        for arguments in (
            [],
            ["fly"],
            ["run"],
            ["run", self.program, "--mode", "fast"],
            ["run", self.program, "--wat"],
        ):
            self.refused(kpusim(*arguments), "error")
        self.refused(kpusim("run", self.program, "--param", "T=2", "--fill", "zeros"), "T")

    def test_traces_that_cannot_be_written(self) -> None:
        """A trace into a folder that does not exist is refused before the run; no file remains."""
        run = ("run", self.program, "--input", f"x={self.x}", "-o", self.work / "out")
        self.refused(kpusim(*run, "--vcd", self.work / "absent" / "x.vcd"), "x.vcd", "Fix:")
        self.assertFalse((self.work / "out").exists())
        self.assertEqual(kpusim(*run, "--vcd", self.work / "out" / "x.vcd").returncode, 0)

    def test_results_are_not_destroyed(self) -> None:
        """A non-empty output folder is refused; --force replaces only what kpusim writes."""
        out = self.work / "out"
        out.mkdir()
        (out / "precious.txt").write_text("keep")
        run = ("run", self.program, "--input", f"x={self.x}", "-o", out)
        self.refused(kpusim(*run), "out", "--force")
        self.assertEqual([p.name for p in out.iterdir()], ["precious.txt"])
        self.assertEqual(kpusim(*run, "--force").returncode, 0)
        self.assertEqual((out / "precious.txt").read_text(), "keep")
        self.assertTrue((out / "stats.json").exists())


class LimitTest(CommandTest):
    """Runs that do not end by themselves."""

    def test_max_cycles(self) -> None:
        """A loop of 2^40 iterations stops at the limit with exit 2 and an incomplete result."""
        program = self.write("endless.nem", ENDLESS)
        out = self.work / "out"
        result = kpusim("run", program, "--fill", "zeros", "--max-cycles", 100000, "-o", out)
        self.refused(result, "100000", code=2)
        self.assertIs(json.loads((out / "stats.json").read_text())["complete"], False)

    def test_timeout(self) -> None:
        """A run that takes longer than it may leaves partial results, marked incomplete, and exit 2."""
        program = self.write("endless.nem", ENDLESS)
        for mode in ("timing", "functional"):
            out = self.work / mode
            options = ("--mode", mode, "--fill", "zeros", "--timeout", "0.5", "-o", out)
            start = time.monotonic()
            result = kpusim("run", program, *options)
            self.assertLess(time.monotonic() - start, 30)
            self.refused(result, "0.5 seconds", "Fix:", code=2)
            self.assertIs(json.loads((out / "stats.json").read_text())["complete"], False)
        result = kpusim("run", self.program, "--fill", "zeros", "--quiet", "--timeout", "60")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_memory_estimate(self) -> None:
        """Events that cannot fit on the disk are refused before the run, unless it is limited."""
        program = self.write("endless.nem", ENDLESS)
        run = ("run", program, "--fill", "zeros", "--quiet", "--events", self.work / "e")
        self.refused(kpusim(*run), "of disk", "TMPDIR", "--max-cycles")
        self.assertFalse((self.work / "e").exists())
        result = kpusim(*run, "--max-cycles", 10000)
        self.refused(result, "limit of 10000 cycles", code=2)
        self.assertTrue((self.work / "e").exists())

    def test_more_events_than_memory(self) -> None:
        """Events go to disk and come from there: neither a run nor an export needs memory for all of them."""
        most = 500 << 20

        def limited(*arguments: object) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [KPUSIM, *map(str, arguments)],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
            )

        if limited("--version").returncode != 0:
            self.skipTest("a sanitizer takes more address space than the limit")
        program, events = self.write("endless.nem", ENDLESS), self.work / "e"
        cycles = ("--max-cycles", 55_000_000)
        result = limited("run", program, "--fill", "zeros", "--quiet", "--events", events, *cycles)
        self.refused(result, "limit of 55000000 cycles", code=2)
        self.assertGreater(events.stat().st_size, most)
        exported = limited("export", events, "--stalls", self.work / "s", "--trace-window", "0:1000")
        self.assertEqual((exported.returncode, exported.stderr), (0, ""))
        self.assertGreater(len((self.work / "s").read_text().splitlines()), 10)

    @unittest.skipIf(os.geteuid() != 0, "only root can mount a small disk")
    def test_disk_runs_low(self) -> None:
        """A recording that fills the disk stops in time to keep what it has."""
        program, disk = self.write("endless.nem", ENDLESS), self.work / "disk"
        disk.mkdir()
        events = self.work / "e"
        run = f"TMPDIR={disk} {KPUSIM} run {program} --fill zeros --quiet --timeout 90 --events {events}"
        script = f"mount -t tmpfs -o size=300m none {disk} && {run}"
        result = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=100, check=False
        )
        self.refused(result, f"the disk of {disk} was nearly full", "Fix:", "TMPDIR", code=2)
        self.assertGreater(events.stat().st_size, 32 << 20)
        exported = kpusim("export", events, "--stalls", self.work / "s", "--trace-window", "0:1000")
        self.assertEqual(exported.returncode, 0, exported.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root can mount a small disk")
    def test_disk_has_no_room(self) -> None:
        """A trace that its disk cannot hold is refused, and nothing of it is written."""
        program, disk = self.write("endless.nem", ENDLESS), self.work / "disk"
        disk.mkdir()
        for option in ("--vcd", "--events", "--stalls"):
            run = f"{KPUSIM} run {program} --fill zeros --quiet --max-cycles 100000 {option} {disk}/t"
            script = f"mount -t tmpfs -o size=64k none {disk} && ({run}; echo $?; ls {disk})"
            result = subprocess.run(
                ["unshare", "-m", "sh", "-c", script],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            self.refused(result, f"{disk}/t: about", "its disk has 64.00 KiB", "Fix:", code=0)
            self.assertEqual(result.stdout, "1\n")

    def test_progress(self) -> None:
        """On a terminal a long run says how far it is, on one line; --quiet and files get nothing."""
        program = self.write("endless.nem", ENDLESS)
        command = [KPUSIM, "run", program, "--fill", "zeros", "--mode", "timing", "--timeout", "2.5"]
        for extra, lines in (([], True), (["--quiet"], False)):
            terminal, child = pty.openpty()
            subprocess.run([*command, *extra], stderr=child, timeout=100, check=False)
            os.close(child)
            text = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while block := os.read(terminal, 65536):
                    text += block
            os.close(terminal)
            found = re.findall(rb"\r(\d+) cycles, (\d+) tasks done \((\d+\.\d) %\), [\d.]+ M cycles/s ", text)
            self.assertEqual(bool(found), lines, text)
            for cycles, tasks, share in found:
                self.assertGreater(int(cycles), int(tasks))
                self.assertEqual(share, b"0.0")

    def test_interrupt(self) -> None:
        """Ctrl-C leaves partial results, marked incomplete, and exit 130."""
        program = self.write("endless.nem", ENDLESS)
        for mode in ("values+timing", "functional"):
            out = self.work / mode
            command = [KPUSIM, "run", str(program), "--fill", "zeros", "-o", str(out), "--mode", mode]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            time.sleep(1.0)
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, text)
            self.assertIs(json.loads((out / "stats.json").read_text())["complete"], False)

    def test_interrupt_of_a_long_text(self) -> None:
        """A long program without loops ends soon after a signal or the limit, whatever it is at."""
        generator = Path(__file__).resolve().parents[1] / "bench" / "flat_program.py"
        text = subprocess.run(
            [sys.executable, generator, "gemm", "60000"], check=True, capture_output=True, text=True
        ).stdout
        command = [KPUSIM, "run", self.write("flat.nem", text), "--mode", "timing", "--quiet"]
        for moment in (0.1, 0.4, 0.7, 1.0, 1.3):
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            time.sleep(moment)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=20)
            if process.returncode != 0:  # else it had ended
                self.assertEqual(process.returncode, 130, said)
                self.assertTrue(said.startswith("interrupted"), said)
        out = self.work / "flat"
        subprocess.run([*command, "--max-cycles", "1000", "-o", out], check=False, timeout=60)
        program = (out / "program.nem").read_text()  # though a run without a folder lets its text go
        self.assertGreater(program.count("transfer.async"), 40000)
        limited = subprocess.run([*command, "--timeout", "0.5"], capture_output=True, text=True, timeout=60)
        self.assertEqual(limited.returncode, 2, limited.stderr)
        self.assertIn("0.5 seconds", limited.stderr)

    def test_races(self) -> None:
        """A missing dependency fails the run, which is whole; one line says so, and one finding a buffer."""
        program = self.write("race.nem", SMALL.replace(", deps=[a]", ""))
        for i, (options, code) in enumerate(
            [([], 2), (["--allow-hazards"], 0), (["--no-hazards"], 0), (["--mode", "functional"], 2)]
        ):
            out = self.work / f"out{i}"
            run = ("run", program, "--input", f"x={self.x}", "--quiet", *options, "-o", out)
            result = kpusim(*run, "--vcd", out / "v")
            if "functional" in options:
                result = kpusim(*run)
            document = json.loads((out / "stats.json").read_text())
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIs(document["complete"], True)
            found = document["stats"]["hazards.count"]["value"]
            self.assertEqual(found > 0, "--no-hazards" not in options)
            if found:
                (line,) = result.stderr.splitlines()
                self.assertTrue(line.startswith("warning: " if code == 0 else "error: "), line)
                for words in (
                    f"{found} hazard",
                    "L2 buffer `m`",
                    "race.nem:",
                    "results may be wrong",
                    "Fix:",
                ):
                    self.assertIn(words, line)
            else:
                self.assertEqual(result.stderr, "")
        told = kpusim("run", program, "--input", f"x={self.x}").stderr
        self.assertEqual(len([line for line in told.splitlines() if line.startswith("hazard (")]), 1, told)
        self.refused(kpusim("run", program, "--allow-hazards", "--no-hazards"), "exclude each other")

    def test_deadlock(self) -> None:
        """A program that cannot go on is a deadlock with its chain, exit 2."""
        program = self.write("stuck.nem", STUCK)
        result = kpusim("run", program, "--fill", "zeros", "--set", "sequencer.max_active_tokens=1")
        self.refused(result, "deadlock", code=2)


# With a token table of one entry: while the iteration waits for `first`, `after` is next in line for the
# entry; it then holds it and waits for `second`, which needs the entry to be issued.
STUCK = """device "npm_lite.nem"
program stuck:
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 12288, align = 64)
loop i in [0..0]:
    first = transfer.sync(dst=region(m, 0, 4096), src=region(x, 0, 4096))
    second = transfer.async(dst=region(m, 4096, 4096), src=region(x, 0, 4096), deps=[first])
endloop
after = transfer.async(dst=region(m, 8192, 4096), src=region(m, 4096, 4096), deps=[second])
"""


class ToolTest(CommandTest):
    """asm, disasm, check, list."""

    def test_assembly_round_trip(self) -> None:
        """asm(disasm(p)) is p, byte for byte."""
        for source in (
            self.program,
            *(EXAMPLES / n / f"{n}.nem" for n in ("digits", "gemm_relu", "conv_pool")),
        ):
            first, text, second = self.work / "1.kpu", self.work / "1.nem", self.work / "2.kpu"
            self.assertEqual(kpusim("asm", source, "-o", first).returncode, 0)
            self.assertEqual(kpusim("disasm", first, "-o", text).returncode, 0)
            self.assertEqual(kpusim("asm", text, "-o", second).returncode, 0)
            self.assertEqual(first.read_bytes(), second.read_bytes(), source)

    def test_assembly_keeps_data(self) -> None:
        """Data sections travel through text: asm finds the files that stand beside it, disasm writes them."""
        weights = bytes(range(100))
        digest = hashlib.sha256(weights).hexdigest()
        entry = f'#! data {{"name":"w","size":"{len(weights)}","sha256":"{digest}","buffer":"x"}}'
        source = self.write("w.nem", SMALL.replace("program small:\n", f"program small:\n{entry}\n"))
        self.write("w.nem.0.data", weights)
        first, text, second = self.work / "1.kpu", self.work / "1.nem", self.work / "2.kpu"
        self.assertEqual(kpusim("asm", source, "-o", first).returncode, 0)
        self.assertIn(weights, first.read_bytes())
        self.assertEqual(kpusim("disasm", first, "-o", text).returncode, 0)
        self.assertEqual((self.work / "1.nem.0.data").read_bytes(), weights)
        self.assertEqual(kpusim("asm", text, "-o", second).returncode, 0)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        self.write("w.nem.0.data", weights[::-1])
        self.refused(kpusim("asm", source, "-o", first), "SHA-256", "Fix:")

    def test_check(self) -> None:
        """Findings stand on standard output as file:line:col: severity: message; standard input works."""
        self.assertEqual(kpusim("check", self.program).returncode, 0)
        result = kpusim("check", "-", text="const a = b\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("<stdin>:1:", result.stdout)
        self.assertIn("forward reference to undeclared constant b", result.stdout)
        self.assertEqual(json.loads(kpusim("check", "-", "--json", text="const a = b\n").stdout)["errors"], 1)

    def test_sarif(self) -> None:
        """SARIF 2.1.0: every result has its rule, level, text and places; `run` writes the same form."""
        program = self.write("race.nem", SMALL.replace(", deps=[a]", ""))
        hazards = self.work / "hazards.sarif"
        ran = kpusim("run", program, "--fill", "zeros", "--quiet", "--hazards", hazards)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        checked = kpusim("check", program, "--sarif")
        broken = kpusim("check", "-", "--sarif", text="const a = b\n")
        self.assertEqual(broken.returncode, 1)
        kinds = []
        for text in (checked.stdout, hazards.read_text(), broken.stdout):
            log = json.loads(text)
            self.assertEqual(log["version"], "2.1.0")
            self.assertTrue(log["$schema"].endswith("sarif-schema-2.1.0.json"))
            self.assertEqual(set(log), {"version", "$schema", "runs"})
            sarif_form.build("sarifLog", log)  # nothing that the schema lacks, everything that it requires
            (run,) = log["runs"]
            rules = run["tool"]["driver"]["rules"]
            self.assertEqual(run["tool"]["driver"]["name"], "kpusim")
            self.assertGreater(len(run["results"]), 0)
            for result in run["results"]:
                kinds.append(result["ruleId"])
                self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
                self.assertIn(result["level"], {"none", "note", "warning", "error"})
                self.assertGreater(len(result["message"]["text"]), 0)
                for place in result["locations"] + result.get("relatedLocations", []):
                    physical = place["physicalLocation"]
                    self.assertNotIn(" ", physical["artifactLocation"]["uri"])
                    self.assertGreaterEqual(physical["region"]["startLine"], 1)
        self.assertIn("raw", kinds)
        self.assertIn("verifier", kinds)

    def test_caret_on_a_terminal(self) -> None:
        """On a terminal each finding has its source line and a caret under its column; not so in a pipe."""
        line = '\tlet a = "é" let c = nothing'
        program = self.write("bad.nem", f"const ok = 1\n{line}\nconst c = d\n")
        piped = kpusim("check", program)
        self.assertNotIn("^", piped.stdout)
        terminal, child = pty.openpty()
        subprocess.run([KPUSIM, "check", program], stdout=child, timeout=100, check=False)
        os.close(child)
        shown = os.read(terminal, 65536).decode().replace("\r\n", "\n")
        os.close(terminal)
        lines = shown.splitlines()
        self.assertEqual([line for line in lines if "error:" in line], piped.stdout.splitlines())
        caret = " " * line.index("nothing") + "^"
        self.assertIn(f"\n     {line[1:]}\n    {caret}\n", shown)
        self.assertIn("    const c = d\n              ^\n", shown)

    def test_check_of_a_device_document(self) -> None:
        """A file of devices is checked as such, though only programs can run."""
        good = 'include "npm_lite.nem"\ndevice mine extends npm_lite { }\n'
        bad = good.replace("{ }", "{ opcode.extended { eltwise<u8>.default } }")
        self.assertEqual(kpusim("check", self.write("good.nem", good)).stdout, "")
        result = kpusim("check", self.write("bad.nem", bad))
        self.refused(result, "bad.nem:2:50: error:", "eltwise<u8>.default", "Fix:")
        self.refused(kpusim("run", self.work / "good.nem"), "declares devices, not a program", "Fix:")

    def test_scale_sim_files(self) -> None:
        """SCALE-Sim files run: each layer takes the cycles of that tool's formula."""
        net, config = self.work / "net.csv", self.work / "scale.cfg"
        net.write_text("Layer, M, N, K,\nfc1, 33, 20, 7,\nfc2, 8, 8, 100,\n")
        config.write_text(
            "[general]\nrun_name = s\n[architecture_presets]\nArrayHeight: 8\nArrayWidth: 4\nDataflow: ws\n"
            "IfmapSramSzkB: 1\nFilterSramSzkB: 1\nOfmapSramSzkB: 1\nBandwidth: 10\n"
        )
        out = self.work / "scale_sim"
        run = kpusim("run", net, "--platform", config, "-o", out)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("not modelled, so ignored: Bandwidth", run.stderr)
        with (out / "ops.csv").open() as file:
            cycles = {row["op"]: int(row["charged_cycles"]) for row in csv.DictReader(file)}
        # folds * (M + 2 rows + cols - 2) - 1, of cd(K, rows) * cd(N, cols) folds
        self.assertEqual(cycles["fc1"], 5 * (33 + 16 + 4 - 2) - 1)
        self.assertEqual(cycles["fc2"], 13 * 2 * (8 + 16 + 4 - 2) - 1)

    def test_energy_outside_of_its_domain(self) -> None:
        """No energy is shown where no table describes the device: SRAM as wide as that of SCALE-Sim."""
        net, config, out = self.work / "net.csv", self.work / "scale.cfg", self.work / "wide"
        net.write_text("Layer, M, N, K,\nfc1, 33, 20, 7,\n")
        config.write_text(
            "[architecture_presets]\nArrayHeight: 8\nArrayWidth: 4\nDataflow: ws\n"
            "IfmapSramSzkB: 1\nFilterSramSzkB: 1\nOfmapSramSzkB: 1\n"
        )
        events, vcd = out / "events.kpuev", out / "v"
        run = ("run", net, "--platform", config)
        done = kpusim(*run, "-o", out, "--events", events, "--vcd", vcd)
        self.assertEqual(done.returncode, 0, done.stderr)
        why = "a port of L1 moves 65536 bytes a cycle, and the energy table describes up to 1024"
        self.assertIn(f"energy       not modelled: {why}", done.stdout)
        self.assertNotIn(" W ", done.stdout)
        stats = json.loads((out / "stats.json").read_text())["stats"]
        self.assertIn(why, stats["energy.not_modelled"]["meaning"])
        numbers = [key for key in stats if key.endswith(("_uj", "_w"))]
        self.assertEqual(numbers, [])
        with (out / "ops.csv").open() as file:
            for row in csv.DictReader(file):
                self.assertEqual((row["energy_pj"], row["power_w"]), ("", ""))
        self.assertNotIn("power", vcd.read_text())
        self.refused(kpusim(*run, "--power", self.work / "p"), why, "Fix:")
        self.refused(kpusim(*run, "--power-budget", 1), why, "Fix:")
        self.refused(kpusim("export", events, "--power", self.work / "p"), why, "Fix:")
        self.assertFalse((self.work / "p").exists())
        self.assertNotIn("pJ", kpusim("explain", events).stdout)
        again = kpusim("diff", out, out)
        self.assertEqual(again.returncode, 0, again.stderr)
        narrow = kpusim(*run, "--set", "engine.l1.bytes_per_cycle=1024", "--quiet", "--json")
        self.assertIn("energy.total_uj", json.loads(narrow.stdout)["stats"])

    def test_bad_scale_sim_files(self) -> None:
        """Mistakes in a topology or configuration are named with line and fix, and nothing is written."""
        net, config, out = self.work / "bad_net.csv", self.work / "bad.cfg", self.work / "bad_scale_sim"
        header = "Layer, M, N, K,\n"
        good = (
            "[architecture_presets]\nArrayHeight: 8\nArrayWidth: 4\nDataflow: ws\n"
            "IfmapSramSzkB: 1\nFilterSramSzkB: 1\nOfmapSramSzkB: 1\n"
        )
        layer = header + "fc1, 33, 20, 7,\n"
        cases = [
            (header + "fc1, 33, zero, 7,\n", good, "bad_net.csv:2:1: error: N is `zero`"),
            (header + "fc1, 33, 0, 7,\n", good, "bad_net.csv:2:1: error: N is 0"),
            (header + "fc1, -33, 1, 7,\n", good, "bad_net.csv:2:1: error: M is -33"),
            (header + "fc1, 33, 7,\n", good, "bad_net.csv:2:1: error: a layer of 3 fields"),
            (header + "c, 8, 8, 9, 3, 1, 1, 1,\n", good, "bad_net.csv:2:1: error: the filter (9x3)"),
            (layer, good.replace("Width: 4", "Width: 0"), "bad.cfg:3:1: error: `ArrayWidth` is `0`"),
            (layer, good.replace("kB: 1\nF", "kB: -1\nF"), "bad.cfg:5:1: error: `IfmapSramSzkB` is `-1`"),
            (layer, good.replace("Height", "Hieght"), "error: `ArrayHeight` is missing"),
            (layer, good + "nonsense\n", "bad.cfg:8:1: error: `nonsense` is neither"),
        ]
        for topology, text, expected in cases:
            net.write_text(topology)
            config.write_text(text)
            result = kpusim("run", net, "--platform", config, "-o", out)
            self.refused(result, expected, "Fix:")
            self.assertFalse(out.exists(), expected)
        net.write_text(layer)
        config.write_text(good + "ArrayHieght: 8\n")
        noted = kpusim("run", net, "--platform", config, "-o", out)
        self.assertEqual(noted.returncode, 0, noted.stderr)
        self.assertIn("bad.cfg:8:1: info: unknown key `ArrayHieght` is ignored: did you mean", noted.stderr)
        net.write_text(header + "fc1, 33, zero, 7,\n")
        self.refused(kpusim("check", net), "bad_net.csv:2:1: error: N is `zero`", "Fix:")

    def test_list(self) -> None:
        """Every list is there for people and as JSON."""
        for what in ("platforms", "opcodes", "units", "modules", "stats"):
            extra = ["--platform", "npm_lite"] if what in ("units", "modules", "stats") else []
            people = kpusim("list", what, *extra)
            self.assertEqual(people.returncode, 0, people.stderr)
            self.assertGreater(len(people.stdout), 100)
            json.loads(kpusim("list", what, *extra, "--json").stdout)

    def test_modules_follow_the_platform(self) -> None:
        """The module tree has one module per unit of the platform."""
        tree = kpusim("list", "modules", "--platform", "npm_lite").stdout
        for name in (
            "e0_nmu0",
            "e0_cstl0",
            "e0_cstl1",
            "e0_dma0",
            "e0_dma1",
            "e0_vpu0",
            "sdma0",
            "e0_l1",
            "l2",
            "ddr0",
        ):
            self.assertIn(name, tree)
        wide = kpusim("list", "modules", "--platform", "npm_lite", "--set", "engine.dma.channels=4").stdout
        self.assertIn("e0_dma3", wide)


if __name__ == "__main__":
    unittest.main()
