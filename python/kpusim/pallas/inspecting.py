"""Contents of a function's kernels, and how long each step with them takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpusim.errors import KpusimError
from kpusim.pallas.capture import captured, text_of
from kpusim.pallas.running import PLATFORM
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath
from kpusim.simulation.simulation import Simulation


@dataclass(frozen=True)
class Inspection:
    """Findings of :func:`inspect`.

    Attributes
    ----------
    primitives : Counter
        Primitives inside the kernels, nested ones too, and how often they stand there.
    unsupported : list of (str, str)
        What is not supported, and its source line.
    calls : list of str
        Kernels, in order.
    seconds : dict of str to float
        Host time of ``capture``, ``lowering`` and ``execution``; the last two only if all is supported.
    error : str
        What lowering or execution said, if they failed.
    """

    primitives: Counter[str]
    unsupported: list[tuple[str, str]]
    calls: list[str]
    seconds: dict[str, float]
    error: str = ""

    def __str__(self) -> str:
        """Return a table."""
        rows = [f"kernels: {', '.join(self.calls)}"]
        rows += [f"  {name:24}{count:6}" for name, count in self.primitives.most_common()]
        rows += [f"not supported: {place}: {what}" for what, place in self.unsupported]
        rows += [f"{name:24}{seconds * 1e3:8.1f} ms" for name, seconds in self.seconds.items()]
        return "\n".join(rows + ([self.error] if self.error else []))


def inspect(
    function: Callable[..., Any], *shapes: Any, platform: Platform | StrPath = PLATFORM
) -> Inspection:
    """Look into a function: primitives, what is not supported, and the time of capture, lowering, execution.

    Parameters
    ----------
    function, *shapes
        As of :func:`export`. It is executed once, on ones.
    platform : Platform, str or path
        Device of the execution.
    """
    seconds = {}
    begin = time.perf_counter()
    document, notes = captured(function, shapes)
    seconds["capture"] = time.perf_counter() - begin
    calls = [step["call"]["name"] for step in document["steps"] if "call" in step]
    error = ""
    if not notes.unsupported:
        try:
            begin = time.perf_counter()
            program = Program.parse(text_of(document), document["name"] + ".pallas.json", platform=platform)
            simulation = Simulation(program, platform)
            seconds["lowering"] = time.perf_counter() - begin
            inputs = {spec.name: np.ones(spec.shape, spec.dtype) for spec in simulation.input_specs}
            begin = time.perf_counter()
            simulation.run(inputs)
            seconds["execution"] = time.perf_counter() - begin
        except KpusimError as problem:
            error = str(problem)
    return Inspection(notes.primitives, notes.unsupported, calls, seconds, error)
