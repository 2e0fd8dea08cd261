"""The backend of torch.compile: graphs are compiled for a device and simulated."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kpusim.errors import UserError
from kpusim.errors.compiling import UnsupportedOpError
from kpusim.platform import Platform
from kpusim.precision import Mixing
from kpusim.program.program import Program
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation
from kpusim.torch.arrays import to_array, to_tensor
from kpusim.torch.breaks import called
from kpusim.torch.capture import Captured, Flat, flat_program, to_onnx
from kpusim.torch.samples import Call, ordered, sample_folder

FIX = "Fix: see help(kpusim.torch.backend) for the options."


@dataclass(frozen=True, kw_only=True)
class Options(Mixing):
    """Options of the backend.

    Attributes
    ----------
    platform : Platform, str or path
        The device.
    precision : str, optional
        f32, fp16, bf16, int8, fp8, fp8_e5m2, mxfp8, mxfp6, mxfp4, mxint8, nvfp4, posit8 or posit16; without
        it the widest float type of the
        device.
    mode : str
        ``values+timing`` or ``functional``.
    calibration : iterable or str, optional
        Samples for int8 and fp8: tensors, tuples of them in the order of the call where there are several,
        nested as its arguments are or not, mappings of its names, or a folder or ``random:SEED`` as of
        ``--calibrate``.
    fallback : str, optional
        ``eager``: what cannot be compiled is left to PyTorch, with a warning.
    keep, accuracy, wide_share, calibration_method, report_accuracy
        As of :class:`kpusim.precision.Mixing`; names of operations are those of ``last_run().ops``.
    """

    platform: Platform | str | os.PathLike[str] = "swkpu-v1"
    precision: str | None = None
    mode: Mode = "values+timing"
    calibration: Any = None
    fallback: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Return the options out of the dictionary of torch.compile."""
        names = set(cls.__dataclass_fields__)
        if unknown := sorted(set(given or {}) - names):
            raise UserError(
                f"there is no option {', '.join(unknown)}: there are {', '.join(sorted(names))}. {FIX}"
            )
        options = cls(**(given or {}))
        if options.mode not in ("values+timing", "functional"):
            raise UserError(f"mode {options.mode!r} gives no values. Fix: values+timing or functional.")
        if options.fallback not in (None, "eager"):
            raise UserError(f"fallback {options.fallback!r} is not valid. Fix: 'eager', or leave it out.")
        calibration = options.calibration
        if calibration is not None and not isinstance(calibration, str | os.PathLike):
            object.__setattr__(options, "calibration", list(calibration))
        return options


@dataclass
class Specialized:
    """A graph for one set of shapes."""

    flat: Flat
    captured: Captured
    simulation: Simulation
    types: list[torch.dtype]  #: of the outputs
    state: list[tuple[int, int, int]] = field(default_factory=list)  #: of the weights


LAST: list[Run] = []


def last_run() -> Run | None:
    """Return the results of the last graph that was executed: outputs, cycles, causes, energy.

    Returns
    -------
    Run or None
        None when there was none.
    """
    return LAST[-1] if LAST else None


class Graph:
    """Function that torch.compile calls: compiles a graph at the first call for each set of shapes."""

    def __init__(self, module: torch.fx.GraphModule, examples: Sequence[Any], options: Options) -> None:
        self.module = module
        self.options = options
        self.static = [position for position, value in enumerate(examples) if is_static(value)]
        self.cache: dict[tuple[Any, ...], Specialized] = {}
        self.left: set[tuple[Any, ...]] = set()  #: shapes that are left to PyTorch

    def __call__(self, *arguments: Any) -> Any:
        """Execute on the device."""
        if torch.is_grad_enabled() and any(needs_gradient(value) for value in arguments):
            return with_refused_gradient(self.execute, arguments)
        return self.execute(arguments)

    def execute(self, arguments: Sequence[Any]) -> Any:
        """Execute without gradients; compiles when shapes are new, or weights were changed."""
        key = tuple(key_of(value) for value in arguments)
        if key in self.left:
            return self.module(*arguments)
        found = self.cache.get(key)
        weights = [arguments[position] for position in self.static]
        if found is None or found.state != state_of(weights):
            try:
                found = self.cache[key] = self.specialize(arguments)
            except UserError as error:
                if self.options.fallback is None:
                    raise
                warnings.warn(f"left to PyTorch: {error.message}", stacklevel=2)
                self.left.add(key)
                return self.module(*arguments)
            found.state = state_of(weights)
        inputs = [value for i, value in enumerate(arguments) if self.is_input(i, value)]
        return run(found, inputs)

    def is_input(self, position: int, value: object) -> bool:
        """Return whether an argument is an input of the program, not a weight or a size."""
        return isinstance(value, torch.Tensor) and position not in self.static

    def specialize(self, arguments: Sequence[Any]) -> Specialized:
        """Compile for the shapes and weights of these arguments."""
        bound = {
            i: value if isinstance(value, torch.Tensor) else plain(value)
            for i, value in enumerate(arguments)
            if not self.is_input(i, value)
        }
        given = [value for i, value in enumerate(arguments) if self.is_input(i, value)]
        inputs = tuple(value.detach() for value in given)
        samples = self.options.calibration
        if isinstance(samples, list):
            samples = ordered(samples, Call(*(called() or (None, given, {}))), given)
        return specialize(Flat(self.module, bound), inputs, self.options, name_of(self.module), samples)


