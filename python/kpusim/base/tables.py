"""Tables of front ends, which make programs of files, and of kinds of traces, with their options."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kpusim import _core
from kpusim.base.arrays import Array
from kpusim.errors import ArgumentError

#: Value of an input that becomes a constant: a number, a list of them, an array, or the name of a ``.npy``
#: file.
BoundValue = int | float | str | os.PathLike[str] | Array | Sequence[Any]
OptionValue = str | int | os.PathLike[str] | Mapping[str, int] | Mapping[str, BoundValue]


@dataclass(frozen=True)
class Option:
    """An option of a front end or of a trace: a keyword argument here, ``--name`` of the command.

    Attributes
    ----------
    name : str
        Of the keyword argument.
    kind : str
        ``text``, ``file``, ``integer``, ``choice``, ``sizes`` (a mapping of names to integers) or ``pairs``
        (a mapping of names to numbers, lists, arrays or files).
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
    """Return the same, which no one changes."""
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
    """Return the options as keyword arguments."""
    return tuple(
        Option(name.replace("-", "_"), kind, default, meaning, choices)
        for name, kind, default, meaning, choices in rows
    )


def given_options(
    given: Mapping[str, OptionValue], known: Iterable[Option], what: str
) -> list[tuple[str, str]]:
    """Keyword arguments as the command would be given them; an ArgumentError for those that nobody knows."""
    kinds = {option.name: option.kind for option in known}
    names = sorted(kinds)
    pairs: list[tuple[str, str]] = []
    for name, value in given.items():
        if name not in names:
            listed = ", ".join(names) or "none"
            raise ArgumentError(f"there is no option {name!r} of {what}. Fix: there are {listed}.")
        written = name.replace("_", "-")
        if isinstance(value, Mapping) and kinds[name] == "pairs":
            pairs += [(written, f"{key}={value_text(item)}") for key, item in value.items()]
        elif isinstance(value, Mapping):
            pairs += [(written, f"{key}={size}") for key, size in value.items()]
        else:
            pairs.append((written, os.fspath(value) if isinstance(value, os.PathLike) else str(value)))
    return pairs


def value_text(value: object) -> str:
    """Value of an input as the command would be given it."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return json.dumps(np.asarray(value).tolist())


def front_end_options(given: Mapping[str, OptionValue]) -> list[tuple[str, str]]:
    """Keyword arguments for any front end."""
    if not given:
        return []
    known = [option for front_end in front_ends() for option in front_end.options]
    return given_options(given, known, "front ends")
