"""What there is: front ends, which make programs of files, and kinds of traces, with their options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from kpusim import _core
from kpusim.errors import ArgumentError

OptionValue = str | int | os.PathLike[str] | Mapping[str, int]


@dataclass(frozen=True)
class Option:
    """An option of a front end or of a trace: a keyword argument here, ``--name`` of the command.

    Attributes
    ----------
    name : str
        Of the keyword argument.
    kind : str
        ``text``, ``file``, ``integer``, ``choice`` or ``sizes`` (a mapping of names to integers).
    default : str
        Empty when there is none.
    meaning : str
        One line.
    choices : tuple of str
        What a ``choice`` takes.
    """

    name: str
    kind: str
    default: str
    meaning: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class FrontEnd:
    """A form of program files that :func:`kpusim.load` reads.

    Attributes
    ----------
    name, description : str
        What it is.
    options : tuple of Option
        Keyword arguments of :func:`kpusim.load`.
    for_device : bool
        Its programs depend on the platform that they are made for.
    default_platform : str
        Which that is if none is given; empty: none.
    has_values : bool
        False: there is time, but no data to compute with.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    for_device: bool
    default_platform: str
    has_values: bool


@dataclass(frozen=True)
class TraceFormat:
    """A kind of trace that :meth:`kpusim.Run.write_trace` writes.

    Attributes
    ----------
    name, file_kind, meaning : str
        What it is.
    options : tuple of Option
        Keyword arguments of :meth:`kpusim.Run.write_trace`.
    needs_accesses : bool
        Requests to memories must have been recorded.
    """

    name: str
    file_kind: str
    meaning: str
    options: tuple[Option, ...]
    needs_accesses: bool


def front_ends() -> list[FrontEnd]:
    """List the front ends, in the order in which a file is compared with them."""
    return list(known_front_ends())


@cache
def known_front_ends() -> tuple[FrontEnd, ...]:
    """The same, which no one changes."""
    return tuple(
        FrontEnd(name, description, options_of(options), for_device, default_platform, has_values)
        for name, description, options, for_device, default_platform, has_values in _core.front_end_table()
    )


def trace_formats() -> list[TraceFormat]:
    """List the kinds of traces."""
    return [
        TraceFormat(name, kind, meaning, options_of(options), accesses)
        for name, kind, meaning, options, accesses in _core.format_table()
    ]


def options_of(rows: Iterable[tuple[str, str, str, str, tuple[str, ...]]]) -> tuple[Option, ...]:
    """Options as keyword arguments."""
    return tuple(
        Option(name.replace("-", "_"), kind, default, meaning, choices)
        for name, kind, default, meaning, choices in rows
    )


def given_options(
    given: Mapping[str, OptionValue], known: Iterable[Option], what: str
) -> list[tuple[str, str]]:
    """Keyword arguments as the command would be given them; an ArgumentError for those that nobody knows."""
    names = sorted({option.name for option in known})
    pairs: list[tuple[str, str]] = []
    for name, value in given.items():
        if name not in names:
            listed = ", ".join(names) or "none"
            raise ArgumentError(f"there is no option {name!r} of {what}. Fix: there are {listed}.")
        written = name.replace("_", "-")
        if isinstance(value, Mapping):
            pairs += [(written, f"{key}={size}") for key, size in value.items()]
        else:
            pairs.append((written, os.fspath(value) if isinstance(value, os.PathLike) else str(value)))
    return pairs


def front_end_options(given: Mapping[str, OptionValue]) -> list[tuple[str, str]]:
    """Keyword arguments for any front end."""
    if not given:
        return []
    known = [option for front_end in front_ends() for option in front_end.options]
    return given_options(given, known, "front ends")
