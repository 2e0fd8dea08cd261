"""Waveforms as independent readers have them, and what they must hold by the recorded events.

A waveform is, for each signal, its changes: (time in ps, value). A text is a string, a number an int (None:
nothing known of it), a real a float.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pywellen
from test_traces import Record, read_events

Value = str | int | float | None
Waveform = dict[str, list[tuple[int, Value]]]
COMPONENTS = ("array", "vector", "l1", "l2", "noc", "dma", "ctrl")
COUNTERS = ("queue_depth", "tokens_in_flight")
IDLE, NO_TASK, BACKGROUND = "idle.no_work", 0xFFFFFFFF, 0xFFFFFFFF


def number(bits: str) -> int | None:
    """Convert binary digits."""
    return None if "x" in bits else int(bits, 2)


def read_vcd(text: str) -> Waveform:
    """Read a VCD by IEEE 1364, with the string variables of GTKWave; the last time is the signal `$end`."""
    names: dict[str, str] = {}
    scope: list[str] = []
    changes: Waveform = defaultdict(list)
    time = -1
    lines = iter(text.splitlines())
    for line in lines:
        words = line.split()
        if line.startswith("$scope"):
            scope.append(words[2])
        elif line.startswith("$upscope"):
            scope.pop()
        elif line.startswith("$var"):
            assert words[3] not in names, line
            names[words[3]] = ".".join([*scope, words[4]])
        elif line.startswith("$enddefinitions"):
            break
    for line in lines:
        if line.startswith("#"):
            assert int(line[1:]) > time, line
            time = int(line[1:])
        elif line[:1] in tuple("sbr"):
            value, code = line[1:].split()
            kinds = {"s": str, "b": number, "r": float}
            changes[names[code]].append((time, kinds[line[0]](value)))
        elif line[:1] in tuple("01x"):
            changes[names[line[1:].strip()]].append((time, number(line[0])))
    changes["$end"] = [(time, None)]
    return dict(changes)


def read_wellen(path: Path) -> Waveform:
    """Read a waveform with Surfer's reader."""
    waveform = pywellen.Waveform(str(path))
    variables = list(waveform.all_vars())
    kinds = {row.full_name: row for row in variables}
    names = {str(row.signal_id): row.full_name for row in variables}
    assert len(names) == len(variables)
    changes: Waveform = defaultdict(list)

    def change(time: int, signal: object, value: object) -> None:
        name = names[str(signal)]
        if kinds[name].is_bit_vector and isinstance(value, str):
            value = number(value)
        changes[name].append((time, value))

    waveform.stream_changes(change, variables)
    return dict(changes)


def read_fst2vcd(path: Path) -> Waveform:
    """Read a waveform as GTKWave's converter writes it as VCD."""
    done = subprocess.run(["fst2vcd", path], capture_output=True, text=True, check=True)
    return read_vcd(done.stdout)


class Run(NamedTuple):
    """A recording, by its event file."""

    info: dict
    records: list[Record]

    @classmethod
    def of(cls, path: Path) -> Run:
        """Read an event file."""
        return cls(*read_events(path))

    def causes(self, vcd: str) -> list[str]:
        """Their names, which a comment of the waveform lists."""
        row = next(line for line in vcd.splitlines() if line.startswith("$comment cause:"))
        return [word.split("=")[1] for word in row.split()[2:-1]]


def without_repeats(changes: list[tuple[int, Value]]) -> list[tuple[int, Value]]:
    """Return the last of several changes at one time; then those that change something."""
    last = dict(changes)
    kept: list[tuple[int, Value]] = []
    for time, value in sorted(last.items()):
        if not kept or kept[-1][1] != value:
            kept.append((time, value))
    return kept


