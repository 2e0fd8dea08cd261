"""Traffic to the memories: requests, and the banks of DRAM over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.base.arguments import number
from kpusim.base.extras import extra
from kpusim.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

Counts = npt.NDArray[np.uint64]
Level = Literal["dram", "l2", "l1"]
Access = Literal["read", "write"]

#: Levels by their number in addresses, and directions.
LEVELS = ("dram", "l2", "l1")
ACCESSES = ("read", "write")
#: Columns of :attr:`Banks.counts`.
COUNTS = ("reads", "writes", "row_hits", "row_misses", "row_conflicts", "activates", "turn_arounds")
_END, _ACCESS = 4, 12  # kinds of records (traces/event.hpp)


@dataclass(frozen=True)
class BankStream:
    """Work of DRAM for one unit and task.

    Attributes
    ----------
    unit, task, operation : str
        Who asked.
    counts : dict of int
        By the names of :attr:`Banks.counts`.
    """

    unit: str
    task: str
    operation: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Banks:
    """Use of the banks of each DRAM channel over time.

    ``row_hits + row_misses + row_conflicts = reads + writes``, the bursts.

    Attributes
    ----------
    time_ns, dt_ns : ndarray of float64 with shape (n,); float
        Start of each bin, and the width of all of them. Posted writes may come after the end of the run.
    channels : tuple of str
        Names of the c channels, ``ddr0`` ...
    counts : dict of ndarray of uint64, each with shape (n, c, b)
        Of each bank in each bin: bursts (``reads``, ``writes``); of them ``row_hits``, ``row_misses``,
        ``row_conflicts`` and ``turn_arounds`` of the bus; and ``activates``.
    streams : tuple of BankStream
        For whom, most bursts first.
    """

    time_ns: npt.NDArray[np.float64]
    dt_ns: float
    channels: tuple[str, ...]
    counts: dict[str, Counts]
    streams: tuple[BankStream, ...]

    @property
    def row_hit_rate(self) -> float:
        """Share of row hits among all bursts; 0 without bursts."""
        bursts = int(self.counts["reads"].sum() + self.counts["writes"].sum())
        return int(self.counts["row_hits"].sum()) / bursts if bursts else 0.0

    def to_pandas(self) -> DataFrame:
        """A row for each bank in each bin in which it did something: the columns of ``--dram-traffic``.

        Raises
        ------
        MissingPackageError
            Without pandas.
        """
        did = (self.counts["reads"] + self.counts["writes"] + self.counts["activates"]) > 0
        bins, channels, banks = np.nonzero(did)
        columns: dict[str, Any] = {"time_ns": self.time_ns[bins], "dt_ns": np.full(len(bins), self.dt_ns)}
        columns["channel"] = np.array(self.channels, dtype=object)[channels]
        columns["bank"] = banks
        columns |= {name: self.counts[name][did] for name in COUNTS}
        return extra("pandas", "to_pandas").DataFrame(columns)

    def __repr__(self) -> str:
        """Shape and row hits."""
        shape = " x ".join(str(size) for size in self.counts["reads"].shape)
        return f"Banks({shape} bins, channels, banks, {self.row_hit_rate:.1%} row hits)"


class Traffic:
    """Requests of units to memories, in order of time: the memory trace as columns.

    Requests of tasks that did not complete are left out, so that bytes sum to the statistics.

    Attributes
    ----------
    cycle : ndarray of uint64, shape (n,)
        Core cycle at which the request comes to the memory.
    access, level : ndarray of uint8, each (n,)
        Indices into ``ACCESSES`` (read, write) and ``LEVELS`` (dram, l2, l1).
    engine : ndarray of uint16, shape (n,)
        Of an L1; 0 elsewhere.
    address, bytes : ndarray of uint64, each (n,)
        Of the first byte in its level; how many follow from there.
    unit : ndarray of uint16, shape (n,)
        Who asks: index into ``units``.
    task : ndarray of uint32, shape (n,)
        Number of the task instance, as in ``run.events.records``.
    units : list of str
        Names.
    """

    def __init__(self, recording: _core.Recording) -> None:
        self._recording = recording
        records = recording.records()
        ended = np.unique(records["task"][records["kind"] == _END])
        rows = records[(records["kind"] == _ACCESS) & np.isin(records["task"], ended)]
        order = np.lexsort((rows["value"], rows["cause"], rows["task"], rows["unit"], rows["time_ps"]))
        rows = rows[order]
        bus = rows["value"].astype(np.uint64)
        self.time_ps: Counts = rows["time_ps"].copy()
        self.cycle: Counts = recording.cycles_of(self.time_ps)
        self.access: npt.NDArray[np.uint8] = rows["cause"].copy()
        self.level: npt.NDArray[np.uint8] = (bus >> np.uint64(56)).astype(np.uint8)
        self.engine: npt.NDArray[np.uint16] = (bus >> np.uint64(40)).astype(np.uint16)
        self.engine[self.level != LEVELS.index("l1")] = 0
        self.address: Counts = bus & np.uint64((1 << 40) - 1)
        self.bytes: Counts = rows["reserved"].astype(np.uint64)
        self.unit: npt.NDArray[np.uint16] = rows["unit"].copy()
        self.task: npt.NDArray[np.uint32] = rows["task"].copy()
        self.units = recording.units()

    def of(self, level: Level, access: Access) -> npt.NDArray[np.bool_]:
        """Return which requests go to a level in a direction, shape (n,).

        Raises
        ------
        UserError
            For a level or direction that is none.
        """
        for value, known, what in ((level, LEVELS, "level"), (access, ACCESSES, "access")):
            if not isinstance(value, str) or value not in known:
                raise UserError(f"there is no {what} {value!r}. Fix: give one of {', '.join(known)}.")
        chosen: npt.NDArray[np.bool_] = (self.level == LEVELS.index(level)) & (
            self.access == ACCESSES.index(access)
        )
        return chosen

    def bytes_of(self, level: Level, access: Access) -> int:
        """Bytes of a level and direction, the statistic ``bytes.<level>.<access>``; errors as of `of`."""
        return int(self.bytes[self.of(level, access)].sum())

    def over_time(self, level: Level, access: Access, bin_ns: float = 1000.0) -> Counts:
        """Return the bytes asked for in each bin of so many nanoseconds from 0 on, shape (bins,).

        Raises
        ------
        UserError
            As of :meth:`of`, and for bins without width.
        """
        width = number(bin_ns, "bin_ns") * 1000
        if not width >= 1:
            raise UserError(f"bins of {bin_ns} ns are too narrow. Fix: give 0.001 or more.")
        chosen = self.of(level, access)
        bins = np.floor(self.time_ps / width).astype(np.intp)
        count = int(bins.max()) + 1 if len(bins) else 0
        sums = np.zeros(count, dtype=np.uint64)
        np.add.at(sums, bins[chosen], self.bytes[chosen])
        return sums

    @cached_property
    def banks(self) -> Banks:
        """Use of each bank of DRAM, in bins of the platform's ``energy.trace_bin_ns``.

        Raises
        ------
        UserError
            For a DRAM without controllers: run with ``ddr.fidelity="burst"``.
        """
        time_ns, dt_ns, channels, counts, streams = self._recording.bank_traffic()
        return Banks(
            time_ns,
            dt_ns,
            tuple(channels),
            dict(zip(COUNTS, counts, strict=True)),
            tuple(
                BankStream(unit, task, op, dict(zip(COUNTS, sums, strict=True)))
                for unit, task, op, sums in streams
            ),
        )

    def to_pandas(self) -> DataFrame:
        """Return a row for each request, with names for numbers.

        Raises
        ------
        MissingPackageError
            Without pandas.
        """
        return extra("pandas", "to_pandas").DataFrame(
            {
                "cycle": self.cycle,
                "access": np.array(ACCESSES, dtype=object)[self.access],
                "level": np.array(LEVELS, dtype=object)[self.level],
                "engine": self.engine,
                "address": self.address,
                "bytes": self.bytes,
                "unit": np.array(self.units, dtype=object)[self.unit],
                "task": self.task,
            }
        )

    def __len__(self) -> int:
        """Count the requests."""
        return len(self.cycle)

    def __repr__(self) -> str:
        """Requests and bytes of DRAM."""
        read, written = self.bytes_of("dram", "read"), self.bytes_of("dram", "write")
        return f"Traffic({len(self):,} requests, DRAM {read:,} bytes read, {written:,} written)"
