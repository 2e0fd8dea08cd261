"""Judge whether a device computes what a QDQ graph says, node by node and as a whole.

Each node: every tensor of the model is made an output; ONNX Runtime, which optimises nothing, computes each
node from OUR values of its inputs. Then

* what moves, selects or compares, and QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear have to be
  equal, and so have sums of integers;
* QLinear operators may be a step off, and Resize of integers that is not nearest;
* DynamicQuantizeLSTM may be 5 % off: ONNX Runtime quantizes within it, ours does not;
* other floats may be off by 2^-18 (2^-9 on a device that stores f16) of the size of what is added up: that is
  the tensor's slack;
* a quantizer, a comparison or an ArgMax may decide otherwise where its operand is within its slack of a tie:
  a product of integers is not rounded to f32, or to f16, before it is quantized. The slack of inputs and of
  what DequantizeLinear makes is 0 in f32, and a unit of f16.

The whole: the model with its own outputs, so that fusion is tried, against the values of ONNX Runtime. How
far an output may be off follows from the slacks before it and from what differed in the first run: a step,
where the operand of a quantizer is so near a tie. Behind a fault, and where a comparison or a position may
flip, nothing is judged.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import onnx
from qdq_graph import Array, QdqGraph, compute

MOVES = set(
    "Transpose Reshape Concat Slice Split Squeeze Unsqueeze Gather Expand Flatten Tile Pad ScatterND "
    "ScatterElements Where Identity Relu Clip Neg Abs Max Min MaxPool ReduceMax ReduceMin TopK".split()
)
COMPARES = set("Greater Less Equal GreaterOrEqual LessOrEqual".split())
PRODUCTS = set("MatMul Gemm Conv ConvTranspose".split())
FUNCTIONS = set("Sigmoid Tanh Softmax HardSigmoid Elu Erf Softsign HardSwish".split())
LIMIT = 65504.0  #: of f16
SECONDS = 900  #: for a run


@dataclass(frozen=True)
class Target:
    """A device with options, and whether it stores floats in 16 bits."""

    platform: str
    options: tuple[str, ...] = ()
    half: bool = True

    def __str__(self) -> str:
        """Write it as on the command line."""
        return " ".join(["--platform", self.platform, *self.options])


@dataclass
class Fault:
    """A tensor that is wrong."""

    tensor: str
    rule: str
    text: str
    kinds: set[str]

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.tensor}: {self.rule}: {self.text} [{', '.join(sorted(self.kinds))}]"


@dataclass
class Verdict:
    """Faults that were found of a graph."""

    faults: list[Fault] = field(default_factory=list)
    refusal: str = ""
    nodes: int = 0
    outputs: int = 0
    judged: int = 0  #: outputs of the whole model


def run(
    kpusim: str,
    target: Target,
    model: onnx.ModelProto,
    inputs: dict[str, Array],
    told: list[str] | None = None,
) -> dict[str, Array] | str:
    """Outputs by name, or what the command says of its failure. What it says else goes to `told`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        onnx.save(model, folder / "model.onnx")
        command = [kpusim, "run", str(folder / "model.onnx"), "--quiet"]
        command += ["--platform", target.platform, *target.options, "-o", str(folder / "out")]
        for i, name in enumerate(port.name for port in model.graph.input if port.name in inputs):
            np.save(folder / f"{i}.npy", inputs[name])
            command += ["--input", f"{name}={folder / f'{i}.npy'}"]
        environment = {**os.environ, "TMPDIR": scratch}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return f"it takes more than {SECONDS} seconds"
        if told is not None:
            told.append(done.stderr)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()}".replace(scratch, "")
        found = (folder / "out" / "outputs").glob("*.npy")
        return {unquote(path.stem): np.load(path) for path in found}


def size(array: Array) -> float:
    """Return the largest number."""
    return float(np.abs(array).max(initial=0)) if array.dtype.kind == "f" else 0.0


