"""Tile schedules: LOAD, EXECUTE and STORE of tiles at fixed SRAM addresses.

An engine executes a schedule op by op, on an arena and on tensors in DRAM; the values are those of the
program that the schedule becomes, bit for bit. Time does not depend on values: the model tells it when it is
asked for.

>>> import numpy as np
>>> from kpusim.schedule.engine import Runtime, SchedExecute, SchedLoad, SchedStore
>>> runtime = Runtime(sram_bytes=64 * 1024)
>>> for name in ("A", "B", "C"):
...     _ = runtime.register_tensor(name, (32, 32))
>>> runtime.set_tensor("A", np.eye(32))
>>> runtime.set_tensor("B", np.ones((32, 32)))
>>> runtime.execute([
...     SchedLoad("A", (0, 0), dst_addr=0, bytes=4096),
...     SchedLoad("B", (0, 0), dst_addr=4096, bytes=4096),
...     SchedExecute(m=0, n=0, k=0, a_addr=0, b_addr=4096, acc_addr=8192),
...     SchedStore("C", (0, 0), src_addr=8192, bytes=4096),
... ])
>>> float(runtime.get_tensor("C").sum())
1024.0
"""

from kpusim._core import SchedExecute, SchedLoad, SchedStore
from kpusim.errors import ScheduleError
from kpusim.schedule.engine import Engine, EngineConfig, EngineStats, Runtime
from kpusim.schedule.files import GraphTensor, SchedOp, Schedule, load, pack
from kpusim.schedule.scheduler import (
    FusionPass,
    Graph,
    LoweringPass,
    Scheduler,
    SchedulerConfig,
    SchedulerStats,
    TilingPass,
)

__all__ = [
    "Engine",
    "EngineConfig",
    "EngineStats",
    "FusionPass",
    "Graph",
    "GraphTensor",
    "LoweringPass",
    "Runtime",
    "SchedExecute",
    "SchedLoad",
    "SchedOp",
    "SchedStore",
    "Schedule",
    "ScheduleError",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerStats",
    "TilingPass",
    "load",
    "pack",
]
