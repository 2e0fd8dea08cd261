"""Kernels of the vector unit, called with arrays.

>>> import kpusim
>>> saxpy = kpusim.kernel("saxpy.kern")  # doctest: +SKIP
>>> saxpy(x, y, a).outputs["y"]  # doctest: +SKIP
"""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy.typing as npt

from kpusim import _core
from kpusim.base.arguments import path_text, whole_number
from kpusim.base.arrays import Array
from kpusim.errors import ArgumentError, UserError
from kpusim.kernels.data import Buffer
from kpusim.platform import Platform
from kpusim.program.program import Program, StrPath
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation


class Kernel:
    """A kernel of a file. Call it with an array for each buffer that it reads, in order.

    Attributes
    ----------
    name : str
        As in the text.
    path : Path
        Of the file, as it was when the kernel was read.
    buffers : tuple of Buffer
        Buffers and scalars, in order.
    """

    def __init__(self, path: Path, name: str, buffers: tuple[Buffer, ...], text: bytes) -> None:
        self.path = path
        self.name = name
        self.buffers = buffers
        self._text = text

    def __repr__(self) -> str:
        """Write its head."""
        return f"Kernel({self.name}({', '.join(map(str, self.buffers))}))"

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
            Data of every buffer with access read, uniform or read_write, of any shape and strides. Integers
            may have another type as long as the buffer's holds their values, floats another width; arrays of
            bool are for buffers of bool and u8, bit patterns as uint16 for bf16. They are copied.
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
            With the outputs by name, each with one dimension and the type of its buffer. Its ``diagnostics``
            name accesses outside of buffers.

        Raises
        ------
        UserError
            For arrays that do not fit, and for what is wrong with the launch.
        SimulationError
            For what the kernel does wrong.
        """
        simulation = self.simulation(
            *arrays, grid=grid, args=args, sizes=sizes, platform=platform, mode=mode, max_cycles=max_cycles
        )
        run = simulation.run()
        for buffer in self.buffers:
            if buffer.name in run.outputs:
                run.outputs[buffer.name] = buffer.from_memory(run.outputs[buffer.name])
        return run

    def simulation(
        self,
        *arrays: npt.ArrayLike,
        grid: Sequence[int] = (),
        args: Sequence[int] = (),
        sizes: Mapping[str, int] | None = None,
        platform: Platform | StrPath = "npm_lite",
        mode: Mode = "values+timing",
        max_cycles: int | None = None,
    ) -> Simulation:
        """Prepare the run of a call, to be stepped or debugged.

        Parameters, exceptions: as of a call.

        Returns
        -------
        Simulation
            At its beginning, with its inputs. Outputs of type bool and u64 are in words of 32 bits there.
        """
        data = self._data(arrays)
        words = {name: array.size for name, array in data.items()} | self._sizes(data, sizes)
        text = self._program(words, self._integers("grid", grid), self._integers("args", args))
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "launch.kern").write_bytes(self._text)
            program = Program.parse(text, f"<launch of {self.name}>", [folder])
        simulation = Simulation(program, platform, mode=mode, max_cycles=max_cycles)
        simulation.set_inputs(data)
        return simulation

    def _data(self, arrays: Sequence[npt.ArrayLike]) -> dict[str, Array]:
        wanted = [buffer for buffer in self.buffers if buffer.takes_data]
        if len(arrays) != len(wanted):
            names = ", ".join(buffer.name for buffer in wanted)
            raise UserError(
                f"kernel `{self.name}` takes {len(wanted)} arrays ({names}), not {len(arrays)}. "
                "Fix: give one for each buffer that it reads."
            )
        return {
            buffer.name: buffer.to_memory(f"buffer `{buffer.name}` of kernel `{self.name}`", values)
            for buffer, values in zip(wanted, arrays, strict=True)
        }

    def _sizes(self, data: Mapping[str, Array], sizes: Mapping[str, int] | None) -> dict[str, int]:
        """Give the elements of the regions of buffers that are only written."""
        written = [buffer for buffer in self.buffers if buffer.gives_data]
        if not written:
            raise UserError(
                f"kernel `{self.name}` gives nothing: it has no buffer to write. Fix: declare one as output."
            )
        open_ends = [buffer.name for buffer in written if not buffer.takes_data and not buffer.count]
        for name in sizes or {}:
            if name not in open_ends:
                fix = f"name one of {', '.join(open_ends)}" if open_ends else "leave it out"
                raise UserError(
                    f"sizes has `{name}`, and kernel `{self.name}` no output of that name without a size of "
                    f"its own. Fix: {fix}."
                )
        most = max((data[b.name].size // b.words for b in self.buffers if b.name in data), default=1)
        return {
            buffer.name: buffer.words
            * (
                buffer.count
                or whole_number((sizes or {}).get(buffer.name, most), f"sizes[{buffer.name!r}]", 1)
            )
            for buffer in written
            if not buffer.takes_data
        }

    @staticmethod
    def _integers(name: str, values: Sequence[int]) -> list[int]:
        """Give grid or args as Python's integers."""
        try:
            if isinstance(values, (str, bytes)):
                raise TypeError
            return [operator.index(value) for value in values]
        except TypeError as error:
            raise ArgumentError(
                f"{name}={values!r} is not a sequence of integers. Fix: write it like (4, 2)."
            ) from error

    def _program(self, words: Mapping[str, int], grid: Sequence[int], args: Sequence[int]) -> str:
        """NEM text of the launch; its other names differ from those of buffers."""
        names = {buffer.name for buffer in self.buffers}

        def fresh(name: str) -> str:
            while name in names:
                name += "_"
            names.add(name)
            return name

        lines = [f"program {self.name}_launch:", "#! kernels launch.kern"]
        regions: dict[tuple[str, str], str] = {}
        operands = [buffer for buffer in self.buffers if buffer.name in words]
        for buffer in operands:
            count = words[buffer.name]
            size = count // buffer.words * buffer.itemsize
            for level in ("DDR", "L2", "L1[0]") if buffer.direct else ("DDR", "L2"):
                place = buffer.name if level == "DDR" else fresh(f"{buffer.name}_{level[:2]}")
                region = regions[buffer.name, level[:2]] = fresh(f"r_{place}")
                lines.append(f"buffer {place} : {level} (size = {size}, align = 64)")
                lines.append(
                    f"let {region} = region({place}, 0, {size}) elem={buffer.elem}, shape=[{count}], layout=N"
                )
        near = {buffer.name: regions[buffer.name, "L1" if buffer.direct else "L2"] for buffer in operands}
        tokens = []

        def move(opcode: str, to: str, source: str, deps: Sequence[str]) -> str:
            token = fresh(f"to_{to}")
            after = f", deps=[{', '.join(deps)}]" if deps else ""
            lines.append(f"{token} = {opcode}.async(dst={to}, src={source}{after})")
            return token

        for buffer in operands:
            if not buffer.takes_data:
                continue
            token = move("transfer", regions[buffer.name, "L2"], regions[buffer.name, "DD"], [])
            if buffer.direct:
                token = move("transfer", near[buffer.name], regions[buffer.name, "L2"], [token])
            tokens.append(token)
        lists = {
            "in": [near[b.name] for b in operands if b.takes_data],
            "out": [near[b.name] for b in operands if b.gives_data],
        }
        launched = fresh("launch")
        launch = f"{launched} = compute.async"
        launch += "".join(f" {side} {', '.join(named)}" for side, named in lists.items() if named)
        launch += f' op="{self.name}"'
        launch += f" grid=[{', '.join(map(str, grid))}]" if grid else ""
        launch += f" args=[{', '.join(map(str, args))}]" if args else ""
        lines.append(f"{launch} deps=[{', '.join(tokens)}]" if tokens else launch)
        for buffer in operands:
            if not buffer.gives_data:
                continue
            token = launched
            if buffer.direct:
                token = move("store", regions[buffer.name, "L2"], near[buffer.name], [token])
            move("transfer", regions[buffer.name, "DD"], regions[buffer.name, "L2"], [token])
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
    place = path_text(path)
    known = dict(_core.load_kernels(place))
    if not known:
        raise UserError(f"{place}: there is no kernel in it. Fix: write one.")
    if name is None and len(known) == 1:
        name = next(iter(known))
    if name is None or name not in known:
        asked = "it has several kernels" if name is None else f"no kernel `{name}`"
        raise UserError(f"{place}: {asked}. Fix: name one of {', '.join(known)}.")
    return Kernel(Path(path), name, tuple(Buffer(*row) for row in known[name]), Path(path).read_bytes())
