"""Protocol of what a strategy needs of the sweep that follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kpusim.sweeps.designs import Design, Space
from kpusim.sweeps.spec import Spec
from kpusim.sweeps.workers.evaluate import How, Outcome


class Evaluating(Protocol):
    """A sweep that evaluates designs; `notes` gets what a strategy decided on its own."""

    spec: Spec
    space: Space
    notes: list[str]

    def outcomes(self, design: Design, how: How) -> list[Outcome]:
        """Result of all programs on a design that was evaluated."""

    def evaluate(self, designs: Iterable[Design], how: How, words: str, *, whole: bool) -> None:
        """Evaluate designs for all programs; `whole`: they count only all together."""
