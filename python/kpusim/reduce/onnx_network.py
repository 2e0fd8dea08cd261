"""ONNX models that nodes are left out of."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kpusim.base.extras import extra
from kpusim.errors import UserError

GRAPHS = (5, 10)  #: kinds of attributes that hold graphs: GRAPH and GRAPHS


class OnnxNetwork:
    """A model, with the types of all values.

    Attributes
    ----------
    model : onnx.ModelProto
        It.
    size : int
        Nodes of its main graph.
    """

    suffix = ".onnx"

    def __init__(self, model: Any, types: dict[str, Any]) -> None:
        self.model = model
        self.types = types
        self.size = len(model.graph.node)

    @classmethod
    def load(cls, path: Path) -> OnnxNetwork:
        """Read a model, external data included."""
        onnx = extra("onnx", "`kpusim reduce`", "onnx")
        try:
            model = onnx.load(str(path))
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception as error:  # of protobuf, of ONNX's checks, or of a file beside it
            raise UserError(f"{path}: {error}. Fix: give an ONNX model, or the text of a graph.") from None
        if not model.graph.node:
            raise UserError(
                f"{path}: there is no node in it. Fix: give an ONNX model, or the text of a graph."
            )
        return cls(model, types_of(model))

    def kept(self, nodes: Sequence[int]) -> OnnxNetwork | None:
        """Implement Network."""
        chosen = [self.model.graph.node[i] for i in nodes]
        made = {name for node in chosen for name in node.output if name}
        read = list(dict.fromkeys(name for node in chosen for name in reads_of(node)))
        constants = {tensor.name for tensor in self.model.graph.initializer}
        constants |= {tensor.values.name for tensor in self.model.graph.sparse_initializer}
        missing = [name for name in read if name not in made and name not in constants]
        ends = [value.name for value in self.model.graph.output if value.name in made]
        ends += [
            name for node in chosen for name in node.output if name and name not in read and name not in ends
        ]
        if not ends or any(name not in self.types for name in missing):
            return None
        onnx = extra("onnx", "`kpusim reduce`", "onnx")
        model = self._empty()
        graph = model.graph
        graph.node.extend(chosen)
        graph.input.extend(self.types[name] for name in missing)
        graph.output.extend(self.types.get(name) or onnx.ValueInfoProto(name=name) for name in ends)
        graph.initializer.extend(t for t in self.model.graph.initializer if t.name in read or t.name in ends)
        graph.sparse_initializer.extend(
            t for t in self.model.graph.sparse_initializer if t.values.name in read
        )
        return OnnxNetwork(model, self.types)

    def smaller(self) -> Iterator[tuple[str, OnnxNetwork]]:
        """Implement Network: outputs, attributes, sizes of inputs."""
        outputs = self.model.graph.output
        for index in range(len(outputs) if len(outputs) > 1 else 0):
            model = copy.deepcopy(self.model)
            del model.graph.output[index]
            yield f"output {outputs[index].name}", OnnxNetwork(model, self.types)
        for place, node in enumerate(self.model.graph.node):
            for index, attribute in enumerate(node.attribute):
                model = copy.deepcopy(self.model)
                del model.graph.node[place].attribute[index]
                if (checked := self._checked(model)) is not None:
                    yield f"attribute {attribute.name} of {node.name or node.op_type}", checked
        sizes = {
            dim.dim_value
            for value in self.model.graph.input
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_value > 1
        }
        for size in sorted(sizes, reverse=True):
            for less in dict.fromkeys((1, size // 2)):
                model = copy.deepcopy(self.model)
                for value in model.graph.input:
                    for dim in value.type.tensor_type.shape.dim:
                        if dim.dim_value == size:
                            dim.dim_value = less
                if (checked := self._checked(model)) is not None:
                    yield f"size {size} to {less}", checked

    def content(self) -> bytes:
        """Implement Network."""
        return bytes(self.model.SerializeToString(deterministic=True))

    def write(self, path: Path) -> None:
        """Implement Network."""
        path.write_bytes(self.content())

    def summary(self) -> str:
        """Implement Network."""
        graph = self.model.graph
        attributes = sum(len(node.attribute) for node in graph.node)
        return (
            f"{self.size} nodes, {len(graph.input)} inputs, {len(graph.output)} outputs, "
            f"{len(graph.initializer)} constants, {attributes} attributes"
        )

    def _empty(self) -> Any:
        """Return the model without its graph's contents."""
        onnx = extra("onnx", "`kpusim reduce`", "onnx")
        model = onnx.ModelProto()
        for name in ("ir_version", "producer_name"):
            setattr(model, name, getattr(self.model, name))
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        model.graph.name = self.model.graph.name or "reduced"
        return model

    def _checked(self, model: Any) -> OnnxNetwork | None:
        """Return the model with its types inferred anew, if ONNX's own rules take it."""
        onnx = extra("onnx", "`kpusim reduce`", "onnx")
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        try:
            model = onnx.shape_inference.infer_shapes(
                model, check_type=True, strict_mode=True, data_prop=True
            )
            onnx.checker.check_model(model)
        except Exception:  # ONNX has many kinds of them
            return None
        return OnnxNetwork(model, types_of(model))


def types_of(model: Any) -> dict[str, Any]:
    """Types of the values of a graph, as far as they are known."""
    graph = model.graph
    return {
        value.name: value
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.WhichOneof("value") is not None
    }


def reads_of(node: Any) -> Iterator[str]:
    """Yield what a node reads, also in graphs of its own; names that these make are theirs."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type in GRAPHS:
            for graph in (attribute.g, *attribute.graphs):
                own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
                own |= {name for inner in graph.node for name in inner.output}
                read = [name for inner in graph.node for name in reads_of(inner)]
                read += [value.name for value in graph.output]
                yield from (name for name in read if name not in own)
