"""Operations that a row of measurements states by their shape: a network of one operator each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kpusim.base.extras import extra
from kpusim.errors import UserError

LARGEST = 1 << 26  #: elements of weights
ONE_OPERAND = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "gelu": "Gelu", "softmax": "Softmax",
}  # fmt: skip
TWO_OPERANDS = {"add": "Add", "mul": "Mul", "sub": "Sub"}
FORMS = {
    "matmul": "MxKxN, such as 64x256x128",
    "conv": "CxHxW KxRxS [stride=N] [pad=N], such as 64x56x56 128x3x3 stride=2 pad=1",
    **dict.fromkeys([*ONE_OPERAND, *TWO_OPERANDS], "sizes of the tensor, such as 128x1024"),
}
_SIZES = r"[1-9]\d{0,8}(?:x[1-9]\d{0,8})*"


@dataclass(frozen=True)
class Operation:
    """An operator on tensors of known sizes.

    Attributes
    ----------
    kind : str
        A key of ``FORMS``.
    sizes : tuple of int
        Of the first operand; of a product M, K and N.
    filters : tuple of int
        Of a convolution: number, height and width.
    stride, pad : int
        Of a convolution.
    """

    kind: str
    sizes: tuple[int, ...]
    filters: tuple[int, ...] = ()
    stride: int = 1
    pad: int = 0

    @classmethod
    def parse(cls, kind: str, shape: str) -> Operation:
        """Read the columns ``operation`` and ``shape``; a UserError for what is none."""
        if kind not in FORMS:
            raise UserError(f"there is no operation `{kind}`. Fix: give one of {', '.join(FORMS)}.")
        wrong = UserError(f"`{shape}` is not a shape of `{kind}`. Fix: write {FORMS[kind]}.")
        words = shape.split()
        if kind == "conv":
            if len(words) < 2 or not all(re.fullmatch(_SIZES, word) for word in words[:2]):
                raise wrong
            more = {"stride": 1, "pad": 0}
            for word in words[2:]:
                match = re.fullmatch(r"(stride|pad)=(\d{1,4})", word)
                if match is None:
                    raise wrong
                more[match[1]] = int(match[2])
            found = cls(kind, _sizes(words[0]), _sizes(words[1]), **more)
            if len(found.sizes) != 3 or len(found.filters) != 3 or found.stride < 1:
                raise wrong
            if any(
                size + 2 * found.pad < side
                for size, side in zip(found.sizes[1:], found.filters[1:], strict=True)
            ):
                raise wrong
        else:
            if len(words) != 1 or not re.fullmatch(_SIZES, words[0]):
                raise wrong
            found = cls(kind, _sizes(words[0]))
            if kind == "matmul" and len(found.sizes) != 3:
                raise wrong
        if found.weights > LARGEST:
            raise UserError(
                f"`{shape}` has {found.weights:,} weights, and at most {LARGEST:,} are made. Fix: give a "
                "model's file in the column `program`."
            )
        return found

    @property
    def weights(self) -> int:
        """Elements of its constant operand."""
        if self.kind == "matmul":
            return self.sizes[1] * self.sizes[2]
        return self.sizes[0] * int(np.prod(self.filters)) if self.kind == "conv" else 0

    def write(self, path: Path) -> None:
        """Write it as an ONNX model of f32, with random weights."""
        onnx = extra("onnx", "a shape in a file of measurements", "calibrate")
        makers: dict[str, Callable[[Any], Any]] = {"matmul": self._product, "conv": self._convolution}
        graph = makers.get(self.kind, self._elementwise)(onnx)
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", 20)],
            ir_version=9,
            producer_name="kpusim calibrate",
        )
        onnx.save(model, str(path))

    def _product(self, onnx: Any) -> Any:
        m, k, n = self.sizes
        node = onnx.helper.make_node("MatMul", ["a", "weights"], ["y"], self.kind)
        return self._graph(onnx, node, {"a": [m, k]}, [m, n], [k, n])

    def _convolution(self, onnx: Any) -> Any:
        filters, rows, columns = self.filters
        node = onnx.helper.make_node(
            "Conv", ["a", "weights"], ["y"], self.kind, kernel_shape=[rows, columns],
            strides=[self.stride] * 2, pads=[self.pad] * 4,
        )  # fmt: skip
        sides = [
            (size + 2 * self.pad - side) // self.stride + 1
            for size, side in zip(self.sizes[1:], self.filters[1:], strict=True)
        ]
        weights = [filters, self.sizes[0], rows, columns]
        return self._graph(onnx, node, {"a": [1, *self.sizes]}, [1, filters, *sides], weights)

    def _elementwise(self, onnx: Any) -> Any:
        names = ["a", "b"] if self.kind in TWO_OPERANDS else ["a"]
        operator = (ONE_OPERAND | TWO_OPERANDS)[self.kind]
        node = onnx.helper.make_node(operator, names, ["y"], self.kind)
        return self._graph(onnx, node, {name: list(self.sizes) for name in names}, list(self.sizes), None)

    def _graph(
        self, onnx: Any, node: Any, inputs: dict[str, list[int]], output: list[int], weights: list[int] | None
    ) -> Any:
        def info(name: str, shape: list[int]) -> Any:
            return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

        constants = []
        if weights is not None:
            values = np.random.default_rng(1).standard_normal(weights, np.float32) / 8
            constants.append(onnx.numpy_helper.from_array(values, "weights"))
        given = [info(name, shape) for name, shape in inputs.items()]
        return onnx.helper.make_graph([node], self.kind, given, [info("y", output)], constants)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))