def is_static(value: object) -> bool:
    """Return whether dynamo lifted it out of a module: a parameter or buffer."""
    lifted = getattr(value, "_dynamo_static_input_type", None) is not None
    return isinstance(value, torch.nn.Parameter) or (isinstance(value, torch.Tensor) and lifted)


def needs_gradient(value: object) -> bool:
    """Return whether PyTorch would differentiate with respect to it."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def plain(value: Any) -> Any:
    """Return a size as a number."""
    return int(value) if isinstance(value, torch.SymInt) else value


def key_of(value: Any) -> Any:
    """Return what of an argument a program depends on."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return plain(value)


def state_of(weights: Iterable[torch.Tensor]) -> list[tuple[int, int, int]]:
    """Return what changes when weights do: place, version, and a sum of their bytes."""
    return [(value.data_ptr(), value._version, checksum(value)) for value in weights]


def checksum(value: torch.Tensor) -> int:
    """CRC-32 of a tensor's bytes: an assignment through `.data` leaves no other trace."""
    data = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return zlib.crc32(memoryview(data)) if data.size else 0


def name_of(module: torch.fx.GraphModule) -> str:
    """Return what messages call a graph: the file and line that it begins at."""
    for node in module.graph.nodes:
        for line in reversed((node.meta.get("stack_trace") or "").splitlines()):
            if line.strip().startswith('File "') and "/torch/" not in line:
                parts = line.strip().split('"')
                return f"{parts[1]}:{parts[2].split('line ')[-1].split(',')[0]}"
    return "<graph>"


def specialize(
    flat: Flat, inputs: tuple[torch.Tensor, ...], options: Options, what: str, samples: Any = None
) -> Specialized:
    """Capture and compile a module for the shapes of these inputs; samples are in their order."""
    program = flat_program(flat, inputs, what)
    model = to_onnx(program, what)
    output = next(node for node in reversed(program.graph.nodes) if node.op == "output")
    values = output.args[0][-len(model.outputs) :]
    types = [node.meta["val"].dtype for node in values]
    program = compiled(model, options, what, samples)
    return Specialized(flat, model, Simulation(program, mode=options.mode), types)


def compiled(model: Captured, options: Options, what: str, samples: Any = None) -> Program:
    """Return a captured model as a program of the device.

    Raises
    ------
    UserError
        With the source line of each operator that the device or the compiler lacks.
    """
    more: dict[str, Any] = {} if options.precision is None else {"precision": options.precision}
    more.update(options.options())
    with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
        if samples is not None:
            is_rows = isinstance(samples, list)
            more["calibrate"] = sample_folder(samples, model.inputs, Path(folder)) if is_rows else samples
        try:
            program = Program.parse(model.model, what, platform=options.platform, files=model.weights, **more)
        except UserError as error:
            text = with_places(str(error), model.places)
            if refused := refused_operators(str(error)):
                raise UnsupportedOpError(refused, text) from error
            raise UserError(text) from error
    for found in program.diagnostics:
        if found.severity == "warning":
            warnings.warn(with_places(str(found), model.places), stacklevel=2)
    return program


def refused_operators(text: str) -> list[str]:
    """Names of the operators that the importer lists as those that it lacks; none in other errors."""
    head, _, rows = text.partition("nodes cannot be imported:")
    return sorted(set(re.findall(r"(?m)^  .*?\((\w+)\): ", rows))) if head and rows else []


def with_places(text: str, places: Mapping[str, str]) -> str:
    """Names of nodes in a message, followed by their source lines; and the options of torch.compile."""
    text = re.sub("(?<= )calibrate(?=[= ])", "calibration", text)
    for name, place in places.items():
        if name:
            text = text.replace(f"`{name}`", f"`{name}` ({place})")
    return text


def run(graph: Specialized, inputs: Sequence[torch.Tensor]) -> Any:
    """Execute a compiled graph."""
    needed = {spec.name for spec in graph.simulation.input_specs}
    arrays = {
        name: to_array(value)
        for name, value in zip(graph.captured.inputs, inputs, strict=True)
        if name in needed
    }
    result = graph.simulation.run(arrays)
    LAST[:] = [result]
    names = graph.captured.outputs
    tensors = [to_tensor(result.outputs[name], kind) for name, kind in zip(names, graph.types, strict=True)]
    for position in reversed(graph.flat.changed):
        inputs[position].copy_(tensors.pop())
    return graph.flat.rebuilt(tensors)


class RefusedGradient(torch.autograd.Function):
    """Values of the device, whose gradient is an error."""

    @staticmethod
    def forward(context: Any, work: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return what the device gives."""
        del context, tensors
        return tuple(work())

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        """Refuse."""
        raise UserError("kpusim computes no gradients. Fix: call the model under torch.no_grad().")


def with_refused_gradient(execute: Any, arguments: Sequence[Any]) -> Any:
    """Execute; using a gradient of the outputs is an error."""
    whole: list[Any] = []

    def work() -> list[torch.Tensor]:
        whole[:] = [execute(arguments)]
        return [
            value for value in torch.utils._pytree.tree_leaves(whole[0]) if isinstance(value, torch.Tensor)
        ]

    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    outputs = iter(RefusedGradient.apply(work, *tensors))
    return torch.utils._pytree.tree_map(
        lambda value: next(outputs) if isinstance(value, torch.Tensor) else value, whole[0]
    )
