"""VCD and FST hold the same signals, value for value, and what the events say.

usage: KPUSIM=... RANDOM_PROGRAMS=... .venv/bin/python -m unittest test_waveforms
Needs pywellen, and fst2vcd of gtkwave; for the picture what docs/traces/make_pictures.py names.
"""

from __future__ import annotations

import csv
import os
import subprocess
import time
import unittest
from fnmatch import fnmatchcase
from pathlib import Path

from command import GEMM, KPUSIM, ROOT, FolderTest, kpusim
from PIL import Image
from waveform_agreement import agree, random_programs
from waveforms import Value, check_agreement, expect_same, read_stats, read_vcd, read_wellen, without_repeats

EXAMPLES = {"gemm_relu": "npm_pro", "digits": "npm_lite", "conv_pool": "npm_mid", "gemm_rmsnorm": "swkpu-v1"}


class Waveforms(FolderTest):
    """Recorded runs."""

    def paths(self) -> tuple[Path, Path, Path]:
        """Return the paths of the VCD, the FST and the events."""
        return self.work / "w.vcd", self.work / "w.fst", self.work / "w.kpuev"

    def run_traced(self, program: object, *options: object) -> dict[str, float]:
        """Writes all three; the statistics."""
        vcd, fst, events = self.paths()
        done = kpusim("run", program, "--mode", "timing", "--quiet", "--json", "--vcd", vcd, "--fst", fst,
                      "--events", events, *options)  # fmt: skip
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return read_stats(done.stdout)

    def test_vcd_fst_and_events_agree(self) -> None:
        """Two readers that are not ours agree; also on a run cut off, and one without clock gating."""
        cases = [(name, ("--platform", platform, "--retarget")) for name, platform in EXAMPLES.items()]
        cases.append(("gemm_relu", ("--max-cycles", "20000")))
        cases.append(("gemm_relu", ("--set", "energy.clock_gating=false")))
        cases.append(("conv_pool", ("--set", "clock.core_mhz=733")))
        for name, options in cases:
            with self.subTest(name=name, options=options):
                stats = self.run_traced(ROOT / "examples" / name / f"{name}.nem", *options)
                self.assertGreater(check_agreement(*self.paths(), stats), 500)

    def test_random_programs_agree(self) -> None:
        """A few on each platform, by a seed of this run."""
        seed = int(time.time())
        print(f"random programs from seed {seed} on")
        for path in random_programs(os.environ["RANDOM_PROGRAMS"], seed, 12, self.work):
            with self.subTest(path.name):
                self.assertGreater(agree(path, self.work, path.name.rsplit("_", 1)[0]), 50)

    def test_export_writes_the_same_bytes(self) -> None:
        """Later, from the events; and a window and a filter are those of the VCD."""
        self.run_traced(GEMM)
        vcd, fst, events = self.paths()
        again, part = self.work / "again.fst", self.work / "part"
        self.assertEqual(kpusim("export", events, "--fst", again).returncode, 0)
        self.assertEqual(again.read_bytes(), fst.read_bytes())
        view = ("--trace-window", "1234:5000", "--trace-filter", "e0_*")
        self.assertEqual(kpusim("export", events, "--fst", again, "--vcd", part, *view).returncode, 0)
        shown = read_vcd(part.read_text())
        self.assertEqual(shown.pop("$end"), [(5000000, None)])
        self.assertEqual(read_wellen(again), shown)
        self.assertNotIn("kpusim.ddr0.state", shown)
        self.assertEqual({changes[0][0] for changes in shown.values()}, {1234000})
        whole = read_vcd(vcd.read_text())
        for name, changes in shown.items():
            before = [value for time, value in whole[name] if time <= 1234000][-1]
            inside = [row for row in whole[name] if 1234000 < row[0] < 5000000]
            self.assertEqual(changes, [(1234000, before), *inside], name)

    def test_pipes_and_full_disks(self) -> None:
        """An FST goes through a pipe; no room for it, or for what it is made in, is one error and no file."""
        self.run_traced(GEMM)
        _, fst, events = self.paths()
        piped = subprocess.run(
            [KPUSIM, "export", events, "--fst", "/dev/stdout"], capture_output=True, check=True
        )
        self.assertEqual(piped.stdout, fst.read_bytes())
        full = kpusim("export", events, "--fst", "/dev/full")
        self.assertEqual(full.returncode, 1)
        self.assertIn("No space left on device. Fix:", full.stderr)
        limited = f"ulimit -f 8; trap '' XFSZ; exec {KPUSIM} export {events} --fst {self.work}/none.fst"
        cut = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
        self.assertEqual((cut.returncode, cut.stderr.count("error:")), (1, 1), cut.stderr)
        self.assertIn("Fix: set TMPDIR to a folder", cut.stderr)
        self.assertFalse((self.work / "none.fst").exists())
        self.assertEqual(list(self.work.glob("kpusim-*")), [])


