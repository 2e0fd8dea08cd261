"""Cost of deployment from Python: capture, compilation, calls.

usage: .venv/bin/python tests/bench/deploy_bench.py

Times are of processor time of one thread: ResNet-18 through torch.compile (capture and compilation, of it
ours), the overhead of KPURuntime.execute over the C++ run, and 1,000 calls of a small program.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import kpusim.torch
import numpy as np
import torch
from kpusim import kpu
from kpusim.base.arrays import host_array

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "networks"))
from networks import build, sample

CALLS = 1000


def resident_bytes() -> int:
    """Memory of the process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Timed:
    """Sums the processor time inside a function."""

    def __init__(self, owner: Any, name: str) -> None:  # noqa: ANN401
        self.seconds = 0.0
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            start = time.process_time()
            try:
                return inner(*arguments, **options)
            finally:
                self.seconds += time.process_time() - start

        setattr(owner, name, timed)


def capture() -> None:
    """Time torch.compile of ResNet-18 after a smaller network: the exporter's first use costs extra."""
    options = {"platform": "swkpu-v1", "precision": "fp16", "mode": "functional"}
    ours = Timed(kpusim.Program, "parse")
    for name in ("lstm", "resnet18"):
        model, x = build(name), sample(name)
        torch._dynamo.reset()
        ours.seconds = 0.0
        fast = torch.compile(model, backend="kpusim", options=options)
        with torch.no_grad():
            start = time.process_time()
            fast(x)
            whole = time.process_time() - start
    print(
        f"resnet18: capture, compilation and first run {whole:.2f} s, our compiler {ours.seconds:.2f} s of it"
    )


def overhead() -> None:
    """execute() against what it has C++ do: reset, input, run, statistics."""
    model, x = build("resnet18"), sample("resnet18")
    program = kpu.KPUCompiler().compile(model, kpu.KPUConfig(), "fp16", example_inputs=(x,))
    runtime = kpu.KPURuntime()
    runtime.load_program(program)
    inputs = {runtime.get_input_specs()[0][0]: x.numpy()}
    core = runtime._simulation("functional")._core
    array, dtype = host_array("input", x.numpy())
    for _ in range(2):
        runtime.execute(inputs)
    times: dict[str, list[float]] = {name: [] for name in ("execute", "reset", "input", "run", "statistics")}

    def timed(name: str, call: Callable[..., object], *arguments: object) -> None:
        start = time.process_time()
        call(*arguments)
        times[name].append(time.process_time() - start)

    for _ in range(15):
        timed("execute", runtime.execute, inputs)
        timed("reset", core.reset)
        timed("input", core.set_input, next(iter(inputs)), array, dtype)
        timed("run", core.run, None, 0.0)
        timed("statistics", core.stats)
    best = {name: min(values) for name, values in times.items()}
    inside = best["reset"] + best["input"] + best["run"] + best["statistics"]
    over_run, over_all = ((best["execute"] / base - 1) * 100 for base in (best["run"], inside))
    print(
        f"resnet18: execute {best['execute'] * 1e3:.1f} ms, {over_run:+.1f} % over the C++ run "
        f"({best['run'] * 1e3:.1f} ms), {over_all:+.1f} % over reset, input, run and statistics"
    )


def calls() -> None:
    """A small program, many times."""
    image = np.load(ROOT / "examples" / "networks" / "images.npy")[:1]
    program = kpu.KPUCompiler().compile(ROOT / "examples" / "networks" / "digits_cnn.onnx")
    runtime = kpu.KPURuntime()
    runtime.load_program(program)
    for mode in kpu.SimulationMode:
        for _ in range(50):
            runtime.execute({"image": image}, mode)
        before, start = resident_bytes(), time.process_time()
        for _ in range(CALLS):
            runtime.execute({"image": image}, mode)
        seconds, grown = time.process_time() - start, (resident_bytes() - before) / 1024
        print(f"digits_cnn, {mode.value}: {CALLS / seconds:.0f} calls/s, {grown:.0f} KiB more after {CALLS}")


def main() -> None:
    """All of them."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    calls()
    overhead()
    capture()


if __name__ == "__main__":
    main()
