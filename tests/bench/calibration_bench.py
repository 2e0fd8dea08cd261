"""Cost of calibration against ONNX Runtime's time for the same samples.

usage: .venv/bin/python tests/bench/calibration_bench.py KPUSIM [rounds]

Processor time of ResNet-18, 224x224, f32, of all threads. Ours is that of 12 samples less that of 4, so
that importing and compiling do not count. ONNX Runtime runs 8 samples on one thread, with its optimisations;
it and we take turns, so that both meet the same machine.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
FEW, MANY = 4, 12


def used(who: int, work: Callable[[], object]) -> float:
    """Processor seconds of this process, or of its children."""
    before = resource.getrusage(who)
    work()
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line for each round, and the medians."""
    kpusim, rounds = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "resnet18.onnx"
        networks = ROOT / "examples" / "networks" / "networks.py"
        subprocess.run([sys.executable, "-W", "ignore", str(networks), "resnet18", str(model)], check=True)
        samples = np.random.default_rng(0).standard_normal((MANY, 1, 3, 224, 224), np.float32)
        for count in (FEW, MANY):
            (folder / str(count)).mkdir()
            for i in range(count):
                np.save(folder / str(count) / f"{i:02}.npy", samples[i])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        image = session.get_inputs()[0].name
        session.run(None, {image: samples[0]})  # the first one allocates

        def ours(count: int) -> float:
            command = [
                kpusim,
                "compile",
                str(model),
                "--precision",
                "int8",
                "--calibrate",
                str(folder / str(count)),
            ]
            command += ["-o", str(folder / "out.kpu"), "--force"]
            return used(
                resource.RUSAGE_CHILDREN, lambda: subprocess.run(command, check=True, capture_output=True)
            )

        def theirs() -> float:
            return used(
                resource.RUSAGE_SELF,
                lambda: [session.run(None, {image: sample}) for sample in samples[: MANY - FEW]],
            )

        ratios = []
        for _ in range(rounds):
            few, many, runtime = ours(FEW), ours(MANY), theirs()
            ratios.append((many - few) / runtime)
            print(
                f"{MANY - FEW} samples: kpusim {many - few:.3f} s, ONNX Runtime {runtime:.3f} s, "
                f"{ratios[-1]:.2f} times; {few:.2f} s with {FEW} samples",
                flush=True,
            )
        print(f"median of {rounds}: {statistics.median(ratios):.2f} times")


if __name__ == "__main__":
    main()
