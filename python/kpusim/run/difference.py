"""Two runs compared."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from kpusim import _core
from kpusim.base.arguments import number, path_text, whole_number
from kpusim.errors import UserError
from kpusim.run.run import Run, StrPath


@dataclass(frozen=True)
class Difference:
    """Difference between two runs.

    Attributes
    ----------
    text : str
        For people, as ``kpusim diff`` prints it; empty when nothing differs.
    data : dict
        All of it: parameters, program, data, statistics, operations, the first task whose times differ, what
        differs in the schedules, and what the critical paths lost to which cause.
    """

    text: str
    data: dict[str, Any]
    _runs: tuple[Run | StrPath, Run | StrPath] = field(repr=False, compare=False)
    _threshold: float = field(repr=False, compare=False)

    def write_html(self, path: StrPath, *, force: bool = False) -> None:
        """Write both runs side by side as one page, as ``kpusim diff --html`` does.

        Parameters
        ----------
        path : path
            The page; it needs no other file.
        force : bool
            Replace the page if it exists.

        Raises
        ------
        UserError
            When the page exists or cannot be written, and for a run whose simulation has moved on.
        """
        target = path_text(path)
        if os.path.isfile(target) and not force:
            raise UserError(f"{target} exists. Fix: give force=True to replace it, or another name.")
        _core.write_diff_page(*_sides_of(*self._runs), self._threshold, target)

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.text)

    def __str__(self) -> str:
        """The text."""
        return self.text or "no differences\n"


def diff(a: Run | StrPath, b: Run | StrPath, *, threshold: float = 0.01, top: int = 20) -> Difference:
    """Compare two runs: parameters, program, statistics, operations, and the first task that differs.

    Parameters
    ----------
    a, b : Run or path
        Runs of this process, which need no file, or folders that :meth:`Run.save` or ``kpusim run -o`` wrote.
        The first task and the critical paths are compared where both have events.
    threshold : float
        Statistics that changed by a smaller share are counted, not listed; of a unit's: of ``cycles.total``.
    top : int
        Rows of each table of the text.

    Returns
    -------
    Difference
        False when nothing differs.

    Raises
    ------
    UserError
        For a folder that holds no run, and a run whose simulation has moved on.
    """
    if not number(threshold, "threshold") >= 0 or whole_number(top, "top", 0) < 0:
        raise UserError("diff: threshold and top are 0 or more. Fix: give such numbers.")
    text, data = _core.diff(*_sides_of(a, b), threshold, top)
    return Difference(text, json.loads(data), (a, b), threshold)


def _sides_of(a: Run | StrPath, b: Run | StrPath) -> tuple[_core.DiffSide, _core.DiffSide]:
    return _side_of(a, "run A"), _side_of(b, "run B")


def _side_of(run: Run | StrPath, name: str) -> _core.DiffSide:
    if not isinstance(run, Run):
        return _core.read_side(path_text(run))
    return run._current()._side(name, None if run._events is None else run._events._recording)
