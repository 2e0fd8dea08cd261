"""ResNet-18 from the ONNX file to the logits, by the command, against ONNX Runtime.

usage: test_resnet18.py KPUSIM [--part I/N] [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import page
import parts
import test_networks
from test_networks import PAIRS, Folder, cycles, done, expected, logits, rows, worst


class ResNet18(Folder):
    """A network of the usual size on swkpu-v1."""

    model, image = "", ""

    @classmethod
    def setUpClass(cls) -> None:
        """The model, with random weights, and one image."""
        super().setUpClass()
        cls.model = str(page.export("resnet18"))
        cls.image = str(cls.folder / "image.npy")
        np.save(cls.image, np.random.default_rng(1).standard_normal((1, 3, 224, 224), np.float32))

    def conv_macs(self) -> dict[str, int]:
        """Return the work of each convolution for one image, from the shapes of the model."""
        model = onnx.load(self.model)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
        sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
        kernels = {tensor.name: tensor.dims[1:] for tensor in graph.initializer}
        convs = [node for node in graph.node if node.op_type == "Conv"]
        return {n.name: math.prod(sizes[n.output[0]][1:]) * math.prod(kernels[n.input[1]]) for n in convs}

    def run_compiled(self, precision: str, *more: str) -> Path:
        """Compiles, verifies and runs; the prediction holds, and each cycle has its operation."""
        program, out = self.folder / f"{precision}.kpu", self.folder / precision
        calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
        network = [self.model, "--platform", "swkpu-v1", "--precision", precision, *calibrate]
        (predicted,) = re.findall(
            r"about (\d+) cycles", done("compile", *network, "-o", str(program), "--force")
        )
        if precision == "fp16":  # random samples of int8 are a warning
            self.clean(*network)
        done("run", str(program), "-o", str(out), "--quiet", "--force", *more)
        self.assertLess(abs(int(predicted) / cycles(out) - 1), 0.05)
        return out

    def test_int8_timing(self) -> None:
        """The array is busy: 85 % of its multipliers in each cycle."""
        out = self.run_compiled("int8", "--mode", "timing")
        macs = {name: int(row["macs"]) for name, row in rows(out).items() if row["type"] == "Conv"}
        self.assertEqual(macs, self.conv_macs())
        self.assertGreaterEqual(sum(macs.values()) / (256 * cycles(out)), 0.85)

    def test_every_device(self) -> None:
        """Every device runs it in each precision that it has, free of races, about as predicted."""
        for device, precision in PAIRS:
            with self.subTest(device=device, precision=precision):
                out = self.folder / f"{device}-{precision}"
                calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
                network = [self.model, "--platform", device, "--precision", precision, *calibrate]
                program = self.folder / "device.kpu"
                told = done("compile", *network, "-o", str(program), "--force")
                (predicted,) = re.findall(r"about (\d+) cycles", told)
                self.clean(str(program))
                done("run", str(program), "--mode", "timing", "-o", str(out), "--quiet")
                self.assertLess(abs(int(predicted) / cycles(out) - 1), 0.25)

    def test_same_bytes(self) -> None:
        """With and without time, in any legal order, int8 gives the same logits."""
        self.run_compiled("int8", "--input", f"image={self.image}")
        program, timed = str(self.folder / "int8.kpu"), logits(self.folder / "int8").tobytes()
        for order in ("program", "random:3"):
            out = self.folder / f"functional-{order}"
            given = ["--input", f"image={self.image}", "--mode", "functional", "--order", order]
            done("run", program, *given, "-o", str(out), "--quiet")
            self.assertEqual(logits(out).tobytes(), timed)

    def test_fp16_values(self) -> None:
        """Logits and class are those of ONNX Runtime."""
        out = self.run_compiled("fp16", "--input", f"image={self.image}")
        want, got = expected(self.model, self.image), logits(out)
        self.assertLess(worst(got, want), 1e-2)
        self.assertEqual(got.argmax(), want.argmax())


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and Path(sys.argv[1]).is_file():
        test_networks.KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    parts.main()