def expected_states(run: Run, causes: list[str]) -> Waveform:
    """State, cause, task, operation, counters of every unit, from the records alone."""
    units = [f"kpusim.{unit['name']}" for unit in run.info["units"]]
    statements: dict[int, int] = {}
    found: Waveform = defaultdict(list)
    for unit in units:
        found[f"{unit}.state"], found[f"{unit}.cause"] = [(0, IDLE)], [(0, causes.index(IDLE))]
        found[f"{unit}.task"], found[f"{unit}.op"] = [(0, "-")], [(0, "-")]
        for counter in COUNTERS:
            found[f"{unit}.{counter}"] = [(0, 0)]
    end = run.info["end_ps"]
    for row in run.records:
        if row.kind == "issue":
            statements[row.task] = row.op
        if row.time >= max(end, 1) or row.kind not in ("cause", "counter"):
            continue
        unit = units[row.unit]
        if row.kind == "counter":
            if row.cause < len(COUNTERS):
                found[f"{unit}.{COUNTERS[row.cause]}"].append((row.time, row.value))
            continue
        state = causes[row.cause]
        found[f"{unit}.state"].append((row.time, state))
        found[f"{unit}.cause"].append((row.time, row.cause))
        found[f"{unit}.task"].append((row.time, task_text(run, statements.get(row.task))))
        ops = run.info["ops"]
        shown = state != IDLE and row.op < len(ops)
        found[f"{unit}.op"].append((row.time, word(ops[row.op]["id"]) if shown else "-"))
    return {name: without_repeats(changes) for name, changes in found.items()}


def word(text: str) -> str:
    """White space ends a text."""
    return "".join("_" if c <= " " or c == "\x7f" else c for c in text) or "-"


def task_text(run: Run, statement: int | None) -> str:
    """Name and tag."""
    if statement is None:
        return "-"
    row = run.info["statements"][statement]
    return word(f"{row['name']}@{row['profile']}" if row.get("profile") else row["name"])


def read_stats(text: str) -> dict[str, float]:
    """Read the statistics of `run --json`."""
    return {key: row["value"] for key, row in json.loads(text)["stats"].items()}


def time_in(changes: list[tuple[int, Value]], end: int) -> dict[Value, int]:
    """Return how long a signal has each value, ps."""
    lengths: dict[Value, int] = defaultdict(int)
    for (time, value), (following, _) in zip(changes, [*changes[1:], (end, None)], strict=True):
        lengths[value] += following - time
    return lengths


def check_agreement(vcd: Path, fst: Path, events: Path, stats: dict[str, float]) -> int:
    """VCD = FST = events = statistics; raises AssertionError. Returns how many changes were compared."""
    text = vcd.read_text()
    run, waveform = Run.of(events), read_vcd(text)
    end = waveform.pop("$end")[0][0]
    assert end == run.info["end_ps"], (end, run.info["end_ps"])
    for reader, other in (("wellen, FST", read_wellen(fst)), ("wellen, VCD", read_wellen(vcd)),
                          ("fst2vcd", read_fst2vcd(fst))):  # fmt: skip
        other.pop("$end", None)
        assert other.keys() == waveform.keys(), (reader, other.keys() ^ waveform.keys())
        for name, changes in waveform.items():
            expect_same(f"{name} by {reader}", changes, other[name], exact=reader != "fst2vcd")
    states = expected_states(run, run.causes(text))
    for name, changes in waveform.items():
        if name in states:
            expect_same(f"{name} by events", changes, states[name], exact=True)
    for component in COMPONENTS:
        name = f"kpusim.power.{component}.state"
        if name in waveform:
            lengths = time_in(waveform[name], end)
            on = lengths["active"] + lengths["idle"]
            assert abs(on / 1e6 - stats[f"power.residency.{component}.on_us"]) < 1e-9, name
            gated = lengths["gated"] / 1e6
            assert abs(gated - stats[f"power.residency.{component}.gated_us"]) < 1e-9, name
    return sum(len(changes) for changes in waveform.values())


def expect_same(
    what: str, one: list[tuple[int, Value]], other: list[tuple[int, Value]], *, exact: bool
) -> None:
    """The same changes; fst2vcd rounds reals to 16 digits."""
    if one == other:
        return
    for a, b in zip(one, other, strict=False):
        near = (
            not exact and isinstance(a[1], float) and a[0] == b[0] and abs(a[1] - b[1]) <= 1e-15 * abs(a[1])
        )
        assert a == b or near, f"{what}: {a} and {b}"
    assert len(one) == len(other), f"{what}: {len(one)} and {len(other)} changes"
