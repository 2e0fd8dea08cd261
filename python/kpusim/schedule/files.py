"""Tile schedules as files: text, packed, protobuf, JSON. Part of `kpusim.schedule`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kpusim import _core
from kpusim._core import SchedExecute, SchedLoad, SchedStore
from kpusim.base.arguments import path_text
from kpusim.errors import UserError
from kpusim.program.program import Program, StrPath

SchedOp = SchedLoad | SchedExecute | SchedStore
Form = Literal["text", "packed", "protobuf", "json"]


@dataclass(frozen=True)
class GraphTensor:
    """A matrix of a graph.

    Attributes
    ----------
    name : str
        Its name.
    shape : tuple of int
        Rows and columns.
    role : str
        input, weight, intermediate or output.
    elem : str
        Its type.
    scale : float
        Real value of one step of an i8 tensor; 0 when not given.
    """

    name: str
    shape: tuple[int, int]
    role: str
    elem: str = "f32"
    scale: float = 0.0


class Schedule:
    """A schedule as a file carries it: ops, and tensors where it has a header."""

    def __init__(self, core: _core.Schedule) -> None:
        self._core = core

    @property
    def ops(self) -> list[SchedOp]:
        """Ops of the schedule; they name their tensors where there is a header."""
        return self._core.ops

    @property
    def tensors(self) -> dict[str, GraphTensor]:
        """The tensors of its header, by name, in the order of their ids."""
        return {
            name: GraphTensor(name, (rows, cols), role, elem, scale)
            for _, name, rows, cols, role, elem, scale in self._core.tensors
        }

    def write(self, form: Form = "text") -> bytes:
        """Give its bytes in one of the forms: text, packed, protobuf, json."""
        return self._core.write(form)

    def program(self, arena_bytes: int = 256 * 1024) -> Program:
        """Make a program of it, for `kpusim.simulate`.

        Raises
        ------
        ScheduleError
            When it is not legal.
        """
        return Program(self._core.program(arena_bytes))

    def __repr__(self) -> str:
        """Show how much there is."""
        return f"<Schedule of {len(self._core.ops)} ops on {len(self._core.tensors)} tensors>"


def load(path: StrPath, header: StrPath | None = None) -> Schedule:
    """Read a schedule of any form from a file.

    Parameters
    ----------
    path : str or path
        The schedule.
    header : str or path, optional
        Tile and tensors, when the schedule itself has none.

    Raises
    ------
    UserError
        With every mistake found and its line or op.
    """
    try:
        content = Path(path).read_bytes()
        side = Path(header).read_bytes() if header is not None else b""
    except OSError as error:
        raise UserError(f"cannot read `{error.filename}`: {error.strerror}.") from error
    return Schedule(_core.read_schedule(content, path_text(path), side, path_text(header or "")))


def pack(ops: Sequence[SchedOp], tensors: Sequence[str] = ()) -> bytes:
    """Give the packed form of ops.

    Parameters
    ----------
    ops : sequence of ops
        What to pack.
    tensors : sequence of str
        Names in the order of their ids, for ops that name their tensor.
    """
    return _core.pack_ops(ops, list(tensors))
