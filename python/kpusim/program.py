"""Programs: what runs on a platform."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence

from kpusim import _core
from kpusim.errors import Diagnostic, UserError
from kpusim.platform import OverrideValue, Platform, override_list

StrPath = str | os.PathLike[str]


class Program:
    """A program, verified for form when it is read. Immutable.

    Examples
    --------
    >>> import kpusim
    >>> program = kpusim.Program.parse('''
    ... program copy:
    ... buffer x : DDR (size = 64)
    ... buffer y : L2 (size = 64)
    ... load = transfer.async(dst=region(y, 0, 64), src=region(x, 0, 64))
    ... ''')
    >>> program.name
    'copy'
    """

    def __init__(self, core: _core.Program) -> None:
        self._core = core

    @classmethod
    def load(cls, path: StrPath, search_paths: Sequence[StrPath] = ()) -> Program:
        """Read NEM text or a container (``.kpu``) from a file.

        Parameters
        ----------
        path : str or path
            The file.
        search_paths : sequence of paths
            Folders to search for included and device files, after the folder of the program.

        Raises
        ------
        UserError
            With every finding, when it cannot be read.
        """
        return cls(_core.load_program(os.fspath(path), [os.fspath(folder) for folder in search_paths]))

    @classmethod
    def parse(
        cls, source: str | bytes, origin: StrPath = "<text>", search_paths: Sequence[StrPath] = ()
    ) -> Program:
        """Read NEM text, or the bytes of a container.

        Parameters
        ----------
        source : str or bytes
            The program.
        origin : str or path
            Its name in messages; files that it includes are searched beside it.
        search_paths : sequence of paths
            Folders to search for included and device files.

        Raises
        ------
        UserError
            With every finding, when it cannot be read.
        """
        content = source.encode() if isinstance(source, str) else bytes(source)
        folders = [os.fspath(folder) for folder in search_paths]
        return cls(_core.parse_program(content, os.fspath(origin), folders))

    @classmethod
    def of(cls, source: Program | StrPath | bytes) -> Program:
        """Take a program in any form: itself, the bytes of a container, a path, or NEM text.

        A string with a line break is text; any other string is a path.
        """
        if isinstance(source, Program):
            return source
        if isinstance(source, (bytes, bytearray, memoryview)):
            return cls.parse(bytes(source), "<bytes>")
        if isinstance(source, str) and "\n" in source:
            return cls.parse(source)
        if isinstance(source, (str, os.PathLike)):
            return cls.load(source)
        raise UserError(
            f"a program cannot be made of {type(source).__name__}. "
            "Fix: give a Program, a path, NEM text, or the bytes of a .kpu."
        )

    @property
    def name(self) -> str:
        """Name that the program gives itself."""
        return self._core.name

    @property
    def origin(self) -> str:
        """File that it came from, or the name that stands for it in messages."""
        return self._core.origin

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Warnings of the reader."""
        return tuple(Diagnostic.from_row(row) for row in self._core.findings)

    def platform(self, **overrides: OverrideValue) -> Platform | None:
        """Platform of the program's own ``device`` directive.

        None when it has none, or names a device that cannot be found (with a warning).

        Parameters
        ----------
        **overrides
            As of :meth:`Platform.with_`.
        """
        core, findings = self._core.own_platform(override_list(overrides))
        for row in findings:
            warnings.warn(str(Diagnostic.from_row(row)), stacklevel=2)
        return None if core is None else Platform(core, "")

    def check(
        self, platform: Platform | None = None, params: Mapping[str, int] | None = None
    ) -> list[Diagnostic]:
        """Verify it for a platform, and look for what its schedule may do wrong, without running it.

        Parameters
        ----------
        platform : Platform, optional
            None: the program's own, or any device when it names none.
        params : mapping, optional
            Values of parameters.

        Returns
        -------
        list of Diagnostic
            Errors, warnings and remarks, as of ``kpusim check``.
        """
        target = platform if platform is not None else self.platform()
        try:
            rows = self._core.check(None if target is None else target._core, list((params or {}).items()))
        except UserError as error:
            return list(error.diagnostics)
        return [Diagnostic.from_row(row) for row in rows]

    def text(self) -> str:
        """NEM text of the program; data sections are named, not written."""
        return self._core.text()

    def to_bytes(self) -> bytes:
        """The container (``.kpu``)."""
        return self._core.container()

    def save(self, path: StrPath) -> None:
        """Write it: a container when the name ends in ``.kpu``, else NEM text.

        Data sections of a text go to files beside it.
        """
        self._core.save(os.fspath(path))

    def __reduce__(self) -> tuple[object, tuple[bytes, str]]:
        """Pickle as a container."""
        return Program.parse, (self.to_bytes(), self.origin)

    def __repr__(self) -> str:
        """Name and origin."""
        return f"Program({self.name!r}, {self.origin!r})"
