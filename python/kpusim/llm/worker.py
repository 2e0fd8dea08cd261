"""A process that simulates one model: :func:`main`, its task and result as JSON.

Each model has a process of its own: its memory is given back, and one that fails takes no other along.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

from kpusim.errors import HazardWarning, InternalError, KpusimError, SimulationError
from kpusim.platform import Platform
from kpusim.program.program import Program
from kpusim.simulation.running import simulate

BAD_INPUT, FAILED, BUG = 1, 2, 70  #: as the command's exit codes


@dataclass(frozen=True)
class Task:
    """A model, what messages call it, its device, and options of the compiler."""

    name: str
    model: str
    platform: str
    options: dict[str, str]


@dataclass(frozen=True)
class Operations:
    """Operations of one part of a model, and of one resource that bounds them.

    Attributes
    ----------
    cycles : int
        Charged to them.
    bound : str
        Of the compiler: array, vector, dma or dram; empty where it says none.
    bound_cycles : int
        What that resource takes at least.
    """

    part: str
    bound: str
    cycles: int
    bound_cycles: int


@dataclass(frozen=True)
class Measured:
    """Measurements of a run.

    Attributes
    ----------
    stats : dict
        Statistics by key, those of single units left out.
    operations : list of Operations
        By part and bound; their cycles sum to ``cycles.total``.
    notes : list of str
        What the compiler says, but for the weights that are absent.
    """

    stats: dict[str, float]
    operations: list[Operations] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


OTHERS = "norms, residuals, set-up"
#: Parts of a model by the first word of what their operations are called; q, k, v alone are projections.
PARTS = {
    "attention": re.compile(r"scores.*|softmax|masked|weights.*|values.*|past_.|new_.|out|q|k|v"),
    "projections": re.compile(r"o"),
    "feed-forward": re.compile(r"gate|up|down|sigmoid|silu|gelu|relu|gated"),
    "experts": re.compile(r"expert\d+|experts|router|chosen|gates|by_.*|weighted|mixed|rows|places"),
    "head": re.compile(r"head|logits|last|last_rows|sequences"),
}


def part_of(operation: str) -> str:
    """Return the part of a model that an operation of :mod:`kpusim.llm.layers` belongs to."""
    first, *rest = re.split(r"[.:/]", operation)
    if re.fullmatch(r"layer\d+", first) and rest:
        first, *rest = rest
    if first in ("q", "k", "v") and (
        not rest or rest[0] in ("in", "add", "steps", "weight") or rest[0].isdigit()
    ):
        return "projections"
    return next((part for part, names in PARTS.items() if names.fullmatch(first)), OTHERS)


def measured(task: Task) -> Measured:
    """Compile and simulate a model for its time."""
    from kpusim.sweeps.workers.evaluate import columns

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        program = Program._of_time(task.model, Platform.load(task.platform), task.options)
        run = simulate(program, mode="timing")
    cycles: dict[tuple[str, str], list[int]] = {}
    for row in run.ops:
        sums = cycles.setdefault((part_of(row.id), row.bound), [0, 0])
        sums[0] += row.charged_cycles
        sums[1] += row.bound_cycles
    operations = [Operations(part, bound, *sums) for (part, bound), sums in cycles.items()]
    notes = [found.message for found in run.diagnostics if "made-up numbers" not in found.message]
    return Measured(columns(run.stats.items()), operations, notes)


def result_of(task: Task) -> dict[str, Any]:
    """The result as JSON has it: what was measured, or the error and the exit code that it stands for."""
    try:
        return {"measured": asdict(measured(task))}
    except KpusimError as error:
        kinds = ((SimulationError, FAILED), (InternalError, BUG))
        code = next((code for kind, code in kinds if isinstance(error, kind)), BAD_INPUT)
        return {"error": str(error).replace(task.model, task.name), "code": code}


def main() -> None:
    """Do the task that comes in."""
    json.dump(result_of(Task(**json.load(sys.stdin))), sys.stdout)
