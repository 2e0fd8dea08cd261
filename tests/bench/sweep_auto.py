"""Findings of `fidelity: auto`, and their cost, beside the full simulation of the same sweep.

usage: sweep_auto.py MODEL.onnx... [--designs N] [--platform NAME] [--effort N] [--seed N]

Prints for both: processor seconds of the workers, points simulated, designs on the front; then the share of
the full front's hypervolume that auto's simulated front has (reference: the worst of all designs), and of the
full cost.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from typing import Any

import kpusim
from kpusim.sweeps.front import Vector, front_of, hypervolume

AXES: dict[str, Any] = {
    "engine.array.rows": [8, 16, 24, 32, 48, 64],
    "engine.array.cols": [8, 16, 24, 32, 48, 64],
    "l2.size_bytes": "512KiB..8MiB*2",
    "ddr.channels": "1..4",
    "engine.l1.size_bytes": ["64KiB", "128KiB", "256KiB"],
}
OBJECTIVES = ("time.total_us", "energy.total_uj")


def worker_seconds() -> float:
    """Processor time of workers that have ended: it does not depend on who else uses the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def vectors_of(results: kpusim.SweepResults) -> dict[int, Vector]:
    """Objectives of the designs of which all programs were simulated, as the sweep combines them."""
    by_design: dict[int, list[dict[str, Any]]] = {}
    for row in results.rows:
        if row["fidelity"] == "simulate" and not row["error"]:
            by_design.setdefault(row["design"], []).append(row)
    programs = len(results.header["sweep"]["programs"])
    found: dict[int, Vector] = {}
    for design, rows in by_design.items():
        if len(rows) == programs:
            products = [1.0] * len(OBJECTIVES)
            for row in rows:
                products = [p * row[name] for p, name in zip(products, OBJECTIVES, strict=True)]
            found[design] = tuple(product ** (1 / programs) for product in products)
    return found


def main() -> None:
    """Run both and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--designs", type=int, default=2000)
    parser.add_argument("--platform", default="tile32")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    vectors: dict[str, dict[int, Vector]] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for fidelity in ("auto", "simulate"):
            begun = worker_seconds()
            results = kpusim.sweep(
                folder=Path(folder) / fidelity, programs=given.models, platforms=[given.platform], axes=AXES,
                options={"precision": "int8", "calibrate": "random:1", "effort": given.effort},
                sample={"random": given.designs}, seed=given.seed, fidelity=fidelity,
            )  # fmt: skip
            seconds[fidelity] = worker_seconds() - begun
            vectors[fidelity] = vectors_of(results)
            front = len(front_of(vectors[fidelity]))
            points = sum(row["fidelity"] == "simulate" for row in results.rows)
            total = len(results.rows)
            print(
                f"{fidelity}: {seconds[fidelity]:.0f} s, {points} of {total} simulated, {front} on the front"
            )
            for note in results.notes:
                print(f"  {note}")
    reference = tuple(max(v[index] for v in vectors["simulate"].values()) for index in range(len(OBJECTIVES)))
    auto, full = (hypervolume(list(vectors[name].values()), reference) for name in ("auto", "simulate"))
    cost = seconds["auto"] / seconds["simulate"]
    print(f"hypervolume {auto / full:.5f} of the full front's, at {cost:.2f} of its time")


if __name__ == "__main__":
    main()
