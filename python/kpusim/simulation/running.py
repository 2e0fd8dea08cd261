"""A simulation in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy.typing as npt

from kpusim.base.progress import Progress
from kpusim.base.tables import OptionValue
from kpusim.platform import OverrideValue, Platform
from kpusim.program.program import Program, StrPath
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.backend import ComputeBackend
from kpusim.simulation.simulation import Simulation


def simulate(
    program: Program | StrPath | bytes,
    platform: Platform | StrPath | None = None,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    *,
    mode: Mode | None = None,
    fill: Literal["zeros"] | int | None = None,
    params: Mapping[str, int] | None = None,
    strict: bool = False,
    retarget: bool = False,
    hazards: bool = True,
    order: Literal["program"] | int = "program",
    seed: int = 0,
    max_cycles: int | None = None,
    events: bool | Literal["accesses"] = False,
    engine: Literal["fast", "reference"] | ComputeBackend = "fast",
    progress: Progress | bool = False,
    timeout: float | None = None,
    **more: OverrideValue | OptionValue,
) -> Run:
    """Run a program on a platform: values, cycles, causes and energy from one execution.

    Parameters
    ----------
    program, platform, mode, ..., **more
        As of :class:`Simulation`.
    inputs, fill, progress, timeout
        As of :meth:`Simulation.run`.

    Returns
    -------
    Run
        The results.

    Raises
    ------
    UserError
        For a mistake in any argument; it says where and what to do.
    SimulationError
        For a deadlock, a limit or timeout that was reached, and a hazard under ``strict``; its ``run`` has
        the results until then.

    Examples
    --------
    >>> import kpusim
    >>> run = kpusim.simulate("examples/gemm_relu/gemm_relu.nem", "npm_lite", fill=1,
    ...                       **{"engine.array.rows": 32})  # doctest: +SKIP
    >>> run.stats["cycles.total"]  # doctest: +SKIP
    """
    simulation = Simulation(
        program,
        platform,
        mode=mode,
        params=params,
        strict=strict,
        retarget=retarget,
        hazards=hazards,
        order=order,
        seed=seed,
        max_cycles=max_cycles,
        events=events,
        engine=engine,
        **more,
    )
    return simulation._run(inputs, fill, progress, timeout)
