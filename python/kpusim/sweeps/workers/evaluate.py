"""Evaluation of a point: a program on a design, compiled and simulated. What points share is made once."""

from __future__ import annotations

import re
import shlex
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kpusim import _core
from kpusim.errors import HazardWarning, KpusimError, UserError
from kpusim.platform import OverrideValue, Platform, text_of
from kpusim.program.program import Program
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.running import simulate
from kpusim.sweeps.options import Options, arguments_of, key_of, words_of

How = Literal["simulate", "estimate"]
KEPT = 16  #: programs that a worker keeps, each with its network in the types of the device
_UNIT = re.compile(r"units\.(?:e\d+_)?(l1|l2|[a-z_]+?)\d*\.(.+)")
_AREA_OF_UNIT = re.compile(r"area\.(?!total_|low_|high_)\w+_mm2")
#: Statistics of a run at the low and high corner of the energy table.
BAND = ("energy.low_uj", "energy.high_uj", "power.low_w", "power.high_w")
_LEFT_OUT = ("busy.", "units.", "power.bin_us")  #: one column for each unit: another device has others


@dataclass(frozen=True)
class Task:
    """Input of a worker.

    Attributes
    ----------
    number : int
        Of the point.
    how : str
        Whether it is simulated, or only predicted.
    program : str
        Path of its file.
    platform : str
        A shipped name, or the path of a file.
    sets, options, params : mapping
        Parameters of the platform, options of the front end, parameters of the program.
    mode, inputs : str
        Of the run.
    retarget : bool
        Take a program that was compiled for another device.
    """

    number: int
    how: How
    program: str
    platform: str
    sets: Mapping[str, OverrideValue]
    options: Options
    params: Mapping[str, int]
    mode: str
    inputs: str
    retarget: bool = False

    def command(self) -> str:
        """Return the command that runs it alone."""
        words = ["kpusim", "run", self.program, "--platform", self.platform]
        for name, value in self.sets.items():
            words += ["--set", f"{name}={text_of(value)}"]
        words += words_of(self.options)
        for name, value in self.params.items():
            words += ["--param", f"{name}={value}"]
        words += ["--mode", self.mode, *(["--retarget"] if self.retarget else [])]
        return shlex.join([*words, "--fill", self.inputs] if self.mode != "timing" else words)

    def run(self, *, events: bool) -> Run:
        """Run it alone, with its data."""
        platform = Platform.load(self.platform).with_(**self.sets)
        program = Program.load(self.program, (), platform=platform, **arguments_of(self.options))
        return run_of(self, program, platform, events=events)


@dataclass
class Outcome:
    """Outcome of a task.

    Attributes
    ----------
    values : dict
        Statistics by key; empty of a point that failed.
    error : str
        Why it failed; empty otherwise.
    host : dict
        Seconds that it took, by phase.
    """

    number: int
    how: How
    values: dict[str, float] = field(default_factory=dict)
    error: str = ""
    host: dict[str, float] = field(default_factory=dict)