def majorities(changes: list[tuple[int, Value]], every: int, end: int) -> list[tuple[int, Value]]:
    """Return what held longest in each interval; of equals the first."""
    sampled: list[tuple[int, Value]] = []
    at = 0
    for start in range(0, end, every):
        stop, held = min(start + every, end), {}
        while at + 1 < len(changes) and changes[at + 1][0] <= start:
            at += 1
        for i in range(at, len(changes)):
            begin = max(changes[i][0], start)
            until = min(changes[i + 1][0] if i + 1 < len(changes) else end, stop)
            if begin >= stop:
                break
            held[changes[i][1]] = held.get(changes[i][1], 0) + until - begin
        sampled.append((start, max(held, key=held.__getitem__)))
    return without_repeats(sampled)


class Views(FolderTest):
    """Sampling, causes, operations."""

    events: Path
    whole: dict

    @classmethod
    def setUpClass(cls) -> None:
        """Record once."""
        super().setUpClass()
        cls.events = cls.work / "events"
        traces = ("--events", cls.events, "--vcd", cls.work / "whole", "--stalls", cls.work / "stalls")
        done = kpusim("run", GEMM, "--mode", "timing", "--quiet", *traces)
        assert done.returncode == 0, done.stderr
        cls.whole = read_vcd((cls.work / "whole").read_text())

    def export(self, *options: object, code: int = 0) -> str:
        """Export the recording; return standard error."""
        done = kpusim("export", self.events, *options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_sampled_states_are_majorities(self) -> None:
        """Each interval has what held longest in the whole waveform; reals are means of bins so wide."""
        for every in (333, 1000, 50_000):
            name = f"{every}ns"
            self.export("--vcd", self.work / "v", "--fst", self.work / "f", "--stalls", self.work / "s",
                        "--trace-every", name)  # fmt: skip
            sampled = read_vcd((self.work / "v").read_text())
            end = sampled.pop("$end")[0][0]
            self.assertEqual(read_wellen(self.work / "f"), sampled)
            self.export("--vcd", self.work / "v", "--bin-ns", every)
            bins = read_vcd((self.work / "v").read_text())
            for signal, changes in bins.items():
                if isinstance(changes[0][1], float):
                    expect_same(signal, sampled[signal], changes, exact=True)
                elif signal != "$end":
                    expected = majorities(self.whole[signal], every * 1000, end)
                    expect_same(f"{signal} {name}", sampled[f"{signal}_majority"], expected, exact=True)
            with (self.work / "s").open() as file:
                for row in csv.DictReader(file):
                    state = sampled[f"kpusim.{row['unit']}.state_majority"]
                    inside = [v for t, v in state if int(row["start_ps"]) < t < int(row["end_ps"])]
                    before = [v for t, v in state if t <= int(row["start_ps"])][-1]
                    self.assertEqual({before, *inside}, {row["cause_majority"]}, row)

    def test_causes_and_operations(self) -> None:
        """States of other causes and operations are not there; the rest is as it was."""
        view = (
            "--trace-cause",
            "stalled.operand*",
            "--trace-cause",
            "busy.*",
            "--trace-op",
            "l?",
            "--trace-op",
            "g",
        )
        self.export("--stalls", self.work / "s", "--vcd", self.work / "v", *view)

        def shown(cause: str, op: str) -> bool:
            return (
                fnmatchcase(cause, "stalled.operand*") or fnmatchcase(cause, "busy.*")
                if op in ("la", "lb", "g")
                else False
            )

        with (self.work / "stalls").open() as file:
            rows = [row for row in csv.DictReader(file) if shown(row["cause"], row["operation"])]
        with (self.work / "s").open() as file:
            kept = [row for row in csv.DictReader(file) if row["operation"]]
        self.assertEqual(kept, rows)
        self.assertGreater(len(rows), 300)
        part = read_vcd((self.work / "v").read_text())
        for unit in ("e0_nmu0", "sdma0"):
            whole = [self.whole[f"kpusim.{unit}.{name}"] for name in ("state", "op")]
            times = sorted({change[0] for signal in whole for change in signal})
            expected = []
            for at in times:
                state, op = ([v for t, v in signal if t <= at][-1] for signal in whole)
                expected.append((at, state if shown(str(state), str(op)) else "-"))
            self.assertEqual(part[f"kpusim.{unit}.state"], without_repeats(expected), unit)
            hidden = {t for t, v in part[f"kpusim.{unit}.state"] if v == "-"}
            self.assertEqual(hidden, {t for t, v in part[f"kpusim.{unit}.cause"] if v is None})
        self.export("--power", self.work / "p", "--power-by", "op", "--trace-op", "g")
        with (self.work / "p").open() as file:
            self.assertEqual({row["op"] for row in csv.DictReader(file)}, {"g"})

    def test_what_a_trace_cannot_show(self) -> None:
        """It is refused by the trace's name, before anything is written."""
        for options, words in (
            (("--konata", "x", "--trace-every", "1us"), "konata: its rows are tasks"),
            (("--konata", "x", "--trace-cause", "busy.*"), "konata: its rows are tasks"),
            (("--memory-trace", "x", "--trace-every", "1us"), "memory-trace: it has every request"),
            (("--memory-trace", "x", "--trace-cause", "busy.*"), "memory-trace: requests have no cause"),
            (("--power", "x", "--trace-cause", "busy.*"), "power: energy has no cause"),
            (("--power", "x", "--trace-op", "g"), "add --power-by op"),
            (("--vcd", "x", "--trace-every", "1"), "--trace-every: `1` is not a time"),
            (("--vcd", "x", "--trace-every", "0ns"), "--trace-every: `0ns` is not a time"),
            (("--vcd", "x", "--trace-every", "0.5ns"), "--trace-every 0.5ns: a core cycle takes 1 ns"),
            (("--vcd", "x", "--trace-every", "1us", "--bin-ns", "5"), "exclude each other"),
            (("--vcd", "x", "--trace-cause", "bussy"), "no cause has such a name"),
            (("--vcd", "x", "--trace-op", "conv*"), "no operation has such a name"),
            (("--vcd", "x", "--trace-window", "70000:80000"), "the run has 65709 core cycles"),
            (("--stalls", "x", "--viewer-files"), "there is no waveform to open"),
        ):
            path = self.work / "x"
            error = self.export(*[path if option == "x" else option for option in options], code=1)
            self.assertIn(words, error)
            self.assertIn("Fix:", error)
            self.assertFalse(path.exists(), options)


class Viewers(FolderTest):
    """Files that open a waveform ready."""

    def test_files_name_signals_of_the_waveform(self) -> None:
        """Each signal that they show is in the waveform; every cause has a text and colour."""
        for options in ((), ("--trace-every", "1us")):
            path = self.work / "w.fst"
            done = kpusim(
                "run", GEMM, "--mode", "timing", "--quiet", "--fst", path, "--viewer-files", *options
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            names = set(read_wellen(path))
            save = (self.work / "w.fst.gtkw").read_text().splitlines()
            listed = [line.split("} ")[1].split("[")[0] for line in save if line.startswith("+{")]
            commands = (self.work / "w.fst.sucl").read_text().splitlines()
            added = [line.split()[1] for line in commands if line.startswith("variable_add ")]
            self.assertEqual({*listed, *added} - names, set())
            self.assertEqual(len(listed), len(set(listed)))
            groups = [line for line in save if line.startswith("-") and line != "-"]
            for group in ("-device", "-engine 0", "-shared", "-power", "-bandwidth", "-clocks"):
                self.assertEqual(groups.count(group), 2, group)
            op = [
                value for _, value in read_wellen(path)[f"kpusim.device.op{'_majority' if options else ''}"]
            ]
            self.assertIn(groups[0].removeprefix("-A to B: ").split(",")[0], op)
            causes = (self.work / "w.fst.causes").read_text().splitlines()
            self.assertEqual([line.split()[0] for line in causes[1:-1]], [f"{i:02X}" for i in range(25)])

    def test_gtkwave_shows_causes_in_colours(self) -> None:
        """The picture of the page is made again; bars of memory stalls and of useful work are in it."""
        script = ROOT / "docs" / "traces" / "make_pictures.py"
        command = [ROOT / ".venv/bin/python", script, KPUSIM, self.work]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in (self.work / "gtkwave.png", ROOT / "docs" / "traces" / "gtkwave.png"):
            with Image.open(path) as picture:
                self.assertEqual(picture.size, (1500, 950))
                colours = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 24)}
            for colour in ((178, 34, 34), (0, 100, 0), (77, 77, 77)):
                near = sum(
                    n
                    for c, n in colours.items()
                    if max(abs(a - b) for a, b in zip(c, colour, strict=True)) < 12
                )
                self.assertGreater(near, 500, (path, colour))


if __name__ == "__main__":
    unittest.main()
