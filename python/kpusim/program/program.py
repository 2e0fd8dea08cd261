"""Programs: what runs on a platform."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kpusim import _core
from kpusim.base.arguments import folder_texts, path_text
from kpusim.base.tables import BoundValue, OptionValue, front_end_options
from kpusim.errors import Diagnostic, UserError
from kpusim.platform import OverrideValue, Platform, override_list
from kpusim.precision import Accuracy, Keep, Mixing

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
        made_for = core.platform
        #: Device that it was made for, with the changes that it needs; None when it is for any.
        self._made_for = None if made_for is None else Platform(made_for, made_for.source)

    @classmethod
    def load(
        cls,
        path: StrPath,
        search_paths: Sequence[StrPath] = (),
        *,
        platform: Platform | StrPath | None = None,
        **options: OptionValue,
    ) -> Program:
        """Read a program from a file: NEM text, a container, or what another front end reads.

        Parameters
        ----------
        path : str or path
            The file; its content says which front end it is for (:func:`kpusim.front_ends`).
        search_paths : sequence of paths
            Folders to search for included and device files, after the folder of the program.
        platform : Platform, str, path or None
            Device to make it for, where that matters; None: the front end's own.
        **options
            Options of the front end.

        Raises
        ------
        UserError
            With every finding, when it cannot be read; for a file of no front end, what it was compared with.
        """
        return cls._read(None, path_text(path), search_paths, platform, options)

    @classmethod
    def parse(
        cls,
        source: str | bytes,
        origin: StrPath = "<text>",
        search_paths: Sequence[StrPath] = (),
        *,
        platform: Platform | StrPath | None = None,
        files: Mapping[str, Buffer] | None = None,
        **options: OptionValue,
    ) -> Program:
        """Read a program from memory: the content of any file that :meth:`load` reads.

        Parameters
        ----------
        source : str or bytes
            The program.
        origin : str or path
            Its name in messages; files that it includes are searched beside it.
        search_paths : sequence of paths
            Folders to search for included and device files.
        files : mapping of str to buffer, optional
            Files that the program names, in memory: external data of ONNX models by its location. They are
            not copied.
        platform, **options
            As of :meth:`load`.

        Raises
        ------
        UserError
            With every finding, when it cannot be read.
        """
        content = source.encode() if isinstance(source, str) else bytes(source)
        return cls._read(content, path_text(origin), search_paths, platform, options, files)

    @classmethod
    def _read(
        cls,
        content: bytes | None,
        origin: str,
        search_paths: Sequence[StrPath],
        platform: Platform | StrPath | None,
        options: Mapping[str, OptionValue],
        files: Mapping[str, Buffer] | None = None,
        values: bool = True,
    ) -> Program:
        folders = folder_texts(search_paths)
        device = None if platform is None else platform_beside(platform, origin)._core
        given = front_end_options(options)
        if content is None:
            return cls(_core.load_program(origin, given, folders, device, values))
        return cls(_core.parse_program(content, origin, given, folders, device, files or {}))

    @classmethod
    def _of_time(cls, path: StrPath, platform: Platform, options: Mapping[str, OptionValue]) -> Program:
        """Return a program whose time alone is wanted: its data is not laid out."""
        return cls._read(None, path_text(path), (), platform, options, values=False)

    @classmethod
    def of(
        cls,
        source: Program | StrPath | bytes,
        platform: Platform | StrPath | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Program:
        """Take a program in any form: itself, a path, or the content of a file as bytes or text.

        A string with a line break is text; any other string is a path. `platform` and `options` are those of
        :meth:`load`.
        """
        options = options or {}
        if isinstance(source, Program):
            if options:
                raise UserError("the program is loaded already. Fix: give its options to kpusim.load.")
            return source if platform is None else source.made_for(platform)
        if isinstance(source, (bytes, bytearray, memoryview)):
            return cls._read(bytes(source), "<bytes>", (), platform, options)
        if isinstance(source, str) and "\n" in source:
            return cls._read(source.encode(), "<text>", (), platform, options)
        if isinstance(source, (str, os.PathLike)):
            return cls._read(None, path_text(source), (), platform, options)
        raise UserError(
            f"a program cannot be made of {type(source).__name__}. "
            "Fix: give a Program, a path, NEM text, or the bytes of a file."
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

    @property
    def has_values(self) -> bool:
        """False where there is time, but no values: SCALE-Sim files, networks without weights."""
        return self._core.has_values

    @property
    def for_device(self) -> bool:
        """Return whether it depends on the device that it was made for."""
        return self._core.for_device

    def taken_for(self, platform: Platform) -> Program:
        """The same program for a device that differs in nothing that it depends on: prices of energy."""
        if not self._core.for_device or platform is self._made_for:
            return self
        other = copy.copy(self)
        other._made_for = platform
        return other

    def made_for(self, platform: Platform | StrPath) -> Program:
        """Return the same program for another device: itself, unless its front end depends on the device."""
        device = platform_beside(platform, self.origin)
        if not self._core.for_device or device is self._made_for or device == self._made_for:
            return self
        return Program(self._core.made_for(device._core))

    def platform(self, **overrides: OverrideValue) -> Platform | None:
        """Platform that it was made for, else that of its own ``device`` directive.

        None when it has none, or names a device that cannot be found (with a warning).

        Parameters
        ----------
        **overrides
            As of :meth:`Platform.with_`.
        """
        if self._made_for is not None:
            return self._made_for.with_(**overrides) if overrides else self._made_for
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
            program = self if target is None else self.made_for(target)
            rows = program._core.check(None if target is None else target._core, list((params or {}).items()))
        except UserError as error:
            return list(error.diagnostics)
        return [Diagnostic.from_row(row) for row in rows]

    def text(self) -> str:
        """NEM text of the program; data sections are named, not written."""
        return self._core.text()

    def to_bytes(self) -> bytes:
        """Return the container (``.kpu``)."""
        return self._core.container()

    def save(self, path: StrPath) -> None:
        """Write it: a container when the name ends in ``.kpu``, else NEM text.

        Data sections of a text go to files beside it.
        """
        self._core.save(path_text(path))

    def __reduce__(self) -> tuple[object, tuple[bytes, str, bool, str, Platform | None]]:
        """Pickle as a container, for the device that it was made for."""
        state = (self.to_bytes(), self.origin, self.has_values, self._core.no_values, self._made_for)
        return unpickled, state

    def __repr__(self) -> str:
        """Name and origin."""
        return f"Program({self.name!r}, {self.origin!r})"


def load(
    path: StrPath,
    platform: Platform | StrPath | None = None,
    *,
    search_paths: Sequence[StrPath] = (),
    **options: OptionValue,
) -> Program:
    """Read a program of any kind from a file: NEM text, ``.kpu``, a tile schedule, a SCALE-Sim topology.

    Parameters
    ----------
    path, platform, search_paths, **options
        As of :meth:`Program.load`.

    Examples
    --------
    >>> import kpusim
    >>> net = kpusim.load("examples/resnet18/resnet18.csv", "examples/resnet18/scale32.cfg")
    >>> net.has_values
    False
    """
    return Program.load(path, search_paths, platform=platform, **options)


def compile(
    path: StrPath,
    platform: Platform | StrPath = "swkpu-v1",
    precision: str | None = None,
    calibrate: StrPath | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    bind: Mapping[str, BoundValue] | None = None,
    batch: int | None = None,
    inferences: int | None = None,
    keep: Keep | None = None,
    accuracy: Accuracy | None = None,
    wide_share: float | None = None,
    calibration_method: str | None = None,
    report_accuracy: StrPath | None = None,
    **options: OptionValue,
) -> Program:
    """Compile a network, an ONNX model, for a device.

    Parameters
    ----------
    path : str or path
        The model.
    platform : Platform, str or path
        The device, by name or file.
    precision : str, optional
        Type of the products: f32, fp16, bf16, int8, int4, fp8, fp8_e5m2, mxfp8, mxfp6, mxfp4, mxint8, nvfp4,
        posit8 or posit16; without it the widest float type of the device.
    calibrate : str or path, optional
        Samples of the inputs, which int8, fp8, ``accuracy`` and ``report_accuracy`` need: a folder, or
        ``"random:SEED"``.
    dims : mapping of str to int, optional
        Sizes of dynamic dimensions by their name, or ``"INPUT.AXIS"``; others are 1.
    bind : mapping of str to number, list, array or path, optional
        Inputs that become constants, by name, so that they may decide structure: a branch, sizes, how often
        something runs. A path is that of a ``.npy`` file.
    batch : int, optional
        Inferences in one run: the size of the dynamic first dimension of the inputs.
    inferences : int, optional
        Inferences one after the other in one run, along a new first dimension of inputs and outputs;
        weights stay in L2 where they fit.
    keep : mapping of str to str, or str, optional
        Types of operations by name or pattern, such as ``{"conv1": "fp16"}``.
    accuracy : float or "best", optional
        Least signal to noise of the outputs on the samples, in dB: the compiler chooses what is wider.
    wide_share : float, optional
        Of the multiply-accumulates, in percent, that ``accuracy`` may make wider; 10 by default.
    calibration_method : {"minmax", "percentile", "mse", "entropy"}, optional
        Numbers that the int8 steps reach.
    report_accuracy : str or path, optional
        File for the error that each layer adds: columns if it ends in ``.csv``, else a page.
    **options
        Further options of networks, as ``kpusim.front_ends()`` lists them.

    Raises
    ------
    UserError
        When the model cannot be imported, the device has not its types, or ``accuracy`` is not reached.

    Examples
    --------
    >>> import kpusim
    >>> net = kpusim.compile("examples/networks/digits_cnn.onnx", "tile32", "bf16", dims={"batch": 4})
    >>> [spec.shape for spec in kpusim.Simulation(net).output_specs]
    [(4, 10)]
    """
    if precision is not None:
        options["precision"] = precision
    if calibrate is not None:
        options["calibrate"] = calibrate
    if dims is not None:
        options["dim"] = dims
    if bind is not None:
        options["bind"] = bind
    if batch is not None:
        options["batch"] = batch
    if inferences is not None:
        options["inferences"] = inferences
    mixing = Mixing(
        keep=keep,
        accuracy=accuracy,
        wide_share=wide_share,
        calibration_method=calibration_method,
        report_accuracy=report_accuracy,
    )
    options.update(mixing.options())
    return load(path, platform, search_paths=(), **options)


def platform_beside(platform: Platform | StrPath, origin: str) -> Platform:
    """Return a platform by name or file, which may stand beside the program."""
    if isinstance(platform, Platform):
        return platform
    folder = os.path.dirname(origin)
    return Platform.load(platform, [folder] if folder else [])


def unpickled(
    container: bytes, origin: str, has_values: bool, no_values: str, made_for: Platform | None
) -> Program:
    """Return a program out of a pickle: the container of one that was made already."""
    program = Program.parse(container, origin)
    program._core.has_values = has_values
    program._core.no_values = no_values
    program._made_for = made_for
    return program
