"""Builders of small models with their expected values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
F32 = ("--platform", "tile32", "--precision", "f32")


@dataclass
class Case:
    """A model, its inputs and outputs. Without outputs it only has to run."""

    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array] = field(default_factory=dict)
    tolerance: float = 0.0
    options: Sequence[str] = F32


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object) -> onnx.NodeProto:
    """Return an operator."""
    return helper.make_node(op, inputs, outputs, **attributes)


def constant(name: str, value: object, dtype: object = None) -> onnx.TensorProto:
    """Return an initializer."""
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def info(name: str, shape: Sequence[int | str], elem: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return an input or an output."""
    return helper.make_tensor_value_info(name, elem, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model of them."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def steps(x: str, y: str, scale: str, zero: str) -> list[onnx.NodeProto]:
    """x, rounded to the steps, as floats: y."""
    return [
        node("QuantizeLinear", [x, scale, zero], [f"{y}_q"]),
        node("DequantizeLinear", [f"{y}_q", scale, zero], [y]),
    ]


def rounded(x: Array, scale: float, zero: int = 0) -> Array:
    """Return the same in NumPy, to i8, with the division in f32, as ONNX has it."""
    q = np.clip(np.rint(x.astype(np.float32) / np.float32(scale)) + zero, -128, 127)
    return ((q - zero) * np.float32(scale)).astype(np.float32)
