"""NEM programs, executed step by step, with everything in them open to inspection.

>>> from kpusim.nem import NemInterpreter
>>> interpreter = NemInterpreter()
>>> interpreter.load("gemm.nem")  # doctest: +SKIP
>>> outputs = interpreter.run({"A": a, "B": b})  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from kpusim.base.arrays import Array
from kpusim.errors import Diagnostic, Place, UserError
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath
from kpusim.run.results import Stats
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation
from kpusim.simulation.state import CompletedTask, State, TaskStatus

MIB = 1 << 20
#: Memory of the interpreter when no device is named, in bytes.
DDR_BYTES = 256 * MIB
L2_BYTES = 64 * MIB
L1_BYTES = 16 * MIB

TaskState = Literal["not issued", "waiting", "ready", "running", "complete"]


@dataclass(frozen=True)
class TaskRecord:
    """A task, and so its token, at an instant.

    Attributes
    ----------
    name : str
        Of the token; ``opcode@line`` for a task without one.
    opcode : str
        ``transfer``, ``store``, or the opcode.
    unit : str
        Kind of unit that executes it: NMU, CSTL, DMA, sDMA, VPU.
    place : tuple
        (file, line, column); line 0 when the program came from a container.
    loops : tuple of str
        Variables of the loops around it, outermost first.
    deps : tuple of str
        Names of the tasks that it depends on.
    carried : tuple of str
        Tokens of earlier iterations that it needs, as in the text: ``acc[k-1]``.
    inputs, outputs : tuple of str
        Regions by name, or the buffers of regions without one.
    state : str
        Of the instance that is furthest on, of those in flight; ``complete`` when there is none but some
        were, ``not issued`` when there was none.
    completed : int
        Instances that are complete.
    live : tuple of TaskStatus
        Instances that are issued and not complete: their iterations, and what they wait for.
    """

    name: str
    opcode: str
    unit: str
    place: Place
    loops: tuple[str, ...]
    deps: tuple[str, ...]
    carried: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    state: TaskState
    completed: int
    live: tuple[TaskStatus, ...]


class NemInterpreter:
    """Loads and executes NEM programs.

    With a device, programs run with values and time. Without one they run with values only, in a DDR of
    256 MiB, an L2 of 64 MiB and an L1 of 16 MiB per engine.

    Examples
    --------
    >>> import numpy as np
    >>> from kpusim.nem import NemInterpreter
    >>> interpreter = NemInterpreter()
    >>> interpreter.load('''
    ... program copy:
    ... buffer x : DDR (size = 4)
    ... buffer y : DDR (size = 4)
    ... buffer m : L2 (size = 4)
    ... a = transfer.async(dst=region(m, 0, 4), src=region(x, 0, 4))
    ... b = transfer.async(dst=region(y, 0, 4), src=region(m, 0, 4), deps=[a])
    ... ''')
    >>> interpreter.run({"x": np.arange(4, dtype=np.uint8)})
    {'y': array([0, 1, 2, 3], dtype=uint8)}
    """

    def __init__(self) -> None:
        self._simulation: Simulation | None = None

    def load(
        self,
        source_or_path: Program | StrPath | bytes,
        device_config: Platform | StrPath | None = None,
        *,
        params: Mapping[str, int] | None = None,
        mode: Mode | None = None,
        strict: bool = False,
    ) -> None:
        """Load a program, in place of the one before.

        Parameters
        ----------
        source_or_path : Program, path, NEM text or bytes
            A string with a line break is text; any other string is a path.
        device_config : Platform, str, path or None
            A NEM device file, or anything :meth:`kpusim.Platform.load` takes; None: the device that the
            program names, if it names one.
        params : mapping, optional
            Values of the program's parameters.
        mode : str, optional
            By default ``values+timing`` with a device, ``functional`` without.
        strict : bool
            Warnings are errors.

        Raises
        ------
        UserError
            With every finding: file, line, column, message and fix.
        """
        program = Program.of(source_or_path)
        platform = device_config if device_config is not None else program.platform()
        chosen = mode or ("functional" if platform is None else "values+timing")
        simulation = Simulation(program, platform, mode=chosen, params=params, strict=strict)
        if simulation.platform is None:
            check_memory(simulation.state())
        self._simulation = simulation

    def run(
        self, inputs: Mapping[str, npt.ArrayLike] | None = None, fill: Literal["zeros"] | int | None = None
    ) -> dict[str, Array]:
        """Run to the end.

        Parameters
        ----------
        inputs : mapping of str to array_like, optional
            Data by name; execution starts from the beginning. Without, it goes on where :meth:`step` left it,
            or starts again when it had ended.
        fill : "zeros" or int, optional
            Data of inputs that are not given: zeros, or random values from a seed.

        Returns
        -------
        dict of ndarray
            Every output by name.

        Raises
        ------
        UserError
            For inputs that are missing or wrong.
        SimulationError
            For a deadlock; it says what waits for what.
        """
        return self._loaded.run(inputs, fill=fill).outputs

    def set_inputs(
        self, inputs: Mapping[str, npt.ArrayLike], fill: Literal["zeros"] | int | None = None
    ) -> None:
        """Bind input data and go back to the beginning, to step from there.

        Parameters
        ----------
        inputs : mapping of str to array_like
            Data by name.
        fill : "zeros" or int, optional
            Data of the others: zeros, or random values from a seed.
        """
        self._loaded.reset()
        self._loaded.set_inputs(inputs, fill)

    def step(self) -> CompletedTask | None:
        """Run to the next completion of a task and return it; None after the last one."""
        return self._loaded.step_task()

    def inspect(self, name: str, **loop_values: int) -> Array | TaskRecord:
        """Look at something in the program, at any moment.

        Parameters
        ----------
        name : str
            Of a tensor, a buffer, a region, or a token or task.
        **loop_values
            For a region that moves with loops: the value of each variable that it moves with.

        Returns
        -------
        ndarray or TaskRecord
            Tensors and regions have their shape and type; a buffer has one dimension, and the type of its
            regions (uint8 when they differ or have none). The array is a copy.

        Raises
        ------
        UserError
            For a name that the program does not have, or has twice, and for loop values that are missing or
            outside of memory.
        """
        simulation = self._loaded
        readable = simulation.readable_names
        if name in readable:
            return simulation.read(name, **loop_values)
        tasks = {row["name"]: row for row in simulation._core.tasks()}
        if name not in tasks:
            names = ", ".join([*readable, *tasks])
            raise UserError(f"the program has no `{name}`. Fix: name one of {names}.")
        return self._task_record(tasks[name])

    @property
    def program(self) -> Program:
        """The program."""
        return self._loaded.program

    @property
    def platform(self) -> Platform | None:
        """The device, or None."""
        return self._loaded.platform

    @property
    def mode(self) -> Mode:
        """Mode in which it runs."""
        return self._loaded.mode

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Warnings about the program."""
        return self._loaded.diagnostics

    @property
    def stats(self) -> Stats:
        """Statistics up to now. Between steps they come from a second execution up to the same point."""
        return self._loaded.stats_so_far()

    @property
    def state(self) -> State:
        """Return what every unit does, and every task that is issued and not complete."""
        return self._loaded.state()

    @property
    def simulation(self) -> Simulation:
        """The simulation underneath, for everything else."""
        return self._loaded

    def result(self) -> Run:
        """Results with operations, hazards, events and power; ends an execution that is paused."""
        return self._loaded.result()

    def reset(self) -> None:
        """Go back to the beginning; inputs stay bound."""
        self._loaded.reset()

    def __repr__(self) -> str:
        """Describe what is loaded, and how far it is."""
        return "NemInterpreter()" if self._simulation is None else f"NemInterpreter({self._simulation!r})"

    @property
    def _loaded(self) -> Simulation:
        if self._simulation is None:
            raise UserError("no program is loaded. Fix: call load first.")
        return self._simulation

    def _task_record(self, row: Mapping[str, Any]) -> TaskRecord:
        core = self._loaded._core
        fields = dict(row)
        statement = fields.pop("statement")
        live = tuple(
            TaskStatus(serial, name, state, missing)
            for serial, where, name, state, missing in core.state()["tasks"]
            if where == statement
        )
        completed = core.completions(statement)
        return TaskRecord(
            **fields,
            state=furthest_state(live, completed),
            completed=completed,
            live=live,
        )


def furthest_state(live: tuple[TaskStatus, ...], completed: int) -> TaskState:
    """State of a task as a whole."""
    order: tuple[TaskState, ...] = ("running", "ready", "waiting")
    states = {task.state for task in live}
    for state in order:
        if state in states:
            return state
    return "complete" if completed else "not issued"


def check_memory(state: State) -> None:
    """Refuse programs that the memory of the interpreter does not hold."""
    uses = [("DDR", state.ddr_bytes, DDR_BYTES), ("L2", state.l2_bytes, L2_BYTES)]
    uses += [(f"L1[{engine}]", size, L1_BYTES) for engine, size in enumerate(state.l1_bytes)]
    for level, used, size in uses:
        if used > size:
            raise UserError(
                f"the program takes {used} bytes of {level}; without a device there are {size}. "
                "Fix: name a device."
            )
