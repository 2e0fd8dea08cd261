"""Cost of a network from its ONNX file: compilation, simulation, beside ONNX Runtime.

usage: .venv/bin/python tests/bench/network_bench.py KPUSIM [--models FOLDER] [--network NAME] [--runs N]

int8 on swkpu-v1, calibrated on a random sample. Processor time, the least of N runs (5): of whole commands,
with their start, reading and files; of the simulation alone, in a Python that has read the program; of ONNX
Runtime in float32 on one thread, its session made beforehand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kpusim
import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "networks"))
sys.path.insert(0, str(ROOT / "tests" / "networks"))
from networks import NETWORKS, samples
from page import export, seconds

DEVICE = ["--platform", "swkpu-v1"]


def onnx_seconds(model: Path, inputs: list[np.ndarray], runs: int) -> float:
    """Processor time of one inference in float32 on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {port.name: array for port, array in zip(session.get_inputs(), inputs, strict=True)}
    session.run(None, feeds)
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        session.run(None, feeds)
        least = min(least, time.process_time() - start)
    return least


def simulation_seconds(program: Path, runs: int) -> float:
    """Processor time of a timing-only run, races looked for."""
    simulation = kpusim.Simulation(program, "swkpu-v1", mode="timing")
    least = float("inf")
    for _ in range(runs):
        start = time.process_time()
        simulation.run()
        least = min(least, time.process_time() - start)
    return least


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "networks")
    parser.add_argument("--network", choices=list(NETWORKS), default="resnet50")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    model = export(given.network, given.models)
    inputs = [sample.numpy() for sample in samples(given.network)]

    def least(arguments: list[object]) -> float:
        return min(seconds([given.kpusim, *arguments]) for _ in range(given.runs))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, out = folder / "network.kpu", folder / "run"
        feeds: list[object] = []
        ports = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()
        for port, array in zip(ports, inputs, strict=True):
            np.save(folder / f"{port.name}.npy", array)
            feeds += ["--input", f"{port.name}={folder / port.name}.npy"]
        compiling = ["compile", model, *DEVICE, "--precision", "int8", "--calibrate", "random:1"]
        run = ["run", program, *DEVICE, "--quiet", "--force", "-o", out]
        rows = {
            "compile": least([*compiling, "--force", "-o", program]),
            "compile --effort 1": least([*compiling, "--effort", "1", "--force", "-o", folder / "1.kpu"]),
            "run --mode timing": least([*run, "--mode", "timing"]),
            "run --mode timing --no-hazards": least([*run, "--mode", "timing", "--no-hazards"]),
            "timing-only simulation alone": simulation_seconds(program, given.runs),
            "run (values and timing)": least([*run, *feeds]),
            "run --no-hazards": least([*run, *feeds, "--no-hazards"]),
        }
        print(f"{given.network}, int8 on swkpu-v1: seconds of processor time, the least of {given.runs}")
        for what, took in rows.items():
            print(f"  {what:32} {took:6.2f}")
        print(f"  {'ONNX Runtime, float32, 1 thread':32} {onnx_seconds(model, inputs, given.runs):6.2f}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd}: {error.stderr}")
