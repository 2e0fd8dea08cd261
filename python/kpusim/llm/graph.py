"""ONNX models without the bytes of their weights, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kpusim.base.extras import extra
from kpusim.llm.formats import BLOCK, Formats

STEP = 0.05  #: of quantized activations; time does not depend on it


class Graph:
    """A model under construction: methods add nodes, and give the name of their result.

    Attributes
    ----------
    prefix : str
        Of the names that follow: the layer's.
    has_steps : bool
        Whether any value is quantized.
    weight_bytes : float
        Of all weights, as they lie in DRAM.
    cache_read_bytes, cache_written_bytes : int
        Of keys and values that are read, and made.
    """

    def __init__(self, name: str, formats: Formats) -> None:
        self._onnx = extra("onnx", "`kpusim llm`", "llm")
        self._name = name
        self.formats = formats
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._known: dict[object, str] = {}
        self._taken: dict[str, int] = {}
        self.prefix = ""
        self.has_steps = False
        self.weight_bytes = 0.0
        self.cache_read_bytes = 0
        self.cache_written_bytes = 0

    def input(self, name: str, shape: Sequence[int], kind: str | None = None) -> str:
        """Declare an input, of floats if no other type is said."""
        full = self._unique(name)
        number = self._kind(kind or self.formats.floats)
        self._inputs.append(self._onnx.helper.make_tensor_value_info(full, number, list(shape)))
        return full

    def output(self, name: str, value: str) -> None:
        """Declare an output."""
        full = self._unique(name)
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [full]))
        self._outputs.append(self._onnx.ValueInfoProto(name=full))

    def node(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node; its result has its name."""
        return self.nodes(operator, inputs, name, 1, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[str], name: str, count: int, **attributes: Any
    ) -> list[str]:
        """Add a node of several results."""
        full = self._unique(name)
        results = [full, *(f"{full}.{index}" for index in range(1, count))]
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), results, full, **attributes))
        return results

    def integers(self, *values: int) -> str:
        """Return a constant of shapes, axes and the like."""
        return self._constant("INT64", [len(values)], values)

    def number(self, value: float) -> str:
        """Return a float scalar."""
        return self._constant(self.formats.floats, [], [value])

    def absent(self, name: str, shape: Sequence[int], kind: str | None = None) -> str:
        """Return a constant of which there is the shape alone."""
        full = self._unique(name)
        tensor = self._onnx.TensorProto(name=full, dims=shape)
        tensor.data_type = self._kind(kind or self.formats.floats)
        tensor.data_location = self._onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "absent.bin"
        self._constants.append(tensor)
        return full

    def vector(self, name: str, size: int) -> str:
        """Return a weight of one dimension, which stays floats."""
        self.weight_bytes += size * self.formats.float_bytes
        return self.absent(name, [size])

    def filled(self, shape: Sequence[int], value: float, name: str) -> str:
        """Return a constant of one number: scales, whose sizes decide what is in range."""
        one = self._onnx.helper.make_tensor("value", self._kind(self.formats.floats), [1], [value])
        return self.node("ConstantOfShape", [self.integers(*shape)], name, value=one)

    def reshape(self, value: str, shape: Sequence[int], name: str) -> str:
        """Return the same elements in another shape."""
        return self.node("Reshape", [value, self.integers(*shape)], name)

    def slice(self, value: str, axis: int, begin: int, end: int, name: str) -> str:
        """Return a part along an axis."""
        bounds = [self.integers(begin), self.integers(end), self.integers(axis)]
        return self.node("Slice", [value, *bounds], name)

    def steps(self, value: str, name: str) -> str:
        """Return the value in int8: steps that are made, and read as floats."""
        self.has_steps = True
        operands = [self.number(STEP), self._constant("INT8", [], [0])]
        steps = self.node("QuantizeLinear", [value, *operands], f"{name}.steps")
        return self.node("DequantizeLinear", [steps, *operands], f"{name}.int8")

    def cached(self, value: str, name: str) -> str:
        """Return the value as the cache holds it."""
        return self.steps(value, name) if self.formats.quantized_cache else value

    def product(self, a: str, b: str, name: str) -> str:
        """Return a product of two activations, one of which is of the cache."""
        return self.cached(self.node("MatMul", [a, b], name), name)

    def linear(
        self, value: str, inputs: int, outputs: int, name: str, *, bias: bool = False, quantized: bool = True
    ) -> str:
        """Return a product with a weight."""
        quantized = quantized and self.formats.quantized
        if quantized:
            weight = self._quantized_weight(inputs, outputs, name)
            result = self.node("MatMul", [self.steps(value, f"{name}.in"), weight], name)
            self.weight_bytes += self.formats.weight_bytes(inputs, outputs)
        else:
            result = self.node("MatMul", [value, self.absent(f"{name}.weight", [inputs, outputs])], name)
            self.weight_bytes += inputs * outputs * self.formats.float_bytes
        if bias:
            result = self.node("Add", [result, self.vector(f"{name}.bias", outputs)], f"{name}.add")
        return self.steps(result, name) if quantized else result

    def save(self, path: Path) -> None:
        """Write the model."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        path.write_bytes(model.SerializeToString())

    def _quantized_weight(self, inputs: int, outputs: int, name: str) -> str:
        size = inputs**-0.5 / 60  # so that results are about as large as operands
        if self.formats.precision == "int8":
            steps = self.absent(f"{name}.weight", [inputs, outputs], "INT8")
            scales = self.filled([outputs], size, f"{name}.scales")
            return self.node("DequantizeLinear", [steps, scales], f"{name}.floats", axis=1)
        steps = self.absent(f"{name}.weight", [inputs, outputs], "INT4")
        scales = self.filled([-(-inputs // BLOCK), outputs], size * 15, f"{name}.scales")
        return self.node("DequantizeLinear", [steps, scales], f"{name}.floats", axis=0, block_size=BLOCK)

    def _constant(self, kind: str, shape: Sequence[int], values: Sequence[float]) -> str:
        key = (kind, tuple(shape), tuple(values))
        if key not in self._known:
            self._known[key] = f"constant_{len(self._known)}"
            tensor = self._onnx.helper.make_tensor(self._known[key], self._kind(kind), shape, values)
            self._constants.append(tensor)
        return self._known[key]

    def _kind(self, name: str) -> Any:
        return self._onnx.TensorProto.DataType.Value(name)

    def _unique(self, name: str) -> str:
        """Return the name with the layer's before it, which no other value has."""
        full = self.prefix + name
        count = self._taken[full] = self._taken.get(full, 0) + 1
        return full if count == 1 else f"{full}.{count}"
