"""A simulation in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy.typing as npt

from kpusim.base.progress import Progress
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath
from kpusim.run.run import Run
from kpusim.simulation.options import Keyword, SimulationOptions, with_keywords
from kpusim.simulation.simulation import Simulation


@with_keywords
def simulate(
    program: Program | StrPath | bytes,
    platform: Platform | StrPath | None = None,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    *,
    fill: Literal["zeros"] | int | None = None,
    progress: Progress | bool = False,
    timeout: float | None = None,
    options: SimulationOptions | None = None,
    **keywords: Keyword,
) -> Run:
    """Run a program on a platform: values, cycles, causes and energy from one execution.

    Parameters
    ----------
    program, platform, options, **keywords
        As of :class:`Simulation`; options by name are those of :class:`kpusim.SimulationOptions`.
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
    return Simulation(program, platform, options, **keywords)._run(inputs, fill, progress, timeout)
