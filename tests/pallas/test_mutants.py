"""Mistakes in copies and semaphores: each is reported, with the Python lines of both sides."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import kept
import kpusim
import mutants
import numpy as np
import pytest
from kernels import CASES
from kpusim import SimulationError
from kpusim.errors import HazardWarning

LINE = re.compile(r"[\w/.-]+\.py:\d+")
#: Mistakes that involve one statement only: what should come before or after it is missing.
ALONE = (
    "nobody waits for this copy",
    "at the end of the kernel",
    "nothing is on its way that counts there. Fix",
)

#: Runs for seconds, and a mutant of each of its copies would.
LONG = "example_large_sort"


def all_documents() -> dict[str, dict[str, Any]]:
    """Return the documents of every kernel with copies or semaphores of its own, by name."""
    documents = {}
    for name, case in CASES.items():
        if name != LONG and (case.interpreter == "tpu" or "semaphore" in name):
            documents[name] = kept.exported(case).document
    return documents


DOCUMENTS = all_documents()


def all_mutants() -> dict[str, tuple[str, mutants.Mutant]]:
    """Return the mutants of all of them, by name."""
    found: dict[str, tuple[str, mutants.Mutant]] = {}
    for name, document in DOCUMENTS.items():
        for number, mutant in enumerate([*mutants.removed(document), *mutants.swapped(document)]):
            found[f"{name} {number}: {mutant.name}"] = name, mutant
    return found


MUTANTS = all_mutants()


def said(document: dict[str, Any], operands: tuple[np.ndarray, ...], mode: Any) -> tuple[str, bool]:
    """Return what a run says of it, and whether it failed."""
    text = '{"format": "kpusim-pallas", ' + json.dumps(document)[len('{"format": "kpusim-pallas", ') :]
    program = kpusim.Program.parse(text, "mutant.pallas.json", platform="tile32")
    simulation = kpusim.Simulation(program, "tile32", mode=mode)
    names = [array["name"] for array in document["arrays"] if array["role"] == "input"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        try:
            run = simulation.run(dict(zip(names, operands, strict=True)))
        except SimulationError as error:
            return str(error), True
    assert run.stats.get("hazards.kernel", 0) == sum(hazard.count for hazard in run.hazards)
    return "\n".join(map(str, run.hazards)), False


def test_there_are_enough() -> None:
    """There are mutants of each kind."""
    assert len(MUTANTS) >= 30
    for kind in ("no dma_wait", "no semaphore_signal", "slot"):
        assert sum(kind in name for name in MUTANTS) >= 2


@pytest.mark.device
@pytest.mark.parametrize("name", MUTANTS)
def test_is_reported(name: str) -> None:
    """Both lines, unless one of them is what is missing."""
    case, mutant = MUTANTS[name]
    for mode in ("values+timing", "functional"):
        text, failed = said(mutant.document, CASES[case].operands, mode)
        assert text
        named = LINE.findall(text)
        assert mutant.lines & set(named), text
        sides = 1 if failed and any(alone in text for alone in ALONE) else 2
        assert len(named) >= sides, text


@pytest.mark.device
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_original_is_silent(name: str) -> None:
    """Else reports would mean nothing."""
    assert said(DOCUMENTS[name], CASES[name].operands, "values+timing") == ("", False)
