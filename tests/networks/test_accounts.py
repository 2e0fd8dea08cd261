"""The books of runs of random networks, a sample of what accounts.py runs.

usage: test_accounts.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from accounts import DEVICES, Run, network, problems
from onnx import TensorProto, helper, numpy_helper

KPUSIM = os.environ.get("KPUSIM", "")
#: Networks that main of November 2026 counted wrongly: overlapping tiles, kernels faster than their bound.
SEEDS = (16, 18, 1010, 1037, 1062, 1091)


def transposed(size: int, channels: int, k: int, stride: int, pad: int) -> onnx.ModelProto:
    """Return a transposed convolution of an image that no tile holds."""
    weight = np.ones((channels, channels, k, k), np.float32)
    out = (size - 1) * stride + k - 2 * pad
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, channels, side, side))
        for name, side in (("x", size), ("y", out))
    ]
    graph = helper.make_graph([node], "up", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Accounts(unittest.TestCase):
    """MACs, bounds and causes."""

    def test_random_networks(self) -> None:
        """Nothing is wrong on three devices each, one of them with two vector units."""
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in SEEDS:
                model, macs = network(seed)
                path = Path(folder) / f"{seed}.onnx"
                onnx.save(model, path)
                for i in range(3):
                    device = DEVICES[(seed + 4 * i) % len(DEVICES)]
                    with self.subTest(seed=seed, device=device):
                        found = problems(KPUSIM, path, macs, Run(seed, *device))
                        count += found is not None
                        self.assertFalse(found)
        self.assertGreater(count, 2 * len(SEEDS))

    def test_large_transposed(self) -> None:
        """Rows of zeros that even a size out, and strips, are no work of the graph, in any mode."""
        cases = ((70, 16, 4, 2, 0), (64, 24, 3, 2, 0), (60, 16, 5, 3, 1))
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "up.onnx", Path(folder) / "run"
            for size, channels, k, stride, pad in cases:
                onnx.save(transposed(size, channels, k, stride, pad), path)
                macs = size * size * channels * channels * k * k
                for more in ((), ("--inferences", "2"), ("--mode", "functional")):
                    with self.subTest(size=size, k=k, more=more):
                        words = ["--platform", "tile32", "--precision", "f32", "--fill", "zeros", "--quiet"]
                        subprocess.run(
                            [KPUSIM, "run", path, *words, *more, "-o", out, "--force"],
                            check=True,
                            capture_output=True,
                        )
                        stats = json.loads((out / "stats.json").read_text())["stats"]
                        runs = 2 if "--inferences" in more else 1
                        self.assertEqual(stats["ops.macs"]["value"], runs * macs)
                        if "functional" in more:
                            continue
                        rows = list(csv.DictReader((out / "ops.csv").read_text().splitlines()))
                        self.assertEqual(sum(int(row["macs"]) for row in rows), runs * macs)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = sys.argv.pop(1)
    unittest.main()
