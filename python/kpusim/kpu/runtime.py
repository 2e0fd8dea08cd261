"""The runtime of the client: programs are loaded once and executed many times."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np

from kpusim.errors import ArgumentError, KpusimError, UserError
from kpusim.kpu.device import platform_of
from kpusim.kpu.spec import (
    Array,
    KPUConfig,
    KPUExecutionResult,
    KPUPerformanceMetrics,
    KPUProgram,
    KPURuntimeInterface,
    RuntimeError,
    SimulationMode,
    Spec,
)
from kpusim.platform import Platform
from kpusim.program.program import Program
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation

#: Seed of the random inputs of a typical case, for programs whose time depends on values.
TYPICAL_SEED = 1


class KPURuntime(KPURuntimeInterface):
    """Executes programs on the model of a device.

    Parameters
    ----------
    config : KPUConfig, optional
        The device; without it, the one that the program was compiled for. A program for another one is
        refused.
    """

    def __init__(self, config: KPUConfig | None = None) -> None:
        self.config = config
        self._program: KPUProgram | None = None
        self._device_program: Program | None = None
        self._simulations: dict[Mode, Simulation] = {}
        self._timing: KPUPerformanceMetrics | None = None

    def load_program(self, program: KPUProgram) -> None:
        """Load a program: weights and compiled state stay until it is unloaded.

        Parameters
        ----------
        program : KPUProgram
            Out of :class:`KPUCompiler`, or of a pickle.

        Raises
        ------
        RuntimeError
            For a program that is damaged, incomplete, or for another device.
        """
        self.unload_program()
        self._device_program = device_program(program, self.config)
        self._program = program
        try:
            self._simulation("functional")
        except UserError as error:
            self.unload_program()
            raise RuntimeError(f"Program does not fit the device: {error}") from error

    def execute(
        self, inputs: Mapping[str, Array], mode: SimulationMode | str = SimulationMode.FUNCTIONAL
    ) -> KPUExecutionResult:
        """Execute the loaded program.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            Of the shapes and dtypes of :meth:`get_input_specs`.
        mode : SimulationMode
            Outputs are the same bits in all modes.

        Returns
        -------
        KPUExecutionResult
            ``success`` is False when the inputs do not fit or the simulation failed.

        Raises
        ------
        RuntimeError
            Without a loaded program.
        """
        kind = mode_of(mode)
        program = self._loaded()
        # without values there is no time of such a program, so it is that of this execution
        functional = kind is SimulationMode.FUNCTIONAL and not program.time_depends_on_values
        try:
            self._check_inputs(inputs)
            run = self._simulation("functional" if functional else "values+timing").run(inputs)
            metrics = self._functional_metrics() if functional else self._metrics(run)
        except KpusimError as error:
            return KPUExecutionResult(success=False, error_message=str(error), mode=kind)
        if kind is SimulationMode.POWER_TRACE:
            add_watts(metrics)
        trace = [] if kind is SimulationMode.FUNCTIONAL else trace_of(metrics)
        return KPUExecutionResult(success=True, outputs=run.outputs, metrics=metrics, mode=kind, trace=trace)

    def get_input_specs(self) -> list[Spec]:
        """(name, shape, dtype) of each input, in the model's order."""
        specs = {spec.name: spec for spec in self._simulation("functional").input_specs}
        return [
            (name, specs[name].shape, np.dtype(specs[name].dtype).name) for name in self._loaded().input_ids
        ]

    def get_output_specs(self) -> list[Spec]:
        """(name, shape, dtype) of each output, in the model's order."""
        specs = {spec.name: spec for spec in self._simulation("functional").output_specs}
        return [
            (name, specs[name].shape, np.dtype(specs[name].dtype).name) for name in self._loaded().output_ids
        ]

    def unload_program(self) -> None:
        """Free what the program holds; without a program nothing happens."""
        self._program = self._device_program = self._timing = None
        self._simulations = {}

    def _loaded(self) -> KPUProgram:
        if self._program is None:
            raise RuntimeError("No program loaded. Fix: call load_program first.")
        return self._program

    def _simulation(self, mode: Mode) -> Simulation:
        self._loaded_device_program()
        if mode not in self._simulations:
            self._simulations[mode] = Simulation(
                self._loaded_device_program(), device_of(self._loaded()), mode=mode
            )
        return self._simulations[mode]

    def _loaded_device_program(self) -> Program:
        if self._device_program is None:
            raise RuntimeError("No program loaded. Fix: call load_program first.")
        return self._device_program

    def _check_inputs(self, inputs: Mapping[str, Array]) -> None:
        if not isinstance(inputs, Mapping):
            raise ArgumentError(
                f"inputs={inputs!r} is not a mapping. Fix: give a mapping of names to arrays."
            )
        specs = {name: (shape, dtype) for name, shape, dtype in self.get_input_specs()}
        for name in specs:
            if name not in inputs:
                raise UserError(f"Missing input: {name}. Fix: give it beside the others.")
        for name, value in inputs.items():
            if name not in specs:
                raise UserError(f"Unknown input: {name}. Fix: the program has {', '.join(specs)}.")
            shape, dtype = specs[name]
            array = np.asarray(value)
            if array.shape != shape:
                raise UserError(f"Input shape mismatch: expected {_text(shape)}, got {_text(array.shape)}")
            if array.dtype.name != dtype:
                raise UserError(f"Input dtype mismatch: expected {dtype}, got {array.dtype.name}")

    def _functional_metrics(self) -> KPUPerformanceMetrics:
        """Time does not depend on values: one execution without them, at the first call."""
        if self._timing is None:
            self._timing = self._metrics(self._simulation("timing").run())
        copy = KPUPerformanceMetrics(**vars(self._timing))
        copy.op_metrics = {name: dict(row) for name, row in self._timing.op_metrics.items()}
        return copy

    def _metrics(self, run: Run) -> KPUPerformanceMetrics:
        shape = self._loaded().get_input_tensors()
        batch = shape[0].shape[0] if shape and shape[0].shape else 1
        return metrics_of(run, batch)


