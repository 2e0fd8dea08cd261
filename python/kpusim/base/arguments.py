"""Checks of functions' arguments: wrong ones are errors that say what is right."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from kpusim.errors import ArgumentError


def path_text(path: object) -> str:
    """Return a path as text."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if isinstance(text, str):
        return text
    raise ArgumentError(f"{path!r} is not a path. Fix: give a str or a pathlib.Path.")


def folder_texts(folders: object) -> list[str]:
    """Folders to search, as text. One text is no list of them, though Python takes its letters as one."""
    if isinstance(folders, Iterable) and not isinstance(folders, (str, bytes, Mapping)):
        return [path_text(folder) for folder in folders]
    raise ArgumentError(f"search_paths={folders!r} is not a list of folders. Fix: give a list of paths.")


def number(value: object, name: str) -> float:
    """Return a number, not a truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{name}={value!r} is not a number. Fix: give one.")
    return value


def whole_number(value: object, name: str, least: int) -> int:
    """Return an integer that is not too small, nor larger than the core counts."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise ArgumentError(
            f"{name}={value!r} is not an integer of at least {least}. Fix: give an integer, {least} or more."
        )
    return value


def plain_text(value: object, name: str) -> str:
    """Return a str."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} {value!r} is not text. Fix: give a str.")
    return value
