"""Int8 networks keep the array of swkpu-v1 busy; a small array runs MobileNetV2 within a published figure.

usage: test_cycles.py KPUSIM [unittest arguments]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import page

KPUSIM = ""
MODELS = page.ROOT / "build" / "networks"


def stats(network: str, *device: str) -> dict[str, Any]:
    """What one inference in int8 takes on swkpu-v1, with these settings; without values."""
    model = page.export(network, MODELS)
    platform = ["--platform", "swkpu-v1", *device]
    with tempfile.TemporaryDirectory() as name:
        program, out = Path(name) / "network.kpu", Path(name) / "run"
        numbers = ["--precision", "int8", "--calibrate", "random:1"]
        for command in (
            [KPUSIM, "compile", model, *platform, *numbers, "-o", program],
            [KPUSIM, "run", program, *platform, "--mode", "timing", "--quiet", "-o", out],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(done.stderr)
        listed = json.loads((out / "stats.json").read_text())["stats"]
    return {key: row["value"] for key, row in listed.items()}


class Cycles(unittest.TestCase):
    """Bounds of whole networks."""

    def test_array_is_busy(self) -> None:
        """MACs / (256 a cycle)."""
        for network, least in (("resnet50", 0.75), ("yolov8n", 0.65), ("bert_layer", 0.80)):
            with self.subTest(network):
                of = stats(network)
                self.assertGreaterEqual(of["ops.macs"] / (256 * of["cycles.total"]), least)

    def test_small_array(self) -> None:
        """128 MACs a cycle: Vela's figure for Ethos-U55-128."""
        small = ("--set", "engine.array.rows=8", "--set", "engine.array.cols=16")
        self.assertLessEqual(stats("mobilenet_v2", *small)["cycles.total"], 5_500_000)


if __name__ == "__main__":
    KPUSIM = sys.argv.pop(1)
    unittest.main()
