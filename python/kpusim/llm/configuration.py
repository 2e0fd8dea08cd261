"""Configurations of models as `transformers` writes them: their fields, checked as they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kpusim.errors import UserError

MOST = 2**31 - 1  #: of any size
T = TypeVar("T")


class Fields:
    """Fields of a configuration. Each reader gives a checked value, or an error that names file and field.

    Parameters
    ----------
    tree : mapping
        The configuration.
    origin : str
        Its file, for messages.
    """

    def __init__(self, tree: Mapping[str, Any], origin: str) -> None:
        self._tree = tree
        self.origin = origin

    def error(self, field: str, what: str, fix: str) -> UserError:
        """Return an error about a field."""
        return UserError(f"{self.origin}: `{field}` {what}. Fix: {fix}.")

    def has(self, field: str) -> bool:
        """Return whether it is there, and not null."""
        return self._tree.get(field) is not None

    def raw(self, field: str) -> Any:
        """Return the field as it stands there; None where it does not."""
        return self._tree.get(field)

    def count(self, field: str, default: int | None = None, least: int = 1) -> int:
        """Return a size."""
        value = self._tree.get(field)
        value = default if value is None else value
        if value is None:
            raise self.error(field, "is missing", "give the model's own config.json")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            raise self.error(field, f"is {value!r}", f"give an integer from {least} to {MOST}")
        return value

    def share(self, field: str, default: float) -> float:
        """Return a number from 0 to 1."""
        value = self._tree.get(field)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.error(field, f"is {value!r}", "give a number from 0 to 1")
        return float(value)

    def flag(self, field: str, default: bool) -> bool:
        """True or false."""
        value = self._tree.get(field)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.error(field, f"is {value!r}", "give true or false")
        return value

    def choice(self, field: str, known: Mapping[str, T], default: str | None = None) -> T:
        """Return what a word stands for."""
        value = self._tree.get(field)
        value = default if value is None else value
        if value is None:
            raise self.error(field, "is missing", f"give one of {', '.join(known)}")
        if not isinstance(value, str) or value not in known:
            raise self.error(field, f"is {value!r}, which is not modelled", f"give one of {', '.join(known)}")
        return known[value]

    def words(self, field: str, known: Sequence[str], length: int) -> list[str] | None:
        """Return a word for each layer; None where it is not there."""
        value = self._tree.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise self.error(field, f"has not {length} entries", "give one for each of the layers")
        for word in value:
            if word not in known:
                raise self.error(
                    field, f"has {word!r}, which is not modelled", f"give {' or '.join(known)} for each layer"
                )
        return value

    def refuse(self, *fields: str) -> None:
        """Fields that change what is computed, and are not modelled."""
        for field in fields:
            value = self._tree.get(field)
            if value not in (None, False, 0, [], {}):
                raise self.error(
                    field, f"is {value!r}, which is not modelled", "export the model to ONNX, and run that"
                )

    def inner(self, field: str) -> Fields:
        """Return a configuration within."""
        value = self._tree.get(field)
        if not isinstance(value, dict):
            raise self.error(field, "is not an object", "give the model's own config.json")
        return Fields(value, f"{self.origin}: {field}")


def read_fields(path: Path) -> Fields:
    """Return the configuration in a file, or in a folder's config.json.

    Raises
    ------
    UserError
        When it cannot be read, or is no JSON object.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        if file.stat().st_size > 1 << 24:
            raise UserError(f"{file}: it is larger than any configuration. Fix: give a config.json.")
        tree = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{file}: {error.strerror or error}. Fix: give a config.json, or a folder with one."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: it is not JSON: {error}. Fix: give the model's own config.json.") from error
    if not isinstance(tree, dict):
        raise UserError(f"{file}: it is not a JSON object. Fix: give the model's own config.json.")
    return Fields(tree, str(file))
