"""Networks keep arrays of 16x16 and 128x128 busy; a small one runs MobileNetV2 within a published figure.

usage: test_cycles.py KPUSIM [--part I/N] [unittest arguments]
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import page
import parts

KPUSIM = ""


INT8 = ("--precision", "int8", "--calibrate", "random:1")
INT4 = ("--precision", "int4", "--calibrate", "random:1")
BF16_BY_EIGHT = ("--precision", "bf16", "--batch", "8")


def stats(network: str, device: tuple[str, ...], numbers: tuple[str, ...]) -> dict[str, Any]:
    """Return what a run takes on a device, no values. And `bytes.compulsory` (page.py)."""
    model = page.export(network)
    with tempfile.TemporaryDirectory() as name:
        program, listing, out = (Path(name) / part for part in ("network.kpu", "network.nem", "run"))
        for command in (
            [KPUSIM, "compile", model, "--platform", *device, *numbers, "-o", program],
            [KPUSIM, "run", program, "--platform", *device, "--mode", "timing", "--quiet", "-o", out],
            [KPUSIM, "disasm", program, "-o", listing],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(done.stderr)
        listed = json.loads((out / "stats.json").read_text())["stats"]
        least = page.compulsory(listing)
    return {"bytes.compulsory": least, **{key: row["value"] for key, row in listed.items()}}


class Cycles(unittest.TestCase):
    """Bounds of whole networks."""

    def assert_busy(self, of: dict[str, Any], macs: int, least: float) -> None:
        """Check that, of the MACs that an array could do meanwhile, at least this share is done."""
        self.assertGreaterEqual(of["ops.macs"] / (macs * of["cycles.total"]), least)

    def test_array_is_busy(self) -> None:
        """16 x 16 of them; and DRAM moves little that it need not."""
        for network, least in (("resnet50", 0.75), ("yolov8n", 0.65), ("bert_layer", 0.80)):
            with self.subTest(network):
                of = stats(network, ("swkpu-v1",), INT8)
                self.assert_busy(of, 256, least)
                moved = of["bytes.dram.read"] + of["bytes.dram.write"]
                self.assertLessEqual(moved, 1.6 * of["bytes.compulsory"])

    def test_steps_share_weights(self) -> None:
        """The steps of an LSTM read its weights from DRAM once."""
        for device, precision in (
            ("swkpu-v1", INT8),
            ("tile32", ("--precision", "fp16")),
            ("swkpu-v2", INT4),
        ):
            with self.subTest(device=device, precision=precision):
                of = stats("lstm", (device,), precision)
                moved = of["bytes.dram.read"] + of["bytes.dram.write"]
                self.assertLessEqual(moved, 1.05 * of["bytes.compulsory"])
        model = page.export("lstm")
        command = [
            KPUSIM,
            "compile",
            model,
            "--platform",
            "tile32",
            "--explain-mapping",
            "all",
            "-o",
            "/dev/null",
        ]
        told = subprocess.run([*command, "--force"], capture_output=True, text=True, check=True).stderr
        self.assertGreaterEqual(told.count("shares weights in L2"), 30)

    def test_large_array_is_busy(self) -> None:
        """128 x 128, eight inferences at once."""
        for network in ("resnet50", "bert_base"):
            with self.subTest(network):
                self.assert_busy(stats(network, ("core128-hbm2",), BF16_BY_EIGHT), 16384, 0.65)

    def test_more_engines_are_no_slower(self) -> None:
        """Staging for four engines would drive tensors out of L2: fewer work, or on less of their L1."""
        device = ["swkpu-v1"]
        for setting in ("array.rows=32", "array.cols=32", "vector.lanes=32"):
            device += ["--set", f"engine.{setting}"]
        device += ["--set", "ddr.channels=1", "--set", "l2.size_bytes=1048576"]
        cycles = [
            stats("mobilenet_v2", (*device, "--set", f"engine.count={engines}"), INT8)["cycles.total"]
            for engines in (1, 2, 4, 8)
        ]
        for fewer, more in itertools.pairwise(cycles):
            self.assertLessEqual(more, 1.01 * fewer)

    def test_a_larger_l1_is_no_slower(self) -> None:
        """Its staging would fill L2."""
        cycles = [
            stats("resnet18", ("npm_pro", "--set", f"engine.l1.size_bytes={size}"), INT8)["cycles.total"]
            for size in (1 << 20, 1 << 21)
        ]
        self.assertLessEqual(cycles[1], 1.01 * cycles[0])

    def test_small_array(self) -> None:
        """128 MACs a cycle: Vela's figure for Ethos-U55-128."""
        small = ("swkpu-v1", "--set", "engine.array.rows=8", "--set", "engine.array.cols=16")
        self.assertLessEqual(stats("mobilenet_v2", small, INT8)["cycles.total"], 5_500_000)


if __name__ == "__main__":
    KPUSIM = sys.argv.pop(1)
    parts.main()
