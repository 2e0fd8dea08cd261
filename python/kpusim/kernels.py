"""Kernels of the vector unit, called with arrays.

>>> import kpusim
>>> saxpy = kpusim.kernel("saxpy.kern")  # doctest: +SKIP
>>> saxpy(x, y, a).outputs["y"]  # doctest: +SKIP
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kpusim import _core
from kpusim.errors import UserError
from kpusim.platform import Platform
from kpusim.program import Program, StrPath
from kpusim.run import Run
from kpusim.running import simulate
from kpusim.simulation import Mode

#: Element types of buffers that arrays have; a bool is a word, u64 two.
DTYPES = {
    "f32": np.float32,
    "u32": np.uint32,
    "i32": np.int32,
    "u16": np.uint16,
    "i16": np.int16,
    "u8": np.uint8,
    "i8": np.int8,
    "f16": np.float16,
}
#: What a kernel says, and what its regions in NEM are.
PAIRS = {"bool": ("u32", 1), "u64": ("u32", 2), "bytes": ("u8", 1)}
TAKES_DATA = ("read", "uniform", "read_write")
GIVES_DATA = ("write", "output", "read_write")


@dataclass(frozen=True)
class Buffer:
    """A buffer or scalar of a kernel.

    Attributes
    ----------
    name : str
        As in the text.
    access : str
        ``read``, ``write``, ``read_write``, ``uniform``, ``workgroup``, ``output`` or ``scalar``.
    type : str
        Of an element.
    count : int
        Elements; 0: as many as are bound.
    direct : bool
        Whether the kernel loads or stores it; others are only copied, and may stay in L2.
    """

    name: str
    access: str
    type: str
    count: int
    direct: bool

    @property
    def elem(self) -> str:
        """Element type of its regions."""
        return PAIRS.get(self.type, (self.type, 1))[0]

    @property
    def dtype(self) -> npt.DTypeLike:
        """Type of its arrays."""
        if self.elem not in DTYPES:
            raise UserError(f"buffer `{self.name}`: {self.type} is no NumPy type. Fix: launch it from NEM.")
        return DTYPES[self.elem]


class Kernel:
    """A kernel of a file. Call it with an array for each buffer that it reads, in order.

    Attributes
    ----------
    name : str
        As in the text.
    path : Path
        Of the file.
    buffers : tuple of Buffer
        Buffers and scalars, in order.
    """

    def __init__(self, path: Path, name: str, buffers: tuple[Buffer, ...]) -> None:
        self.path = path
        self.name = name
        self.buffers = buffers

    def __call__(
        self,
        *arrays: npt.ArrayLike,
        grid: Sequence[int] = (),
        args: Sequence[int] = (),
        sizes: Mapping[str, int] | None = None,
        platform: Platform | StrPath = "npm_lite",
        mode: Mode = "values+timing",
        max_cycles: int | None = None,
    ) -> Run:
        """Run it: operands from DDR to L1, the launch, its outputs back.

        Parameters
        ----------
        *arrays : array_like
            Data of every buffer with access read, uniform or read_write.
        grid : sequence of int
            Workgroups along x, y, z; without, as many as the outputs need.
        args : sequence of int
            Its scalars.
        sizes : mapping of str to int, optional
            Elements of outputs that have no count of their own; by default as many as the largest array.
        platform, mode, max_cycles
            As of :func:`kpusim.simulate`.

        Returns
        -------
        Run
            With the outputs by name, each with one dimension.

        Raises
        ------
        UserError
            For arrays that do not fit, and for what is wrong with the launch.
        SimulationError
            For what the kernel does wrong.
        """
        data = self._data(arrays)
        words = {name: array.size for name, array in data.items()}
        most = max(words.values(), default=1)
        for buffer in self.buffers:
            if buffer.access in ("write", "output"):
                count = buffer.count or (sizes or {}).get(buffer.name, most)
                words[buffer.name] = count * PAIRS.get(buffer.type, ("", 1))[1]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.path, folder)
            text = Path(folder) / "launch.nem"
            text.write_text(self._program(words, grid, args))
            program = Program.of(os.fspath(text))
            return simulate(program, platform, data, mode=mode, max_cycles=max_cycles)

    def _data(self, arrays: Sequence[npt.ArrayLike]) -> dict[str, npt.NDArray[np.generic]]:
        wanted = [buffer for buffer in self.buffers if buffer.access in TAKES_DATA]
        if len(arrays) != len(wanted):
            names = ", ".join(buffer.name for buffer in wanted)
            raise UserError(
                f"kernel `{self.name}` takes {len(wanted)} arrays ({names}), not {len(arrays)}. "
                "Fix: give one for each buffer that it reads."
            )
        data = {}
        for buffer, values in zip(wanted, arrays, strict=True):
            given = np.asarray(values)
            if given.dtype != buffer.dtype and given.dtype.kind != np.dtype(buffer.dtype).kind:
                raise UserError(
                    f"buffer `{buffer.name}` of kernel `{self.name}` is {buffer.type}, the array "
                    f"{given.dtype}. Fix: convert it."
                )
            data[buffer.name] = np.ascontiguousarray(given, dtype=buffer.dtype).reshape(-1)
        return data

    def _program(self, words: Mapping[str, int], grid: Sequence[int], args: Sequence[int]) -> str:
        lines = [f"program {self.name}_launch:", f"#! kernels {self.path.name}"]
        placed = {}
        for buffer in self.buffers:
            if buffer.name not in words:
                continue
            size = words[buffer.name] * np.dtype(buffer.dtype).itemsize
            levels = ("DDR", "L2", "L1[0]") if buffer.direct else ("DDR", "L2")
            for level in levels:
                name = buffer.name if level == "DDR" else f"{buffer.name}_{level[:2]}"
                lines.append(f"buffer {name} : {level} (size = {size}, align = 64)")
                lines.append(
                    f"let r_{name} = region({name}, 0, {size}) elem={buffer.elem}, "
                    f"shape=[{words[buffer.name]}], layout=N"
                )
                placed[buffer.name] = f"r_{name}"
        tokens = []
        for buffer in self.buffers:
            if buffer.access not in TAKES_DATA:
                continue
            name = buffer.name
            lines.append(f"t1_{name} = transfer.async(dst=r_{name}_L2, src=r_{name})")
            tokens.append(f"t1_{name}")
            if buffer.direct:
                lines.append(
                    f"t2_{name} = transfer.async(dst=r_{name}_L1, src=r_{name}_L2, deps=[t1_{name}])"
                )
                tokens[-1] = f"t2_{name}"
        reads = [placed[b.name] for b in self.buffers if b.access in TAKES_DATA]
        writes = [b for b in self.buffers if b.access in GIVES_DATA]
        launch = (
            f"launch = compute.async in {', '.join(reads)} out {', '.join(placed[b.name] for b in writes)}"
        )
        launch += f' op="{self.name}"'
        launch += f" grid=[{', '.join(map(str, grid))}]" if grid else ""
        launch += f" args=[{', '.join(map(str, args))}]" if args else ""
        lines.append(f"{launch} deps=[{', '.join(tokens)}]" if tokens else launch)
        for buffer in writes:
            name, token = buffer.name, "launch"
            if buffer.direct:
                lines.append(f"o1_{name} = store.async(dst=r_{name}_L2, src=r_{name}_L1, deps=[launch])")
                token = f"o1_{name}"
            lines.append(f"o2_{name} = transfer.async(dst=r_{name}, src=r_{name}_L2, deps=[{token}])")
        return "\n".join(lines) + "\n"


def kernel(path: StrPath, name: str | None = None) -> Kernel:
    """Read a kernel from a ``.kern`` file.

    Parameters
    ----------
    path : path
        Of the file.
    name : str, optional
        Which of its kernels; not needed when it has one.

    Returns
    -------
    Kernel
        To be called with arrays.

    Raises
    ------
    UserError
        With every mistake in the file, and for a name that it does not have.
    """
    known = dict(_core.load_kernels(os.fspath(path)))
    if name is None and len(known) == 1:
        name = next(iter(known))
    if name is None or name not in known:
        asked = "it has several kernels" if name is None else f"no kernel `{name}`"
        raise UserError(f"{os.fspath(path)}: {asked}. Fix: name one of {', '.join(known)}.")
    return Kernel(Path(path), name, tuple(Buffer(*row) for row in known[name]))
