"""`kpusim dram` as a user meets it: both trace forms, figures in the reference band, bad input, overrides.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_dram_command
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import traffic

KPUSIM = os.environ["KPUSIM"]
REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "dram"
MAPPINGS = {"BGI": "bank_group_interleaved", "RBC": "row_bank_column"}
ROW_STRIDE = {"DDR4-3200": 131072, "LPDDR4-3200": 32768, "HBM2-2000": 32768}
CLOCK_MHZ = {"DDR4-3200": 1600, "LPDDR4-3200": 1600, "HBM2-2000": 1000}


def dram(*arguments: object, trace: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a trace given on its standard input."""
    return subprocess.run(
        [KPUSIM, "dram", "-", *map(str, arguments)],
        input=trace,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


class DramCommand(unittest.TestCase):
    """The command line."""

    def replay(self, *arguments: object, trace: str) -> dict:
        """Figures of a run that must succeed."""
        result = dram("--json", *arguments, trace=trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_memory_trace_of_a_run(self) -> None:
        """Its accesses to DRAM, burst by burst, at the times of its clock; other levels are left out."""
        program = Path(__file__).resolve().parents[2] / "examples" / "gemm_relu" / "gemm_relu.nem"
        with tempfile.TemporaryDirectory() as folder:
            trace, out = Path(folder) / "memory.csv", Path(folder) / "out"
            command = [
                KPUSIM,
                "run",
                program,
                "--mode",
                "timing",
                "--quiet",
                "--memory-trace",
                trace,
                "-o",
                out,
            ]
            subprocess.run(command, check=True, timeout=100)
            stats = json.loads((out / "stats.json").read_text())["stats"]
            text = trace.read_text()
        told = self.replay(trace=text)
        for kind in ("read", "write"):
            with self.subTest(kind=kind):
                wanted = sum(
                    -(-(int(row["address"], 16) % 64 + int(row["bytes"])) // 64)
                    for row in csv.DictReader(text.splitlines())
                    if (row["level"], row["access"]) == ("dram", kind)
                )
                self.assertGreater(wanted, 0)
                self.assertEqual(told[f"{kind}s"], wanted)
        fast = self.replay("--core-mhz", 1e6, "--max-outstanding", 1000, trace=text)
        self.assertLess(fast["time_ns"], told["time_ns"])
        self.assertGreater(told["time_ns"], 0.9 * int(stats["cycles.total"]["value"]))
        for line, words in (
            ("x,read,dram,0x0,64,u,t", "not a cycle"),
            ("1,fetch,dram,0x0,64,u,t", "neither read nor write"),
            ("1,read,dram,0x0,0,u,t", "not a number of bytes"),
            ("1,read,dram", "not the cells"),
        ):
            result = dram(trace=text.splitlines()[0] + "\n" + line + "\n")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, rf"<stdin>:2:1: .*{words}.*Fix: \S")

    def test_traces_of_other_simulators(self) -> None:
        """A run's requests as DRAMSys and Ramulator have them, and the figures from them."""
        program = Path(__file__).resolve().parents[2] / "examples" / "gemm_relu" / "gemm_relu.nem"
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder) / f"m.{name}" for name in ("csv", "stl", "rstl", "lst")}
            events = Path(folder) / "events"
            run = (KPUSIM, "run", program, "--mode", "timing", "--quiet")
            subprocess.run(
                [*run, "--memory-trace", files["csv"], "--events", events], check=True, timeout=100
            )
            for name, options in (("stl", ()), ("rstl", ()), ("lst", ("--memory-trace-form", "ramulator"))):
                export = (KPUSIM, "export", events, "--memory-trace", files[name], *options)
                subprocess.run(export, check=True, timeout=100)
            text = {name: path.read_text() for name, path in files.items()}
            relative = subprocess.run(
                [KPUSIM, "dram", files["rstl"], "--json"], check=True, capture_output=True, timeout=100
            )
        rows = [row for row in csv.DictReader(text["csv"].splitlines()) if row["level"] == "dram"]
        self.assertGreater(len(rows), 1000)
        last = 0
        clock, *lines = text["stl"].splitlines()
        self.assertEqual(clock, "# clock_mhz: 1000")
        self.assertEqual(len(lines), len(rows))
        bursts = []
        for row, line, delta in zip(rows, lines, text["rstl"].splitlines()[1:], strict=True):
            cycle, address, size = int(row["cycle"]), int(row["address"], 16), int(row["bytes"])
            wanted = f"({size}) {row['access']} {address:#x}"
            self.assertEqual(line, f"{cycle}: {wanted}")
            self.assertEqual(delta, f"{cycle - last}: {wanted}")
            last = cycle
            word = {"read": "LD", "write": "ST"}[row["access"]]
            bursts += [f"{word} {at * 64:#x}" for at in range(address // 64, -(-(address + size) // 64))]
        self.assertEqual(text["lst"].splitlines(), bursts)
        for options in ((), ("--device", "HBM2-2000", "--channels", 4), ("--core-mhz", 500)):
            with self.subTest(options=options):
                figures = self.replay(*options, trace=text["csv"])
                self.assertEqual(self.replay(*options, trace=text["stl"]), figures)
        figures = self.replay(trace=text["csv"])
        # relative times count from when the request before was taken: never earlier
        self.assertGreaterEqual(json.loads(relative.stdout)["cycles"], figures["cycles"])
        self.assertEqual(self.replay("--trace-form", "rstl", trace=text["rstl"]), json.loads(relative.stdout))
        fast = self.replay(trace=text["lst"])
        self.assertEqual((fast["reads"], fast["writes"]), (figures["reads"], figures["writes"]))
        self.assertLess(fast["cycles"], figures["cycles"])

    def test_generator_is_the_references(self) -> None:
        """The traces are those that the reference figures were taken with."""
        with (REFERENCE / "trace_params.csv").open() as file:
            for row in csv.DictReader(file):
                self.assertEqual(
                    traffic.checksum(row["pattern"], 4096, 131072), row["checksum_n4096_rs131072"]
                )
                self.assertEqual(traffic.checksum(row["pattern"], 4096, 32768), row["checksum_n4096_rs32768"])

    def test_figures_lie_in_the_band(self) -> None:
        """Cycles, activates, refreshes and bandwidth of the short reference rows, in both trace forms."""
        with (REFERENCE / "envelope.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["bursts"] == "4096"]
        self.assertEqual(len(rows), 32)
        for row in rows:
            device, pattern = row["device"], row["pattern"]
            what = (pattern, 4096, ROW_STRIDE[device])
            options = ("--device", device, "--mapping", MAPPINGS[row["mapping"]], "--max-outstanding", 32)
            with self.subTest(device=device, mapping=row["mapping"], pattern=pattern):
                figures = self.replay(*options, trace=traffic.csv_text(*what))
                margin = 0.02 if float(row["spread_pct"]) < 5 else 0.05
                self.assertGreaterEqual(figures["cycles"], float(row["cycles_min"]) * (1 - margin))
                self.assertLessEqual(figures["cycles"], float(row["cycles_max"]) * (1 + margin))
                self.assertAlmostEqual(figures["bandwidth_gbps"], 4096 * 64 / figures["time_ns"])
                self.assertEqual(figures["reads"] + figures["writes"], 4096)
                self.assertEqual(sum(figures["rank_cycles"].values()), figures["cycles"])
                stl = self.replay(*options, trace=traffic.stl_text(*what, CLOCK_MHZ[device]))
                self.assertEqual(stl, figures)

    def test_overrides_change_the_result(self) -> None:
        """Each option that an architect turns does something."""
        trace = traffic.csv_text("rnd_rd", 2000, 0)
        base = self.replay(trace=trace)
        for options in (
            ["--channels", 2],
            ["--ranks", 2],
            ["--data-rate", 1600],
            ["--mapping", "row:4 bg col ba row"],
            ["--max-outstanding", 4],
            ["--set", "tfaw=60"],
            ["--set", "read_queue=4"],
            ["--device", "HBM2-2000"],
        ):
            with self.subTest(options=options):
                self.assertNotEqual(self.replay(*options, trace=trace)["cycles"], base["cycles"])
        self.assertEqual(self.replay(trace=trace), base)

    def test_text_and_commands(self) -> None:
        """Without --json the same figures as text; --commands lists every command of the run."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "commands.csv"
            result = dram("--commands", path, trace=traffic.csv_text("seq_rd", 1000, 0))
            self.assertEqual(result.returncode, 0, result.stderr)
            figures = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
            with path.open() as file:
                commands = [row["command"] for row in csv.DictReader(file)]
        self.assertEqual(commands.count("RD"), 1000)
        self.assertEqual(commands.count("ACT"), int(figures["activates"]))
        self.assertEqual(figures["row_hit_rate"], "0.9920")

    def test_bad_input(self) -> None:
        """A mistake ends in exit code 1, naming what, where and the fix."""
        good = "0,R,0x0,0\n"
        for options, trace, parts in (
            ([], "0,R,0x0,0\n1,Q,0x0,0\n", ["<stdin>:2:1: error:", "neither R nor W"]),
            ([], "", ["holds no request"]),
            ([], "LD 0x0\nLOAD 0x0\n", ["<stdin>:2:1: error:", "none of LD, ST, R and W"]),
            (["--device", "LPDDR4-3200"], "R 0,0,0,0,0,0\n", ["6 numbers, an address of this device 5"]),
            (["--trace-form", "stl"], good, ["<stdin>:1:1: error:", "no colon"]),
            ([], "0,R,0xffffffffff,0\n", ["<stdin>:1:1:", "outside of the memory"]),
            (["--device", "DDR9"], good, ["no DRAM device `DDR9`", "LPDDR4-3200"]),
            (["--mapping", "bg col:6 ba row"], good, ["6 bits of the column", "has 7"]),
            (["--channels", 0], good, ["--channels 0"]),
            (["--max-outstanding", 0], good, ["--max-outstanding 0"]),
            (["--set", "trc=10"], good, ["tRC = 10", "tRAS + tRP = 74"]),
            (["--set", "trx=10"], good, ["no `trx`", "did you mean"]),
            (["--set", "trc=many"], good, ["--set trc=many"]),
            (["--data-rate", 6400], good, ["100 to 3200"]),
            (["--commands", "/nonexistent/x", "--channels", 2], good, ["one channel"]),
        ):
            with self.subTest(options=options, trace=trace):
                result = dram(*options, trace=trace)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(result.stdout, "")
                for part in [*parts, "Fix:"] if options != ["--set", "trc=many"] else parts:
                    self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