class Evaluator:
    """Evaluates points one after the other."""

    def __init__(self) -> None:
        self._programs: OrderedDict[object, Program] = OrderedDict()
        self._platforms: dict[str, Platform] = {}
        self._changed: OrderedDict[object, Platform] = OrderedDict()  # programs of a design come one by one
        self._last: tuple[object, Program] | None = None

    def __call__(self, task: Task) -> Outcome:
        """Evaluate one; mistakes and failures become its error."""
        outcome = Outcome(task.number, task.how)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HazardWarning)
                self._evaluate(task, outcome)
        except KpusimError as error:
            text = str(error).strip() or type(error).__name__
            outcome.error = text.replace(task.program, Path(task.program).name)  # wherever the file is
            outcome.values = {}
        return outcome

    def _evaluate(self, task: Task, outcome: Outcome) -> None:
        begun = time.perf_counter()
        platform = self._platform(task)
        known = len(self._programs)
        program = self._program(task, platform)
        loaded = time.perf_counter()
        # the first time it is read, a network calibrated and quantized
        outcome.host["import_s" if len(self._programs) > known else "compile_s"] = round(loaded - begun, 6)
        if task.how == "estimate":
            outcome.values = estimated(program, platform)
            return
        outcome.values = simulated(task, program, platform)
        outcome.host["simulate_s"] = round(time.perf_counter() - loaded, 6)

    def _platform(self, task: Task) -> Platform:
        base = self._platforms.get(task.platform)
        if base is None:
            base = self._platforms[task.platform] = Platform.load(task.platform)
        if not task.sets:
            return base
        key = (task.platform, *task.sets.items())
        changed = self._changed.get(key)
        if changed is None:
            changed = self._changed[key] = base.with_(**task.sets)
            if len(self._changed) > KEPT:
                self._changed.popitem(last=False)
        return changed

    def _program(self, task: Task, platform: Platform) -> Program:
        """Return the program for a platform: compiled again only where that may change it."""
        source = (task.program, task.mode, key_of(task.options))
        made_for = (source, without_energy(platform.text()))
        if self._last is not None and self._last[0] == made_for:
            return self._last[1].taken_for(platform)
        base = self._programs.get(source)
        if base is None:
            options = arguments_of(task.options)
            if task.mode == "timing":
                program = Program._of_time(task.program, platform, options)
            else:
                program = Program.load(task.program, (), platform=platform, **options)
            self._programs[source] = program
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        else:
            self._programs.move_to_end(source)
            program = base.made_for(platform)
        own = program.platform() if program.for_device else None
        # a front end that changed the platform decides by all of it
        self._last = (made_for, program) if own is None or own == platform else None
        return program


def without_energy(text: str) -> str:
    """Return a platform's text without what only prices its actions: programs do not depend on it."""
    return re.sub(r"(?m)^energy \{\n(?:  .*\n)*\}\n", "", text)


def estimated(program: Program, platform: Platform) -> dict[str, float]:
    """Return what the compiler predicts of a program."""
    said = _core.describe(program._core)
    cycles = said["estimated_total_cycles"]
    if not cycles:
        raise UserError(
            f"{program.origin}: the compiler predicts networks, and this is not one. Fix: use fidelity: "
            f"simulate."
        )
    time_us = cycles / platform.core_mhz
    values = {"cycles.total": cycles, "time.total_us": time_us}
    if energy := said["estimated_total_energy_uj"]:
        values |= {"energy.total_uj": energy, "power.average_w": energy / time_us}
    return values | {
        key: value
        for key, _, _, value in platform._core.stats()
        if key.startswith("area.") and is_column(key)
    }


def run_of(task: Task, program: Program, platform: Platform, *, events: bool = False) -> Run:
    """A run of the task's program."""
    mode: Mode = "values+timing" if task.mode == "values+timing" else "timing"
    fill: Literal["zeros"] | int | None = None
    if mode == "values+timing":
        fill = "zeros" if task.inputs == "zeros" else int(task.inputs.partition(":")[2])
    device = None if program.for_device else platform  # its own has the changes that it needs
    return simulate(
        program, device, mode=mode, fill=fill, params=dict(task.params), retarget=task.retarget, events=events
    )


def simulated(task: Task, program: Program, platform: Platform) -> dict[str, float]:
    """The statistics of a run."""
    run = run_of(task, program, platform)
    values = columns(run.stats.items())
    if band := platform._core.energy_band(run.stats._core):
        values |= dict(zip(BAND, band, strict=True))
    if predicted := _core.describe(program._core)["estimated_total_cycles"]:
        values["predicted.cycles"] = predicted
    return values


def is_column(key: str) -> bool:
    """Return whether a statistic has a column: those of each unit differ between devices."""
    return not key.startswith(_LEFT_OUT) and _AREA_OF_UNIT.fullmatch(key) is None


def columns(stats: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Statistics as columns: what each unit did is summed up over units of a kind, by cause."""
    values: dict[str, float] = {}
    for key, value in stats:
        if is_column(key):
            values[key] = value
        elif value and (match := _UNIT.fullmatch(key)):
            name = f"causes.{match[1]}.{match[2]}"
            values[name] = values.get(name, 0) + value
    return values
