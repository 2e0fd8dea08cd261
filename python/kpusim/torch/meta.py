"""Modules without storage: their time on a device, before there are weights."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import onnx_ir
import torch
from torch.utils import _pytree as pytree

from kpusim.errors import UserError
from kpusim.platform import Platform
from kpusim.run.run import Run
from kpusim.simulation.simulation import Simulation
from kpusim.torch.backend import Options, compiled
from kpusim.torch.capture import Captured, Flat, captured, flat_program, onnx_program

#: A location that no file is given for: the compiler takes such weights as absent.
ABSENT = "absent"


def estimate(
    module: torch.nn.Module,
    inputs: torch.Tensor | Sequence[Any],
    *,
    platform: Platform | str | os.PathLike[str] = "swkpu-v1",
    precision: str | None = None,
    **options: Any,
) -> Run:
    """Estimate how long a module would take on a device. Neither weights nor inputs need storage.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation mode, made under ``torch.device("meta")``, or moved there.
    inputs : torch.Tensor or sequence
        Its arguments, nested or not; of tensors, shape and type count.
    platform, precision
        The device, and the type of the products, as of :func:`kpusim.torch.backend`.
    **options
        As of :class:`kpusim.precision.Mixing`, and ``calibration``; int8 and int4 have random samples by
        default.

    Returns
    -------
    Run
        Cycles, causes, bytes, energy: all that a run in timing mode has.

    Raises
    ------
    UserError
        For what cannot be captured or compiled, with source lines; options whose result depends on weights.

    Examples
    --------
    >>> import torch, kpusim.torch
    >>> with torch.device("meta"):
    ...     layer, x = torch.nn.Linear(512, 512).eval(), torch.empty(8, 512)
    >>> kpusim.torch.estimate(layer, x, platform="tile32", precision="bf16").mode
    'timing'
    """
    arguments = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    if "fallback" in options or "mode" in options:
        raise UserError("an estimate has neither `fallback` nor `mode`. Fix: leave them out.")
    chosen = Options.of({"platform": platform, "precision": precision, **options})
    samples = chosen.calibration
    if samples is None and precision in ("int8", "int4"):
        samples = "random:1"
    what = type(module).__name__
    given = pytree.tree_map_only(torch.Tensor, lambda value: value.to("meta"), tuple(arguments))
    program = flat_program(Flat(on_meta(module)), given, what)
    model = without_weights(onnx_program(program, what, optimize=False).model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the samples are random numbers.*")
        return Simulation(compiled(model, chosen, what, samples), mode="timing").run()


def on_meta(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module without storage: itself where it has none."""
    tensors = [*module.parameters(), *module.buffers()]
    if all(tensor.is_meta for tensor in tensors):
        return module
    raise UserError(
        f"{type(module).__name__}: it has weights. "
        "Fix: make it under torch.device('meta'), or give module.to('meta')."
    )


def without_weights(model: onnx_ir.Model) -> Captured:
    """Return a model whose weights are on the meta device, simplified, with absent weights."""
    import onnxscript.optimizer  # half of a second, which those who only compile need not wait

    graph = model.graph
    absent = {
        name: value.const_value
        for name, value in graph.initializers.items()
        if isinstance(raw := getattr(value.const_value, "raw", None), torch.Tensor) and raw.is_meta
    }
    inputs = list(graph.inputs)
    for name in absent:  # as inputs, so that nothing is computed of them at once
        value = graph.initializers.pop(name)
        value.const_value = None
        graph.inputs.append(value)
    onnxscript.optimizer.optimize_ir(model)
    weights = [value for value in graph.inputs if value.name in absent]
    graph.inputs[:] = inputs
    found = captured(model)
    for value in weights:
        tensor = absent[value.name]
        declare(graph, value, tensor.dtype, tensor.shape)
        for node in [user for user, _ in value.uses() if user.op_type == "Transpose"]:
            fold_transpose(graph, node, tensor)
    found.model = onnx_ir.to_proto(model).SerializeToString()
    return found


def declare(graph: onnx_ir.Graph, value: onnx_ir.Value, dtype: onnx_ir.DataType, shape: Any) -> None:
    """Make a value a weight that is absent."""
    length = int(-(-dtype.bitwidth * math.prod(shape) // 8))
    value.const_value = onnx_ir.ExternalTensor(
        location=ABSENT, offset=0, length=length, dtype=dtype, shape=onnx_ir.Shape(shape), name=value.name
    )
    graph.register_initializer(value)


def fold_transpose(graph: onnx_ir.Graph, node: onnx_ir.Node, tensor: onnx_ir.TensorProtocol) -> None:
    """The exporter's own result for a weight that is there: one that lies transposed."""
    result = node.outputs[0]
    shape = [tensor.shape[int(axis)] for axis in node.attributes["perm"].as_ints()]
    turned = onnx_ir.Value(
        name=f"{result.name}_turned", type=onnx_ir.TensorType(tensor.dtype), shape=onnx_ir.Shape(shape)
    )
    declare(graph, turned, tensor.dtype, shape)
    result.replace_all_uses_with(turned)
    graph.remove(node, safe=True)
