"""Programs out of functions of jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kpusim.base.arguments import path_text
from kpusim.errors import UserError
from kpusim.pallas.body import Json
from kpusim.pallas.capture import captured, captured_call, check, text_of
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath

#: Ending of the names of exported files.
SUFFIX = ".pallas.json"


class PallasProgram(Program):
    """A program out of a function of jax. It, and its file, need no jax."""

    #: Content of the exported file.
    source: str
    #: Names of the arguments and of the results, in order.
    operands: tuple[str, ...]
    results: tuple[str, ...]

    def save(self, path: StrPath) -> None:
        """Write it: what was captured if the name ends in ``.pallas.json``, else as :meth:`Program.save`."""
        if path_text(path).endswith(SUFFIX):
            try:
                Path(path).write_text(self.source)
            except OSError as error:
                raise UserError(
                    f"{path}: cannot be written ({error.strerror}). Fix: check the path."
                ) from error
        else:
            super().save(path)


def source(function: Callable[..., Any], *shapes: Any) -> str:
    """Content of the file that :func:`export` makes a program of.

    Parameters
    ----------
    function, *shapes
        As of :func:`export`.
    """
    return text_of(checked(function, shapes))


def checked(function: Callable[..., Any], shapes: Sequence[Any]) -> Json:
    """Return the document of a function that can be exported."""
    form, notes = captured(function, shapes)
    check(notes, form["name"])
    return form


def export(
    function: Callable[..., Any], *shapes: Any, platform: Platform | StrPath | None = None
) -> PallasProgram:
    """Make a program of a function that calls Pallas kernels.

    Parameters
    ----------
    function : callable
        Between its calls of ``pallas_call`` it may only move data; under ``jit`` and ``scan`` too.
    *shapes
        Its arguments: ``jax.ShapeDtypeStruct`` or arrays, of which only the shape and type matter.
    platform : Platform, str or path, optional
        Device to make it for; without, the front end's own.

    Returns
    -------
    PallasProgram
        Its ``save`` writes ``.pallas.json``.

    Raises
    ------
    UserError
        With the line of everything that is not supported.

    Examples
    --------
    >>> program = kpusim.pallas.export(f, jax.ShapeDtypeStruct((8, 128), "float32"))  # doctest: +SKIP
    """
    return program_of(checked(function, shapes), platform)


def export_call(equation: Any, platform: Platform | StrPath) -> PallasProgram:
    """Return the same of one equation `pallas_call`, without tracing it again."""
    form, notes = captured_call(equation)
    check(notes, form["name"])
    return program_of(form, platform)


def program_of(form: Json, platform: Platform | StrPath | None) -> PallasProgram:
    """Return a document as a program."""
    text = text_of(form)
    program = PallasProgram.parse(text, form["name"] + SUFFIX, platform=platform)
    assert isinstance(program, PallasProgram)
    program.source = text
    program.operands, program.results = (
        tuple(row["name"] for row in form["arrays"] if row["role"] == role) for role in ("input", "output")
    )
    return program
