"""Terms that a deployment system and a KPU agree on: configurations, programs, results, errors, interfaces.

Names, fields, defaults and units are those of the client; nothing here needs more than NumPy.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kpusim.errors import UnknownNameError, UserError
from kpusim.errors.compiling import KPUError
from kpusim.kpu.shipped import usual

Array = npt.NDArray[Any]
Spec = tuple[str, tuple[int, ...], str]
#: Samples of the inputs: an array each, or a mapping of names to arrays where there are several inputs.
Samples = Iterable[Array | dict[str, Array]]


class Word(str, Enum):
    """A word of the interface; its pickle names the class and the word, in all versions of Python."""

    def __reduce_ex__(self, protocol: object) -> tuple[type[Word], tuple[str]]:
        """Class and value."""
        return type(self), (str(self.value),)


class KPUPrecision(Word):
    """Type of the products of a program."""

    INT8 = "int8"
    INT4 = "int4"
    FP16 = "fp16"
    BF16 = "bf16"
    POSIT8 = "posit8"
    POSIT16 = "posit16"


#: Bytes of one element.
ELEMENT_BYTES: dict[KPUPrecision, float] = {
    KPUPrecision.INT8: 1,
    KPUPrecision.INT4: 0.5,
    KPUPrecision.FP16: 2,
    KPUPrecision.BF16: 2,
    KPUPrecision.POSIT8: 1,
    KPUPrecision.POSIT16: 2,
}


class MemoryType(Word):
    """A level of memory."""

    REGISTER = "register"
    SRAM_L1 = "sram_l1"
    SRAM_L2 = "sram_l2"
    DRAM = "dram"
    FLASH = "flash"


class SimulationMode(Word):
    """Results of an execution beside the outputs, which are the same bits in all three.

    FUNCTIONAL: metrics of an execution without values, made once; CYCLE_ACCURATE: those of this execution;
    POWER_TRACE: also watts of each operation.
    """

    FUNCTIONAL = "functional"
    CYCLE_ACCURATE = "cycle_accurate"
    POWER_TRACE = "power_trace"


@dataclass
class MemoryConfig:
    """Sizes in bytes, bandwidths in GB/s. A scratchpad has no associativity: both are ignored, and told."""

    sram_l1_bytes: int = 262144
    sram_l2_bytes: int = 2097152
    dram_bytes: int = 4294967296
    dram_bandwidth_gbps: float = 25.6
    sram_bandwidth_gbps: float = 256.0
    cache_line_bytes: int = 64
    l1_associativity: int = 4
    l2_associativity: int = 8


@dataclass
class ComputeConfig:
    """Array, vector lanes, clock. The array and the clock rule; ``tops_*`` give the ratio of types only."""

    systolic_rows: int = 16
    systolic_cols: int = 16
    vector_lanes: int = 16
    clock_mhz: float = 500.0
    tops_int8: float = 4.0
    tops_fp16: float = 2.0
    tops_posit8: float = 3.0
    tdp_watts: float = 5.0
    idle_watts: float = 0.5


NATIVE_OPS = (
    "Conv MatMul Gemm Relu Add Mul Sub Div MaxPool AveragePool GlobalAveragePool BatchNormalization Softmax "
    "Sigmoid Tanh Concat Reshape Transpose Flatten Squeeze Unsqueeze Gather Slice Split Constant Identity "
    "Shape Cast Pad Clip ReduceMean ReduceSum"
).split()


@dataclass
class KPUConfig:
    """The device that programs are compiled for and executed on.

    ``memory``, ``compute`` and ``supported_precisions`` that are not given are those of the shipped platform
    of this name; where there is none, those of the client's default device.
    """

    name: str = "swkpu-v1"
    version: str = "1.0.0"
    memory: MemoryConfig = None  # type: ignore[assignment]  # until __post_init__
    compute: ComputeConfig = None  # type: ignore[assignment]
    supported_precisions: list[KPUPrecision] = None  # type: ignore[assignment]
    max_tensor_dims: int = 6
    max_batch_size: int = 16
    native_ops: list[str] = field(default_factory=lambda: list(NATIVE_OPS))

    def __post_init__(self) -> None:
        """Fill in what was not given."""
        own = usual(self.name)
        if self.memory is None:
            self.memory = MemoryConfig(**own.memory)
        if self.compute is None:
            self.compute = ComputeConfig(**own.compute)
        if self.supported_precisions is None:
            self.supported_precisions = [KPUPrecision(word) for word in own.precisions]

    def validate(self) -> list[str]:
        """List what is wrong with it; empty when nothing is."""
        issues = []
        if self.memory.sram_l1_bytes <= 0:
            issues.append("L1 SRAM size must be positive")
        if self.compute.clock_mhz <= 0:
            issues.append("Clock frequency must be positive")
        if not self.supported_precisions:
            issues.append("At least one precision must be supported")
        return issues


@dataclass
class MemoryLayout:
    """Place of a tensor."""

    memory_type: MemoryType = MemoryType.DRAM
    base_address: int = 0
    format: str = "NCHW"
    tile_shape: tuple[int, ...] | None = None
    alignment_bytes: int = 64
    contiguous: bool = True


@dataclass
class TileConfig:
    """Cut of an operation into tiles."""

    tile_sizes: dict[str, int] = field(default_factory=dict)
    loop_order: list[str] = field(default_factory=list)
    double_buffer: bool = False
    prefetch_distance: int = 1


@dataclass
class KPUTensor:
    """A tensor of a program; f32 and i32, which the interface lacks, stand as the program's precision."""

    id: str
    name: str
    shape: tuple[int, ...]
    dtype: KPUPrecision
    layout: MemoryLayout = field(default_factory=MemoryLayout)
    scale: float | None = None
    zero_point: int | None = None
    is_weight: bool = False
    is_input: bool = False
    is_output: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        elements = 1
        for size in self.shape:
            elements *= size
        return int(np.ceil(elements * ELEMENT_BYTES[self.dtype]))


