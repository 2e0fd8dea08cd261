"""The simulator of the client: one execution of a program, cycle by cycle."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from kpusim.errors import KpusimError
from kpusim.kpu.runtime import TYPICAL_SEED, device_of, device_program
from kpusim.kpu.spec import Array, KPUConfig, KPUProgram, KPUSimulatorInterface, RuntimeError
from kpusim.run.results import Events
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation


class MemoryAccess(tuple[int, str, int, int]):
    """(cycle, "read" or "write", address, bytes), as the client takes it, and what the address is made of.

    Attributes
    ----------
    level : str
        ``dram``, ``l2`` or ``l1``.
    engine : int
        Of an L1; else 0.
    offset : int
        Bytes from the start of that memory.
    """

    level: str
    engine: int
    offset: int

    @classmethod
    def of(cls, cycle: int, access: str, address: int, size: int, level: str) -> MemoryAccess:
        """Make one of a row of the memory trace."""
        found = cls((cycle, access, address, size))
        found.level, found.engine, found.offset = level, address >> 40 & 0xFFFF, address & 0xFF_FFFF_FFFF
        return found

    def __reduce__(self) -> tuple[object, tuple[int, str, int, int, str]]:
        """Pickle with the level."""
        return MemoryAccess.of, (*self, self.level)


class KPUSimulator(KPUSimulatorInterface):
    """Executes a program step by step, with traces of what happened so far.

    Parameters
    ----------
    program : KPUProgram, optional
        What is executed; :meth:`load_program` gives it later.
    inputs : mapping of str to ndarray, optional
        Without them there is time, but no values; random numbers stand in where time depends on values.
    config : KPUConfig, optional
        As of :class:`KPURuntime`.
    """

    def __init__(
        self,
        program: KPUProgram | None = None,
        inputs: Mapping[str, Array] | None = None,
        config: KPUConfig | None = None,
    ) -> None:
        self.config = config
        self._simulation: Simulation | None = None
        if program is not None:
            self.load_program(program, inputs)

    def load_program(self, program: KPUProgram, inputs: Mapping[str, Array] | None = None) -> None:
        """Load a program, at cycle 0.

        Raises
        ------
        RuntimeError
            For a program that is damaged or for another device, and inputs that do not fit.
        """
        source = device_program(program, self.config)
        typical = inputs is None and program.time_depends_on_values
        mode: Mode = "timing" if inputs is None and not typical else "values+timing"
        try:
            simulation = Simulation(source, device_of(program), mode=mode)
            simulation.set_inputs(inputs, TYPICAL_SEED if typical else None)
        except KpusimError as error:
            raise RuntimeError(str(error)) from error
        self._simulation = simulation

    def reset(self) -> None:
        """Go back to cycle 0; program and inputs stay."""
        self._loaded().reset()

    def step(self, cycles: int = 1) -> None:
        """Run so many core cycles further; nothing happens after the end."""
        try:
            self._loaded().step(cycles)
        except KpusimError as error:
            raise RuntimeError(str(error)) from error

    def run_until_complete(self) -> int:
        """Run to the end.

        Returns
        -------
        int
            The core cycles of the whole run.

        Raises
        ------
        RuntimeError
            When the program does not come to its end.
        """
        simulation = self._loaded()
        try:
            if simulation.status == "paused":
                simulation.run()
        except KpusimError as error:
            raise RuntimeError(str(error)) from error
        return simulation.cycle

    def get_state(self) -> dict[str, Any]:
        """Return what the device does now.

        Returns
        -------
        dict
            ``cycle``; ``status`` (``paused``, ``finished`` ...); ``completed`` tasks; ``units``: state of
            each by name; ``tasks``: (name, state) of those issued; bytes in use of ``ddr``, ``l2``, ``l1``.
        """
        simulation = self._loaded()
        state = simulation.state()
        return {
            "cycle": state.cycle,
            "status": simulation.status,
            "completed": state.completed,
            "units": state.units,
            "tasks": [(task.name, task.state) for task in state.tasks],
            "ddr_bytes": state.ddr_bytes,
            "l2_bytes": state.l2_bytes,
            "l1_bytes": state.l1_bytes,
        }

    def get_outputs(self) -> dict[str, Array]:
        """Outputs as they are now; empty without inputs."""
        simulation = self._loaded()
        return {} if simulation.mode == "timing" else simulation.outputs()

    def get_power_trace(self, bin_ns: float | None = None) -> list[tuple[int, float]]:
        """(cycle at which a bin starts, its mean watts) until now.

        Parameters
        ----------
        bin_ns : float, optional
            Width of the bins; that of the platform without it.
        """
        if bin_ns is not None and (
            isinstance(bin_ns, bool) or not isinstance(bin_ns, int | float) or not bin_ns > 0
        ):
            raise RuntimeError(
                f"bin_ns={bin_ns!r} is not a width. Fix: give a positive number of nanoseconds."
            )
        power = self._events().power(bin_ns)
        cycles = power.time_ns * self._core_mhz() * 1e-3
        return [(round(cycle), float(watts)) for cycle, watts in zip(cycles, power.total, strict=True)]

    def get_memory_trace(self) -> list[MemoryAccess]:
        """(cycle, "read" or "write", address, bytes) of each request to a memory until now.

        Each also has ``level``, ``engine`` and ``offset``, of which the address is made.
        """
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            path = os.path.join(folder, "memory.csv")
            self._events().write_trace("memory-trace", path)
            with open(path, encoding="utf-8", newline="") as file:
                rows = csv.DictReader(line for line in file if not line.startswith("#"))
                return [
                    MemoryAccess.of(
                        int(row["cycle"]),
                        row["access"],
                        int(row["address"], 0),
                        int(row["bytes"]),
                        row["level"],
                    )
                    for row in rows
                ]

    def _events(self) -> Events:
        """Return what happened so far: runs repeat exactly, so a second one up to here is recorded."""
        simulation = self._loaded()
        twin = simulation._again("accesses")
        twin.set_inputs(simulation._inputs)
        twin.step(simulation.cycle)
        return twin.result().events

    def _core_mhz(self) -> float:
        platform = self._loaded().platform
        return 0.0 if platform is None else platform.core_mhz

    def _loaded(self) -> Simulation:
        if self._simulation is None:
            raise RuntimeError("No program loaded. Fix: call load_program first.")
        return self._simulation
