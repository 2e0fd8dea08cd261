"""One run: its results, its events when they are asked for, and what explains and draws it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kpusim import _core
from kpusim.base.arguments import path_text, whole_number
from kpusim.base.progress import timeout_seconds
from kpusim.base.tables import OptionValue, trace_formats
from kpusim.errors import Diagnostic, UserError
from kpusim.run import plots
from kpusim.run.drawing import page_of
from kpusim.run.frames import Table, frame_of
from kpusim.run.power import Power
from kpusim.run.results import Change, Events, Explanation, Hazard, OpRow, Stats, WhatIf
from kpusim.run.timeline import Timeline
from kpusim.run.traffic import Level, Traffic
from kpusim.run.view import Recorded, Simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

StrPath = str | os.PathLike[str]


class Run:
    """Results of one execution. They stay as they are when its simulation runs again.

    Attributes
    ----------
    program, platform, mode : str
        What ran, on what (empty without a platform), and how.
    outputs : dict of ndarray
        Every output by name; empty in timing mode.
    stats : Stats
        Cycles, bytes, energy ...; every cycle of every unit has a cause.
    ops : list of OpRow
        Cost of each operation; empty in functional mode.
    hazards : list of Hazard
        Races and reads of unwritten bytes that occurred, one of each kind and pair of statements;
        ``stats["hazards.count"]`` counts every occurrence.
    diagnostics : tuple of Diagnostic
        Warnings about the program.
    complete : bool
        False when it stopped before its end.
    """

    def __init__(self, simulation: Simulated, replay: Callable[[Recorded], Simulated] | None) -> None:
        core = simulation._core
        self.program = simulation.program.name
        self.platform = "" if simulation.platform is None else simulation.platform.name
        self.mode = simulation.mode
        self.complete = core.complete()
        self.outputs = simulation.outputs() if self.mode != "timing" else {}
        self.stats = Stats(core.stats())
        self.ops = [OpRow(**row) for row in core.ops()]
        self.hazards = [Hazard(**row) for row in core.hazards()]
        self.diagnostics: tuple[Diagnostic, ...] = simulation.diagnostics
        self._simulation = simulation
        self._generation = simulation._generation
        self._replay = replay
        self._events = Events(core.take_recording()) if simulation._records_events else None

    @property
    def cycles(self) -> int:
        """Core cycles; in functional mode a lower bound (0 without a platform)."""
        return int(self.stats.get("cycles.total", self.stats.get("cycles.estimate", 0)))

    @property
    def events(self) -> Events:
        """The event stream.

        Of a run without ``events=True`` the first use simulates again, recording: runs repeat exactly.

        Raises
        ------
        UserError
            In functional mode, which has no time; and for a simulation that was stepped or written to without
            recording.
        """
        if self._events is None:
            if self.mode == "functional":
                raise UserError(
                    "a functional run has no time to trace. Fix: use mode values+timing or timing."
                )
            self._events = self._recorded(True)
        return self._events

    def _recorded(self, record: Recorded) -> Events:
        if self._replay is None:
            raise UserError(f"the run was not recorded. Fix: make the Simulation with events={record!r}.")
        return self._replay(record).result().events

    def _events_with_accesses(self) -> Events:
        if self.mode != "functional" and (self._events is None or not self._events.has_accesses):
            self._events = self._recorded("accesses")
        return self.events

    def write_trace(
        self,
        name: str,
        path: StrPath,
        *,
        window: tuple[int | None, int | None] | None = None,
        units: Iterable[str] = (),
        causes: Iterable[str] = (),
        ops: Iterable[str] = (),
        every: str = "",
        viewer_files: bool = False,
        **options: OptionValue,
    ) -> None:
        """Write a trace of the run; what it needs and was not recorded is simulated again.

        Parameters, exceptions: as of :meth:`Events.write_trace` and :attr:`events`.
        """
        needs_accesses = any(row.name == name and row.needs_accesses for row in trace_formats())
        events = self._events_with_accesses() if needs_accesses else self.events
        events.write_trace(
            name,
            path,
            window=window,
            units=units,
            causes=causes,
            ops=ops,
            every=every,
            viewer_files=viewer_files,
            **options,
        )

    @cached_property
    def power(self) -> Power:
        """Power over time, from the events, in bins of the platform's ``energy.trace_bin_ns``."""
        return self.events.power()

    @cached_property
    def timeline(self) -> Timeline:
        """States of every unit over time, as arrays. Exceptions: those of :attr:`events`."""
        return self.events.timeline

    @cached_property
    def traffic(self) -> Traffic:
        """Requests to memories, as arrays; ``traffic.banks`` has the banks of DRAM over time.

        Requests are recorded with ``events="accesses"``; otherwise the first use simulates again. Exceptions:
        as of :attr:`events`.
        """
        return self._events_with_accesses().traffic

    def explain(self, name: str | None = None) -> Explanation:
        """Explain why the run took its cycles, from its events, as ``kpusim explain`` tells it.

        Parameters
        ----------
        name : str, optional
            One operation, as in :attr:`ops`, or one task, as in ``g[t=0 k=1]``; None: the whole run.

        Returns
        -------
        Explanation
            Its text when printed; of the whole run all tables as ``data``.

        Raises
        ------
        UserError
            For a name that the run does not have; and as of :attr:`events`.
        """
        return self.events.explain(name)

    def what_if(self, limit_s: float = 10.0) -> WhatIf:
        """Simulate what changes would save, in as many processes as there are cores.

        Every part of the platform 2 and 64 times faster; each loop's window and slots one more and one less;
        each parameter of the program at its half and its double.

        Parameters
        ----------
        limit_s : float
            Nothing is simulated when that would take longer, by the time of the run itself.

        Returns
        -------
        WhatIf
            The changes by cycles saved.

        Raises
        ------
        UserError
            For a functional run, and a limit that is no positive number.
        """
        limit = timeout_seconds(limit_s, "limit_s") or 1e9  # no limit: longer than anybody waits
        simulation = self._simulation
        if self.mode == "functional" or simulation.platform is None:
            raise UserError("a functional run has no time to save. Fix: use mode values+timing or timing.")
        text, skipped, rows = _core.simulate_changes(
            simulation.program._core, simulation.platform._core, simulation._params, self.cycles, limit
        )
        changes = (
            Change(kind, words, cycles, 0 if cycles is None else self.cycles - cycles, problem)
            for kind, words, cycles, problem in rows
        )
        return WhatIf(text, tuple(changes), skipped)

    def to_pandas(self, table: Table) -> DataFrame:
        """A table of the run as a ``pandas.DataFrame``; pandas comes with ``kpusim[plots]``.

        Parameters
        ----------
        table : {"ops", "stalls", "power", "events", "traffic", "banks"}
            A row for each operation; each stretch of time of a unit; each bin of power; each event; each
            request to a memory; each DRAM bank in each bin (with ``ddr.fidelity="burst"``).

        Raises
        ------
        UserError
            For another name, without pandas, and as of :attr:`events`.
        """
        return frame_of(self, table)

    def plot(self, kind: str = "units") -> Figure:
        """Return a figure of matplotlib, which notebooks show; matplotlib comes with ``kpusim[plots]``.

        Parameters
        ----------
        kind : {"units", "stalls", "timeline", "power", "roofline", "memory", "banks", "ops"}
            Where each unit's time went, by five kinds or by every cause (``stalls``); what each unit did
            when; power over time; operations under the roofs of the device; addresses over time; what each
            DRAM bank did (with ``ddr.fidelity="burst"``); the operations with most cycles.

        Raises
        ------
        UserError
            For another kind, without matplotlib, in functional mode, and without what is drawn.
        """
        return plots.figure_of(self, kind)

    def plot_stalls(self, axes: Axes | None = None) -> Axes:
        """Draw where each unit's time went, cause by cause, in % of the run; idle time is left out.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw, here and in the other ``plot_`` methods; without it in a new figure, the result's
            ``get_figure()``.

        Raises
        ------
        UserError
            Without matplotlib, and in functional mode; of all ``plot_`` methods.
        """
        return plots.draw_stalls(self, axes)

    def plot_timeline(self, axes: Axes | None = None, *, units: Iterable[str] = ()) -> Axes:
        """Draw what each unit did over core cycles, a row each, its cause as colour.

        Parameters
        ----------
        units : iterable of str, optional
            Patterns of the units to draw, such as ``e0_*``; none: all that did something.

        Raises
        ------
        UserError
            When no unit has such a name.
        """
        return plots.draw_timeline(self, axes, units)

    def plot_power(self, axes: Axes | None = None, *, by: str = "source") -> Axes:
        """Draw power over time, W over us, and the band of the energy table.

        Parameters
        ----------
        by : {"source", "component", "engine", "unit", "op"}
            What is stacked; the twelve largest, and the others together.

        Raises
        ------
        UserError
            For another word.
        """
        return plots.draw_power(self, axes, by)

    def plot_roofline(self, axes: Axes | None = None) -> Axes:
        """Draw operations per cycle against operations per byte of DRAM, L2 and L1.

        Each operation is a point for each level. Its size is the time in which the operation was under
        way; the three longest have their names.

        Raises
        ------
        UserError
            For a run without operations.
        """
        return plots.draw_roofline(self, axes)

    def plot_memory(self, axes: Axes | None = None, *, level: Level = "dram") -> Axes:
        """Draw which addresses of a level, in KiB, were read and written at which core cycle.

        Parameters
        ----------
        level : {"dram", "l2", "l1"}
            Of L1, those of all engines lie over each other.

        Raises
        ------
        UserError
            For another level.
        """
        return plots.draw_memory(self, axes, level)

    def plot_banks(self, axes: Axes | None = None, *, count: str = "bursts") -> Axes:
        """Draw what each DRAM bank did over time, us: a heat map, a row for each bank of each channel.

        Parameters
        ----------
        count : str
            ``bursts``, or a name of :attr:`kpusim.Banks.counts`.

        Raises
        ------
        UserError
            For another count, and for a DRAM without controllers: run with ``ddr.fidelity="burst"``.
        """
        return plots.draw_banks(self, axes, count)

    def _repr_html_(self) -> str:
        """Draw what notebooks show: time, energy, and where each unit's time went."""
        return page_of(self)

    def report(self, width: int = 100) -> str:
        """Report of the run as the command prints it: where time, bytes and energy went."""
        return self._current()._core.report(whole_number(width, "width", 1))

    def save(self, folder: StrPath, force: bool = False) -> None:
        """Write what ``kpusim run -o`` writes: statistics, operations, outputs, platform, manifest.

        Parameters
        ----------
        folder : str or path
            Is made; must be empty otherwise.
        force : bool
            Replace the files of an older run in it; no other file is touched.

        Raises
        ------
        UserError
            When the folder has content, cannot be written, or the simulation has moved on since this run.
        """
        self._current()._save(path_text(folder), bool(force))

    def __repr__(self) -> str:
        """Program, platform, time and energy."""
        where = f" on {self.platform}" if self.platform else ""
        parts = [f"{self.program}{where}, {self.mode}"]
        if self.mode != "functional":
            energy = self.stats.stat("energy.total_uj") if "energy.total_uj" in self.stats else "no energy"
            parts.append(f"{self.cycles:,} cycles, {energy}")
        if count := self.stats.get("hazards.count", 0):
            parts.append(f"{count:,} hazards")
        if not self.complete:
            parts.append("incomplete")
        return f"Run({', '.join(parts)})"

    def _current(self) -> Simulated:
        if self._generation != self._simulation._generation:
            raise UserError(
                "the simulation has run, stepped or been reset since this run. Fix: use the run before that, "
                "or make runs with kpusim.simulate."
            )
        return self._simulation
