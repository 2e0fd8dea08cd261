"""What a run gives: outputs, statistics, operations, hazards, events, power."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.arrays import Array
from kpusim.errors import Diagnostic, Place, UserError
from kpusim.tables import OptionValue, given_options, trace_formats

if TYPE_CHECKING:
    from kpusim.simulation import Recorded, Simulation

StrPath = str | os.PathLike[str]
FloatArray = npt.NDArray[np.float64]


class Stat(NamedTuple):
    """One statistic.

    Attributes
    ----------
    value : int or float
        Never NaN or infinite.
    unit : str
        cycle, byte, uJ, W, ratio, count, us ...
    meaning : str
        One sentence.
    """

    value: int | float
    unit: str
    meaning: str

    def __str__(self) -> str:
        """Value and unit."""
        return f"{number_text(self.value)} {self.unit}"


class Stats(Mapping[str, int | float]):
    """Statistics of a run: dotted keys, sorted; every value has a unit and a meaning.

    ``stats["cycles.total"]`` is the number, ``stats.stat("cycles.total")`` has its unit and meaning,
    ``stats.under("units.e0_nmu0")`` are all keys below a prefix.
    """

    def __init__(self, core: _core.StatSet, prefix: str = "") -> None:
        self._core = core
        self._prefix = prefix

    def stat(self, key: str) -> Stat:
        """Value, unit and meaning of a key."""
        row = self._core.find(self._prefix + key)
        if row is None:
            raise KeyError(f"there is no statistic {self._prefix + key!r}; list(run.stats) has all keys")
        return Stat(*row)

    def unit(self, key: str) -> str:
        """Unit of a key."""
        return self.stat(key).unit

    def under(self, prefix: str) -> Stats:
        """The statistics whose keys start with ``prefix.``, under what follows it."""
        return Stats(self._core, f"{self._prefix}{prefix}.")

    def __getitem__(self, key: str) -> int | float:
        """Value of a key."""
        return self.stat(key).value

    def __iter__(self) -> Iterator[str]:
        """Keys, sorted."""
        return (key[len(self._prefix) :] for key in self._core.keys(self._prefix))

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._core.keys(self._prefix))

    def __repr__(self) -> str:
        """A table of the statistics that are not zero; causes of units are left out of long ones."""
        shown = {key: self.stat(key) for key in self if self[key]}
        if len(shown) > 60:
            shown = {key: stat for key, stat in shown.items() if not key.startswith("units.")}
        width = max((len(key) for key in shown), default=0)
        lines = [f"  {key:{width}}  {stat}" for key, stat in shown.items()]
        return "\n".join([f"Stats: {len(self)} keys, not zero are", *lines])


def number_text(value: int | float) -> str:
    """A number for people."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


@dataclass(frozen=True)
class OpRow:
    """What an operation of the front end cost; a row of ``ops.csv``.

    Attributes
    ----------
    id, type : str
        Operation, or task of a hand-written program; ``__background`` is work of none.
    span_cycles : int
        First issue to last completion, core cycles; spans may overlap.
    charged_cycles : int
        Cycles charged to it alone: over all rows they sum to ``cycles.total``.
    causes : dict
        Unit-cycles by cause, ``busy.useful`` and the like.
    macs, bytes_dram, bytes_l2, bytes_l1 : int
        Multiply-accumulates; bytes read and written at each level.
    utilization : float
        Useful cycles over busy cycles of its MACs.
    energy_pj : float
        Dynamic energy in pJ; NaN where ``stats`` has ``energy.not_modelled``, whose meaning says why.
    estimated_cycles, estimated_energy_pj : int, float
        What the compiler thought; 0 when it did not say.
    profile : str
        ``@profile`` tags of its tasks, joined by ``|``.
    bound, bound_cycles : str, int
        The resource that bounds it, by the compiler, and the cycles that it takes at least; else empty and 0.
    fused_into : str
        The operation that does this one's work too, so that all numbers here are 0; else empty.
    """

    id: str
    type: str
    span_cycles: int
    charged_cycles: int
    causes: dict[str, int]
    macs: int
    bytes_dram: int
    bytes_l2: int
    bytes_l1: int
    utilization: float
    energy_pj: float
    estimated_cycles: int
    estimated_energy_pj: float
    profile: str
    bound: str
    bound_cycles: int
    fused_into: str

    def __repr__(self) -> str:
        """Name, cycles and energy."""
        return (
            f"OpRow({self.id!r}, {self.type!r}, charged {self.charged_cycles:,} cycles, "
            f"{self.macs:,} MACs, {self.energy_pj:.6g} pJ)"
        )


