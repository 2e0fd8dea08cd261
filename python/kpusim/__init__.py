"""kpusim: a cycle-approximate model of a KPU.

One run of a program gives its values, its cycles, the cause of every cycle, and power over time.

>>> import kpusim
>>> run = kpusim.simulate("gemm.nem", "npm_lite", {"A": a, "B": b})  # doctest: +SKIP
>>> run.outputs["Y"], run.stats["cycles.total"]  # doctest: +SKIP
"""

from kpusim import nem
from kpusim._core import version as __version__
from kpusim.backend import ComputeBackend, Operand
from kpusim.errors import (
    ArgumentError,
    Diagnostic,
    HazardWarning,
    InternalError,
    KpusimError,
    MissingPackageError,
    SimulationError,
    UnknownNameError,
    UserError,
)
from kpusim.kernels import Kernel, kernel
from kpusim.platform import Parameter, Platform
from kpusim.power import Power, PowerOf
from kpusim.program import Program, compile, load
from kpusim.results import (
    Change,
    Events,
    Explanation,
    Hazard,
    Intervals,
    OpRow,
    Stat,
    Stats,
    WhatIf,
)
from kpusim.run import Difference, Run, diff
from kpusim.running import simulate
from kpusim.simulation import Simulation
from kpusim.state import CompletedTask, State, TaskStatus, TensorSpec
from kpusim.sweeps.results import SweepResults
from kpusim.sweeps.sweeping import sweep
from kpusim.tables import FrontEnd, Option, TraceFormat, front_ends, trace_formats
from kpusim.timeline import Timeline
from kpusim.traffic import Banks, BankStream, Traffic

__all__ = [
    "ArgumentError",
    "BankStream",
    "Banks",
    "Change",
    "CompletedTask",
    "ComputeBackend",
    "Diagnostic",
    "Difference",
    "Events",
    "Explanation",
    "FrontEnd",
    "Hazard",
    "HazardWarning",
    "InternalError",
    "Intervals",
    "Kernel",
    "KpusimError",
    "MissingPackageError",
    "OpRow",
    "Operand",
    "Option",
    "Parameter",
    "Platform",
    "Power",
    "PowerOf",
    "Program",
    "Run",
    "Simulation",
    "SimulationError",
    "Stat",
    "State",
    "Stats",
    "SweepResults",
    "TaskStatus",
    "TensorSpec",
    "Timeline",
    "TraceFormat",
    "Traffic",
    "UnknownNameError",
    "UserError",
    "WhatIf",
    "__version__",
    "compile",
    "diff",
    "front_ends",
    "kernel",
    "load",
    "nem",
    "simulate",
    "sweep",
    "trace_formats",
]
