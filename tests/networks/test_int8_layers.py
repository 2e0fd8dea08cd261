"""int8, layer by layer: each product of the large networks, fed its exact float input, keeps 30 dB.

usage: test_int8_layers.py KPUSIM [--part I/N] [unittest options]; or with the command in the variable KPUSIM

Each convolution and matrix product is a model of its own, whose inputs are what ONNX Runtime computes in
float32 for samples that were not calibrated with. Each rounding to 8 bits counts once, with the product
that reads the number: outputs stay floats. Prints a row of docs/accuracy_precisions.md: products, least
ratio and its layer, median; the same where outputs are rounded to 256 steps too, before any activation, which
counts each rounding twice.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

NETWORKS = Path(__file__).resolve().parents[2] / "examples" / "networks"
sys.path[:0] = [str(NETWORKS), str(NETWORKS.parents[1] / "tests")]
import page
import parts
from networks import sample

KPUSIM = os.environ.get("KPUSIM", "")
PRODUCTS = {"Conv", "Gemm", "MatMul"}
LEAST = 30.0  # dB
CALIBRATED, MEASURED = 4, 2
Values = NDArray[np.float32]
Tensors = dict[str, Values]


class Layer(NamedTuple):
    """A product as a model, its inputs for each sample, and what it should give."""

    name: str
    model: onnx.ModelProto
    inputs: list[Tensors]
    outputs: list[Values]


def exact(path: Path, network: str) -> tuple[onnx.ModelProto, list[Tensors]]:
    """Return the model, and every float that products read or make, by sample."""
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    wanted = {
        name
        for node in model.graph.node
        if node.op_type in PRODUCTS | {"Softmax"}
        for name in [*node.input, *node.output]
        if name and name not in constants
    }
    given = {port.name for port in model.graph.input}
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted - given))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    (feed,) = [port.name for port in session.get_inputs()]
    samples = []
    for seed in range(CALIBRATED + MEASURED):
        x = sample(network, seed=300 + seed).numpy()
        samples.append({feed: x, **dict(zip(names, session.run(names, {feed: x}), strict=True))})
    return model, samples


def layers(model: onnx.ModelProto, samples: list[Tensors]) -> Iterator[Layer]:
    """Each product alone; where it weighs by probabilities, with the softmax that makes them."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    softmaxes = {node.output[0]: node for node in model.graph.node if node.op_type == "Softmax"}
    for node in model.graph.node:
        if node.op_type not in PRODUCTS:
            continue
        before = [softmaxes[name] for name in node.input if name in softmaxes]
        read = [softmaxes[name].input[0] if name in softmaxes else name for name in node.input]
        names = [name for name in dict.fromkeys(read) if name and name not in constants]
        if not names:
            continue
        (out,) = node.output
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [*before, node],
            "layer",
            [info(name, onnx.TensorProto.FLOAT, samples[0][name].shape) for name in names],
            [info(out, onnx.TensorProto.FLOAT, samples[0][out].shape)],
            [
                numpy_helper.from_array(numpy_helper.to_array(constants[n]), n)
                for n in node.input
                if n in constants
            ],
        )
        alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        yield Layer(node.name, alone, [{n: s[n] for n in names} for s in samples], [s[out] for s in samples])


def eight_bits(values: Values, like: list[Values]) -> Values:
    """Rounded to the 256 steps that cover what calibration saw, and 0."""
    low, high = min(0.0, *(float(v.min()) for v in like)), max(0.0, *(float(v.max()) for v in like))
    step = (high - low) / 255
    zero = np.rint(-low / step)
    return np.asarray((np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step, np.float32)


def command(*arguments: object) -> None:
    """Run the command; it must succeed."""
    result = subprocess.run(
        [KPUSIM, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )
    if result.returncode != 0:
        raise AssertionError(f"{result.args}: exit {result.returncode}\n{result.stderr}")


def ratios_of(layer: Layer, device: str) -> tuple[float, float]:
    """Signal to noise of a layer's output over samples that were not calibrated with; of it rounded."""
    signal, noise, rounded = 0.0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(layer.model, folder / "layer.onnx")
        ports = [port.name for port in layer.model.graph.input]
        for i in range(CALIBRATED):
            for port in ports:
                where = folder / "samples" / (port if len(ports) > 1 else "")
                where.mkdir(parents=True, exist_ok=True)
                np.save(where / f"{i}.npy", layer.inputs[i][port])
        program = folder / "layer.kpu"
        command(
            "compile",
            folder / "layer.onnx",
            "--platform",
            device,
            "--precision",
            "int8",
            "--calibrate",
            folder / "samples",
            "-o",
            program,
        )
        for i in range(CALIBRATED, CALIBRATED + MEASURED):
            given = []
            for number, port in enumerate(ports):
                np.save(folder / f"in{number}.npy", layer.inputs[i][port])
                given += ["--input", f"{port}={folder / f'in{number}.npy'}"]
            command(
                "run", program, "--mode", "functional", "--quiet", "--force", "-o", folder / "out", *given
            )
            (output,) = (folder / "out" / "outputs").glob("*.npy")
            got = np.load(output).astype(np.float32)
            want = layer.outputs[i].astype(np.float64)
            signal += float(np.sum(want**2))
            noise += float(np.sum((got - want) ** 2))
            rounded += float(np.sum((eight_bits(got, layer.outputs[:CALIBRATED]) - want) ** 2))
    return float(10 * np.log10(signal / noise)), float(10 * np.log10(signal / rounded))


class LayersTest(unittest.TestCase):
    """One test for each network."""

    def check(self, network: str) -> None:
        """All products of a network."""
        warnings.simplefilter("ignore")
        model, samples = exact(page.export(network), network)
        found = list(layers(model, samples))
        self.assertGreater(len(found), 3)
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda layer: ratios_of(layer, "swkpu-v1"), found))
        ratios, rounded = ([pair[i] for pair in both] for i in (0, 1))
        least = min(range(len(found)), key=lambda i: ratios[i])
        cells = f"{len(found)} | {ratios[least]:.1f}: `{found[least].name}` | {statistics.median(ratios):.1f}"
        print(f"| {network} | {cells} | {min(rounded):.1f} | {statistics.median(rounded):.1f} |", flush=True)
        self.assertGreaterEqual(ratios[least], LEAST, found[least].name)

    def test_resnet18(self) -> None:
        """21 products."""
        self.check("resnet18")

    def test_resnet50(self) -> None:
        """54 products."""
        self.check("resnet50")

    def test_mobilenet_v2(self) -> None:
        """53 products, a third of them depthwise."""
        self.check("mobilenet_v2")

    def test_yolov8n(self) -> None:
        """64 products."""
        self.check("yolov8n")

    def test_bert_layer(self) -> None:
        """Projections and attention, whose products have two activations."""
        self.check("bert_layer")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = str(Path(sys.argv.pop(1)).resolve())
    parts.main()