@dataclass(frozen=True)
class Hazard:
    """Races of one kind between two statements, or reads of bytes that nobody wrote.

    Attributes
    ----------
    kind : str
        ``raw``, ``war``, ``waw``, ``stale`` or ``unwritten``.
    task, other_task : str
        The later task and the earlier one, with iterations; the latter is empty when there is none.
    place, other_place : tuple
        (file, line, column) of both.
    buffer, level, engine : str, str, int
        Where the bytes are.
    first, last : int
        Common bytes of the first occurrence, from the start of the buffer, both inclusive.
    count : int
        Occurrences.
    benign : int
        Of them, rewrites of the bytes that were there already.
    message : str
        All of it in a line.
    """

    kind: str
    task: str
    other_task: str
    place: Place
    other_place: Place
    buffer: str
    level: str
    engine: int
    first: int
    last: int
    count: int
    benign: int
    message: str

    def __str__(self) -> str:
        """The message."""
        return self.message


class Intervals:
    """Every stretch of time in which the state of a unit did not change: the stall trace, as columns.

    Over a unit the cycles sum to ``cycles.total``, and those of a cause to ``units.<unit>.<cause>``.

    Attributes
    ----------
    unit, cause : list of str
        Which unit, and ``group.cause``.
    start_ps, end_ps, cycles : ndarray of uint64, shape (n,)
        Picoseconds from the start of the run, and core cycles.
    task, iteration, operation, blamed : list of str
        What it executes or waits for, and the unit or task that is waited for.
    """

    def __init__(self, recording: _core.Recording) -> None:
        columns = recording.intervals()
        units, causes = recording.units(), _core.cause_names()
        self.unit = [units[index] for index in columns["unit"]]
        self.cause = [causes[index] for index in columns["cause"]]
        self.start_ps: npt.NDArray[np.uint64] = columns["start_ps"]
        self.end_ps: npt.NDArray[np.uint64] = columns["end_ps"]
        self.cycles: npt.NDArray[np.uint64] = columns["cycles"]
        self.task: list[str] = columns["task"]
        self.iteration: list[str] = columns["iteration"]
        self.operation: list[str] = columns["operation"]
        self.blamed: list[str] = columns["blamed"]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.unit)

    def __repr__(self) -> str:
        """Number of rows."""
        return f"Intervals({len(self)} rows)"


class Events:
    """The event stream of a run, which every trace is written from."""

    def __init__(self, recording: _core.Recording) -> None:
        self._recording = recording

    @classmethod
    def load(cls, path: StrPath) -> Events:
        """Read an event file (``.kpuev``)."""
        return cls(_core.read_event_file(os.fspath(path)))

    @property
    def records(self) -> Array:
        """The records: structured, read-only, without a copy.

        Fields: time_ps, value, task, op, unit, kind, cause, reserved (docs/python.md).
        """
        return self._recording.records()

    @property
    def units(self) -> list[str]:
        """Names of units by their number in the records."""
        return self._recording.units()

    @property
    def operations(self) -> list[str]:
        """Names of operations by their number in the records."""
        return self._recording.ops()

    @cached_property
    def intervals(self) -> Intervals:
        """What every unit did when, and why."""
        return Intervals(self._recording)

    def power(self, bin_ns: float | None = None) -> Power:
        """Power over time, in bins of another width than the platform's."""
        if bin_ns is not None and not bin_ns > 0:
            raise UserError(f"bins of {bin_ns} ns have no width. Fix: give a positive number.")
        return Power(self._recording.power(bin_ns))

    def save(self, path: StrPath) -> None:
        """Write an event file: ``kpusim export`` and :meth:`load` read it."""
        self._recording.write_events(os.fspath(path))

    @property
    def has_accesses(self) -> bool:
        """Whether requests to memories were recorded, which the memory trace shows."""
        return self._recording.accesses()

    def write_trace(
        self,
        name: str,
        path: StrPath,
        *,
        window: tuple[int | None, int | None] | None = None,
        units: Iterable[str] = (),
        **options: OptionValue,
    ) -> None:
        """Write a trace, the same bytes as ``kpusim run`` and ``kpusim export``.

        Parameters
        ----------
        name : str
            ``vcd``, ``perfetto``, ``konata``, ``stalls``, ``power``, ``memory-trace``
            (:func:`kpusim.trace_formats` has all of them, and their options).
        path : str or path
            The file to write.
        window : tuple of int or None, optional
            First core cycle and the one after the last; None: from the start, to the end.
        units : iterable of str, optional
            Patterns of the units to show, such as ``e0_*``; none: all of them.
        **options
            Options of the kind of trace.

        Raises
        ------
        UserError
            For a name, window, pattern or value that is none; for a memory trace without recorded requests.
        """
        formats = trace_formats()
        known = next((row for row in formats if row.name == name), None)
        given = [] if known is None else given_options(options, known.options, f"trace {name!r}")
        first, last = window if window is not None else (None, None)
        text = "" if first is None and last is None else f"{cycle_text(first)}:{cycle_text(last)}"
        self._recording.write_trace(name, os.fspath(path), text, list(units), given)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.records)

    def __repr__(self) -> str:
        """Number of records and units."""
        return f"Events({len(self):,} records, {len(self.units)} units)"


