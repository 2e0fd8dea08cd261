"""Platforms: the devices that programs run on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kpusim import _core
from kpusim.base.arguments import folder_texts, path_text, plain_text

OverrideValue = str | int | float | bool


@dataclass(frozen=True)
class Parameter:
    """A parameter that :meth:`Platform.with_` can change.

    Attributes
    ----------
    path : str
        As in ``engine.array.rows``.
    type : str
        ``integer``, ``real``, ``boolean``, ``text``, or the values of an enumeration: ``os|ws|is``.
    unit : str
        Empty for text and plain numbers.
    meaning : str
        One line.
    """

    path: str
    type: str
    unit: str
    meaning: str


class Platform:
    """A device: engines, memories, DMAs, DRAM, clocks and energy. Immutable.

    Examples
    --------
    >>> import kpusim
    >>> platform = kpusim.Platform.load("npm_lite").with_(**{"clock.core_mhz": 800})
    >>> platform.core_mhz
    800.0
    """

    def __init__(self, core: _core.Platform, source: str) -> None:
        self._core = core
        self._source = source

    @classmethod
    def load(
        cls, name_or_path: str | os.PathLike[str], search_paths: Sequence[str | os.PathLike[str]] = ()
    ) -> Platform:
        """Load a platform.

        Parameters
        ----------
        name_or_path : str or path
            A shipped name (:meth:`names`), a ``.textproto`` file, a NEM device file, or a SCALE-Sim ``.cfg``.
        search_paths : sequence of paths
            Folders to search for it and for what it includes.

        Raises
        ------
        UserError
            When it cannot be found, read, or breaks a rule of platforms.
        """
        name = path_text(name_or_path)
        return cls(_core.load_platform(name, folder_texts(search_paths)), name)

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Read a platform from protobuf text, as :meth:`text` and ``platform.textproto`` of a run hold it."""
        return cls(_core.parse_platform(plain_text(text, "platform")), "")

    @staticmethod
    def names() -> list[str]:
        """Return the names of the shipped platforms."""
        return _core.platform_names()

    @staticmethod
    def parameters() -> list[Parameter]:
        """Every parameter of a platform, and the factors of groups of them (``scale.array``)."""
        return [Parameter(*row) for row in _core.parameter_table()]

    @property
    def dram_gbps(self) -> float:
        """Bandwidth of all DRAM channels, GB/s."""
        return self._core.dram_gbps

    @property
    def dram_bytes(self) -> int:
        """Capacity of all DRAM channels."""
        return self._core.dram_bytes

    def with_(self, **overrides: OverrideValue) -> Platform:
        """Change parameters.

        Parameters
        ----------
        **overrides
            Path and value, as of ``--set`` of the command: ``with_(**{"engine.array.rows": 32})``. Values
            that follow from others (the width of operand ports from the rows) follow from the new ones. A
            platform from a file is read again.

        Returns
        -------
        Platform
            A changed copy.

        Raises
        ------
        UserError
            For an unknown path (the nearest is named), and for values that break a rule.
        """
        return Platform(self._core.changed(override_list(overrides)), self._source)

    @property
    def name(self) -> str:
        """Name of the device."""
        return self._core.name

    @property
    def source(self) -> str:
        """Name or path that it was loaded from; empty when it came from text or a program."""
        return self._source

    @property
    def core_mhz(self) -> float:
        """Clock of the core domain in MHz: the unit of every ``cycle``."""
        return self._core.core_mhz

    def units(self) -> list[str]:
        """Return the names of its units, as in statistics and traces."""
        return self._core.units()

    def text(self) -> str:
        """Write every parameter as protobuf text, derived ones included."""
        return self._core.text()

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle as text: a copy in another process needs no files."""
        return Platform.parse, (self.text(),)

    def __eq__(self, other: object) -> bool:
        """Return whether every parameter is the same."""
        return isinstance(other, Platform) and self.text() == other.text()

    def __hash__(self) -> int:
        """Hash of all parameters."""
        return hash(self.text())

    def __repr__(self) -> str:
        """Name, clock and units."""
        return f"Platform({self.name!r}, {self.core_mhz:g} MHz, {len(self.units())} units)"


def override_list(overrides: dict[str, OverrideValue]) -> list[tuple[str, str]]:
    """Overrides as the command writes them."""
    return [(path, text_of(value)) for path, value in overrides.items()]


def text_of(value: object) -> str:
    """Return a value as platform files write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
