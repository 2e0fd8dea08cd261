"""Protocol of what tables and pictures need of a run, and a run of its simulation: each may import this."""

from __future__ import annotations

from typing import Literal, Protocol

from kpusim._core import DiffSide, Recording
from kpusim._core import Simulation as Core
from kpusim.base.arrays import Array
from kpusim.errors import Diagnostic
from kpusim.platform import Platform
from kpusim.program import Program
from kpusim.run.power import Power
from kpusim.run.results import Events, Explanation, OpRow, Stats
from kpusim.run.timeline import Timeline
from kpusim.run.traffic import Traffic

Mode = Literal["values+timing", "timing", "functional"]
Recorded = bool | Literal["accesses"]


class RunView(Protocol):
    """Results of one execution, as :class:`kpusim.Run` describes them."""

    program: str
    platform: str
    mode: Mode
    complete: bool
    stats: Stats
    ops: list[OpRow]

    @property
    def cycles(self) -> int:
        """Core cycles."""

    @property
    def events(self) -> Events:
        """The event stream."""

    @property
    def power(self) -> Power:
        """Power over time."""

    @property
    def timeline(self) -> Timeline:
        """Return what every unit did when."""

    @property
    def traffic(self) -> Traffic:
        """Every request to a memory."""

    def explain(self, name: str | None = None) -> Explanation:
        """Why it took its cycles."""


class Simulated(Protocol):
    """The simulation of a run, as :class:`kpusim.Simulation` describes it."""

    program: Program
    platform: Platform | None
    mode: Mode
    _core: Core
    _generation: int
    _records_events: bool
    _params: list[tuple[str, int]]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Warnings about the program on this device."""

    def outputs(self) -> dict[str, Array]:
        """Every output as it is now."""

    def result(self) -> RunView:
        """Return what it gave so far."""

    def _save(self, folder: str, force: bool) -> None: ...

    def _side(self, name: str, events: Recording | None) -> DiffSide: ...
