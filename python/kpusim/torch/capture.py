"""PyTorch's graphs as ONNX models in memory, by way of torch.export and PyTorch's own exporter."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir
import torch
from torch.utils import _pytree as pytree

from kpusim.errors import UserError
from kpusim.errors.compiling import UnsupportedOpError
from kpusim.torch.decompositions import DECOMPOSITIONS

OPSET = 20
SMALL_BYTES = 1024  #: constants up to this size stay in the model: shapes, axes, scalars
Location = tuple[str, str]  #: operator, source line


@dataclass
class Captured:
    """A model in memory.

    Attributes
    ----------
    model : bytes
        ONNX; large constants are named as external data.
    weights : dict of str to memoryview
        External data by its location: views of PyTorch's memory.
    inputs, outputs : list of str
        Names of the model's inputs and outputs.
    places : dict of str to str
        Source line of each node of the model.
    """

    model: bytes
    weights: dict[str, memoryview]
    inputs: list[str]
    outputs: list[str]
    places: dict[str, str] = field(default_factory=dict)


class Structure:
    """Nesting of outputs; an object of its own, since capturing takes back what it sees change."""

    spec: Any = None
    kept: list[Any]  #: outputs that are no tensors, in tuples; None: a tensor of the model


class Flat(torch.nn.Module):
    """A module with tensors in and tensors out: what else it takes is bound, what else it gives is kept.

    Parameters
    ----------
    inner : callable
        What is called.
    bound : dict of int to object
        Positional arguments that are no inputs: tensors become buffers.
    """

    def __init__(self, inner: torch.nn.Module, bound: dict[int, Any] | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.bound: dict[int, Any] = {}
        for position, value in (bound or {}).items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(f"bound_{position}", value.detach())
            else:
                self.bound[position] = value
        self.structure = Structure()
        self.changed: list[int] = []  #: inputs that are changed in place: what they become is an output too

    def arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs and bound arguments in their order."""
        values = dict(self.bound)
        for name, buffer in self.named_buffers(recurse=False):
            values[int(name.removeprefix("bound_"))] = buffer
        rest = iter(inputs)
        return [values[i] if i in values else next(rest) for i in range(len(values) + len(inputs))]

    def called(self, arguments: list[Any]) -> Any:
        """Call what is inside; nodes of dynamo's graph pass on the source lines that they came from."""
        if not isinstance(self.inner, torch.fx.GraphModule):
            return self.inner(*arguments)
        with torch.fx.traceback.preserve_node_meta():
            return torch.fx.Interpreter(self.inner).run(*arguments)

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """Return the tensors among the outputs."""
        flat, self.structure.spec = pytree.tree_flatten(self.called(self.arguments(inputs)))
        self.structure.kept = [None if isinstance(value, torch.Tensor) else (value,) for value in flat]
        tensors = [value for value in flat if isinstance(value, torch.Tensor)]
        return tuple(value.clone() for value in [*tensors, *(inputs[i] for i in self.changed)])

    def rebuilt(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Outputs as the caller expects them."""
        rest = iter(tensors)
        flat = [next(rest) if kept is None else kept[0] for kept in self.structure.kept]
        return pytree.tree_unflatten(flat, self.structure.spec)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence what the exporter tells of its own steps."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def known_operators() -> Iterator[None]:
    """Keep the exporter's table of operators, which it would make anew each time: half of a second."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # another version of PyTorch
        yield
        return
    make = ONNXRegistry.__dict__.get("from_torchlib")
    if not isinstance(make, classmethod):
        yield
        return
    inner = make.__func__

    def kept(cls: type, *arguments: Any, **options: Any) -> Any:
        key = (arguments, tuple(sorted(options.items())))
        if key not in TABLES:
            TABLES[key] = inner(cls, *arguments, **options)
        return TABLES[key]

    ONNXRegistry.from_torchlib = classmethod(kept)
    try:
        yield
    finally:
        ONNXRegistry.from_torchlib = make


@contextlib.contextmanager
def listed_composites() -> Iterator[None]:
    """Keep objects for all composite operators, which PyTorch looks for 80 times in an export: a third of it.

    There is nothing to make while the list of registered ones stays as it is.
    """
    try:
        from torch._export import utils
    except ImportError:  # another version of PyTorch
        yield
        return
    materialize = getattr(utils, "_materialize_cpp_cia_ops", None)
    registered = getattr(torch._C, "_dispatch_get_registrations_for_dispatch_key", None)
    if materialize is None or registered is None:
        yield
        return

    def once() -> None:
        names = registered("CompositeImplicitAutograd")
        if names != COMPOSITES:
            materialize()
            COMPOSITES[:] = names

    setattr(utils, "_materialize_cpp_cia_ops", once)  # noqa: B010  (mypy: it is no name of the module's stubs)
    try:
        yield
    finally:
        setattr(utils, "_materialize_cpp_cia_ops", materialize)  # noqa: B010


COMPOSITES: list[str] = []
TABLES: dict[Any, Any] = {}
#: Operators that differ in training, and the argument that says so.
TRAINING_ARGUMENT = {
    torch.ops.aten.dropout.default: 2,
    torch.ops.aten.native_dropout.default: 2,
    torch.ops.aten.feature_dropout.default: 2,
    torch.ops.aten.alpha_dropout.default: 2,
    torch.ops.aten.batch_norm.default: 5,
}


def flat_program(flat: Flat, inputs: tuple[Any, ...], what: str) -> torch.export.ExportedProgram:
    """Return a module as a graph whose only effects are its outputs.

    Raises
    ------
    UserError
        As of :func:`exported`.
    """
    program = decomposed(exported(flat, inputs, what))
    kinds = torch.export.graph_signature.OutputKind
    specs = program.graph_signature.output_specs
    names = list(program.graph_signature.user_inputs)
    flat.changed = [names.index(spec.target) for spec in specs if spec.kind is kinds.USER_INPUT_MUTATION]
    return decomposed(exported(flat, inputs, what)) if flat.changed else program


def exported(module: torch.nn.Module, inputs: tuple[Any, ...], what: str) -> torch.export.ExportedProgram:
    """Return a module as a graph of ATen operators.

    Raises
    ------
    UserError
        With the reason and the source line, when its control flow depends on values.
    """
    try:
        with quiet(), listed_composites(), torch.no_grad():
            return torch.export.export(module, inputs, strict=False)
    except UserError:
        raise
    except Exception as error:  # PyTorch raises many kinds
        raise UserError(
            f"{what}: PyTorch cannot capture it: {first_line(error)}{place_in(error)}. "
            "Fix: make shapes and branches independent of the values of tensors."
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else ''}"


def place_in(error: BaseException) -> str:
    """Find where in the user's source an error came from."""
    at, found = error.__traceback__, ""
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if "/torch/" not in name and "/kpusim/" not in name and not name.startswith("<"):
            found = f" ({name}:{at.tb_lineno})"
        at = at.tb_next
    return found


def to_onnx(program: torch.export.ExportedProgram, what: str) -> Captured:
    """Return an exported program as an ONNX model.

    Raises
    ------
    UnsupportedOpError
        For operators that have no counterpart, with their source lines.
    """
    return captured(onnx_program(program, what).model)


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose changes in place, and operators that PyTorch's exporter lacks."""
    with quiet(), listed_composites():
        return program.run_decompositions(DECOMPOSITIONS)


def onnx_program(
    program: torch.export.ExportedProgram, what: str, *, optimize: bool = True
) -> torch.onnx.ONNXProgram:
    """Return the exporter's result, simplified by it if `optimize` is set.

    Raises
    ------
    UserError
        As of :func:`to_onnx`.
    """
    refuse_training(program, what)
    try:
        with quiet(), known_operators(), listed_composites():
            made = torch.onnx.export(
                program, dynamo=True, opset_version=OPSET, verbose=False, optimize=optimize
            )
    except Exception as error:
        fix = (
            "Fix: replace these operators, or leave them to PyTorch: torch.compile with "
            "options={'fallback': 'eager'}."
        )
        if missing := unknown_operators(program):
            listed = "; ".join(f"{name} ({place})" if place else name for name, place in missing)
            names = sorted({name for name, _ in missing})
            raise UnsupportedOpError(names, f"{what}: no counterpart in ONNX: {listed}. {fix}") from error
        raise UserError(f"{what}: {conversion_error(error)}. {fix}") from error
    if made is None:
        raise UserError(f"{what}: PyTorch exported nothing. Fix: give a module with tensors as outputs.")
    return made


def unknown_operators(program: torch.export.ExportedProgram) -> list[Location]:
    """Return the operators that the exporter lacks, each with its source line; none where it has no table."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # another version of PyTorch
        return []
    with known_operators():
        table = ONNXRegistry.from_torchlib(opset_version=OPSET)
    found: dict[Location, None] = {}
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and not table.get_decomps(node.target):
            place = user_line(node.meta.get("stack_trace") or "")
            found[str(node.target), place] = None
    return list(found)


def conversion_error(error: BaseException) -> str:
    """Say what the exporter could not convert: the last cause says it best."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"PyTorch's exporter cannot convert it: {first_line(error)}"


def refuse_training(program: torch.export.ExportedProgram, what: str) -> None:
    """Refuse what only training does: statistics of batch norms that change, dropout."""
    kinds = torch.export.graph_signature.OutputKind
    changed = [
        spec.target for spec in program.graph_signature.output_specs if spec.kind is kinds.BUFFER_MUTATION
    ]
    active = [
        str(node.target)
        for node in program.graph.nodes
        if (switch := TRAINING_ARGUMENT.get(node.target)) is not None
        and len(node.args) > switch
        and node.args[switch] is True
    ]
    if changed or active:
        told = ", ".join(map(str, changed + active))
        raise UserError(
            f"{what}: it is in training mode, or changes its buffers ({told}). "
            "Fix: call model.eval() before; give state as inputs."
        )


def captured(model: onnx_ir.Model) -> Captured:
    """Return the bytes of a model, and its weights beside them."""
    places = {node.name or "": place for node in model.graph if (place := place_of(node))}
    weights = detach(model)
    return Captured(
        model=onnx_ir.to_proto(model).SerializeToString(),
        weights=weights,
        inputs=[value.name or "" for value in model.graph.inputs],
        outputs=[value.name or "" for value in model.graph.outputs],
        places=places,
    )


def detach(model: onnx_ir.Model) -> dict[str, memoryview]:
    """Large constants become external data that is in memory, without a copy."""
    weights: dict[str, memoryview] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.nbytes <= SMALL_BYTES:
            continue
        data = np.ascontiguousarray(tensor.numpy())
        weights[name] = data.reshape(-1).view(np.uint8).data
        value.const_value = onnx_ir.ExternalTensor(
            location=name,
            offset=0,
            length=data.nbytes,
            dtype=tensor.dtype,
            shape=onnx_ir.Shape(tensor.shape),
            name=name,
        )
    return weights


def place_of(node: onnx_ir.Node) -> str:
    """Return the user's source line that a node came from: the innermost that is not PyTorch's."""
    return user_line(node.metadata_props.get("pkg.torch.onnx.stack_trace", ""))


def user_line(trace: str) -> str:
    """Return the innermost line of a stack that is not PyTorch's, as file:line."""
    found = ""
    for line in trace.splitlines():
        text = line.strip()
        if text.startswith('File "') and "/torch/" not in text and "<eval_with_key>" not in text:
            parts = text.split('"')
            found = f"{parts[1]}:{parts[2].split('line ')[-1].split(',')[0]}"
    return found
