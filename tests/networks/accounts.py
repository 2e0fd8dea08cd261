"""Whether the books of a run agree with the graph that ran: random small networks on devices and precisions.

usage: accounts.py KPUSIM [--networks N] [--first SEED] [--workers N]

For each run:
- ``ops.macs`` and the sum of the operations' are the MACs of the graph, by ONNX's formulas on shapes that its
  own shape inference confirms: of a Conv each element of Y with its window, of a ConvTranspose each of X;
- no operation has a ``bound_cycles`` above its ``span_cycles``;
- no segment of the critical path is without cause, with one vector unit or two;
- transfers are named by layer and tensor.

Prints what does not hold; exit 1 where anything does not.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Platform, precision, and what is set of it.
DEVICES = (
    ("swkpu-v1", "int8", ()),
    ("swkpu-v1", "fp16", ("engine.vector.vpu_count=2",)),
    ("swkpu-v2", "bf16", ()),
    ("swkpu-v2", "int4", ()),
    ("swkpu-v2", "posit8", ("engine.vector.vpu_count=2",)),
    ("tile32", "int8", ("engine.vector.vpu_count=2",)),
    ("tile32", "f32", ()),
    ("npm_lite", "int8", ()),
    ("npm_lite", "fp16", ()),
    ("npm_mid", "int8", ()),
    ("npm_pro", "fp16", ()),
    ("edge16", "int8", ()),
    ("core128-hbm2", "int8", ("engine.vector.vpu_count=2",)),
    ("core128-hbm2", "bf16", ()),
    ("core128-hbm2", "f32", ()),
    ("core128-fp8", "fp8", ("engine.vector.vpu_count=2",)),
    ("core128-fp8", "fp8_e5m2", ()),
)


class Network:
    """A random network under construction: values with their shapes, and the MACs so far."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.macs = 0

    def pick(self, *choices: int) -> int:
        """Return one of these."""
        return int(self.random.choice(choices))

    def weight(self, *shape: int) -> str:
        """Return a constant of small random numbers."""
        name = f"w{len(self.weights)}"
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        data = self.random.normal(0, scale, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def add(self, kind: str, inputs: Sequence[str], shape: tuple[int, ...], **attributes: object) -> str:
        """Return a node with one output of this shape."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes)
        )
        self.shapes[name] = shape
        return name


def conv(net: Network, x: str) -> str:
    """Any group count, kernel, stride and padding."""
    n, c, h, w = net.shapes[x]
    k = net.pick(1, 3, 3, 5)
    groups = c if net.random.random() < 0.25 else net.pick(*(g for g in (1, 1, 2, 4) if c % g == 0))
    out = groups * net.pick(1, 2) if groups == c else groups * net.pick(2, 4, 8, 16)
    stride, pad = net.pick(1, 1, 2), net.pick(0, k // 2)
    y = [(side + 2 * pad - k) // stride + 1 for side in (h, w)]
    if min(y) < 1:
        return x
    inputs = [x, net.weight(out, c // groups, k, k)] + (
        [net.weight(out)] if net.random.random() < 0.7 else []
    )
    net.macs += n * out * math.prod(y) * (c // groups) * k * k
    return net.add(
        "Conv", inputs, (n, out, *y), kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4, group=groups
    )


def conv_transpose(net: Network, x: str) -> str:
    """Windows that overlap or not, with and without cut borders."""
    n, c, h, w = net.shapes[x]
    k, stride = net.pick(2, 3, 4, 5), net.pick(1, 2, 2, 3)
    pad = net.pick(*range((k - 1) // 2 + 1))
    more = net.pick(0, min(1, stride - 1))
    groups = net.pick(*(g for g in (1, 1, 2) if c % g == 0))
    out = groups * net.pick(2, 4, 8)
    y = [(side - 1) * stride + k + more - 2 * pad for side in (h, w)]
    if max(y) > 80 or min(y) < 1:
        return x
    inputs = [x, net.weight(c, out // groups, k, k)] + (
        [net.weight(out)] if net.random.random() < 0.5 else []
    )
    net.macs += n * c * h * w * (out // groups) * k * k
    return net.add(
        "ConvTranspose",
        inputs,
        (n, out, *y),
        kernel_shape=[k, k],
        strides=[stride] * 2,
        pads=[pad] * 4,
        output_padding=[more] * 2,
        group=groups,
    )


def pool(net: Network, x: str) -> str:
    """Return a maximum or a mean."""
    n, c, h, w = net.shapes[x]
    k, stride = net.pick(2, 3), net.pick(1, 2)
    y = tuple((side - k) // stride + 1 for side in (h, w))
    if min(y) < 1:
        return x
    kind = str(net.random.choice(["MaxPool", "AveragePool"]))
    return net.add(kind, [x], (n, c, *y), kernel_shape=[k, k], strides=[stride] * 2)


def activation(net: Network, x: str) -> str:
    """Element by element."""
    kind = str(net.random.choice(["Relu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Elu", "Exp", "Neg"]))
    return net.add(kind, [x], net.shapes[x])


def residual(net: Network, x: str) -> str:
    """Return a sum or product of two branches, or with a constant of one row."""
    shape = net.shapes[x]
    kind = str(net.random.choice(["Add", "Mul", "Sub", "Max"]))
    if net.random.random() < 0.5:
        return net.add(kind, [x, activation(net, x)], shape)
    return net.add(kind, [x, net.weight(*([1] * (len(shape) - 1)), shape[-1])], shape)


def concat(net: Network, x: str) -> str:
    """Side by side along the channels."""
    shape = net.shapes[x]
    return net.add("Concat", [x, activation(net, x)], (shape[0], 2 * shape[1], *shape[2:]), axis=1)


def resize(net: Network, x: str) -> str:
    """Twice as large."""
    n, c, h, w = net.shapes[x]
    if max(h, w) > 40:
        return x
    net.weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"w{len(net.weights)}"))
    mode = str(net.random.choice(["nearest", "linear"]))
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.add("Resize", [x, "", net.weights[-1].name], (n, c, 2 * h, 2 * w), mode=mode, **attributes)


def pad(net: Network, x: str) -> str:
    """Zeros around an image."""
    n, c, h, w = net.shapes[x]
    net.weights.append(numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), f"w{len(net.weights)}"))
    return net.add("Pad", [x, net.weights[-1].name], (n, c, h + 2, w + 2))


def moved(net: Network, x: str) -> str:
    """Dimensions in another order."""
    shape = net.shapes[x]
    order = [0, *(1 + net.random.permutation(len(shape) - 1))]
    return net.add("Transpose", [x], tuple(shape[i] for i in order), perm=[int(i) for i in order])


def softmax(net: Network, x: str) -> str:
    """Along the last dimension."""
    return net.add("Softmax", [x], net.shapes[x], axis=-1)


def norm(net: Network, x: str) -> str:
    """Return a layer norm of the last dimension."""
    size = net.shapes[x][-1]
    return net.add("LayerNormalization", [x, net.weight(size), net.weight(size)], net.shapes[x], axis=-1)


def reduce(net: Network, x: str) -> str:
    """Return a sum of the last dimension, which stays as one."""
    kind = str(net.random.choice(["ReduceMean", "ReduceMax", "ReduceSum"]))
    net.weights.append(numpy_helper.from_array(np.array([-1]), f"w{len(net.weights)}"))
    return net.add(kind, [x, net.weights[-1].name], (*net.shapes[x][:-1], 1), keepdims=1)


def matmul(net: Network, x: str) -> str:
    """With a constant matrix, or each matrix with its transpose."""
    shape = net.shapes[x]
    if net.random.random() < 0.3 and math.prod(shape[:-1]) * shape[-2] < 200_000:
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        t = net.add("Transpose", [x], tuple(shape[i] for i in order), perm=order)
        net.macs += math.prod(shape) * shape[-2]
        return net.add("MatMul", [x, t], (*shape[:-1], shape[-2]))
    out = net.pick(4, 16, 50, 128)
    net.macs += math.prod(shape) * out
    return net.add("MatMul", [x, net.weight(shape[-1], out)], (*shape[:-1], out))


def gemm(net: Network, x: str) -> str:
    """Return a dense layer."""
    m, k = net.shapes[x]
    out = net.pick(4, 10, 64, 200)
    net.macs += m * k * out
    return net.add("Gemm", [x, net.weight(out, k), net.weight(out)], (m, out), transB=1)


def gather(net: Network, x: str) -> str:
    """Return some rows of the second dimension, in another order."""
    shape = net.shapes[x]
    rows = net.random.integers(0, shape[1], max(1, shape[1] // 2))
    net.weights.append(numpy_helper.from_array(rows.astype(np.int64), f"w{len(net.weights)}"))
    return net.add("Gather", [x, net.weights[-1].name], (shape[0], len(rows), *shape[2:]), axis=1)


def top_k(net: Network, x: str) -> str:
    """Return the largest of each row: a kernel whose steps depend on values."""
    shape = net.shapes[x]
    k = net.pick(1, max(1, shape[-1] // 4), shape[-1])
    net.weights.append(numpy_helper.from_array(np.array([k]), f"w{len(net.weights)}"))
    y = net.add("TopK", [x, net.weights[-1].name], (*shape[:-1], k), axis=-1)
    net.nodes[-1].output.append(f"{y}.indices")
    return y


def grid_sample(net: Network, x: str) -> str:
    """At places that are constants, some of them outside: a kernel."""
    n, c, _, _ = net.shapes[x]
    size = net.pick(3, 8, 14)
    places = net.random.uniform(-1.5, 1.5, (n, size, size, 2)).astype(np.float32)
    net.weights.append(numpy_helper.from_array(places, f"w{len(net.weights)}"))
    return net.add("GridSample", [x, net.weights[-1].name], (n, c, size, size), mode="linear")


def scatter(net: Network, x: str) -> str:
    """Some rows get others: a kernel."""
    shape = net.shapes[x]
    count = max(1, shape[0] // 2)
    rows = net.random.integers(0, shape[0], (count, 1))
    net.weights.append(numpy_helper.from_array(rows.astype(np.int64), f"w{len(net.weights)}"))
    return net.add("ScatterND", [x, net.weights[-1].name, net.weight(count, *shape[1:])], shape)


Step = Callable[[Network, str], str]
ANY: tuple[Step, ...] = (activation, residual, concat, moved, softmax, norm, matmul, gather, top_k, scatter)
IMAGE: tuple[Step, ...] = (conv, conv, conv_transpose, conv_transpose, pool, resize, pad, grid_sample)
MATRIX: tuple[Step, ...] = (gemm, gemm, reduce)


def network(seed: int) -> tuple[onnx.ModelProto, int]:
    """Return a chain of 2 to 7 steps with branches, and its MACs."""
    net = Network(seed)
    image = net.random.random() < 0.7
    size = net.pick(5, 8, 16, 28)
    shape = (
        (net.pick(1, 1, 2), net.pick(1, 3, 4, 8, 16), size, size)
        if image
        else (net.pick(1, 3, 16, 70), net.pick(8, 33, 64, 300))
    )
    net.shapes["x"] = shape
    x = "x"
    for _ in range(net.pick(2, 3, 4, 5, 7)):
        kinds = (*ANY, *(IMAGE * 2 if len(net.shapes[x]) == 4 else MATRIX))
        before = len(net.nodes), net.macs, len(net.weights)
        y = kinds[int(net.random.integers(len(kinds)))](net, x)
        if math.prod(net.shapes[y]) > 300_000:
            del net.nodes[before[0] :], net.weights[before[2] :]
            net.macs = before[1]
            continue
        x = y
    if x == "x":
        x = activation(net, x)
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, net.shapes[name]) for name in ("x", x)]
    graph = helper.make_graph(net.nodes, f"random{seed}", floats[:1], floats[1:], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model, net.macs


class Run(NamedTuple):
    """A network on a device."""

    seed: int
    device: str
    precision: str
    sets: tuple[str, ...]


def problems(kpusim: str, model: Path, macs: int, run: Run) -> list[str] | None:
    """Say what does not hold; None where the device refuses the network."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        calibrate = ["--calibrate", "random:1"] if run.precision.startswith(("int", "fp8")) else []
        sets = [word for each in run.sets for word in ("--set", each)]
        options = ["--platform", run.device, "--precision", run.precision, *calibrate, *sets]
        fill = "zeros" if run.seed % 3 == 0 else f"random:{run.seed}"
        command = [kpusim, "run", str(model), *options, "--fill", fill, "--quiet", "-o", str(out)]
        done = subprocess.run(
            [*command, "--events", str(out / "events.kpuev")], capture_output=True, text=True, check=False
        )
        if done.returncode == 1:
            return None
        if done.returncode != 0:
            return [f"exit {done.returncode}: {done.stderr[-300:]}"]
        stats = json.loads((out / "stats.json").read_text())["stats"]
        rows = list(csv.DictReader((out / "ops.csv").read_text().splitlines()))
        told = subprocess.run(
            [kpusim, "explain", str(out), "--json", "--bounds-only"],
            capture_output=True,
            text=True,
            check=False,
        )
        found = []
        if told.returncode != 0:
            found.append(f"explain: exit {told.returncode}: {told.stderr[-300:]}")
        else:
            segments = json.loads(told.stdout)["critical_path"]["segments"]
            for segment in segments:
                if segment["because"] == "unknown":
                    found.append(f"no cause: {segment}")
                if "#" in segment["task"].split(":")[0] or ":" not in segment["task"]:
                    found.append(f"no name: {segment['task']}")
    done_macs = int(stats["ops.macs"]["value"])
    if done_macs != macs:
        found.append(f"ops.macs {done_macs} is {done_macs / max(1, macs):.3f} times the graph's {macs}")
    if done_macs != sum(int(row["macs"]) for row in rows):
        found.append("ops.csv sums to other MACs than ops.macs")
    for row in rows:
        bound, span = int(row["bound_cycles"]), int(row["span_cycles"])
        if bound > span:
            name = f"{row['op']} ({row['type']}): {row['bound']}"
            found.append(f"{name} {bound} is {bound / max(1, span):.2f} times its span of {span}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--devices", type=int, default=0, help="of each network, this many; default: all")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    wrong = refused = count = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(given.workers) as pool:
        todo = []
        for seed in range(given.first, given.first + given.networks):
            model, macs = network(seed)
            path = Path(name) / f"random{seed}.onnx"
            onnx.save(model, path)
            devices = [DEVICES[(seed + i * 7) % len(DEVICES)] for i in range(given.devices or len(DEVICES))]
            todo += [(path, macs, Run(seed, *device)) for device in devices]
        results = pool.map(lambda each: problems(given.kpusim, *each), todo)
        for (_, _, run), found in zip(todo, results, strict=True):
            count += found is not None
            refused += found is None
            wrong += bool(found)
            for line in found or ():
                print(f"{run.seed} {run.device}:{run.precision} {' '.join(run.sets)}: {line}", flush=True)
    print(f"{count - wrong} of {count} runs hold; {refused} refused")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
