"""Small ONNX models, written without packages: what tests that have Python alone compile."""

from __future__ import annotations

import random
from array import array

FLOAT = 1  #: of TensorProto.DataType


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    payload = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def attribute(name: str, value: int | list[int]) -> bytes:
    """INT or INTS."""
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value) + field(20, 2))
    return field(5, field(1, name) + b"".join(field(8, each) for each in value) + field(20, 7))


def value_info(name: str, shape: tuple[int, ...]) -> bytes:
    """Return an input or output of f32."""
    dims = b"".join(field(1, field(1, each)) for each in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dims)))


class Model:
    """Nodes one after the other; constants are random, the same ones each time."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        """With one input, `x`."""
        self.name, self.last = name, "x"
        self.nodes, self.tensors, self.count = b"", b"", 0
        self.input = value_info("x", shape)
        self.random = random.Random(name)

    def constant(self, *shape: int) -> str:
        """Return its name."""
        size = 1
        for extent in shape:
            size *= extent
        self.count += 1
        name = f"c{self.count}"
        values = array("f", (self.random.uniform(-0.2, 0.2) for _ in range(size)))
        dims = b"".join(field(1, extent) for extent in shape)
        self.tensors += field(5, dims + field(2, FLOAT) + field(8, name) + field(9, values.tobytes()))
        return name

    def add(self, kind: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Return a node of these inputs; returns its result, which is also `last`."""
        self.count += 1
        self.last = f"v{self.count}"
        body = b"".join(field(1, each) for each in inputs) + field(2, self.last) + field(3, f"n{self.count}")
        body += field(4, kind) + b"".join(attribute(*each) for each in sorted(attributes.items()))
        self.nodes += field(1, body)
        return self.last

    def to_bytes(self) -> bytes:
        """Return the model, whose output is `last`."""
        graph = self.nodes + field(2, self.name) + self.tensors
        graph += field(11, self.input) + field(12, field(1, self.last))
        return field(1, 9) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def residual(channels: int, blocks: int, edge: int) -> bytes:
    """Convolutions with ways around them, as those of ResNet."""
    m = Model("residual", (1, 3, edge, edge))

    def conv(x: str, out: int, into: int, k: int, stride: int) -> str:
        pads = [k // 2] * 4
        return m.add("Conv", x, m.constant(out, into, k, k), m.constant(out), pads=pads, strides=[stride] * 2)

    x, into = m.add("Relu", conv("x", channels, 3, 3, 1)), channels
    for block in range(blocks):
        out, stride = channels << block, 1 if block == 0 else 2
        y = m.add("Relu", conv(x, out, into, 3, stride))
        y = conv(y, out, out, 3, 1)
        way = x if stride == 1 else conv(x, out, into, 1, stride)
        x, into = m.add("Relu", m.add("Add", y, way)), out
    m.add("Flatten", m.add("GlobalAveragePool", x))
    m.add("Gemm", m.last, m.constant(10, into), m.constant(10), transB=1)
    return m.to_bytes()


def recurrent(steps: int, features: int, hidden: int) -> bytes:
    """Return an LSTM."""
    m = Model("recurrent", (steps, 1, features))
    w, r = m.constant(1, 4 * hidden, features), m.constant(1, 4 * hidden, hidden)
    m.add("LSTM", "x", w, r, m.constant(1, 8 * hidden), hidden_size=hidden)
    return m.to_bytes()


def attention(rows: int, width: int) -> bytes:
    """Return one head, and a layer on its own."""
    m = Model("attention", (rows, width))
    q, k, v = (m.add("MatMul", "x", m.constant(width, width)) for _ in range(3))
    scores = m.add("MatMul", q, m.add("Transpose", k, perm=[1, 0]))
    m.add("MatMul", m.add("Softmax", scores, axis=1), v)
    m.add("LayerNormalization", m.last, m.constant(width), m.constant(width))
    m.add("Relu", m.add("MatMul", m.last, m.constant(width, 2 * width)))
    return m.to_bytes()
