"""All primitives that kernels may consist of: the files that enter their handlers, and the page's table."""

from __future__ import annotations

from kpusim.pallas import (  # noqa: F401  (enter them)
    equations,
    randomness,
    refs,
    scattering,
    solving,
    windows,
)
from kpusim.pallas import internals as jx
from kpusim.pallas.handlers import HANDLERS

__all__ = ["HANDLERS", "coverage"]


def coverage() -> str:
    """The primitives that kernels may consist of, as a table of the documentation."""
    groups = {
        "refs, copies, semaphores": "refs",
        "control flow": "refs",
        "values": "equations",
        "scatters": "scattering",
        "windows and functions": "windows",
        "linear algebra": "solving",
        "random numbers": "randomness",
    }
    control = {"cond", "while", "scan", "run_scoped"}
    rows = ["| group | primitives |", "|---|---|"]
    for group, module in groups.items():
        names = sorted(
            name
            for name, handler in HANDLERS.items()
            if handler.__module__.endswith(module)
            and (module != "refs" or (name in control) == (group == "control flow"))
        )
        rows.append(f"| {group} | {' '.join(f'`{name}`' for name in names)} |")
    inlined = sorted(primitive.name for primitive in jx.INLINED)
    rows.append(f"| inlined | {' '.join(f'`{name}`' for name in inlined)} |")
    return "\n".join(rows) + "\n"
