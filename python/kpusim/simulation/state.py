"""States of a simulation: its tensors, its units and tasks at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from kpusim.errors import Place


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that the host gives or gets.

    Attributes
    ----------
    name : str
        Of the tensor, or of the buffer.
    element_type : str
        f32, bf16, i4 ...: what the device holds.
    dtype : str
        NumPy dtype of its arrays.
    shape : tuple of int
        Of outputs, and of inputs that the program declares; other inputs may have any shape of that many
        elements.
    declared : bool
        Whether the program declares the shape.
    level : str
        DDR or L2.
    host_type : str
        Element type of its arrays; i64, u64, f64 and bool are the host's alone. Where it is not
        ``element_type``, arrays are converted when they are loaded and stored: quantized, rounded,
        or checked.
    """

    name: str
    element_type: str
    dtype: str
    shape: tuple[int, ...]
    declared: bool
    level: str
    host_type: str


@dataclass(frozen=True)
class TaskStatus:
    """A task that is issued and not complete.

    Attributes
    ----------
    serial : int
        Counts tasks in the order of their issue.
    name : str
        Name of its token, and the iteration.
    state : str
        ``waiting``, ``ready`` or ``running``.
    missing : tuple of int
        Serials of the tasks whose tokens it still needs.
    """

    serial: int
    name: str
    state: str
    missing: tuple[int, ...]


@dataclass(frozen=True)
class State:
    """State of a device at an instant.

    Attributes
    ----------
    cycle : int
        Core cycle.
    completed : int
        Tasks that are complete.
    units : dict of str
        ``group.cause`` of each unit; empty in functional mode.
    tasks : tuple of TaskStatus
        In the order of their issue.
    ddr_bytes, l2_bytes : int
        Memory that the program takes.
    l1_bytes : tuple of int
        The same by engine.
    """

    cycle: int
    completed: int
    units: dict[str, str]
    tasks: tuple[TaskStatus, ...]
    ddr_bytes: int
    l2_bytes: int
    l1_bytes: tuple[int, ...]


@dataclass(frozen=True)
class CompletedTask:
    """The end of a task.

    Attributes
    ----------
    serial : int
        Counts tasks in the order of their issue.
    name : str
        Name of its token.
    iteration : str
        ``i=3, j=0``; empty outside loops.
    unit : str
        What executed it; empty in functional mode.
    place : tuple
        (file, line, column); line 0 when the program came from a container.
    cycle : int
        Core cycle; in functional mode an estimate.
    """

    serial: int
    name: str
    iteration: str
    unit: str
    place: Place
    cycle: int
