"""The interfaces of a deployment system: compiler, runtime and simulator of a KPU.

>>> from kpusim.kpu import KPUCompiler, KPUConfig, KPUPrecision, KPURuntime
>>> program = KPUCompiler().compile("model.onnx", KPUConfig(), KPUPrecision.FP16)  # doctest: +SKIP
>>> runtime = KPURuntime()  # doctest: +SKIP
>>> runtime.load_program(program)  # doctest: +SKIP
>>> runtime.execute({"input": image}).outputs  # doctest: +SKIP
"""

from kpusim.errors.compiling import CompilationError, KPUError, UnsupportedOpError
from kpusim.kpu.compiler import KPUCompiler
from kpusim.kpu.device import config_of, platform_of
from kpusim.kpu.runtime import KPURuntime, detach_weights
from kpusim.kpu.simulator import KPUSimulator
from kpusim.kpu.spec import (
    ComputeConfig,
    DeploymentError,
    KPUCompilerInterface,
    KPUConfig,
    KPUConfigWarning,
    KPUExecutionResult,
    KPUOp,
    KPUPerformanceMetrics,
    KPUPrecision,
    KPUProgram,
    KPURuntimeInterface,
    KPUSimulatorInterface,
    KPUTensor,
    MemoryConfig,
    MemoryError,
    MemoryLayout,
    MemoryType,
    RuntimeError,
    SimulationMode,
    TileConfig,
    UnknownTargetError,
)
from kpusim.kpu.target import (
    DeploymentArtifact,
    DeploymentPrecision,
    PowerConfig,
    StillwaterKPUTarget,
    ValidationConfig,
    ValidationResult,
    get_target,
    load_pickle,
    register_target,
)

__all__ = [
    "CompilationError",
    "ComputeConfig",
    "DeploymentArtifact",
    "DeploymentError",
    "DeploymentPrecision",
    "KPUCompiler",
    "KPUCompilerInterface",
    "KPUConfig",
    "KPUConfigWarning",
    "KPUError",
    "KPUExecutionResult",
    "KPUOp",
    "KPUPerformanceMetrics",
    "KPUPrecision",
    "KPUProgram",
    "KPURuntime",
    "KPURuntimeInterface",
    "KPUSimulator",
    "KPUSimulatorInterface",
    "KPUTensor",
    "MemoryConfig",
    "MemoryError",
    "MemoryLayout",
    "MemoryType",
    "PowerConfig",
    "RuntimeError",
    "SimulationMode",
    "StillwaterKPUTarget",
    "TileConfig",
    "UnknownTargetError",
    "UnsupportedOpError",
    "ValidationConfig",
    "ValidationResult",
    "config_of",
    "detach_weights",
    "get_target",
    "load_pickle",
    "platform_of",
    "register_target",
]
