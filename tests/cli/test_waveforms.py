"""VCD and FST hold the same signals, value for value, and what the events say.

usage: KPUSIM=path/to/kpusim .venv/bin/python -m unittest test_waveforms   (needs pywellen; fst2vcd of gtkwave)
"""

from __future__ import annotations

import subprocess
import unittest
from pathlib import Path

from command import GEMM, KPUSIM, ROOT, FolderTest, kpusim
from waveforms import check_agreement, read_stats, read_vcd, read_wellen

EXAMPLES = {"gemm_relu": "npm_pro", "digits": "npm_lite", "conv_pool": "npm_mid", "gemm_rmsnorm": "swkpu-v1"}


class Waveforms(FolderTest):
    """Recorded runs."""

    def paths(self) -> tuple[Path, Path, Path]:
        """Of the VCD, the FST and the events."""
        return self.work / "w.vcd", self.work / "w.fst", self.work / "w.kpuev"

    def run_traced(self, program: object, *options: object) -> dict[str, float]:
        """Writes all three; the statistics."""
        vcd, fst, events = self.paths()
        done = kpusim("run", program, "--mode", "timing", "--quiet", "--json", "--vcd", vcd, "--fst", fst,
                      "--events", events, *options)  # fmt: skip
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return read_stats(done.stdout)

    def test_vcd_fst_and_events_agree(self) -> None:
        """Read back by two readers that are not ours; also a run that was cut off, and one without clock gating."""
        cases = [(name, ("--platform", platform, "--retarget")) for name, platform in EXAMPLES.items()]
        cases += [("gemm_relu", ("--max-cycles", "20000")), ("gemm_relu", ("--set", "energy.clock_gating=false")),
                  ("conv_pool", ("--set", "clock.core_mhz=733"))]  # fmt: skip
        for name, options in cases:
            with self.subTest(name=name, options=options):
                stats = self.run_traced(ROOT / "examples" / name / f"{name}.nem", *options)
                self.assertGreater(check_agreement(*self.paths(), stats), 500)

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
        piped = subprocess.run([KPUSIM, "export", events, "--fst", "/dev/stdout"], capture_output=True, check=True)
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


if __name__ == "__main__":
    unittest.main()
