"""Search: designs that Optuna's samplers ask for, a generation at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from kpusim.errors import MissingPackageError
from kpusim.sweeps.designs import Design
from kpusim.sweeps.evaluating import Evaluating
from kpusim.sweeps.table import Judge
from kpusim.sweeps.workers.evaluate import How

#: Value of a design that failed, by objective: worse than any other.
WORST = 1e300
PATIENCE = 20  #: generations that bring no new design before a search ends


def search(running: Evaluating) -> Iterator[None]:
    """Ask, evaluate, tell. The same sweep asks for the same designs, whoever evaluates them."""
    spec, space = running.spec, running.space
    how: How = "estimate" if spec.fidelity == "estimate" else "simulate"
    optuna = _optuna()
    study = optuna.create_study(
        directions=["minimize"] * len(spec.objectives),
        sampler=_sampler(optuna, spec.sampler, spec.seed, spec.generation),
    )
    distributions = {
        str(index): optuna.distributions.IntDistribution(0, length - 1)
        for index, length in enumerate(space.lengths)
    }
    judge = Judge(spec)
    known: dict[int, Design] = {}  # by number of the combination
    refused: set[int] = set()  # combinations that parameters alone rule out
    without = 0
    while len(known) < min(spec.count, space.size) and without < PATIENCE:
        trials = [study.ask(distributions) for _ in range(spec.generation)]
        asked = [
            space.index([trial.params[str(axis)] for axis in range(len(space.lengths))]) for trial in trials
        ]
        fresh: list[Design] = []
        for index in asked:
            if index in known or index in refused or len(known) >= spec.count:
                continue
            design = space.design(len(known), index)
            if space.admits(design):
                known[index] = design
                fresh.append(design)
            else:
                refused.add(index)
        running.evaluate(fresh, how, f"{how}d", whole=True)
        without = 0 if fresh else without + 1
        for trial, index in zip(trials, asked, strict=True):
            study.tell(trial, _values(running, judge, known.get(index), how))
        yield
    if len(known) < spec.count:
        running.notes.append(f"the search ended after {len(known)} designs: it asked for no new one.")


def _values(running: Evaluating, judge: Judge, design: Design | None, how: How) -> list[float]:
    """Return the objectives of a design; one that fails, or keeps not its constraints, is the worst."""
    worst = [WORST] * len(running.spec.objectives)
    if design is None:
        return worst
    outcomes = running.outcomes(design, how)
    vector = judge.vector(outcomes)
    kept = all(judge.feasible(design, outcome) is not False for outcome in outcomes)
    return list(vector) if vector is not None and kept else worst


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingPackageError("searches need Optuna. Fix: pip install 'kpusim[sweep]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _sampler(optuna: Any, name: str, seed: int, generation: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "nsga2":
            return optuna.samplers.NSGAIISampler(population_size=generation, seed=seed)
        if name == "tpe":
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return optuna.samplers.RandomSampler(seed=seed)
