"""A graph that grows node by node, its values beside it: ONNX Runtime computes each node as it is added.

Kinds say what a graph has: those of a part are noted with each node that it adds, so that a wrong node
names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = NDArray[Any]
MICROSOFT = "com.microsoft"
onnxruntime.set_default_logger_severity(4)


@cache
def session_options() -> onnxruntime.SessionOptions:
    """Nothing is optimised."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


#: Integer products: where the first operand, the second one, and the second one's zero point stand.
INTEGER_PRODUCTS = {
    "MatMulInteger": (0, 1, 3),
    "ConvInteger": (0, 1, 3),
    "QLinearMatMul": (0, 3, 5),
    "QLinearConv": (0, 3, 5),
    "QGemm": (0, 3, 5),
}


def with_unsigned_weights(
    node: onnx.NodeProto, values: dict[str, Array]
) -> tuple[onnx.NodeProto, dict[str, Array]]:
    """Return the same integer product, without i8 after u8.

    There ONNX Runtime's kernels for AVX2 add pairs of products in 16 bits, which saturate.
    """
    first, second, zero = INTEGER_PRODUCTS.get(node.op_type, (0, 0, 0))
    types = [values[node.input[each]].dtype for each in (first, second)]
    if not second or types != [np.uint8, np.int8]:
        return node, values
    given = node.input[zero] if zero < len(node.input) else ""
    zeros = values[given] if given else np.zeros((), np.int8)
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.input.extend([""] * (zero + 1 - len(node.input)))
    changed.input[second], changed.input[zero] = "unsigned weights", "unsigned zero"
    shifted = {
        changed.input[second]: values[node.input[second]].view(np.uint8) ^ np.uint8(128),
        changed.input[zero]: np.asarray(zeros.view(np.uint8) ^ np.uint8(128)),
    }
    return changed, {**values, **shifted}


def info(name: str, array: Array) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor that holds an array."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Array],
    constants: dict[str, Array],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int,
) -> onnx.ModelProto:
    """Return a model of nodes."""
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(
        list(nodes), "graph", [info(*item) for item in inputs.items()], list(outputs), tensors
    )
    sets = [helper.make_opsetid("", opset)]
    if any(node.domain for node in nodes):
        sets.append(helper.make_opsetid(MICROSOFT, 1))
    return helper.make_model(graph, opset_imports=sets, ir_version=8 if opset < 19 else 10)


def compute(
    node: onnx.NodeProto, values: dict[str, Array], constants: dict[str, Array], opset: int
) -> list[Array]:
    """Return what ONNX Runtime makes of a node alone."""
    node, values = with_unsigned_weights(node, values)
    names = [name for name in dict.fromkeys(node.input) if name]
    given = {name: values[name] for name in names if name not in constants}
    held = {name: constants[name] for name in names if name in constants}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = model_of([node], given, held, outputs, opset)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)


class UnsuitableError(Exception):
    """A part that this graph cannot have."""


@dataclass
class QdqGraph:
    """Nodes, constants and inputs with their values."""

    rng: np.random.Generator
    opset: int
    half: bool  #: inputs and float constants are numbers of f16, as far as they can be
    only_i8: bool = False  #: no integers but i8 in steps of activations
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)  #: also of constants
    kinds: dict[str, set[str]] = field(default_factory=dict)  #: by the first output of each node
    live: list[str] = field(default_factory=list)  #: floats that further parts may use
    outputs: list[str] = field(default_factory=list)  #: that are ones whoever uses them
    current: set[str] = field(default_factory=set)  #: kinds of the part that grows

    # Random choices

    def chance(self, probability: float = 0.5) -> bool:
        """True so often."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, options: Sequence[Any]) -> Any:  # noqa: ANN401
        """Return one of them."""
        return options[self.integer(0, len(options) - 1)]

    # Growing

    def kind(self, *names: str) -> None:
        """The part that grows has these."""
        self.current.update(names)

    @contextmanager
    def part(self) -> Iterator[None]:
        """Nodes of one part; what ONNX Runtime cannot compute leaves nothing."""
        before = len(self.nodes), list(self.live), list(self.outputs)
        self.current = set()
        try:
            yield
        except Exception:
            self.nodes, self.live, self.outputs = self.nodes[: before[0]], before[1], before[2]
            raise
        for node in self.nodes[before[0] :]:
            self.kinds[node.output[0]] = self.current

    def name(self, stem: str) -> str:
        """Return a new name."""
        return f"{stem}_{len(self.values)}"

    def constant(self, array: object, dtype: object = None) -> str:
        """Return an initializer."""
        name = self.name("c")
        self.constants[name] = self.values[name] = np.asarray(array, dtype)
        return name

    def reals(self, shape: Sequence[int], spread: float = 1.0) -> Array:
        """Float numbers around 0."""
        made = self.rng.normal(0, spread, tuple(shape)).astype(np.float32)
        return made.astype(np.float16).astype(np.float32) if self.half else made

    def input(self, array: Array) -> str:
        """Return an input of the graph."""
        if self.half and array.dtype == np.float32:
            array = array.astype(np.float16).astype(np.float32)
        name = self.name("x")
        self.inputs[name] = self.values[name] = array
        return name

    def add_all(self, op: str, operands: Sequence[str], count: int = 1, **attributes: object) -> list[str]:
        """Add a node; gives the names of its results."""
        names = [f"{op}_{len(self.values)}_{i}" if count > 1 else self.name(op) for i in range(count)]
        node = helper.make_node(op, operands, names, name=names[0], **attributes)
        for name, array in zip(names, compute(node, self.values, self.constants, self.opset), strict=True):
            if np.size(array) == 0:
                raise UnsuitableError
            self.values[name] = np.asarray(array)
        self.nodes.append(node)
        return names

    def add(self, op: str, *operands: str, **attributes: object) -> str:
        """Add a node of one result."""
        return self.add_all(op, operands, 1, **attributes)[0]

    # The model

    def users(self) -> dict[str, list[onnx.NodeProto]]:
        """Nodes that read each tensor."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                found.setdefault(name, []).append(node)
        return found

    def results(self) -> list[str]:
        """Return every tensor that a node makes."""
        return [name for node in self.nodes for name in node.output if name]

    def ends(self) -> list[str]:
        """Outputs of the model: those that were asked for, and those that nobody reads."""
        users = self.users()
        return [name for name in self.results() if name in self.outputs or name not in users]

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the model with these outputs."""
        used = {name for node in self.nodes for name in node.input}
        return model_of(
            self.nodes,
            {name: array for name, array in self.inputs.items() if name in used},
            {name: array for name, array in self.constants.items() if name in used},
            [info(name, self.values[name]) for name in outputs],
            self.opset,
        )
