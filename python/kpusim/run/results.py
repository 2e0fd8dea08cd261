"""Results of a run: outputs, statistics, operations, hazards, events, power."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kpusim import _core
from kpusim.base.arguments import number, path_text, plain_text, whole_number
from kpusim.base.arrays import Array
from kpusim.base.tables import OptionValue, given_options, trace_formats
from kpusim.errors import ArgumentError, Place, UnknownNameError, UserError
from kpusim.run.power import Power
from kpusim.run.timeline import Intervals, Timeline
from kpusim.run.traffic import Traffic

StrPath = str | os.PathLike[str]


class Stat(NamedTuple):
    """A statistic.

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
            raise UnknownNameError(
                f"there is no statistic {self._prefix + key!r}. Fix: list(run.stats) has all keys."
            )
        return Stat(*row)

    def unit(self, key: str) -> str:
        """Unit of a key."""
        return self.stat(key).unit

    def under(self, prefix: str) -> Stats:
        """Return the statistics whose keys start with ``prefix.``, under what follows it."""
        return Stats(self._core, f"{self._prefix}{prefix}.")

    def __getitem__(self, key: str) -> int | float:
        """Value of a key."""
        return self.stat(key).value

    def __iter__(self) -> Iterator[str]:
        """Keys, sorted."""
        return (key[len(self._prefix) :] for key in self._core.keys(self._prefix))

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._core.keys(self._prefix))

    def __repr__(self) -> str:
        """Return a table of the statistics that are not zero; causes of units are left out of long ones."""
        shown = {key: self.stat(key) for key in self if self[key]}
        if len(shown) > 60:
            shown = {key: stat for key, stat in shown.items() if not key.startswith("units.")}
        width = max((len(key) for key in shown), default=0)
        lines = [f"  {key:{width}}  {stat}" for key, stat in shown.items()]
        return "\n".join([f"Stats: {len(self)} keys, not zero are", *lines])


def number_text(value: int | float) -> str:
    """Return a number for people."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


@dataclass(frozen=True)
class OpRow:
    """Costs of an operation of the front end; a row of ``ops.csv``.

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
    precision : str
        Element type that it computes in, by the compiler; else empty.
    out_of_range : int or None
        Results that left the range of their type: overflowed, or saturated at an end of it; None in a run
        without values. In functional mode the rows have it too, with times, work and bytes of 0.
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
    precision: str
    out_of_range: int | None

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
        ``raw``, ``war``, ``waw``, ``stale``, ``unwritten`` or ``kernel``.
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
        """Return the message."""
        return self.message


@dataclass(frozen=True)
class Explanation:
    """Explanation of a run's cycles.

    Attributes
    ----------
    text : str
        For people, as ``kpusim explain`` prints it.
    data : dict
        Of a whole run all tables (docs/explain.md has the fields); empty for one operation or task.
    """

    text: str
    data: dict[str, Any]

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Change:
    """A change of a run, and what it would come to.

    Attributes
    ----------
    kind : str
        ``resource``, ``window``, ``slots`` or ``parameter``.
    words : str
        What is changed: ``DRAM 2 times faster``.
    cycles : int or None
        That the run would take; None where ``problem`` says why the change does not hold.
    saved : int
        Cycles fewer than the run took; negative when it would take more; 0 without ``cycles``.
    problem : str
        Empty when there is none.
    """

    kind: str
    words: str
    cycles: int | None
    saved: int
    problem: str