def cycle_text(cycle: int | None) -> str:
    """A cycle of a window as the command takes it."""
    return "" if cycle is None else str(cycle)


class Power:
    """Mean power over time, by where it goes.

    Attributes
    ----------
    time_ns, dt_ns : ndarray of float64, shape (n,)
        Start and width of each bin; the last may be shorter.
    watts : dict of ndarray, each (n,)
        Mean power of each source: array, vector, l1, l2, noc, dma, ctrl, dram_dyn, dram_bg, phy_dyn,
        phy_static, static.
    total : ndarray, shape (n,)
        Their sum, W.
    op : list of str
        Operation with most dynamic energy in each bin.
    """

    def __init__(self, columns: dict[str, FloatArray]) -> None:
        rest = dict(columns)
        self.time_ns = rest.pop("time_ns")
        self.dt_ns = rest.pop("dt_ns")
        self.total = rest.pop("total")
        self.op: list[str] = list(rest.pop("op"))
        self.watts: dict[str, FloatArray] = rest

    @property
    def energy_uj(self) -> float:
        """Energy of the run: the sum of power times width, uJ."""
        return float(self.total @ self.dt_ns) * 1e-3

    @property
    def average_w(self) -> float:
        """Mean power, W; 0 for a run without time."""
        time = float(self.dt_ns.sum())
        return self.energy_uj * 1e3 / time if time else 0.0

    @property
    def peak_w(self) -> float:
        """Largest mean power of a bin, W; 0 for a run without time."""
        return float(self.total.max(initial=0.0))

    def __len__(self) -> int:
        """How many bins there are."""
        return len(self.total)

    def __repr__(self) -> str:
        """Average, peak and energy."""
        watts = f"average {self.average_w:.4g} W, peak {self.peak_w:.4g} W"
        return f"Power({len(self)} bins, {watts}, {self.energy_uj:.4g} uJ)"


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

    def __init__(self, simulation: Simulation, replay: Callable[[Recorded], Simulation] | None) -> None:
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

    def write_trace(
        self,
        name: str,
        path: StrPath,
        *,
        window: tuple[int | None, int | None] | None = None,
        units: Iterable[str] = (),
        **options: OptionValue,
    ) -> None:
        """Write a trace of the run; what it needs and was not recorded is simulated again.

        Parameters, exceptions: as of :meth:`Events.write_trace` and :attr:`events`.
        """
        needs_accesses = any(row.name == name and row.needs_accesses for row in trace_formats())
        if needs_accesses and self.mode != "functional":
            if self._events is None or not self._events.has_accesses:
                self._events = self._recorded("accesses")
        self.events.write_trace(name, path, window=window, units=units, **options)

    @cached_property
    def power(self) -> Power:
        """Power over time, from the events, in bins of the platform's ``energy.trace_bin_ns``."""
        return self.events.power()

    def report(self, width: int = 100) -> str:
        """Report of the run as the command prints it: where time, bytes and energy went."""
        return self._current()._core.report(width)

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
        self._current()._save(os.fspath(folder), force)

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

    def _current(self) -> Simulation:
        if self._generation != self._simulation._generation:
            raise UserError(
                "the simulation has run, stepped or been reset since this run. Fix: use the run before that, "
                "or make runs with kpusim.simulate."
            )
        return self._simulation
