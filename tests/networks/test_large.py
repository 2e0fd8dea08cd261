"""Operations that are larger than L1, against ONNX Runtime: each kind of layer on devices with little L1.

usage: test_large.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
Needs the packages torch and onnxruntime.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as fn

KPUSIM = os.environ.get("KPUSIM", "")
#: Device, precision, bytes of L1, least signal to noise in dB.
DEVICES = (("tile32", "f32", 65536, 100.0), ("swkpu-v1", "fp16", 32768, 50.0))
SEED = 7
Array = NDArray[np.generic]


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., torch.Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        """Call the function with operands and layers."""
        return self.function(*operands, *self.layers)


def mixed_attention(x: torch.Tensor, context: torch.Tensor, *layers: nn.Module) -> torch.Tensor:
    """Keys and values of one context, each a product that cuts it in its own way."""
    query, key, value = (layer(of) for layer, of in zip(layers, (x, context, context), strict=True))
    return fn.scaled_dot_product_attention(query, key, value)


def layers() -> dict[str, tuple[nn.Module, list[tuple[int, ...]]]]:
    """Layers and the shapes of their inputs, none of which fits the devices' L1 whole."""
    transposed, conv = nn.ConvTranspose2d, nn.Conv2d
    resize = fn.interpolate
    return {
        "transposed k4 s2": (transposed(48, 24, 4, 2, 1), [(1, 48, 21, 24)]),
        "transposed k3 s2": (transposed(48, 24, 3, 2, 1, output_padding=1), [(1, 48, 21, 24)]),
        "transposed k5 s3": (transposed(16, 24, 5, 3, 1), [(1, 16, 21, 24)]),
        "transposed of groups": (transposed(48, 48, 4, 2, 1, groups=4), [(1, 48, 21, 24)]),
        "transposed depthwise": (transposed(64, 64, 4, 2, 1, groups=64, bias=False), [(1, 64, 21, 24)]),
        "transposed of lines": (nn.ConvTranspose1d(64, 32, 16, 8, 4), [(1, 64, 101)]),
        "transposed k3 s2, odd": (transposed(48, 24, 3, 2), [(1, 48, 21, 24)]),
        "transposed k4 s2, odd": (nn.Sequential(transposed(48, 24, 4, 2), nn.ReLU()), [(1, 48, 21, 24)]),
        "transposed k3 s2 p1, odd": (transposed(48, 24, 3, 2, 1), [(1, 48, 21, 24)]),
        "transposed k2 s3, odd": (transposed(16, 24, 2, 3, groups=4), [(1, 16, 41, 24)]),
        "two groups": (nn.Sequential(conv(48, 96, 5, 1, 2, groups=2), nn.ReLU()), [(1, 48, 13, 12)]),
        "groups of lines": (nn.Conv1d(96, 96, 31, padding=15, groups=4), [(1, 96, 90)]),
        "dilated": (conv(96, 32, 3, 1, 9, dilation=9), [(1, 96, 17, 18)]),
        "group norm": (nn.GroupNorm(4, 48), [(1, 48, 33, 30)]),
        "group norm between": (
            nn.Sequential(conv(8, 32, 3, 1, 1), nn.GroupNorm(4, 32), nn.SiLU(), conv(32, 8, 3, 1, 1)),
            [(2, 8, 40, 33)],
        ),
        "instance norm": (nn.InstanceNorm2d(6, affine=True), [(2, 6, 90, 101)]),
        "layer norm of images": (nn.LayerNorm([12, 30, 33]), [(1, 12, 30, 33)]),
        "softmax": (nn.Softmax(-1), [(3, 20011)]),
        "log softmax": (nn.LogSoftmax(1), [(1, 5000, 5)]),
        "bilinear": (Function(lambda x: resize(x, (97, 131), mode="bilinear")), [(1, 5, 33, 43)]),
        "bilinear at corners": (
            Function(lambda x: resize(x, (97, 131), mode="bilinear", align_corners=True)),
            [(1, 5, 33, 43)],
        ),
        "nearest": (Function(lambda x: resize(x, (97, 131), mode="nearest")), [(1, 5, 33, 43)]),
        "pixel shuffle": (nn.PixelShuffle(3), [(1, 36, 41, 50)]),
        "pixel unshuffle": (nn.PixelUnshuffle(2), [(1, 5, 82, 100)]),
        "mirrored padding": (nn.ReflectionPad2d((3, 1, 2, 4)), [(1, 5, 96, 97)]),
        "running sum": (Function(lambda x: x.cumsum(-1)), [(3, 20011)]),
        "grid sample": (
            Function(lambda x, grid: fn.grid_sample(x, grid, align_corners=False)),
            [(1, 5, 50, 61), (1, 40, 45, 2)],
        ),
        "mean of images": (nn.AdaptiveAvgPool2d(1), [(1, 12, 130, 127)]),
        "sum of all": (Function(lambda x: x.abs().sum()), [(2, 9, 60, 61)]),
        "norm of images": (
            Function(lambda x: torch.linalg.vector_norm(x, dim=(2, 3))),
            [(1, 7, 150, 131)],
        ),
        "attention": (
            Function(mixed_attention, *(nn.Linear(size, 64) for size in (80, 384, 384))),
            [(1, 50, 80), (1, 77, 384)],
        ),
    }