def _text(shape: tuple[int, ...]) -> str:
    """(1,3,224,224), as the client writes shapes."""
    return f"({','.join(map(str, shape))})"


def mode_of(mode: SimulationMode | str) -> SimulationMode:
    """Return a mode by its name.

    Raises
    ------
    RuntimeError
        For a name that is none.
    """
    try:
        return SimulationMode(mode)
    except ValueError:
        names = ", ".join(member.value for member in SimulationMode)
        raise RuntimeError(f"mode={mode!r} is not a mode. Fix: give one of {names}.") from None


def device_of(program: KPUProgram) -> Platform:
    """Return the platform of a program, of whose configuration the compiler has warned already."""
    if program.platform_text:
        return Platform.parse(program.platform_text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return platform_of(program.target_config)


def device_program(program: KPUProgram, config: KPUConfig | None) -> Program:
    """Return the program of the device inside a program of the client, checked.

    Raises
    ------
    RuntimeError
        When it is damaged, incomplete, or for another device.
    """
    if missing := [name for name in ("ops", "tensors", "target_config") if not hasattr(program, name)]:
        raise RuntimeError(f"Damaged program: it has no {', '.join(missing)}. Fix: compile it again.")
    if issues := program.validate():
        raise RuntimeError(f"Invalid program: {'; '.join(issues)}. Fix: compile it again.")
    if config is not None and (found := difference(config, program.target_config)):
        raise RuntimeError(
            f"Program {program.name} was compiled for another device: {found}. Fix: compile it for this one."
        )
    try:
        return Program.parse(weights_of(program), program.name)
    except UserError as error:
        raise RuntimeError(f"Damaged program {program.name}: {error}") from error


def difference(here: object, there: object, path: str = "") -> str:
    """Return the first field in which two configurations differ; empty: none."""
    if is_dataclass(here) and type(here) is type(there):
        for item in fields(here):
            inner = difference(
                getattr(here, item.name), getattr(there, item.name, None), f"{path}{item.name}."
            )
            if inner:
                return inner
        return ""
    return "" if here == there else f"{path[:-1]} is {there!r}, here it is {here!r}"


def weights_of(program: KPUProgram) -> bytes:
    """``weights_blob``, or the content of the side file that :func:`detach_weights` wrote.

    Raises
    ------
    RuntimeError
        When there is neither, or the file is not the one that was written.
    """
    if program.weights_blob is not None:
        return bytes(program.weights_blob)
    place = vars(program).get("weights_file")
    if place is None:
        raise RuntimeError(f"Program {program.name} has no weights. Fix: compile it again.")
    path, digest = place
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RuntimeError(
            f"Weights file {path} cannot be read ({error.strerror}). Fix: put it there, or compile again."
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise RuntimeError(
            f"Weights file {path} is not the one of {program.name}: its SHA-256 differs. "
            "Fix: put that one there, or compile again."
        )
    return data


def detach_weights(program: KPUProgram, path: str | os.PathLike[str]) -> None:
    """Write ``weights_blob`` to a side file, which the program names with its SHA-256 from then on.

    Parameters
    ----------
    program : KPUProgram
        Its ``weights_blob`` becomes None.
    path : path
        Of the new file; it must stay there until the program is loaded.
    """
    data = weights_of(program)
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be written ({error.strerror}). Fix: check the path.") from error
    vars(program)["weights_file"] = (os.path.abspath(path), hashlib.sha256(data).hexdigest())
    program.weights_blob = None


def metrics_of(run: Run, batch: int) -> KPUPerformanceMetrics:
    """The metrics of a run with timing."""
    stats = run.stats
    energy, time = energy_uj(run), float(stats["time.total_us"])
    each_cycle = static_energy_pj(run) / max(run.cycles, 1)
    ops: dict[str, dict[str, float]] = {}
    for row in run.ops:
        ops[row.id] = {
            "cycles": row.charged_cycles,
            "span_cycles": row.span_cycles,
            "macs": row.macs,
            "dram_bytes": row.bytes_dram,
            "l2_bytes": row.bytes_l2,
            "l1_bytes": row.bytes_l1,
            "utilization": row.utilization,
            "energy_uj": (row.energy_pj + each_cycle * row.charged_cycles) * 1e-6,
        }
    return KPUPerformanceMetrics(
        total_cycles=run.cycles,
        total_time_us=time,
        compute_cycles=int(stats["cycles.compute"]),
        memory_stall_cycles=int(stats["cycles.memory_stall"]),
        other_cycles=int(stats["cycles.other"]),
        dram_reads_bytes=int(stats["bytes.dram.read"]),
        dram_writes_bytes=int(stats["bytes.dram.write"]),
        sram_reads_bytes=int(stats["bytes.l1.read"] + stats["bytes.l2.read"]),
        sram_writes_bytes=int(stats["bytes.l1.write"] + stats["bytes.l2.write"]),
        l1_hits=int(stats["memory.l1.hits"]),
        l1_misses=int(stats["memory.l1.misses"]),
        l2_hits=int(stats["memory.l2.hits"]),
        l2_misses=int(stats["memory.l2.misses"]),
        average_power_watts=energy / time if time else 0.0,
        total_energy_uj=energy,
        energy_per_inference_mj=energy * 1e-3 / batch,
        compute_utilization=float(stats["utilization.compute"]),
        memory_bandwidth_utilization=float(stats["utilization.dram_bandwidth"]),
        op_metrics=ops,
    )


def static_energy_pj(run: Run) -> float:
    """Energy that is no operation's own: operations bear it by the cycles that are charged to them."""
    return energy_uj(run) * 1e6 - sum(row.energy_pj for row in run.ops)


def energy_uj(run: Run) -> float:
    """Energy of a run; not a number where the device is beyond the energy table."""
    return float(run.stats.get("energy.total_uj", math.nan))


def add_watts(metrics: KPUPerformanceMetrics) -> None:
    """The mean power of each operation, over the cycles that are charged to it."""
    for row in metrics.op_metrics.values():
        time = metrics.total_time_us * row["cycles"] / max(metrics.total_cycles, 1)
        row["watts"] = row["energy_uj"] / time if time else 0.0


def trace_of(metrics: KPUPerformanceMetrics) -> list[str]:
    """Return a line for each operation, the costliest first."""
    rows = sorted(metrics.op_metrics.items(), key=lambda item: -item[1]["cycles"])
    return [f"{name}: {row['cycles']:.0f} cycles, {row['energy_uj']:.6g} uJ" for name, row in rows]
