"""Normalisations spelled out in the ways of exporters, in fp16 on large inputs, against ONNX Runtime in f32.

usage: test_norm_forms.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
NORM_MODELS=N tries N random models of six forms each (default 12).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

KPUSIM = os.environ.get("KPUSIM", "")
MODELS = int(os.environ.get("NORM_MODELS", "12"))
FORMS = 6
WITHIN = 2.0**-8  # of the largest number of a result: a few roundings to fp16
LIMIT = 65504

Values = NDArray[np.float32]


class Forms:
    """A model of one input and several normalisations of it, each with its own random choices."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = int(self.pick(11, 13, 18))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[str] = []
        self.told: dict[str, str] = {}
        rank = int(self.pick(2, 3, 4))
        self.shape = [int(self.pick(2, 3))] + [int(self.pick(4, 6, 8, 16)) for _ in range(rank - 1)]
        self.half = bool(self.pick(False, False, True))  # a model in float16, which computes norms in float

    def pick(self, *choices: object) -> object:
        """Return one of them."""
        return choices[int(self.random.integers(len(choices)))]

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add a constant; gives its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add an operator; gives its result."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def reduce(self, kind: str, x: str, axes: Sequence[int], rank: int, keep: bool) -> str:
        """Reduce along axes, some of them counted from the end."""
        axes = [int(self.pick(a, a - rank)) for a in axes]
        operand = self.opset >= (13 if kind == "ReduceSum" else 18)
        if operand:
            return self.op(kind, x, self.constant(axes, np.int64), keepdims=int(keep))
        return self.op(kind, x, axes=axes, keepdims=int(keep))

    def mean(self, x: str, axes: Sequence[int], shape: Sequence[int], keep: bool, kind: str = "") -> str:
        """Return the mean, of squares if `kind` sums these."""
        count = int(np.prod([shape[a] for a in axes]))
        how = str(kind or self.pick("mean", "times", "over"))
        if how == "mean":
            return self.reduce("ReduceMean", x, axes, len(shape), keep)
        total = self.reduce(kind or "ReduceSum", x, axes, len(shape), keep)
        if self.pick("times", "over") == "times":
            return self.op("Mul", *self.shuffled(total, self.constant(1 / count)))
        return self.op("Div", total, self.constant(count))

    def shuffled(self, *operands: str) -> tuple[str, ...]:
        """In one order or the other."""
        return operands if self.pick(True, False) else operands[::-1]

    def square(self, x: str) -> str:
        """X times itself."""
        how = self.pick("mul", "pow", "abs")
        if how == "pow":
            return self.op("Pow", x, self.constant(2))
        if how == "abs":
            x = self.op("Abs", x)
        return self.op("Mul", x, x)

    def mean_square(self, x: str, axes: Sequence[int], shape: Sequence[int], keep: bool) -> str:
        """Return the mean of squares."""
        if self.pick(True, False, False):
            return self.mean(x, axes, shape, keep, "ReduceSumSquare")
        return self.mean(self.square(x), axes, shape, keep)

    def restored(self, value: str, axes: Sequence[int], shape: Sequence[int], keep: bool) -> str:
        """With dimensions of size 1 where a reduction left none; sometimes expanded."""
        sizes = [1 if d in axes else size for d, size in enumerate(shape)]
        if not keep:
            value = self.op("Reshape", value, self.constant(sizes, np.int64))
        if self.pick(True, False, False, False):
            value = self.op("Expand", value, self.constant(shape, np.int64))
        return value

    def root(self, value: str, told: list[str], epsilon: float) -> tuple[str, bool]:
        """Return the root of a variance, or its inverse (True)."""
        where = self.pick("add", "add", "add", "max", "outside")
        told.append(f"epsilon {where}")
        if where == "add":
            value = self.op("Add", *self.shuffled(value, self.constant(epsilon)))
        if where == "max":
            value = self.op("Max", value, self.constant(epsilon))
        how = str(self.pick("sqrt", "reciprocal", "power", "half", "one over"))
        told.append(how)
        if how == "power" and where != "outside":
            return self.op("Pow", value, self.constant(-0.5)), True
        value = self.op("Pow", value, self.constant(0.5)) if how == "half" else self.op("Sqrt", value)
        if where == "outside":
            value = self.op("Add", value, self.constant(epsilon))
        if how == "reciprocal":
            return self.op("Reciprocal", value), True
        if how == "one over":
            return self.op("Div", self.constant(1), value), True
        return value, False

    def divided(self, x: str, root: tuple[str, bool], scale: str, merged: bool) -> str:
        """X over the root, times the scale: of the inverse, if merged."""
        value, inverse = root
        if inverse and scale and merged:
            return self.op("Mul", *self.shuffled(x, self.op("Mul", *self.shuffled(value, scale))))
        y = self.op("Mul", *self.shuffled(x, value)) if inverse else self.op("Div", x, value)
        return self.op("Mul", *self.shuffled(y, scale)) if scale else y

    def layer(
        self, x: str, axes: Sequence[int], shape: Sequence[int], scale: str, bias: str, told: list[str]
    ) -> str:
        """Return a layer norm."""
        keep = bool(self.pick(True, True, False))
        mean = self.mean(x, axes, shape, keep)
        centred = self.op("Sub", x, self.restored(mean, axes, shape, keep))
        if self.pick(True, False):
            variance = self.mean_square(centred, axes, shape, keep)
        else:
            squares = self.mean_square(x, axes, shape, keep)
            variance = self.op("Sub", squares, self.op("Mul", mean, mean))
            variance = self.op("Max", *self.shuffled(variance, self.constant(0)))
            told.append("difference of means")
        root = self.root(self.restored(variance, axes, shape, keep), told, 1e-3)
        if root[1] and self.pick(True, False):  # x * inverse + (bias - mean * inverse)
            told.append("shifted")
            inverse = self.op("Mul", root[0], scale) if scale else root[0]
            shift = self.op("Mul", self.restored(mean, axes, shape, keep), inverse)
            product = self.op("Mul", x, inverse)
            if bias:
                return self.op("Add", product, self.op("Sub", bias, shift))
            return self.op("Sub", product, shift)
        y = self.divided(centred, root, scale, bool(self.pick(True, False)))
        return self.op("Add", y, bias) if bias else y

    def rms(self, x: str, axes: Sequence[int], shape: Sequence[int], scale: str, told: list[str]) -> str:
        """Return an RMS norm."""
        keep = bool(self.pick(True, True, False))
        squares = self.restored(self.mean_square(x, axes, shape, keep), axes, shape, keep)
        return self.divided(x, self.root(squares, told, 1e-3), scale, bool(self.pick(True, False)))

    def length(self, x: str, axes: Sequence[int], shape: Sequence[int], scale: str) -> str:
        """X over its length."""
        keep = bool(self.pick(True, False))
        if self.pick(True, False):
            length = self.reduce("ReduceL2", x, axes, len(shape), keep)
        else:
            length = self.op("Sqrt", self.reduce("ReduceSum", self.square(x), axes, len(shape), keep))
        if self.pick(True, False):
            length = self.op("Max", length, self.constant(1e-6))
        return self.divided(x, (self.restored(length, axes, shape, keep), False), scale, False)

    def form(self) -> None:
        """Add a normalisation, an output of its own."""
        told: list[str] = []
        x, shape = "x", list(self.shape)
        rank = len(shape)
        around = list(range(rank))
        if rank > 2 and self.pick(True, False, False):
            around = [0, *range(2, rank), 1]
            told.append("transposed around")
            x, shape = self.op("Transpose", x, perm=around), [shape[d] for d in around]
        groups = rank > 2 and around == list(range(rank)) and bool(self.pick(True, False, False))
        given = list(shape)
        if groups:
            told.append("groups")
            shape = [shape[0], 2, int(np.prod(shape[1:])) // 2]
            x = self.op("Reshape", x, self.constant(shape, np.int64))
        last = len(shape) - 1
        axes = list(self.pick([last], [last], [1], [last - 1, last] if last > 1 else [last]))  # type: ignore[call-overload]
        if self.half and self.pick(True, True, False):
            x = self.op("Cast", x, to=TensorProto.FLOAT)
        elif self.half:
            x = self.op("Cast", self.op("Identity", x), to=TensorProto.FLOAT)
        sizes = [shape[d] if d in axes else 1 for d in range(len(shape))]
        scale = self.constant(self.random.uniform(0.5, 2, sizes)) if self.pick(True, False) else ""
        bias = self.constant(self.random.normal(0, 1, sizes)) if self.pick(True, False) else ""
        kind = str(self.pick("layer", "layer", "rms", "length"))
        if kind == "layer":
            y = self.layer(x, axes, shape, scale, bias, told)
        elif kind == "rms":
            y = self.rms(x, axes, shape, scale, told)
        else:
            y = self.length(x, axes, shape, scale)
        if self.half:
            y = self.op("Cast", y, to=TensorProto.FLOAT16)
        if groups:
            y = self.op("Reshape", y, self.constant(given, np.int64))
        if around != list(range(rank)):
            y = self.op("Transpose", y, perm=list(np.argsort(around)))
        self.outputs.append(self.op("Identity", y))
        self.told[self.outputs[-1]] = f"{kind} of {shape} along {axes}: {', '.join(told)}"

    def model(self) -> onnx.ModelProto:
        """Return the model, checked."""
        elem = TensorProto.FLOAT16 if self.half else TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "norms",
            [helper.make_tensor_value_info("x", elem, self.shape)],
            [helper.make_tensor_value_info(name, elem, self.shape) for name in self.outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def sample(self) -> Values:
        """Return the numbers of fp16 whose squares, or sums of these, are beyond it."""
        x = self.random.normal(self.random.normal(0, 300), self.random.uniform(100, 400), self.shape)
        return x.astype(np.float16).astype(np.float32)


class NormFormsTest(unittest.TestCase):
    """Each result is within a few roundings to fp16."""

    def test_random_forms(self) -> None:
        """Forms and options at random."""
        beyond = 0
        for seed in range(MODELS):
            forms = Forms(seed)
            for _ in range(FORMS):
                forms.form()
            x = forms.sample()
            beyond += float((x**2).sum(axis=-1).max()) > LIMIT
            want = self.expected(forms, x)
            got = self.computed(forms, x)
            for name, reference in zip(forms.outputs, want, strict=True):
                error = np.abs(got[name].astype(np.float32) - reference).max()
                with self.subTest(seed=seed, form=forms.told[name]):
                    self.assertLessEqual(error, WITHIN * np.abs(reference).max())
        self.assertGreater(beyond, MODELS // 2)

    @staticmethod
    def expected(forms: Forms, x: Values) -> list[Values]:
        """Return what ONNX Runtime computes."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(forms.model().SerializeToString(), options)
        given = x.astype(np.float16) if forms.half else x
        return [y.astype(np.float32) for y in session.run(forms.outputs, {"x": given})]

    @staticmethod
    def computed(forms: Forms, x: Values) -> dict[str, Values]:
        """Return what kpusim computes in fp16."""
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            onnx.save(forms.model(), folder / "m.onnx")
            np.save(folder / "x.npy", x.astype(np.float16) if forms.half else x)
            options = ["--platform", "swkpu-v1", "--precision", "fp16", "--mode", "functional", "--quiet"]
            files = ["--input", f"x={folder / 'x.npy'}", "-o", str(folder / "run")]
            command = [KPUSIM, "run", str(folder / "m.onnx"), *options, *files]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                raise AssertionError(f"exit code {run.returncode}: {run.stderr}")
            return {name: np.load(folder / "run" / "outputs" / f"{name}.npy") for name in forms.outputs}


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KPUSIM = sys.argv.pop(1)
    unittest.main()
