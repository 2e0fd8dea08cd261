"""Options of programs in a sweep: files that they read, what Python and the command are given of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kpusim.base.tables import OptionValue
from kpusim.errors import UserError
from kpusim.platform import text_of

#: Options that name a file or a folder.
READS = ("calibrate", "mapping", "header")
#: Options that write a file, or to the terminal: points would write over each other.
WRITES = (
    "report_accuracy", "dot", "export_qdq", "memory_map", "write_mapping", "explain_mapping", "print_after",
    "print_graph",
)  # fmt: skip
Options = Mapping[str, Any]  #: numbers, texts, truth values, and sizes by name


def check(name: str) -> None:
    """A UserError for an option that a sweep cannot have."""
    if name in WRITES:
        raise UserError(
            f"`{name}` writes for one program. Fix: leave it out; run a point with it afterwards."
        )


def file_of(name: str, value: object, folder: Path) -> Path | None:
    """The file or folder that a value names, relative to the sweep's folder; None where it names none."""
    if name not in READS or not isinstance(value, str) or value.startswith("random:"):
        return None
    found = folder / value
    if not found.exists():
        raise UserError(
            f"there is no file or folder `{found}`. Fix: check the path, which begins at the sweep's."
        )
    return found


def content_digest(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def with_files(options: Options, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the options with the paths of their files in place of what the sweep states."""
    return {
        name: files.get(value, value) if name in READS and isinstance(value, str) else value
        for name, value in options.items()
    }


def key_of(options: Options) -> str:
    """Return the same text for the same options."""
    return json.dumps(options, sort_keys=True)


def arguments_of(options: Options) -> dict[str, OptionValue]:
    """Return the options as keyword arguments."""
    return {name: _text(value) for name, value in options.items()}


def words_of(options: Options) -> list[str]:
    """Return the options as the command is given them."""
    words: list[str] = []
    for name, value in options.items():
        parts = [f"{k}={v}" for k, v in value.items()] if isinstance(value, Mapping) else [str(_text(value))]
        for part in parts:
            words += [f"--{name.replace('_', '-')}", part]
    return words


def _text(value: Any) -> OptionValue:
    return value if isinstance(value, (int, Mapping)) and not isinstance(value, bool) else text_of(value)