@dataclass(frozen=True)
class WhatIf:
    """Savings by changes, found by simulation.

    Attributes
    ----------
    text : str
        For people, as ``kpusim explain`` prints it.
    changes : tuple of Change
        Most cycles saved first.
    skipped : str
        Why nothing was simulated; empty when it was.
    """

    text: str
    changes: tuple[Change, ...]
    skipped: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class Events:
    """The event stream of a run, which every trace is written from."""

    def __init__(self, recording: _core.Recording) -> None:
        self._recording = recording

    @classmethod
    def load(cls, path: StrPath) -> Events:
        """Read an event file (``.kpuev``)."""
        return cls(_core.read_event_file(path_text(path)))

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
        """States of every unit over time, and their causes."""
        return Intervals(self._recording)

    @cached_property
    def timeline(self) -> Timeline:
        """The same as arrays."""
        return Timeline(self.intervals, self.units, 1e12 / self._recording.core_hz())

    @cached_property
    def traffic(self) -> Traffic:
        """Requests to memories, as arrays.

        Raises
        ------
        UserError
            When requests were not recorded.
        """
        if not self.has_accesses:
            raise UserError("requests to memories were not recorded. Fix: run with events='accesses'.")
        return Traffic(self._recording)

    def power(self, bin_ns: float | None = None) -> Power:
        """Power over time, in bins of another width than the platform's.

        Raises
        ------
        UserError
            For bins without width, or shorter than a core cycle.
        """
        if bin_ns is not None and not number(bin_ns, "bin_ns") > 0:
            raise UserError(f"bins of {bin_ns} ns have no width. Fix: give a positive number.")
        return Power(self._recording, bin_ns)

    def explain(self, name: str | None = None) -> Explanation:
        """Explain why the run took its cycles: of the whole run, of an operation or a task by its name.

        Raises
        ------
        UserError
            For a name that the run does not have.
        """
        text = self._recording.explain("" if name is None else plain_text(name, "name"))
        return Explanation(text, {} if name else json.loads(self._recording.explain_data()))

    def save(self, path: StrPath) -> None:
        """Write an event file: ``kpusim export`` and :meth:`load` read it."""
        self._recording.write_events(path_text(path))

    @property
    def has_accesses(self) -> bool:
        """Return whether requests to memories were recorded, which the memory trace shows."""
        return self._recording.accesses()

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
        """Write a trace, the same bytes as ``kpusim run`` and ``kpusim export``.

        Parameters
        ----------
        name : str
            ``vcd``, ``fst``, ``perfetto``, ``konata``, ``stalls``, ``power``, ``flp``, ``ptrace``,
            ``memory-trace``, ``dram-traffic``, ``dram-page``
            (:func:`kpusim.trace_formats` has all of them, and their options).
        path : str or path
            The file to write.
        window : tuple of int or None, optional
            First core cycle and the one after the last; None: from the start, to the end.
        units : iterable of str, optional
            Patterns of the units to show, such as ``e0_*``; none: all of them.
        causes, ops : iterable of str, optional
            Patterns of the causes and of the operations to show, such as ``stalled.*``; none: all of them.
        every : str, optional
            A time, such as ``1us``: of each interval so long the state that held longest, and means of power.
        viewer_files : bool
            Of a waveform: what GTKWave (``.gtkw``, ``.causes``) and Surfer (``.sucl``) open it by, beside it.
        **options
            Options of the kind of trace.

        Raises
        ------
        UserError
            For a name, window, pattern, time or value that is none; for what that kind of trace cannot show;
            for a memory trace without recorded requests.
        """
        formats = trace_formats()
        plain_text(name, "name")
        known = next((row for row in formats if row.name == name), None)
        given = [] if known is None else given_options(options, known.options, f"trace {name!r}")
        if window is not None and (not isinstance(window, tuple) or len(window) != 2):
            raise ArgumentError(
                f"window={window!r} is not valid. Fix: give (first, last), either may be None."
            )
        first, last = window if window is not None else (None, None)
        for cycle in (first, last):
            if cycle is not None:
                whole_number(cycle, "a cycle of window", 0)
        if first is not None and last is not None and first >= last:
            raise ArgumentError(f"window={window!r} ends before it begins. Fix: give a first that is less.")
        text = "" if first is None and last is None else f"{cycle_text(first)}:{cycle_text(last)}"
        self._recording.write_trace(
            name,
            path_text(path),
            text,
            list(units),
            list(causes),
            list(ops),
            plain_text(every, "every"),
            viewer_files,
            given,
        )

    def __len__(self) -> int:
        """Count the records."""
        return len(self.records)

    def __repr__(self) -> str:
        """Number of records and units."""
        return f"Events({len(self):,} records, {len(self.units)} units)"


def cycle_text(cycle: int | None) -> str:
    """Return a cycle of a window as the command takes it."""
    return "" if cycle is None else str(cycle)
