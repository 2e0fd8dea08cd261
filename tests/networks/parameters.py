"""Quality of predictions over the parameters of a device: each is turned, compiled for and simulated.

usage: parameters.py KPUSIM MODEL.onnx... [--on PLATFORM:PRECISION] [--only TEXT] [--sample N] [--seed N]
                     [--within TOTAL]

Prints, for each parameter that has an influence on time and each model, how much simulated and predicted
cycles grow with it, and predicted / simulated. Fails where simulated cycles change by more than 5 % and
predicted ones do not change, and with --within where a prediction is off by more than so much.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TURNED = {
    "clock.array_mhz": ("250", "4000"),
    "clock.sram_mhz": ("50", "250"),
    "clock.interconnect_mhz": ("50", "250"),
    "clock.core_mhz": ("250", "4000"),
    "sequencer.max_active_tokens": ("16",),
    "sequencer.dispatch_cycles": ("64",),
    "sequencer.launch_cycles": ("5000",),
    "engine.count": ("2",),
    "engine.array.count": ("2",),
    "engine.array.rows": ("16",),
    "engine.array.cols": ("16",),
    "engine.array.operand_bytes_per_cycle": ("4",),
    "engine.array.result_bytes_per_cycle": ("8",),
    "engine.vector.cstl_count": ("1",),
    "engine.vector.vpu_count": ("4",),
    "engine.vector.lanes": ("4",),
    "engine.vector.pipeline_latency_cycles": ("400",),
    "engine.vector.operand_bytes_per_cycle": ("4",),
    "engine.vector.result_bytes_per_cycle": ("4",),
    "engine.l1.size_bytes": ("65536",),
    "engine.l1.banks": ("1",),
    "engine.l1.bank_width_bytes": ("1", "8"),
    "engine.l1.interleave_bytes": ("4096",),
    "engine.l1.ports": ("1",),
    "engine.l1.bytes_per_cycle": ("1", "16"),
    "engine.l1.read_latency_cycles": ("400",),
    "engine.l1.write_latency_cycles": ("400",),
    "engine.l1.turnaround_cycles": ("16",),
    "engine.dma.channels": ("1",),
    "engine.dma.bytes_per_cycle": ("4",),
    "engine.dma.descriptor_cycles": ("400",),
    "engine.dma.row_cycles": ("16",),
    "engine.dma.burst_bytes": ("32",),
    "engine.dma.max_outstanding_bursts": ("1",),
    "l2.size_bytes": ("262144",),
    "l2.banks": ("1",),
    "l2.bank_width_bytes": ("1", "8"),
    "l2.interleave_bytes": ("4096",),
    "l2.ports": ("1",),
    "l2.bytes_per_cycle": ("2", "16"),
    "l2.read_latency_cycles": ("400",),
    "l2.write_latency_cycles": ("400",),
    "l2.turnaround_cycles": ("16",),
    "system_dma.channels": ("1", "8"),
    "system_dma.bytes_per_cycle": ("4",),
    "system_dma.descriptor_cycles": ("400",),
    "system_dma.row_cycles": ("16",),
    "system_dma.burst_bytes": ("64",),
    "system_dma.max_outstanding_bursts": ("1",),
    "interconnect.link_bytes_per_cycle": ("4",),
    "interconnect.system_link_bytes_per_cycle": ("4",),
    "interconnect.hop_latency_cycles": ("200",),
    "interconnect.topology": ("ring", "mesh"),
    "interconnect.arbitration": ("round_robin",),
    "interconnect.queue_bursts": ("1",),
    "ddr.device": ("LPDDR5-6400", "LPDDR5-6400 ddr.data_rate_mtps=6400", "HBM2-2000 ddr.data_rate_mtps=2000"),
    "ddr.channels": ("1", "8"),
    "ddr.mapping": ("bank_group_interleaved",),
    "ddr.data_rate_mtps": ("800",),
    "ddr.controller_latency_ns": ("1000",),
    "ddr.channel_interleave_bytes": ("64", "65536"),
    "ddr.fidelity": ("burst",),
    "ddr.ranks": ("4",),
}
#: With these alone the controllers' parameters have an influence.
BURST = ("ddr.fidelity=burst",)
CONTROLLER = {
    "ddr.controller.read_queue": ("2",),
    "ddr.controller.write_queue": ("64",),
    "ddr.controller.write_high": ("4 ddr.controller.write_low=2",),
    "ddr.controller.write_low": ("1",),
    "ddr.controller.row_hit_cap": ("1",),
    "ddr.controller.request_nck": ("800",),
    "ddr.controller.response_nck": ("800",),
}


class Point(NamedTuple):
    """A device: what is set on it."""

    name: str
    sets: tuple[str, ...]
    base: tuple[str, ...]


class Cycles(NamedTuple):
    """Cycles of one compilation."""

    predicted: float
    simulated: int


def points(only: str) -> list[Point]:
    """Return every parameter at each of its values."""
    turned = [(TURNED, ()), (CONTROLLER, BURST)]
    return [
        Point(f"{name}={value}", (*base, *f"{name}={value}".split()), base)
        for table, base in turned
        for name, values in table.items()
        for value in values
        if re.search(only, name)
    ]


def cycles(kpusim: str, model: Path, on: str, sets: tuple[str, ...]) -> Cycles | str:
    """Return the cycles of a model compiled for the device; what the compiler says if it refuses."""
    platform, precision = on.split(":")
    device = ["--platform", platform, *(f"--set={each}" for each in sets)]
    calibrate = ["--calibrate", "random:1"] if precision == "int8" else []
    with tempfile.TemporaryDirectory() as folder:
        program, out = Path(folder) / "network.kpu", Path(folder) / "run"
        command = [kpusim, "compile", str(model), *device, "--precision", precision, *calibrate]
        told = subprocess.run(
            [*command, "--effort", "1", "-o", str(program)], capture_output=True, text=True, check=False
        )
        if told.returncode != 0:
            return told.stderr.strip().splitlines()[-1][:100]
        run = [kpusim, "run", str(program), *device, "--mode", "timing", "--quiet", "-o", str(out)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1][:100]
        stats = json.loads((out / "stats.json").read_text())["stats"]
        simulated = int(stats["cycles.total"]["value"])
        text = subprocess.run([kpusim, "disasm", str(program)], capture_output=True, text=True, check=True)
    head = next(line for line in text.stdout.splitlines() if line.startswith("#! program "))
    return Cycles(float(json.loads(head.removeprefix("#! program "))["estimated_total_cycles"]), simulated)


def main() -> int:
    """Print the table; 1 if a prediction does not know a parameter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kpusim")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--on", default="swkpu-v1:int8", metavar="PLATFORM:PRECISION")
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name this expression finds")
    parser.add_argument("--within", type=float, metavar="TOTAL")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of the points, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    chosen = points(arguments.only)
    if arguments.sample is not None:
        print(f"{arguments.sample} of {len(chosen)} points by seed {arguments.seed}")
        chosen = random.Random(arguments.seed).sample(chosen, arguments.sample)
    work = [(model, point) for model in arguments.models for point in chosen]
    bases = sorted({(model, point.base) for model, point in work})
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:

        def of(model: Path, sets: tuple[str, ...]) -> Cycles | str:
            return cycles(arguments.kpusim, model, arguments.on, sets)

        usual = dict(zip(bases, pool.map(lambda each: of(*each), bases), strict=True))
        failed, errors = 0, []
        print("| model | parameter | simulated | grows | predicted grows | predicted / simulated |")
        print("|---|---|---|---|---|---|")
        results = pool.map(lambda each: of(each[0], each[1].sets), work)
        for (model, point), found in zip(work, results, strict=True):
            base = usual[model, point.base]
            if isinstance(found, str) or isinstance(base, str):
                print(f"| {model.stem} | {point.name} | {found} | | | |", flush=True)
                failed += 1
                continue
            grows, guessed = found.simulated / base.simulated, found.predicted / base.predicted
            ratio = found.predicted / found.simulated
            errors.append(abs(ratio - 1))
            unknown = abs(grows - 1) > 0.05 and abs(guessed - 1) < 0.001
            off = arguments.within is not None and errors[-1] > arguments.within
            failed += unknown or off
            print(
                f"| {model.stem} | {point.name} | {found.simulated:,} | {grows:.3f} | {guessed:.3f} "
                f"| {ratio:.3f}{' not known' if unknown else ''}{' off' if off else ''} |",
                flush=True,
            )
    if not errors:
        print("nothing was compared")
        return 1
    errors.sort()
    nine = errors[len(errors) * 9 // 10]
    print(f"\n{len(errors)} predictions: nine of ten within {nine:.1%}, all within {errors[-1]:.1%}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
