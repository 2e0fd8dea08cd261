"""Building models of one operator with random operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from graph_run import Array, Case
from onnx import helper, numpy_helper

# ONNX Runtime multiplies no more exactly with u8 where the processor sums pairs in 16 bits.
SEVEN_BITS = 63


@dataclass
class Const:
    """An operand that is a constant of the model."""

    array: Array


Operand = Array | Const | None


class Draft:
    """Random numbers, and models out of them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float = 0.5) -> bool:
        """True so often."""
        return bool(self.rng.random() < probability)

    def pick(self, values: Sequence[Any]) -> Any:  # noqa: ANN401
        """Return one of them."""
        return values[self.integer(0, len(values) - 1)]

    def shape(self, low: int = 1, high: int = 4, size: int = 6) -> list[int]:
        """Dimensions."""
        return [self.integer(1, size) for _ in range(self.integer(low, high))]

    def floats(self, shape: Sequence[int], low: float = -3, high: float = 3) -> Array:
        """Return the numbers of a range, float32."""
        return self.rng.uniform(low, high, tuple(shape)).astype(np.float32)

    def ints(self, shape: Sequence[int], low: int, high: int, dtype: Any = np.int64) -> Array:  # noqa: ANN401
        """Integers, both ends included."""
        return self.rng.integers(low, high + 1, tuple(shape)).astype(dtype)

    def numbers(self, shape: Sequence[int]) -> Array:
        """Floats or small int32."""
        return self.floats(shape) if self.chance(0.75) else self.ints(shape, -50, 50, np.int32)

    def partner(self, shape: Sequence[int]) -> list[int]:
        """Return a shape that broadcasts with another."""
        kept = [1 if self.chance(0.3) else size for size in shape]
        return kept[self.integer(0, len(kept)) :] if self.chance(0.4) else kept

    def weight(self, array: Array) -> Operand:
        """Return a constant, mostly."""
        return Const(array) if self.chance(0.7) else array

    def opset(self, low: int, high: int = 22) -> int:
        """Return a version of the operators."""
        return self.integer(low, high)


def case(
    type_: str, opset: int, operands: Sequence[Operand], /, outputs: int = 1, **attributes: object
) -> Case:
    """Return a model of one node."""
    node = helper.make_node(
        type_,
        ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)],
        [f"y{i}" for i in range(outputs)],
        **{name: value for name, value in attributes.items() if value is not None},
    )
    return model_case(
        type_, opset, [node], {f"x{i}": operand for i, operand in enumerate(operands)}, node.output
    )


def model_case(
    name: str,
    opset: int,
    nodes: Sequence[onnx.NodeProto],
    operands: dict[str, Operand],
    outputs: Sequence[str],
) -> Case:
    """Return a model of some nodes; the types of outputs are inferred."""
    inputs = {
        key: np.asarray(value) for key, value in operands.items() if not isinstance(value, Const | None)
    }
    constants = [
        numpy_helper.from_array(np.asarray(value.array), key)
        for key, value in operands.items()
        if isinstance(value, Const)
    ]
    infos = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for key, array in inputs.items()
    ]
    results = [onnx.ValueInfoProto(name=output) for output in outputs]
    graph = helper.make_graph(nodes, "graph", infos, results, constants)
    domains = [("", opset), *((node.domain, 1) for node in nodes[:1] if node.domain)]
    sets = [helper.make_opsetid(*domain) for domain in domains]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:  # functions that the test adds later
        pass
    attributes = [attribute.name for node in nodes for attribute in node.attribute]
    if "ceil_mode" in attributes or "equation" in attributes:
        # it counts windows that begin in the padding, and takes a 1 of Einsum for the size beside it, which
        # neither ONNX Runtime nor the reference does
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
    return Case(f"{name}-{opset}", model, inputs)
