"""Progress of a long run, and when it is stopped."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator

from kpusim.errors import UserError

#: Called now and then during a run: core cycle, tasks completed so far.
Progress = Callable[[int, int], object]


class ProgressLine:
    """A line on standard error, written anew a few times a second, as the command has it."""

    period_s = 0.2

    def __init__(self) -> None:
        self._next = 0.0
        self._width = 0

    def __call__(self, cycle: int, tasks: int) -> None:
        """Show how far it is."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.period_s
        text = f"cycle {cycle:,}, {tasks:,} tasks complete"
        self._width = max(self._width, len(text))
        print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_of(given: object) -> Iterator[Progress | None]:
    """Make what is called during the run: the caller's function, a line on standard error, or nothing."""
    if given is None or given is False:
        yield None
    elif given is True:
        line = ProgressLine()
        try:
            yield line
        finally:
            line.close()
    elif callable(given):
        yield given
    else:
        raise UserError(f"progress={given!r} is not valid. Fix: give True, or a function of cycle and tasks.")


def timeout_seconds(timeout: object, name: str = "timeout") -> float:
    """Seconds after which a run is stopped; 0: never."""
    if timeout is None:
        return 0.0
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise UserError(f"{name}={timeout!r} is not a time. Fix: give a positive number of seconds, or None.")
    return float(timeout) if math.isfinite(timeout) else 0.0