class Judge:
    """Judge of one graph on one target."""

    def __init__(self, g: QdqGraph, target: Target) -> None:
        self.g = g
        self.half = target.half
        self.unit = 2.0**-9 if target.half else 2.0**-18
        self.slack: dict[str, float | Array] = {}  #: how far what a node reads may be from its visible value
        self.error: dict[str, float] = {}  #: how far tensors may be in the whole model
        self.unsure: set[str] = set()  #: may be anything in the whole model

    # Nodes

    def bound(self, node: onnx.NodeProto, values: dict[str, Array], wanted: Array) -> float | Array:
        """Return how far a float result may be, given its operands."""
        rounding = np.abs(wanted) * (2.0**-10) + 2.0**-24 if self.half else 0.0
        if node.op_type == "DequantizeLinear":  # of integers that f32, or f16, does not hold
            width = values[node.input[0]].dtype.itemsize
            return rounding + np.abs(wanted) * ({4: 2.0**-22, 2: 2.0**-9 * self.half}.get(width, 0.0))
        if node.op_type in MOVES or node.op_type == "Cast":
            return rounding
        operands = [values[name] for name in node.input if name and values[name].dtype.kind == "f"]
        if node.op_type in PRODUCTS:
            a, w = (values[name] for name in node.input[:2])
            taken = w.size / max(wanted.shape[1 if "Conv" in node.op_type else -1], 1)
            total = size(a) * size(w) * np.sqrt(max(taken, 1)) + (
                size(operands[2]) if len(operands) > 2 else 0
            )
            return self.unit * max(total, size(wanted)) + rounding
        if node.op_type in ("Mul", "LeakyRelu"):
            return self.unit * np.maximum(np.abs(wanted), size(wanted) / 4) + rounding
        if node.op_type in FUNCTIONS:  # a long row's sum of exponents is rounded more often
            taken = wanted.shape[-1] if node.op_type == "Softmax" and wanted.ndim else 1
            return self.unit * max(1, np.sqrt(taken) / 10) + rounding
        return self.unit * max([size(wanted), *(size(x) for x in operands)]) + rounding

    def check_node(self, node: onnx.NodeProto, values: dict[str, Array]) -> Fault | None:
        """Return the first of its results that is wrong."""
        known = self.g.values
        made = [known[name] for name in node.output if name]
        if not all(np.array_equal(values[name], known[name]) for name in node.input if name):
            try:
                made = compute(node, values, self.g.constants, self.g.opset)
            except Exception as error:
                return self.fault(node, node.output[0], "operands", str(error)[:200])
        for name, wanted in zip(filter(None, node.output), map(np.asarray, made), strict=True):
            got = values[name]
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                text = f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
                return self.fault(node, name, "form", text)
            rule, apart = self.apart(node, name, wanted, values)
            if apart is not None and apart.any():
                at = np.unravel_index(int(np.argmax(apart.astype(np.float64))), apart.shape)
                text = f"{got[at]!s} instead of {wanted[at]!s} at {[int(i) for i in at]}, "
                text += f"{np.count_nonzero(apart)} of {apart.size} differ"
                return self.fault(node, name, rule, text)
        return None

    def fault(self, node: onnx.NodeProto, tensor: str, rule: str, text: str) -> Fault:
        """Return a tensor that is wrong, with the kinds of its part."""
        return Fault(tensor, f"{node.op_type} {rule}", text, self.g.kinds[node.output[0]])

    def apart(
        self, node: onnx.NodeProto, name: str, wanted: Array, values: dict[str, Array]
    ) -> tuple[str, Array | None]:
        """Return by how much each element is too far away, or 0."""
        got, op = values[name], node.op_type
        if wanted.dtype.kind == "f":
            bound = self.bound(node, values, wanted)
            self.slack[name] = bound
            if op in MOVES:
                self.slack[name] = np.max(
                    [np.max(bound), *(np.max(self.slack_of(x)) for x in node.input if x)]
                )
            with np.errstate(invalid="ignore"):  # infinities
                error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            error = np.where((got == wanted) | (np.isnan(got) & np.isnan(wanted)), 0, error)
            if op == "DynamicQuantizeLinear" and self.half:
                bound = np.abs(wanted) * 2.0**-8
            if op == "DynamicQuantizeLSTM":  # ours has floats inside
                bound = 0.05 * max(size(wanted), 0.1)
            if op == "Resize":  # positions are f32
                bound = np.maximum(bound, 2e-5 * size(values[node.input[0]]))
            beyond = self.half & (np.abs(wanted) >= LIMIT)  # told by the run
            return "value", np.where((error <= bound) | beyond, 0, np.nan_to_num(error, nan=np.inf))
        error = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
        modes = {a.s for a in node.attribute if a.name == "mode"} or {b"nearest"}
        if op == "QuantizeLinear":
            low, high = self.quantized(node, values, -1), self.quantized(node, values, 1)
            return "quantizer", np.where((low <= got) & (got <= high), 0, error)
        if op == "DynamicQuantizeLinear":
            return "quantizer", np.where(error <= (2 if self.half else 0), 0, error)
        if op.startswith("QLinear") or op == "QGemm" or (op == "Resize" and b"nearest" not in modes):
            return "step", np.where(error <= 1, 0, error)
        if op in COMPARES:
            a, b = (values[x].astype(np.float64) for x in node.input)
            near = np.abs(a - b) <= self.slack_of(node.input[0]) + self.slack_of(node.input[1])
            if self.half:
                near |= np.abs(a - b) <= 2.0**-10 * np.abs(a)
            return "comparison", np.where(near, 0, error)
        if op in ("ArgMax", "ArgMin", "TopK"):
            return "position", self.misplaced(node, got, wanted, values)
        return "integer", error

    def slack_of(self, name: str) -> float | Array:
        """Return the slack of an operand: 0 of constants and inputs, in f32."""
        if name in self.slack:
            return self.slack[name]
        return 2.0**-10 * size(self.g.values[name]) if self.half and name in self.g.constants else 0.0

    def quantized(self, node: onnx.NodeProto, values: dict[str, Array], sign: int) -> Array:
        """Return the result of a quantizer of a little less or more."""
        x = values[node.input[0]]
        slack = self.slack_of(node.input[0])
        if self.half:
            slack = np.maximum(slack, np.abs(x) * 2.0**-10 + 2.0**-24)
        slack = np.nan_to_num(slack, nan=0.0, posinf=0.0)  # of an infinity
        given = {**values, node.input[0]: (x + sign * slack).astype(x.dtype)}
        constants = {name: array for name, array in self.g.constants.items() if name != node.input[0]}
        return compute(node, given, constants, self.g.opset)[0]

    def misplaced(self, node: onnx.NodeProto, got: Array, wanted: Array, values: dict[str, Array]) -> Array:
        """Positions whose element is another one than that at the right position."""
        x = values[node.input[0]].astype(np.float64)
        attributes = {a.name: a.i for a in node.attribute}
        axis = attributes.get("axis", -1)
        if attributes.get("keepdims", 1) == 0 and node.op_type != "TopK":
            got, wanted = np.expand_dims(got, axis), np.expand_dims(wanted, axis)
        if got.min() < 0 or got.max() >= x.shape[axis]:
            return np.ones(got.shape)
        there, right = (np.take_along_axis(x, places, axis) for places in (got, wanted))
        slack = np.max(self.slack_of(node.input[0])) * 2
        return np.where((got == wanted) | ((np.abs(there - right) <= slack) & (slack > 0)), 0, 1)

    # The whole

    def spread(self, values: dict[str, Array], wrong: set[str]) -> None:
        """Fill in by how much tensors of the whole model may differ, and those of which nothing is known."""
        wanted = self.g.values
        self.unsure = set(wrong)
        for node in self.g.nodes:
            self.slack = self.error  # what quantizers and comparisons have to allow
            unknown = any(name in self.unsure for name in node.input)
            for name in node.output:
                array = wanted[name]
                if unknown or name in self.unsure or values[name].shape != array.shape:
                    self.unsure.update(node.output)
                    break
                apart = np.abs(values[name].astype(np.float64) - array.astype(np.float64)).max(initial=0)
                error = self.error_of(node, name)
                if error is None or (self.half and size(array) >= LIMIT):
                    self.unsure.update(node.output)
                    break
                self.error[name] = float(max(error, apart))

    def error_of(self, node: onnx.NodeProto, name: str) -> float | None:
        """Return the error of a result, from those of its operands; None: it may be anything."""
        wanted, op, array = self.g.values, node.op_type, self.g.values[name]
        names = [x for x in node.input if x]
        errors = [float(self.error.get(x, 0.0)) for x in names]
        if op == "QuantizeLinear":
            low, high = (self.quantized(node, wanted, sign).astype(np.int64) for sign in (-1, 1))
            return float((high - low).max(initial=0))
        if op in COMPARES:
            a, b = (wanted[x].astype(np.float64) for x in names)
            near = 2.0**-10 * max(size(a), size(b)) if self.half else 0.0
            margin = sum(errors) + near
            return None if margin > 0 and bool((np.abs(a - b) <= margin).any()) else 0.0
        if array.dtype.kind != "f":
            moves = op in MOVES and op != "TopK"
            return (
                max(errors) if moves else None if sum(errors) > 0 else float("QLinear" in op or op == "QGemm")
            )
        if op in ("DynamicQuantizeLinear", "GridSample", "RoiAlign") and sum(errors[1:]) > 0:
            return None
        bound = float(np.max(self.bound(node, wanted, array)))
        if op == "DequantizeLinear":
            return bound + float(np.max(np.abs(wanted[names[1]]))) * errors[0]
        if op in PRODUCTS or op == "Mul":
            a, b = (float(np.abs(wanted[x]).max(initial=0)) for x in names[:2])
            taken = wanted[names[1]].size if op in PRODUCTS else 1
            return bound + taken * (b * errors[0] + a * errors[1]) + sum(errors[2:])
        return bound + sum(errors)

    def check_output(self, name: str, got: Array, kinds: set[str]) -> Fault | None:
        """Return an output of the whole model."""
        wanted = self.g.values[name]
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            text = f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
            return Fault(name, "whole form", text, kinds)
        error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        one = 1.0 if wanted.dtype.kind in "iu" else 1e-6
        bound = max(one, self.error.get(name, 0.0) * 2)
        if not (error <= bound).all():
            count = np.count_nonzero(error > bound)
            text = f"off by {error.max()}, allowed {bound}, {count} of {error.size} differ"
            return Fault(name, "whole", text, kinds)
        return None


def judge(kpusim: str, target: Target, g: QdqGraph) -> Verdict:
    """Run a graph twice, and compare."""
    verdict = Verdict()
    found = run(kpusim, target, g.model(g.results()), g.inputs)
    if isinstance(found, str):
        verdict.refusal = found
        return verdict
    values = {**g.values, **found}
    judge = Judge(g, target)
    verdict.nodes = len(g.nodes)
    for node in g.nodes:
        if target.half and any(size(values[name]) >= LIMIT for name in node.input if name):
            continue
        if fault := judge.check_node(node, values):
            verdict.faults.append(fault)
    judge.spread(values, {fault.tensor for fault in verdict.faults})
    ends = g.ends()
    whole = run(kpusim, target, g.model(ends), g.inputs)
    if isinstance(whole, str):
        verdict.refusal = whole
        return verdict
    kinds = {name: g.kinds[node.output[0]] for node in g.nodes for name in node.output}
    verdict.outputs = len(ends)
    for name in ends:
        if name in judge.unsure:
            continue
        verdict.judged += 1
        if fault := judge.check_output(name, whole[name], kinds[name]):
            verdict.faults.append(fault)
    return verdict
