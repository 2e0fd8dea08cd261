"""Errors: the user's mistakes, failures of the simulated program, and our own bugs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kpusim.errors.wording import in_python

if TYPE_CHECKING:
    from kpusim.run.run import Run

Place = tuple[str, int, int]
DiagnosticRow = tuple[str, str, int, int, str, Sequence[str]]


@dataclass(frozen=True)
class Diagnostic:
    """A finding about a program, a platform or an argument.

    Attributes
    ----------
    severity : str
        ``error``, ``warning`` or ``info``.
    message : str
        What is wrong, without the fix.
    fix : str
        What to do about it; empty when that is not known.
    file : str
        Where it stands; empty when it stands in no file.
    line, column : int
        Counted from 1; 0 when unknown.
    notes : tuple of str
        More about it, a line each.
    """

    severity: str
    message: str
    fix: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: DiagnosticRow) -> Diagnostic:
        """Make one from a row of the bindings."""
        severity, file, line, column, text, notes = row
        message, fix = split_fix(in_python(text))
        return cls(severity, message, fix, file, line, column, tuple(map(in_python, notes)))

    def __str__(self) -> str:
        """Format as the command does: ``file:line:column: severity: message Fix: ...``."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = f"{place}: " if place else ""
        tail = f" Fix: {self.fix}" if self.fix else ""
        return "\n".join([f"{head}{self.severity}: {self.message}{tail}", *self.notes])


def split_fix(text: str) -> tuple[str, str]:
    """Split a message at its last ``Fix:``."""
    message, separator, fix = text.rpartition("Fix: ")
    return (message.rstrip(), fix.strip()) if separator else (text, "")


class KpusimError(Exception):
    """Base of every exception of this package.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
        Everything that was found; at least one.
    message, fix : str
        Of the first error.
    file : str
        Where the first error stands; empty when it stands in no file.
    line, column : int
        Counted from 1; 0 when unknown.
    """

    def __init__(self, text: str, rows: Iterable[DiagnosticRow] = ()) -> None:
        text = in_python(text)
        super().__init__(text)
        found = tuple(Diagnostic.from_row(row) for row in rows)
        self.diagnostics = found or (Diagnostic("error", *split_fix(text)),)
        first = next((item for item in self.diagnostics if item.severity == "error"), self.diagnostics[0])
        self.message = first.message
        self.fix = first.fix
        self.file = first.file
        self.line = first.line
        self.column = first.column


class UserError(KpusimError, ValueError):
    """A mistake in a program, a platform or an argument; the text says what, where, and the fix."""


class ArgumentError(UserError, TypeError):
    """An argument of a kind that a function does not take, or that it does not know."""


class UnknownNameError(UserError, KeyError):
    """A name that a table does not have; a KeyError too, so that ``in`` and ``get`` of a mapping work."""

    def __str__(self) -> str:
        """Return the text, not its quoted form."""
        return str(self.args[0])


class MissingPackageError(UserError, ImportError):
    """A package that a part of this one needs is not installed; the fix installs it."""


class ScheduleError(UserError):
    """A tile schedule that is not legal; nothing of it has run.

    Attributes
    ----------
    kind : str
        ``unknown_tensor``, ``tile_outside``, ``wrong_bytes``, ``unaligned``, ``outside_arena``,
        ``never_loaded``, ``overlap``, ``unstored_sum``, ``wrong_type`` or ``wrong_role``, of the first error.
    op : int
        Index of its op.
    """

    kind: str = ""
    op: int = -1


class SimulationError(KpusimError, RuntimeError):
    """The simulated program failed: deadlock, limit reached, hazard under ``strict``.

    Attributes
    ----------
    run : Run or None
        What the run gave until then, marked incomplete unless it ran to its end.
    """

    run: Run | None = None


class HazardWarning(UserWarning):
    """A run had races or read unwritten bytes, so that its results may be wrong; see ``run.hazards``."""


class InternalError(KpusimError, RuntimeError):
    """A bug of kpusim: please report it with the program and the platform."""
