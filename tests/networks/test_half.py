"""Networks in fp16 and bf16: no worse than PyTorch's run in that type, judged against binary64.

usage: test_half.py KPUSIM [--part I/N] [unittest options]; or with the command in the variable KPUSIM
Needs the packages torch and onnxscript; prints a row of docs/accuracy_precisions.md for each network
and type.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

# Kernels of newer processors keep wider numbers inside: PyTorch's error would depend on the host.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

NETWORKS = Path(__file__).resolve().parents[2] / "examples" / "networks"
sys.path[:0] = [str(NETWORKS), str(NETWORKS.parents[1] / "tests")]
import made
import page
import parts
from networks import build, sample

KPUSIM = os.environ.get("KPUSIM", "")
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
SAMPLES = 4
NOISE = 1.05  # sums in another order round otherwise, to either side
# Worse than PyTorch, which keeps wider numbers inside of its own kernels, of fp16 on some processors: held to
# what they are.
MISSES = {("vit_tiny", "fp16"): 1.15, ("vit_tiny", "bf16"): 1.6, ("lstm", "bf16"): 1.8}
Values = NDArray[np.float64]
Model = Callable[[torch.Tensor], torch.Tensor]


def digits(dtype: torch.dtype) -> Model:
    """Return the trained network, from its file, as PyTorch computes it in a type."""
    graph = onnx.load(NETWORKS / "digits_cnn.onnx").graph
    weights = {w.name: torch.from_numpy(onnx.numpy_helper.to_array(w).copy()) for w in graph.initializer}

    def run(x: torch.Tensor) -> torch.Tensor:
        for node in graph.node:
            given = [weights[name].to(dtype) for name in node.input if name in weights]
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Conv":
                x = torch.nn.functional.conv2d(x, *given, padding=attributes["pads"][0])
            elif node.op_type == "MaxPool":
                x = torch.nn.functional.max_pool2d(x, attributes["kernel_shape"][0], attributes["strides"][0])
            elif node.op_type == "Gemm":
                x = torch.nn.functional.linear(x, *given)
            else:
                x = {"Relu": torch.relu, "Flatten": lambda y: y.flatten(1)}[node.op_type](x)
        return x

    return run


def run(make: Callable[[torch.dtype], Model], dtype: torch.dtype, inputs: list[torch.Tensor]) -> Values:
    """Return what PyTorch gives for each input in a type, one by one."""
    model = make(dtype)
    with torch.no_grad():
        return np.concatenate([model(x.to(dtype)).double().numpy() for x in inputs])


class HalfTest(unittest.TestCase):
    """Largest and quadratic error of all outputs, in parts of their range."""

    def setUp(self) -> None:
        """Make a folder."""
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def call(self, *arguments: object) -> None:
        """Run a command that succeeds."""
        command = [KPUSIM, *map(str, arguments), "--platform", "tile32", "--force"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)

    def compiled(self, model: Path, precision: str, inputs: list[torch.Tensor]) -> Values:
        """Return what the compiled network gives."""
        name = onnx.load(model, load_external_data=False).graph.input[0].name
        program, given, out = self.folder / "network.kpu", self.folder / "x.npy", self.folder / "out"
        batch = ["--dim", f"batch={len(inputs[0])}"]
        self.call("compile", model, "--precision", precision, *batch, "-o", program)
        results = []
        for x in inputs:
            np.save(given, x.numpy())
            self.call("run", program, "--mode", "functional", "--input", f"{name}={given}", "-o", out)
            (output,) = (out / "outputs").glob("*.npy")
            results.append(np.load(output).astype(np.float64))
        return np.concatenate(results)

    def check(
        self, name: str, model: Path, precision: str, inputs: list[torch.Tensor], both: tuple[Values, Values]
    ) -> None:
        """Compare with PyTorch in binary64 and in this type."""
        exact, half = both
        spread = float(np.ptp(exact))
        ours = self.compiled(model, precision, inputs) - exact
        errors = [
            (float(np.abs(e).max()) / spread, float(np.sqrt(np.mean(e**2))) / spread)
            for e in (ours, half - exact)
        ]
        cells = " | ".join(f"{value:.1e}" for pair in errors for value in pair)
        print(f"| {name} | {precision} | {cells} |", flush=True)
        for mine, their in zip(*errors, strict=True):
            self.assertLessEqual(mine, MISSES.get((name, precision), NOISE) * their, (name, precision))

    def test_digits(self) -> None:
        """All held-back images at once."""
        images = torch.from_numpy(np.load(NETWORKS / "images.npy"))
        for precision, dtype in TYPES.items():
            with self.subTest(precision=precision):
                both = run(digits, torch.float64, [images]), run(digits, dtype, [images])
                self.check("digits_cnn", NETWORKS / "digits_cnn.onnx", precision, [images], both)


def add_test(name: str, precision: str) -> None:
    """A test of a network in a type. What PyTorch computes is kept: it has no fast kernels for halves."""

    def test(self: HalfTest) -> None:
        inputs = [sample(name, seed=100 + i) for i in range(SAMPLES)]

        def both() -> tuple[Values, Values]:
            exact, half = (
                run(lambda kind: build(name).to(kind), kind, inputs)
                for kind in (torch.float64, TYPES[precision])
            )
            return exact, half

        digest = made.contents([NETWORKS, Path(__file__)], "torch", "numpy")
        path = made.BUILD / "half" / f"{name}.{precision}"
        self.check(name, page.export(name), precision, inputs, made.value(path, digest, both))

    setattr(HalfTest, f"test_{name}_{precision}", test)


for name in ("resnet18", "bert_layer", "mobilenet_v2", "vit_tiny", "lstm", "small_unet", "resnet50"):
    for precision in TYPES:
        add_test(name, precision)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    parts.main()
