"""More of something, compiled for, is no slower: random devices, one parameter doubled, networks and layers.

usage: dominance.py KPUSIM [--count N] [--seed N] [--layers SHARE] [--effort E]... [--network NAME]...
                    [--only TEXT] [--jobs N] [--page] [--point N]... [--exceptions N]

A point is a model in a precision on a device of which a random parameter has a random value; then one
parameter is doubled. Three times are simulated: of the program for the smaller device on it and, retargeted,
on the larger one, and of the program for the larger device. Prints a row for each point; --page writes
docs/dominance.md. Point N of a seed is always the same one. Exit code 1: more points than --exceptions are
slower than asked for.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from google.protobuf import text_format
from kpusim import Platform
from kpusim_messages.platforms import platform_pb2
from onnx import TensorProto, helper, numpy_helper
from page import export

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "dominance.md"
BEGIN, END = "<!-- written by dominance.py -->", "<!-- end -->"

DEVICES = {
    "swkpu-v1": ("int8", "fp16"),
    "tile32": ("int8", "fp16"),
    "core128-hbm2": ("int8", "bf16"),
    "npm_lite": ("int8", "fp16"),
    "npm_pro": ("int8", "fp16"),
}
NETWORKS = (
    "mobilenet_v3_small bert_layer lstm small_unet vit_tiny gpt2_decode mobilenet_v2 resnet18 yolov8n "
    "resnet50 bert_base"
).split()
#: Parameters that are doubled together, where the platform says them.
DOUBLED = {
    "engines": ("engine.count",),
    "arrays per engine": ("engine.array.count",),
    "L1": ("engine.l1.size_bytes",),
    "L2": ("l2.size_bytes",),
    "channels of DRAM": ("ddr.channels",),
    "data rate of DRAM": ("ddr.data_rate_mtps",),
    "DMA width": ("engine.dma.bytes_per_cycle", "system_dma.bytes_per_cycle"),
    "DMA channels": ("engine.dma.channels", "system_dma.channels"),
    "link width": ("interconnect.link_bytes_per_cycle", "interconnect.system_link_bytes_per_cycle"),
    "clock of arrays": ("clock.array_mhz",),
    "clock of SRAM": ("clock.sram_mhz",),
    "clock of links": ("clock.interconnect_mhz",),
    "all clocks": ("clock.core_mhz", "clock.array_mhz", "clock.sram_mhz", "clock.interconnect_mhz"),
}
GENERATION = "DRAM generation"
#: A device and its rate; a channel of the later one has twice the bytes a second.
GENERATIONS = (("LPDDR4-3200", 3200), ("LPDDR5-6400", 6400))
CLOCKS = ("clock.array_mhz", "clock.sram_mhz", "clock.interconnect_mhz")
#: Largest cycles of the program for the larger device over those of the other one on it, by effort.
BOUND = {1: 1.05, 2: 1.03, 3: 1.01}
SLOWER = 1.03  #: than on the smaller device


class Point(NamedTuple):
    """A model, and two devices."""

    number: int
    model: str  #: of a network, or `layer N`
    device: str
    precision: str
    effort: int
    knob: str
    smaller: tuple[str, ...]
    larger: tuple[str, ...]

    def __str__(self) -> str:
        """In one line."""
        more = " ".join(f"--set {each}" for each in self.smaller)
        where = f"{self.model} {self.precision} on {self.device}, effort {self.effort}"
        return f"{where}, twice the {self.knob}; {more}"


class Times(NamedTuple):
    """Microseconds."""

    smaller: float
    retargeted: float
    larger: float

    @property
    def ratio(self) -> float:
        """Ratio of the two programs on the larger device."""
        return self.larger / self.retargeted

    @property
    def growth(self) -> float:
        """Ratio of the larger device to the smaller one."""
        return self.larger / self.smaller


def values_of(device: str) -> dict[str, float]:
    """Return what the platform says of what is doubled."""
    message = text_format.Parse(Platform.load(device).text(), platform_pb2.Platform())
    values = {}
    for path in {each for paths in DOUBLED.values() for each in paths}:
        holder, fields = message, path.split(".")
        for field in fields[:-1]:
            holder = getattr(holder, field)
            holder = holder[0] if field == "engine" else holder
        if holder.HasField(fields[-1]):
            values[path] = getattr(holder, fields[-1])
    core = values["clock.core_mhz"]
    for clock in CLOCKS:
        values.setdefault(clock, core)
    links = values["interconnect.link_bytes_per_cycle"]
    values.setdefault("interconnect.system_link_bytes_per_cycle", links)
    return values


def numbers(values: dict[str, float], paths: tuple[str, ...], factor: float) -> dict[str, float]:
    """Return parameters that are there, `factor` times as large; counts at least 1."""
    scaled = {}
    for path in paths:
        if not values.get(path):
            continue
        number = values[path] * factor
        scaled[path] = number if path in CLOCKS or path == "clock.core_mhz" else max(1, int(number))
    return scaled


def sets(chosen: dict[str, float | str]) -> tuple[str, ...]:
    """Return them as options."""
    return tuple(
        f"{path}={value:g}" if isinstance(value, float) else f"{path}={value}"
        for path, value in chosen.items()
    )


def point_of(seed: int, number: int, arguments: argparse.Namespace) -> Point:
    """Always the same one."""
    choose = random.Random(f"{seed} {number}")
    is_layer = choose.random() < arguments.layers
    model = f"layer {choose.randrange(200)}" if is_layer else choose.choice(arguments.network)
    effort = choose.choice(arguments.effort if is_layer else [e for e in arguments.effort if e < 3] or [1])
    device = choose.choice(list(DEVICES))
    precision = choose.choice(DEVICES[device])
    values = values_of(device)
    chosen: dict[str, float | str] = {}
    other = choose.choice(list(DOUBLED))
    if choose.random() < 0.7:
        chosen.update(numbers(values, DOUBLED[other], choose.choice((0.25, 0.5, 2, 4))))
    knob = choose.choice([*DOUBLED, GENERATION])
    if knob == GENERATION:
        (old, slow), (new, fast) = GENERATIONS
        smaller = {**chosen, "ddr.device": old, "ddr.data_rate_mtps": slow}
        larger = {**chosen, "ddr.device": new, "ddr.data_rate_mtps": fast}
    else:
        least = 0.5 if knob in ("data rate of DRAM", "all clocks") or choose.random() < 0.5 else 1
        least *= choose.choice((1, 2, 4)) if knob == "engines" else 1
        smaller = {**chosen, **numbers(values, DOUBLED[knob], least)}
        larger = {**smaller, **numbers(smaller, DOUBLED[knob], 2)}  # type: ignore[arg-type]
    return Point(number, model, device, precision, effort, knob, sets(smaller), sets(larger))


def layer(number: int) -> onnx.ModelProto:
    """Return one operation, or one with what is fused to it."""
    rng = np.random.default_rng([7, number])
    side, k, n = (int(rng.integers(6, 72)), *(int(2 ** rng.uniform(3, 9.5)) for _ in range(2)))
    rows = int(2 ** rng.uniform(3, 10))
    kind = ("product", "convolution", "pointwise", "depthwise", "rows", "elements", "window")[number % 7]
    image = [1, k, side, side]
    shape = [rows, k] if kind in ("product", "rows") else image
    weights: list[np.ndarray] = []
    if kind == "product":
        weights, node = [rng.normal(size=(k, n))], ("MatMul", {})
    elif kind == "convolution":
        weights = [rng.normal(size=(n, k, 3, 3))]
        node = ("Conv", {"pads": [1] * 4, "strides": [1 + number % 2] * 2})
    elif kind == "pointwise":
        weights, node = [rng.normal(size=(n, k, 1, 1))], ("Conv", {})
    elif kind == "depthwise":
        weights, node = [rng.normal(size=(k, 1, 3, 3))], ("Conv", {"pads": [1] * 4, "group": k})
    elif kind == "rows":
        node = (("Softmax", {"axis": -1}), ("ReduceMean", {"axes": [-1], "keepdims": 1}))[number % 2]
    elif kind == "elements":
        weights, node = [rng.normal(size=(k, 1, 1))], ("Add", {})
    else:
        node = ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4})
    constants = [
        numpy_helper.from_array(data.astype(np.float32) * 0.1, f"w{i}") for i, data in enumerate(weights)
    ]
    nodes = [
        helper.make_node(node[0], ["x", *(each.name for each in constants)], ["t"], "layer", **node[1]),
        helper.make_node(("Relu", "HardSwish")[number % 2], ["t"], ["y"], "activation"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        f"layer{number}",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


class RefusedError(Exception):
    """Refusal by the command, whose last line it is."""


def told(command: list[str]) -> None:
    """Run it. Raises RefusedError."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RefusedError(result.stderr.strip().splitlines()[-1][:160])