@dataclass
class KPUOp:
    """An operation of a program, named after the node of the model that it came from."""

    id: str
    op_type: str
    input_ids: list[str] = field(default_factory=list)
    output_ids: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    tiling: TileConfig | None = None
    schedule_order: int = 0
    fused_with: list[str] = field(default_factory=list)
    estimated_cycles: int = 0
    estimated_energy_pj: float = 0.0


@dataclass
class KPUProgram:
    """A compiled network; ``weights_blob`` is the program of the device with its weights (``.kpu``)."""

    name: str
    version: str = "1.0"
    source_model: str = ""
    source_hash: str = ""
    target_config: KPUConfig = field(default_factory=KPUConfig)
    precision: KPUPrecision = KPUPrecision.INT8
    ops: list[KPUOp] = field(default_factory=list)
    tensors: dict[str, KPUTensor] = field(default_factory=dict)
    input_ids: list[str] = field(default_factory=list)
    output_ids: list[str] = field(default_factory=list)
    peak_sram_bytes: int = 0
    peak_dram_bytes: int = 0
    weight_bytes: int = 0
    activation_bytes: int = 0
    estimated_total_cycles: int = 0
    estimated_total_energy_uj: float = 0.0
    weights_blob: bytes | None = None

    # No fields of the client's class: what a program has them for is its own.
    reserved_sram_bytes = 0  #: of arenas of L1 and L2, beside ``peak_sram_bytes``
    time_depends_on_values = False  #: then the estimates are those of a typical case
    platform_text = ""  #: of the device, where ``target_config`` does not say all of it

    def get_input_tensors(self) -> list[KPUTensor]:
        """Inputs, in the model's order."""
        return [self.tensors[name] for name in self.input_ids if name in self.tensors]

    def get_output_tensors(self) -> list[KPUTensor]:
        """Outputs, in the model's order."""
        return [self.tensors[name] for name in self.output_ids if name in self.tensors]

    def get_ops_in_order(self) -> list[KPUOp]:
        """Operations by ``schedule_order``."""
        return sorted(self.ops, key=lambda op: op.schedule_order)

    def validate(self) -> list[str]:
        """List what is wrong with it; empty when nothing is."""
        issues = [] if self.ops else ["Program has no operations"]
        for kind, ids in (("input", self.input_ids), ("output", self.output_ids)):
            if not ids:
                issues.append(f"Program has no {kind}s")
            issues += [f"{kind.capitalize()} tensor not found: {i}" for i in ids if i not in self.tensors]
        for op in self.ops:
            for name in [*op.input_ids, *op.output_ids]:
                if name not in self.tensors:
                    issues.append(f"Op {op.id} uses unknown tensor: {name}")
        return issues


