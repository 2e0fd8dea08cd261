"""The journal of a sweep: a line for each point, on disk before it counts."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from kpusim._core import version as __version__
from kpusim.errors import UserError
from kpusim.sweeps.spec import changes_between
from kpusim.sweeps.workers.evaluate import How, Outcome

NAME = "journal.jsonl"
SCHEMA = 1
Key = tuple[int, How]


class Journal:
    """Outcomes by point and fidelity. One process writes it at a time.

    Its lines: what the sweep is; then names of columns, when a point has others; and points, with the number
    of their columns, their values and host times.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.outcomes: dict[Key, Outcome] = {}
        self.failed = 0  #: among them
        self.header: dict[str, Any] = {}
        self._sets: list[list[str]] = []
        self._number_of: dict[tuple[str, ...], int] = {}
        self._file: TextIO | None = None

    # ---- reading

    def read(self) -> None:
        """Take in what is there."""
        try:
            with self.path.open(encoding="utf-8") as file:
                self._take(file.read())
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}. Fix: give the folder of a sweep.") from None

    def _take(self, text: str) -> int:
        """Take in whole lines; how many bytes they have. The last line may be cut short by a crash."""
        whole = text[: text.rfind("\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take_line(json.loads(line))
            except (ValueError, KeyError, IndexError, TypeError):
                if self.header:
                    raise UserError(
                        f"{self.path}:{number}: error: this line is damaged. Fix: delete it; its point is "
                        f"run again."
                    ) from None
            if not self.header:  # the points could be those of any sweep
                raise UserError(
                    f"{self.path}: the first line, of what was swept, is damaged. Fix: sweep into another "
                    f"folder."
                )
        return len(whole.encode())

    def _take_line(self, row: Mapping[str, Any]) -> None:
        if "sweep" in row:
            self.header = dict(row)
        elif "columns" in row:
            if row.get("c", len(self._sets)) != len(self._sets):
                raise ValueError("columns before these are gone")
            self._number_of[tuple(row["columns"])] = len(self._sets)
            self._sets.append(row["columns"])
        else:
            values = {} if "error" in row else dict(zip(self._sets[row["c"]], row["v"], strict=True))
            outcome = Outcome(row["n"], row["how"], values, row.get("error", ""), row.get("host", {}))
            self._keep(outcome)

    # ---- writing

    def open(self, header: Mapping[str, Any]) -> None:
        """Begin to write, or go on with the same sweep. A UserError where that is not possible."""
        try:
            file = self.path.open("a+", encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{self.path}: {error.strerror}. Fix: give a folder that can be written."
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UserError(
                f"{self.path.parent}: another sweep writes into this folder. Fix: wait for it, or use "
                f"another one."
            ) from None
        file.seek(0)
        whole = self._take(file.read())
        file.truncate(whole)  # a line that a crash has cut short
        file.seek(0, os.SEEK_END)
        self._file = file
        if not self.header:
            self.header = dict(header)
            self._write([json.dumps(self.header)])
            return
        self._compare(header)

    def _compare(self, header: Mapping[str, Any]) -> None:
        folder = self.path.parent
        if self.header["version"] != header["version"]:
            raise UserError(
                f"{folder}: begun with kpusim {self.header['version']}, this is {header['version']}. "
                "Fix: go on with that version, or use another folder."
            )
        if changed := changes_between(self.header["sweep"], header["sweep"]):
            old, new = self.header["sweep"], header["sweep"]
            shown = "; ".join(f"{key}: {_short(old.get(key))} -> {_short(new.get(key))}" for key in changed)
            raise UserError(f"{folder}: holds another sweep ({shown}). Fix: use another folder.")

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Write outcomes; when this returns they are on disk."""
        lines: list[str] = []
        for outcome in outcomes:
            lines += self._lines(outcome)
            self._keep(outcome)
        self._write(lines)

    def _keep(self, outcome: Outcome) -> None:
        self.outcomes[outcome.number, outcome.how] = outcome
        self.failed += bool(outcome.error)

    def _lines(self, outcome: Outcome) -> list[str]:
        row: dict[str, Any] = {"n": outcome.number, "how": outcome.how}
        lines: list[str] = []
        if outcome.error:
            row["error"] = outcome.error
        else:
            names = tuple(sorted(outcome.values))
            if names not in self._number_of:
                self._number_of[names] = len(self._sets)
                self._sets.append(list(names))
                lines.append(_compact({"columns": names, "c": self._number_of[names]}))
            row |= {"c": self._number_of[names], "v": [outcome.values[name] for name in names]}
        row["host"] = outcome.host
        return [*lines, _compact(row)]

    def _write(self, lines: list[str]) -> None:
        assert self._file is not None
        try:
            self._file.write("".join(line + "\n" for line in lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UserError(
                f"{self.path}: {error.strerror}. Fix: make room, and give the same command again: it goes on."
            ) from None

    def close(self) -> None:
        """Let others write."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                pass  # what was not written was told
            self._file = None


def header_of(canonical: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first line: what the sweep is, and how it was stated."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "sweep": json.loads(json.dumps(canonical)),
        "stated": dict(stated),
    }


def _compact(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
