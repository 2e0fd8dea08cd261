"""Simulations: one program on one device, run at once or step by step."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy.typing as npt

from kpusim import _core
from kpusim.base.arguments import plain_text
from kpusim.base.arrays import Array, host_array
from kpusim.base.progress import Progress, progress_of, timeout_seconds
from kpusim.errors import ArgumentError, Diagnostic, HazardWarning, SimulationError, UserError
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath
from kpusim.run.results import Stats
from kpusim.run.run import Run
from kpusim.run.view import Mode, Recorded
from kpusim.simulation.backend import Adapter
from kpusim.simulation.options import (
    Keyword,
    SimulationOptions,
    input_digest,
    is_count,
    options_of,
    ordered_loop_values,
    program_and_platform,
    with_keywords,
)
from kpusim.simulation.state import CompletedTask, State, TaskStatus, TensorSpec

Status = Literal["finished", "paused", "deadlock", "limit_reached", "interrupted"]


class Simulation:
    """A program on a device. Any number of them can live at the same time, on different devices.

    Parameters
    ----------
    program : Program, path, NEM text or bytes
        Of any front end: see :meth:`Program.of`.
    platform : Platform, str, path or None
        Name or file of a platform; None: the device that the program names or was made for.
    options : SimulationOptions, optional
        How it is simulated.
    **keywords
        Options by name, which count before those of `options`; parameters of the platform:
        ``**{"clock.core_mhz": 800}``; options of the program's front end (:func:`kpusim.front_ends`).

    Raises
    ------
    UserError
        With every finding, when the program does not fit the device.
    """

    @with_keywords
    def __init__(
        self,
        program: Program | StrPath | bytes,
        platform: Platform | StrPath | None = None,
        options: SimulationOptions | None = None,
        **keywords: Keyword,
    ) -> None:
        chosen, overrides, more = options_of(options, keywords)
        self.program, self.platform = program_and_platform(program, platform, overrides, more)
        chosen = self._for_values(chosen)
        self.mode: Mode = chosen.mode or "values+timing"
        self._records_events = bool(chosen.events)
        self._strict = chosen.strict
        self._params = list((chosen.params or {}).items())
        self._core = _core.Simulation(
            self.program._core,
            None if self.platform is None else self.platform._core,
            mode=self.mode,
            params=self._params,
            strict=chosen.strict,
            retarget=chosen.retarget,
            hazards=chosen.hazards,
            random_order=None if chosen.order == "program" else chosen.order,
            seed=chosen.seed,
            max_cycles=chosen.max_cycles,
            events=self._records_events,
            accesses=chosen.events == "accesses",
            reference=chosen.engine == "reference",
            backend=None if isinstance(chosen.engine, str) else Adapter(chosen.engine),
        )
        own_program, own_platform = self.program, self.platform  # not self: no cycle of references
        self._again: Callable[[Recorded], Simulation] = lambda record: Simulation(
            own_program, own_platform, replace(chosen, events=record)
        )
        self._generation = 0  #: changes whenever the state does
        self._written = False  #: memory was written to since it was at cycle 0
        self._inputs: dict[str, Array] = {}
        self._fill: Literal["zeros"] | int | None = None

    def _for_values(self, options: SimulationOptions) -> SimulationOptions:
        """The options for a program that may have no data to compute with."""
        if self.program.has_values:
            return options
        if self.program._core.no_values and options.mode != "timing":
            raise UserError(self.program._core.no_values)
        if options.mode not in (None, "timing"):
            raise UserError(f"{self.program.origin} has no data to compute with. Fix: leave out mode.")
        return replace(options, mode="timing", hazards=False)  # nothing writes its operands

    # Inputs

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Tensors that need data."""
        return tuple(TensorSpec(*row) for row in self._core.inputs())

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Tensors that the program gives."""
        return tuple(TensorSpec(*row) for row in self._core.outputs())

    def set_inputs(
        self, inputs: Mapping[str, npt.ArrayLike] | None = None, fill: Literal["zeros"] | int | None = None
    ) -> None:
        """Bind input data, for this and later runs.

        Parameters
        ----------
        inputs : mapping of str to array_like
            Data by name, of the exact dtype (see :class:`TensorSpec`); it is copied.
        fill : "zeros" or int, optional
            Data of the other inputs: zeros, or random values from a seed.

        Raises
        ------
        UserError
            For unknown names, wrong dtypes and wrong shapes.
        """
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ArgumentError(
                f"inputs={inputs!r} is not a mapping. Fix: give a mapping of names to arrays."
            )
        for name, value in (inputs or {}).items():
            if not isinstance(name, str):
                raise UserError(f"{name!r} names no input. Fix: give a mapping of names to arrays.")
            array, dtype = host_array(f"input `{name}`", value, partial(self._host_type, name))
            self._core.set_input(name, array, dtype)
            self._inputs[name] = array
        if fill is None:
            return
        self._fill = fill
        if fill == "zeros":
            self._core.fill_zeros()
        elif isinstance(fill, int) and fill >= 0:
            self._core.fill_random(fill)
        else:
            raise UserError(f"fill={fill!r} is not a fill. Fix: give 'zeros', or a seed of 0 or more.")

    # Running

    def run(
        self,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        *,
        fill: Literal["zeros"] | int | None = None,
        progress: Progress | bool = False,
        timeout: float | None = None,
    ) -> Run:
        """Run to the end; after a run that ended, or with `inputs`, again from cycle 0.

        Parameters
        ----------
        inputs, fill
            As of :meth:`set_inputs`.
        progress : callable or bool
            Called now and then with the core cycle and the number of completed tasks. What it raises ends the
            run. True: shows them on standard error.
        timeout : float, optional
            Seconds after which the run is stopped.

        Returns
        -------
        Run
            The results.

        Raises
        ------
        UserError
            For inputs that are missing or wrong.
        SimulationError
            For a deadlock, a limit or timeout that was reached, and a hazard under ``strict``; its ``run``
            has the results until then.
        KeyboardInterrupt
            After Ctrl-C; the simulation can be run again.

        Warns
        -----
        HazardWarning
            For races and reads of unwritten bytes, which make results wrong; not under ``strict``.
        """
        return self._run(inputs, fill, progress, timeout)

    def step(self, cycles: int) -> Status:
        """Run so many core cycles further; in functional mode, so many tasks. Does nothing after the end."""
        if not is_count(cycles):
            raise UserError(f"a simulation cannot step {cycles!r} cycles. Fix: give an integer, 0 or more.")
        self._need_inputs()
        if self.status != "paused":
            return self.status
        self._generation += 1
        return self._core.step(cycles)

    def step_task(self) -> CompletedTask | None:
        """Run to the next completion of a task; None when none is left."""
        self._need_inputs()
        if self.status != "paused":
            return None
        self._generation += 1
        _, row = self._core.step_task()
        return None if row is None else CompletedTask(**row)

    def debug(self, verbs: Iterable[str]) -> list[str]:
        """Run by the verbs of ``kpusim debug``, in a text or one by one; the answer to each.

        A generator gets the answer to a verb from its ``yield``. With the verbs the session is over: a
        simulation that stands between tasks can go on there, one that stands inside of a kernel is back at
        its beginning.
        """
        if isinstance(verbs, str):
            verbs = verbs.splitlines()
        if not isinstance(verbs, Iterable):
            raise ArgumentError(f"verbs={verbs!r} are not valid. Fix: give a list of str, or a generator.")
        self._need_inputs()
        self._generation += 1
        answers: list[str] = []
        source = iter(verbs)

        def following(answer: str) -> str | None:
            answers.append(answer)
            try:
                if isinstance(source, Generator):
                    return plain_text(source.send(answer if len(answers) > 1 else None), "verb")
                return plain_text(next(source), "verb")
            except StopIteration:
                return None

        self._core.debug(following)
        return answers[1:]

    def reset(self) -> None:
        """Go back to cycle 0; inputs stay bound."""
        self._generation += 1
        self._written = False
        self._core.reset()

    # State and results

    @property
    def status(self) -> Status:
        """``paused`` before the first step and between steps."""
        return self._core.status()

    @property
    def cycle(self) -> int:
        """Core cycle; in functional mode an estimate."""
        return self._core.now()

    def state(self) -> State:
        """Return what every unit does, and every task that is issued and not complete."""
        row = self._core.state()
        tasks = tuple(
            TaskStatus(serial, name, state, missing) for serial, _, name, state, missing in row.pop("tasks")
        )
        return State(tasks=tasks, **row)

    def output(self, name: str) -> Array:
        """Return an output as it is now."""
        return self._core.output(name)

    def outputs(self) -> dict[str, Array]:
        """Return every output as it is now."""
        return {spec.name: self._core.output(spec.name) for spec in self.output_specs}

    @property
    def readable_names(self) -> list[str]:
        """List what :meth:`read` takes: tensors, buffers and regions."""
        regions = [row["name"] for row in self._core.regions()]
        return list(dict.fromkeys(self._core.stored_names() + regions))

    def read(self, name: str, **loop_values: int) -> Array:
        """Read a tensor, a buffer or a region as it is now.

        Parameters
        ----------
        name : str
            Of the tensor, buffer or region.
        **loop_values
            For a region that moves with loops: the value of each variable that it moves with.

        Returns
        -------
        ndarray
            A copy. Tensors and regions have their shape and type; a buffer has one dimension, and the type of
            its regions (uint8 when they differ or have none).

        Raises
        ------
        UserError
            For a name that the program does not have, or has twice; for loop values that are missing or
            outside of memory; in timing mode.
        """
        self._core.place_inputs()
        if name not in self._core.stored_names():
            return self._core.read_region(name, self._loop_values(name, loop_values))
        if loop_values:
            raise UserError(f"`{name}` does not move with loops. Fix: leave out the loop values.")
        return self._core.read(name)

    def write(self, region: str, value: npt.ArrayLike, **loop_values: int) -> None:
        """Write a region while the simulation is stopped; what reads it later sees the new values.

        Parameters
        ----------
        region : str
            Name of the region.
        value : array_like
            Of its shape and dtype.
        **loop_values
            As of :meth:`read`.

        Raises
        ------
        UserError
            As of :meth:`read`, and for a wrong shape or dtype.
        """
        values = self._loop_values(region, loop_values)

        def held() -> str:
            return str(next(row["element_type"] for row in self._core.regions() if row["name"] == region))

        array, dtype = host_array(f"the array for region `{region}`", value, held)
        self._written = True
        self._generation += 1
        self._core.write_region(region, array, dtype, values)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Warnings about the program on this device."""
        return self.program.diagnostics + tuple(Diagnostic.from_row(row) for row in self._core.findings())

    def stats_so_far(self) -> Stats:
        """Statistics up to now. Between steps, they come from a second simulation up to the same point.

        Raises
        ------
        UserError
            Between steps of a simulation whose memory was written to.
        """
        if self.status != "paused":
            return Stats(self._core.stats())
        if self._written:
            raise UserError("memory was written to, so the run cannot be repeated. Fix: call result().")
        twin = self._again(False)
        twin.set_inputs(self._inputs, self._fill)
        twin._core.step(self.state().completed if self.mode == "functional" else self.cycle)
        return Stats(twin._core.stats())

    def result(self) -> Run:
        """Return what it gave so far. Ends a run that is paused: the next one starts from cycle 0."""
        self._warn_of_hazards(3)
        return self._result()

    def __repr__(self) -> str:
        """Program, platform, status and cycle."""
        where = "" if self.platform is None else f" on {self.platform.name}"
        return f"Simulation({self.program.name}{where}, {self.mode}, {self.status} at cycle {self.cycle:,})"

    def _host_type(self, name: str) -> str:
        """Element type of an input's arrays; empty for a name that is none."""
        return next((spec.host_type for spec in self.input_specs if spec.name == name), "")

    def _loop_values(self, region: str, given: Mapping[str, int]) -> list[int]:
        found = [row for row in self._core.regions() if row["name"] == region]
        if not found:
            names = ", ".join(self.readable_names)
            raise UserError(f"the program has no `{region}`. Fix: name one of {names}.")
        if len(found) > 1:
            raise UserError(
                f"the program has {len(found)} regions `{region}`. Fix: give them different names."
            )
        return ordered_loop_values(region, found[0]["loops"], found[0]["moves"], given)

    def _need_inputs(self) -> None:
        missing = self._core.missing_inputs()
        if missing and self.mode != "timing":
            raise UserError(
                f"{self.program.origin}: no data for input{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)}. Fix: give an array for each, or fill='zeros'."
            )

    def _replay(self) -> Callable[[Recorded], Simulation]:
        inputs, fill, make = dict(self._inputs), self._fill, self._again

        def replay(record: Recorded) -> Simulation:
            simulation = make(record)
            simulation.set_inputs(inputs, fill)
            simulation._core.run(None, 0.0)
            return simulation

        return replay

    def _run(
        self,
        inputs: Mapping[str, npt.ArrayLike] | None,
        fill: Literal["zeros"] | int | None,
        progress: Progress | bool,
        timeout: float | None,
    ) -> Run:
        limit = timeout_seconds(timeout)
        if inputs or fill is not None:
            self.reset()
        self.set_inputs(inputs, fill)
        self._need_inputs()
        if self._core.status() != "paused":
            self._written = False
        self._generation += 1
        with progress_of(progress) as told:
            status = self._core.run(told, limit)
        run = self._result()
        if not run.complete or (self._strict and run.hazards):
            error = SimulationError(self._failure(status, run))
            error.run = run
            raise error
        self._warn_of_hazards(4)
        return run

    def _result(self) -> Run:
        repeats = not self._written and self.status in ("finished", "deadlock", "limit_reached")
        return Run(self, self._replay() if repeats else None)

    def _warn_of_hazards(self, stacklevel: int) -> None:
        if summary := self._core.hazard_summary():
            warnings.warn(
                f"{summary}. Fix: add the missing dependencies; run.hazards lists them.",
                HazardWarning,
                stacklevel=stacklevel,
            )

    def _failure(self, status: str, run: Run) -> str:
        if status == "deadlock":
            return (
                f"deadlock at cycle {self.cycle}: work remains and nothing can run.\n"
                f"{self._core.deadlock_report()}"
            )
        if status == "limit_reached":
            return f"stopped at the limit of {self.cycle} cycles with work left. Fix: raise max_cycles."
        if status == "finished":
            return (
                f"{self._core.hazard_summary()}, and strict is on. Fix: add the missing dependencies.\n"
                + "\n".join(map(str, run.hazards))
            )
        return f"stopped by its timeout at cycle {self.cycle} with work left. Fix: raise timeout."

    def _save(self, folder: str, force: bool) -> None:
        source = "" if self.platform is None else self.platform.source
        self._core.save(folder, force, list(sys.argv), source, self._input_digests())

    def _side(self, name: str, events: _core.Recording | None) -> _core.DiffSide:
        advice = "give events=True to kpusim.simulate"
        return self._core.side(name, self._input_digests(), events, advice)

    def _input_digests(self) -> list[tuple[str, str]]:
        names = [spec.name for spec in self.input_specs]
        return [(name, input_digest(self._inputs.get(name), self._fill)) for name in names]