def decibel(got: Array, want: Array) -> float:
    """Signal to noise."""
    noise = np.sum((got.astype(np.float64) - want) ** 2)
    return float(10 * np.log10(np.sum(np.square(want.astype(np.float64))) / max(float(noise), 1e-30)))


class LargeTest(unittest.TestCase):
    """Each layer on each device, with time and values, without a hazard."""

    def setUp(self) -> None:
        """Make a folder."""
        warnings.simplefilter("ignore")
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def export(self, layer: nn.Module, shapes: list[tuple[int, ...]]) -> tuple[Path, dict[str, Array], Array]:
        """Return the layer as a model, its inputs, and what ONNX Runtime makes of them."""
        given = [torch.randn(shape) for shape in shapes]
        path = self.folder / "layer.onnx"
        names = [f"x{i}" for i in range(len(given))]
        torch.onnx.export(
            layer.eval(),
            tuple(given),
            path,
            input_names=names,
            output_names=["y"],
            dynamo=False,
            opset_version=17,
        )
        inputs: dict[str, Array] = {name: x.numpy() for name, x in zip(names, given, strict=True)}
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return path, inputs, np.asarray(session.run(None, inputs)[0])

    def cycles(self) -> int:
        """Return the cycles of the last run."""
        stats = json.loads((self.folder / "run" / "stats.json").read_text())["stats"]
        return int(stats["cycles.total"]["value"])

    def run_on(
        self, device: tuple[str, str, int, float], path: Path, inputs: dict[str, Array], *more: str
    ) -> Array:
        """The output of a strict run; without values, nothing."""
        platform, precision, l1_bytes, _ = device
        command = [KPUSIM, "run", str(path), "--platform", platform, "--precision", precision, "--strict"]
        command += ["--set", f"engine.l1.size_bytes={l1_bytes}", "-o", str(self.folder / "run"), "--force"]
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
            command += ["--input", f"{name}={self.folder / name}.npy"]
        done = subprocess.run([*command, "--quiet", *more], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        output = self.folder / "run" / "outputs" / "y.npy"
        return np.asarray(np.load(output)) if output.exists() else np.empty(0)

    def test_layers(self) -> None:
        """Close to float32, by the precision."""
        torch.manual_seed(SEED)
        for name, (layer, shapes) in layers().items():
            path, inputs, want = self.export(layer, shapes)
            for device in DEVICES:
                with self.subTest(layer=name, device=device[0]):
                    got = self.run_on(device, path, inputs)
                    self.assertEqual(got.shape, want.shape)
                    self.assertGreater(decibel(got, want), device[3])

    LOOKUPS = (
        ("embedding", nn.Embedding(4000, 64), (2, 5), 4000),
        ("narrow table", nn.Embedding(90000, 1), (1, 37), 90000),
        ("with a norm", nn.Sequential(nn.Embedding(3001, 96), nn.LayerNorm(96)), (1, 40), 3001),
        ("one row", nn.Embedding(5000, 30), (1,), 5000),
        ("most rows", nn.Embedding(3000, 20), (1, 2900), 3000),
    )

    def test_lookups(self) -> None:
        """Rows of tables larger than L1, and about the same time where the indices are not known."""
        torch.manual_seed(SEED)
        for name, layer, shape, rows in self.LOOKUPS:
            path = self.folder / "table.onnx"
            index = torch.randint(0, rows, shape)
            names = {"input_names": ["x"], "output_names": ["y"]}
            torch.onnx.export(layer.eval(), (index,), path, dynamo=False, opset_version=17, **names)
            want = onnxruntime.InferenceSession(path).run(None, {"x": index.numpy()})[0]
            for device in (*DEVICES, ("swkpu-v2", "posit16", 32768, 60.0)):
                with self.subTest(lookup=name, device=device[0]):
                    got = self.run_on(device, path, {"x": index.numpy()})
                    self.assertGreater(decibel(got, np.asarray(want)), device[3])
                    known = self.cycles()
                    self.run_on(device, path, {}, "--mode", "timing")
                    self.assertAlmostEqual(self.cycles() / known, 1, delta=0.1)

    def test_an_index_outside_of_a_large_table(self) -> None:
        """Ends the run, naming the operation and the index."""
        path = self.folder / "table.onnx"
        index = (torch.zeros(1, 4, dtype=torch.int64),)
        torch.onnx.export(
            nn.Embedding(4000, 64), index, path, dynamo=False, opset_version=17, input_names=["x"]
        )
        np.save(self.folder / "x.npy", np.array([[1, 2, 4000, 3]]))
        command = [KPUSIM, "run", str(path), "--platform", "tile32", "--precision", "f32"]
        for mode in ("functional", "values+timing"):
            given = ["--mode", mode, "--input", f"x={self.folder / 'x.npy'}"]
            done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("operation `/Gather` (Gather), task `gather_rows_f32_4000_64_4", done.stderr)
            self.assertIn(
                "index 4000 of dimension 0, 1 elements, is outside of the buffer's shape [4000, 64]",
                done.stderr,
            )


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = sys.argv.pop(1)
    unittest.main()
