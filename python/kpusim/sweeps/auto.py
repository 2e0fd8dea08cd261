"""Search at two fidelities: all is predicted, and what could be on the front, given errors, is simulated."""

from __future__ import annotations

from collections.abc import Iterator

from kpusim.sweeps.designs import Design, designs_of
from kpusim.sweeps.evaluating import Evaluating
from kpusim.sweeps.front import Vector, dominates, front_of
from kpusim.sweeps.table import Judge

#: Ratios of simulated and predicted objectives, before any is known. A mapping that another one dominates
#: by more
#: than this is not simulated at first.
FIRST_BAND = (0.9, 1.1)
#: Added to both ends of the ratios that were seen: those of others may be a little more extreme.
WIDER = 0.02


class Errors:
    """Errors of predictions, by objective: the extreme ratios of simulated and predicted."""

    def __init__(self, count: int) -> None:
        self._least, self._most = [FIRST_BAND[0]] * count, [FIRST_BAND[1]] * count
        self._seen: list[list[float]] = [[] for _ in range(count)]

    def learn(self, predicted: Vector, simulated: Vector) -> None:
        """Take in a design that has both."""
        for index, (p, s) in enumerate(zip(predicted, simulated, strict=True)):
            if p:
                self._seen[index].append(s / p)
        for index, seen in enumerate(self._seen):
            if len(seen) >= 8:
                self._least[index], self._most[index] = min(seen) - WIDER, max(seen) + WIDER

    def best(self, predicted: Vector) -> Vector:
        """Return the objectives at their best; largest ones are negative here."""
        return tuple(
            p * (low if p >= 0 else high)
            for p, low, high in zip(predicted, self._least, self._most, strict=True)
        )

    def words(self, names: list[str]) -> str:
        """Describe them for a note."""
        return ", ".join(
            f"{name} {low - 1:+.1%} to {high - 1:+.1%}"
            for name, low, high in zip(names, self._least, self._most, strict=True)
        )


def simulate_what_may_be_best(running: Evaluating) -> Iterator[None]:
    """Predict all designs; then, a generation at a time, simulate those that could be on the front."""
    spec = running.spec
    designs = {design.number: design for design in designs_of(spec, running.space)}
    running.evaluate(designs.values(), "estimate", "predicted", whole=True)
    yield
    judge = Judge(spec)
    predicted: dict[int, Vector] = {}
    unknown: list[int] = []  # without a prediction: they are simulated
    for number, design in designs.items():
        outcomes = running.outcomes(design, "estimate")
        if any(judge.ruled_out(design, outcome) for outcome in outcomes):
            continue
        vector = judge.vector(outcomes)
        if vector is None:
            unknown.append(number)
        else:
            predicted[number] = vector
    errors = Errors(len(spec.objectives))
    simulated: dict[int, Vector] = {}  # of those that keep the constraints
    done: set[int] = set()
    while chosen := (unknown + _candidates(predicted, simulated, done, errors))[: spec.generation]:
        unknown = unknown[len(chosen) :] if unknown else unknown
        running.evaluate([designs[number] for number in chosen], "simulate", "simulated", whole=True)
        done.update(chosen)
        for number in chosen:
            _learn(running, judge, designs[number], predicted.get(number), simulated, errors)
        yield
    names = [objective.name for objective in spec.objectives]
    running.notes.append(
        f"{len(done)} of {len(designs)} designs were simulated; predictions were off by "
        f"{errors.words(names)}, "
        "and no other one could be on the front."
    )


def _learn(
    running: Evaluating,
    judge: Judge,
    design: Design,
    predicted: Vector | None,
    simulated: dict[int, Vector],
    errors: Errors,
) -> None:
    outcomes = running.outcomes(design, "simulate")
    vector = judge.vector(outcomes)
    if vector is None:
        return
    if predicted is not None:
        errors.learn(predicted, vector)
    if all(judge.feasible(design, outcome) for outcome in outcomes):
        simulated[design.number] = vector


def _candidates(
    predicted: dict[int, Vector], simulated: dict[int, Vector], done: set[int], errors: Errors
) -> list[int]:
    """Designs that no simulated one beats for sure; the front of their predictions comes first."""
    known = [simulated[number] for number in front_of(simulated)]
    open_ = {
        number: vector
        for number, vector in predicted.items()
        if number not in done and not any(dominates(other, errors.best(vector)) for other in known)
    }
    first = front_of(open_)
    return first + sorted(set(open_) - set(first))
