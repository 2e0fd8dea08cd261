"""Helpers for the safety tests: inputs, the command, and its verbs with everything they can write."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

KPUSIM = os.environ["KPUSIM"]
ROOT = Path(__file__).resolve().parents[2]

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

SCHEDULE = "tile 32 f32\ntensor 0 a 32 32 input\ntensor 1 b 32 32 output\n"

# Options that name a file or folder to write, by verb; the last one of a command below precedes its name.
TRACES = (
    *("--vcd", "--fst", "--power", "--flp", "--ptrace"),
    *("--stalls", "--memory-trace", "--perfetto", "--konata"),
)
BANKS = ("--dram-traffic", "--dram-page")
WRITES = {
    "run": ("--output", "--events", "--hazards", "--junit", "--write-budgets", *TRACES, *BANKS),
    "export": (*TRACES, *BANKS),
    "explain": ("--html",),
    "asm": ("--output",),
    "compile": ("--output",),
    "disasm": ("--output",),
    "dram": ("--commands", *BANKS),
    "validate": (),
    "debug": (),
    "check": ("--junit",),
    "list": (),
    "diff": ("--html",),
}
# Verbs that other packages bring: tests/sweeps, tests/llm, tests/calibrate and tests/reduce have theirs.
EXTERNAL = {"sweep", "llm", "calibrate", "reduce"}
# All other options. A new one has to be put here or above.
OTHERS = set(
    "--bounds-only --bind "
    "--help --timeout --platform --set --header --param --input --fill --mode --order --values "
    "--stepper --strict --no-hazards --allow-hazards --max-cycles --seed --force --perfetto-time "
    "--trace-window --trace-filter --trace-cause --trace-op --trace-every "
    "--viewer-files --expect-cycles --power-budget --peak-power-budget --tolerance "
    "--estimates --check-estimates --json --quiet --sarif --ci --budgets --memory --fix-suggest --as "
    "--bin-ns --threshold --top --device --mapping --max-outstanding --channels --channel-interleave "
    "--ranks --data-rate --dim --batch --precision --calibrate --percentile --boundary --layout "
    "--image-mean --image-std --print-after --print-graph --explain-mapping --dot --memory-map --export-qdq "
    "--retarget --core-mhz --max-steps --calibration-method --keep --accuracy --wide-share --power-by "
    "--power-in --report-accuracy --write-mapping --group-size --inferences --effort --no-own-choice "
    "--explain --memory-trace-form --trace-form --dram-traffic-by --positions --generate --prompt "
    "--next".split()
)


def kpusim(
    *arguments: object, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [KPUSIM, *map(str, arguments)], stdout=stdout, stderr=stderr, text=True, timeout=60, check=False
    )


class SafetyTest(unittest.TestCase):
    """A folder with a program, its container, a recorded run and a trace of DRAM requests."""

    @classmethod
    def setUpClass(cls) -> None:
        """Make the inputs."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = Path(folder.name)
        cls.program = cls.work / "small.nem"
        cls.program.write_text(SMALL)
        cls.endless = cls.work / "endless.nem"
        cls.endless.write_text(ENDLESS)
        cls.racy = cls.work / "racy.nem"
        cls.racy.write_text(SMALL.replace(", deps=[a]", ""))
        cls.requests = cls.work / "requests.csv"
        cls.requests.write_text("".join(f"{i},R,{i * 64:#x},{i}\n" for i in range(100)))
        cls.container = cls.work / "small.kpu"
        cls.recorded = cls.work / "recorded"
        cls.events = cls.recorded / "events.kpuev"
        for arguments in (
            ("asm", cls.program, "-o", cls.container),
            (*cls.run_of(), "-o", cls.recorded, "--events", cls.events, "--memory-trace", cls.work / "m"),
        ):
            done = kpusim(*arguments)
            assert done.returncode == 0, done.stderr

    @classmethod
    def run_of(cls) -> tuple[object, ...]:
        """The smallest run, on a DRAM that has banks."""
        return ("run", cls.program, "--fill", "random:1", "--quiet", "--set", "ddr.fidelity=burst")

    def writing(self) -> list[tuple[object, ...]]:
        """Return every command that writes a file; the file's name follows."""
        start: dict[str, tuple[object, ...]] = {
            "run": self.run_of(),
            "export": ("export", self.events),
            "explain": ("explain", self.events),
            "diff": ("diff", self.recorded, self.recorded, "--force"),
            "asm": ("asm", self.program),
            "compile": ("compile", self.program, "--force"),
            "disasm": ("disasm", self.container),
            "dram": ("dram", self.requests),
            "check": ("check", self.program),
        }
        return [
            (*start[verb], option)
            for verb, options in WRITES.items()
            for option in options
            if option != "--output" or verb != "run"
        ]

    def printing(self) -> list[tuple[object, ...]]:
        """Return every command that prints."""
        lists = [("list", what) for what in ("platforms", "opcodes")]
        lists += [("list", what, "--platform", "npm_lite") for what in ("units", "modules", "stats")]
        helps = [(verb, "--help") for verb in WRITES]
        return [
            ("--help",),
            ("--version",),
            *helps,
            *lists,
            *((*words, "--json") for words in lists),
            (*self.run_of(), "--json"),
            ("check", self.racy),
            ("check", self.racy, "--json"),
            ("check", self.racy, "--sarif"),
            ("check", self.racy, "--memory"),
            ("check", self.racy, "--fix-suggest"),
            ("disasm", self.container),
            ("diff", self.recorded, self.recorded, "--json"),
            ("explain", self.events),
            ("explain", self.events, "a"),
            ("explain", self.events, "--json"),
            ("dram", self.requests),
            ("dram", self.requests, "--json"),
        ]

    def assert_nothing_temporary(self, folder: Path | None = None) -> None:
        """No half-written file is left anywhere."""
        self.assertEqual([str(p) for p in (folder or self.work).rglob("*.tmp")], [])