@dataclass
class KPUPerformanceMetrics:
    """Costs of an execution.

    Scratchpads have no cache: hits are operand accesses that a level serves, misses those that it fetches
    from below. ``op_metrics`` has for each operation ``cycles`` and ``energy_uj``, which sum to
    ``total_cycles`` and ``total_energy_uj``, ``span_cycles``, ``macs``, ``dram_bytes``, ``l2_bytes``,
    ``l1_bytes``, ``utilization``, and in POWER_TRACE ``watts``.
    """

    total_cycles: int = 0
    total_time_us: float = 0.0
    compute_cycles: int = 0
    memory_stall_cycles: int = 0
    other_cycles: int = 0
    dram_reads_bytes: int = 0
    dram_writes_bytes: int = 0
    sram_reads_bytes: int = 0
    sram_writes_bytes: int = 0
    l1_hits: int = 0
    l1_misses: int = 0
    l2_hits: int = 0
    l2_misses: int = 0
    average_power_watts: float = 0.0
    total_energy_uj: float = 0.0
    energy_per_inference_mj: float = 0.0
    compute_utilization: float = 0.0
    memory_bandwidth_utilization: float = 0.0
    op_metrics: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass
class KPUExecutionResult:
    """Result of an execution; ``error_message`` says why when it did not succeed."""

    success: bool
    error_message: str | None = None
    outputs: dict[str, Array] = field(default_factory=dict)
    metrics: KPUPerformanceMetrics = field(default_factory=KPUPerformanceMetrics)
    mode: SimulationMode = SimulationMode.FUNCTIONAL
    trace: list[str] = field(default_factory=list)


class MemoryError(KPUError, builtins.MemoryError):
    """A model that does not fit.

    Attributes
    ----------
    required, available : int
        Bytes; of what is required, ``reserved`` are the device's own, the rest is used by the model.
    memory_type : str
        ``SRAM`` or ``DRAM``.
    """

    def __init__(self, required: int, available: int, memory_type: str, reserved: int = 0) -> None:
        self.required = required
        self.available = available
        self.memory_type = memory_type
        self.reserved = reserved
        of_these = f" ({reserved} of those required are reserved)" if reserved else ""
        super().__init__(
            f"{memory_type} memory exceeded: {required} bytes required, {available} bytes available{of_these}"
        )

    @property
    def used(self) -> int:
        """Bytes that the model itself needs."""
        return self.required - self.reserved

    def __reduce__(self) -> tuple[type[MemoryError], tuple[int, int, str, int]]:
        """Pickle with the numbers."""
        return type(self), (self.required, self.available, self.memory_type, self.reserved)


class RuntimeError(KPUError, builtins.RuntimeError):
    """A program that cannot be loaded, or a runtime without one."""


class DeploymentError(KPUError, UserError):
    """A model, a precision or samples that cannot be deployed."""


class UnknownTargetError(DeploymentError, UnknownNameError):
    """A target that was not registered."""


class KPUConfigWarning(UserWarning):
    """A configuration that contradicts itself, or a field of it without effect."""


class KPUCompilerInterface(ABC):
    """A compiler of models."""

    @abstractmethod
    def compile(
        self,
        model_path: Path,
        config: KPUConfig,
        precision: KPUPrecision,
        calibration_data: Samples | None = None,
    ) -> KPUProgram:
        """Compile a model for a device."""

    @abstractmethod
    def validate_model(self, model_path: Path, config: KPUConfig) -> list[str]:
        """List what keeps a model from being compiled; empty when nothing does."""

    @abstractmethod
    def estimate_memory(self, model_path: Path, config: KPUConfig, precision: KPUPrecision) -> dict[str, int]:
        """Return the bytes of ``weights``, ``activations``, ``peak_sram``, ``peak_dram``."""


class KPURuntimeInterface(ABC):
    """An executor of programs."""

    @abstractmethod
    def load_program(self, program: KPUProgram) -> None:
        """Load a program."""

    @abstractmethod
    def execute(
        self, inputs: dict[str, Array], mode: SimulationMode = SimulationMode.FUNCTIONAL
    ) -> KPUExecutionResult:
        """Execute the program."""

    @abstractmethod
    def get_input_specs(self) -> list[Spec]:
        """(name, shape, dtype) of each input."""

    @abstractmethod
    def get_output_specs(self) -> list[Spec]:
        """(name, shape, dtype) of each output."""

    @abstractmethod
    def unload_program(self) -> None:
        """Free what the program holds."""


class KPUSimulatorInterface(ABC):
    """A simulator that executes a program step by step."""

    @abstractmethod
    def reset(self) -> None:
        """Go back to cycle 0."""

    @abstractmethod
    def step(self, cycles: int = 1) -> None:
        """Run so many cycles further."""

    @abstractmethod
    def run_until_complete(self) -> int:
        """Run to the end; the cycles of the whole run."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return what every unit does now."""

    @abstractmethod
    def get_power_trace(self) -> list[tuple[int, float]]:
        """(cycle, watts) until now."""

    @abstractmethod
    def get_memory_trace(self) -> Sequence[tuple[int, str, int, int]]:
        """(cycle, "read" or "write", address, bytes) until now."""
