"""kpusim: a cycle-approximate model of a KPU.

One run of a program gives its values, its cycles, the cause of every cycle, and power over time.

>>> import kpusim
>>> run = kpusim.simulate("gemm.nem", "npm_lite", {"A": a, "B": b})  # doctest: +SKIP
>>> run.outputs["Y"], run.stats["cycles.total"]  # doctest: +SKIP
"""

from kpusim import nem
from kpusim._core import version as __version__
from kpusim.base.tables import FrontEnd, Option, TraceFormat, front_ends, trace_formats
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
from kpusim.kernels.kernels import Kernel, kernel
from kpusim.platform import Parameter, Platform
from kpusim.program.program import Program, compile, load
from kpusim.run import Difference, Run, diff
from kpusim.run.power import Power, PowerOf
from kpusim.run.results import (
    Change,
    Events,
    Explanation,
    Hazard,
    OpRow,
    Stat,
    Stats,
    WhatIf,
)
from kpusim.run.timeline import Intervals, Timeline
from kpusim.run.traffic import Banks, BankStream, Traffic
from kpusim.simulation.backend import ComputeBackend, Operand
from kpusim.simulation.options import SimulationOptions
from kpusim.simulation.running import simulate
from kpusim.simulation.simulation import Simulation
from kpusim.simulation.state import CompletedTask, State, TaskStatus, TensorSpec
from kpusim.sweeps.results import SweepResults
from kpusim.sweeps.sweeping import sweep

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
    "SimulationOptions",
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