def times_of(kpusim: str, point: Point) -> Times | str:
    """Simulated; why not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if point.model.startswith("layer "):
            onnx.save(layer(int(point.model.split()[1])), folder / "layer.onnx")
            model = folder / "layer.onnx"
        else:
            model = export(point.model)

        def device(chosen: tuple[str, ...]) -> list[str]:
            return ["--platform", point.device, *(f"--set={each}" for each in chosen)]

        def compiled(chosen: tuple[str, ...], path: Path) -> Path:
            calibrate = ["--calibrate", "random:1"] if point.precision == "int8" else []
            options = [
                *device(chosen),
                "--precision",
                point.precision,
                *calibrate,
                "--effort",
                str(point.effort),
            ]
            told([kpusim, "compile", str(model), *options, "-o", str(path)])
            return path

        def run(program: Path, chosen: tuple[str, ...], out: str, *more: str) -> float:
            told(
                [
                    kpusim,
                    "run",
                    str(program),
                    *device(chosen),
                    *more,
                    "--mode",
                    "timing",
                    "--quiet",
                    "-o",
                    str(folder / out),
                ]
            )
            stats = json.loads((folder / out / "stats.json").read_text())["stats"]
            return float(stats["time.total_us"]["value"])

        try:
            small, large = (
                compiled(point.smaller, folder / "small.kpu"),
                compiled(point.larger, folder / "large.kpu"),
            )
            smaller = run(small, point.smaller, "a")
            return Times(smaller, run(small, point.larger, "b", "--retarget"), run(large, point.larger, "c"))
        except RefusedError as error:
            return str(error)


def excess(point: Point, times: Times) -> str:
    """Say what is slower than asked for; nothing: none is."""
    slow = [f"{times.ratio:.3f} of the smaller device's program"] if times.ratio > BOUND[point.effort] else []
    slow += [f"{times.growth:.3f} of the smaller device"] if times.growth > SLOWER else []
    return ", ".join(slow)


def table(found: list[tuple[Point, Times]]) -> Iterator[str]:
    """A row for each parameter."""
    yield (
        "| twice the | points | beyond the bound of the smaller device's program | most "
        "| over 3 % slower than the smaller device | most | median |"
    )
    yield "|---|---|---|---|---|---|---|"
    for knob in (*DOUBLED, GENERATION, ""):
        rows = [(point, times) for point, times in found if knob in ("", point.knob)]
        if not rows:
            continue
        ratios, growths = [t.ratio for _, t in rows], [t.growth for _, t in rows]
        over = sum(t.ratio > BOUND[p.effort] for p, t in rows)
        slower = sum(growth > SLOWER for growth in growths)
        yield (
            f"| {knob or 'all'} | {len(rows)} | {over} | {max(ratios):.3f} | {slower} "
            f"| {max(growths):.3f} | {float(np.median(growths)):.3f} |"
        )


def write(lines: list[str]) -> None:
    """Put the lines between the marks of the page."""
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:begin] + "\n" + "\n".join(lines) + "\n" + text[end:])


def main() -> int:
    """Print the points; 1 if more are slower than may be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kpusim")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--layers", type=float, default=0.6, metavar="SHARE", help="of points that are of one layer"
    )
    parser.add_argument("--effort", type=int, action="append")
    parser.add_argument("--network", action="append", help="those that points choose from")
    parser.add_argument("--only", default="", metavar="TEXT", help="points whose line has it")
    parser.add_argument("--point", type=int, action="append", help="by its number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--exceptions", type=int, default=0, metavar="N", help="so many may be slower")
    parser.add_argument("--page", action="store_true", help="write the page")
    arguments = parser.parse_args()
    arguments.effort, arguments.network = arguments.effort or [1, 2, 3], arguments.network or NETWORKS
    chosen = [
        point_of(arguments.seed, number, arguments) for number in arguments.point or range(arguments.count)
    ]
    chosen = [point for point in chosen if arguments.only in str(point)]
    print(f"{len(chosen)} points by seed {arguments.seed}", flush=True)
    found, exceptions, refused = [], [], 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for point, times in zip(
            chosen, pool.map(lambda each: times_of(arguments.kpusim, each), chosen), strict=True
        ):
            if isinstance(times, str):
                refused += 1
                print(f"{point.number}: {point}: {times}", flush=True)
                continue
            found.append((point, times))
            slow = excess(point, times)
            exceptions += [f"- {point.number}: {point}: {slow}"] if slow else []
            there = f"{times.retargeted:.1f} us there, {times.larger:.1f} us compiled for it"
            line = f"{point.number}: {point}: {times.smaller:.1f} us, {there}"
            print(f"{line}{'; ' if slow else ''}{slow}", flush=True)
    lines = [
        *table(found),
        "",
        f"{len(found)} points by seed {arguments.seed}; {refused} more are refused.",
        "",
        *exceptions,
    ]
    print("\n".join(lines))
    if arguments.page:
        write(lines)
    return len(exceptions) > arguments.exceptions or not found


if __name__ == "__main__":
    sys.exit(main())
