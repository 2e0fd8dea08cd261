"""Decoders as ONNX Runtime GenAI exports them: a prompt, then steps with the cache handed on.

usage: genai_layers.py KPUSIM [--family NAME]... [--device NAME]... [--precision NAME]... [--cache FORM]...
                              [--steps N]

Small models with random weights have the nodes of the exporter: GroupQueryAttention with rotary embeddings
inside, SkipSimplifiedLayerNormalization, MatMul or MatMulNBits. The cache grows (programs for each length) or
lies in a buffer of the most rows that past and present share: "buffer" takes the mask of attention as an
input, so one program is for all steps; "bound" binds it, so that the place of each step is a constant;
"positions" makes the place a parameter of one program, from which the mask follows.
Prints the worst error of each, relative to the range; exit 1 where one is too large. "int4 in fp16" are
weights of 4 bits in fp16, "int4" has activations of 8 bits too, calibrated on steps like these.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

LAYERS, HIDDEN, INNER, WORDS, HEADS, GROUPS, SIZE = 2, 64, 96, 80, 4, 2, 16
PROMPT, MOST, BLOCK = 5, 16, 32

#: Bounds on errors, as shares of an output's range, for the results of a precision.
BOUNDS = {"f32": 1e-4, "fp16": 2e-2, "int4 in fp16": 4e-2, "int4": 8e-2}
#: Which have its products.
DEVICES = {
    "f32": ("tile32", "core128-hbm2"),
    "fp16": ("swkpu-v2", "npm_mid"),
    "int4 in fp16": ("swkpu-v2", "tile32"),
    "int4": ("swkpu-v2", "npm_mid"),
}
CACHES = ("buffer", "bound", "growing", "positions")


@dataclass
class Family:
    """Differences between architectures."""

    packed: bool = False  # one product for queries, keys and values; one for both sides of the gate
    bias: bool = False  # of queries, keys and values
    head_norms: bool = False
    turned: int = SIZE  # elements of a head that are turned
    window: int = -1
    cap: float = 0.0  # of scores
    last_cap: float = 0.0  # of logits
    gelu: bool = False
    outer_norms: bool = False  # after attention and the rest of the layer, too
    sinks: bool = False  # a number of each head in its softmax
    experts: int = 0  # of which two compute each row


FAMILIES = {
    "llama": Family(),
    "qwen2": Family(bias=True),
    "qwen3": Family(head_norms=True),
    "phi": Family(packed=True, turned=SIZE, window=6),
    "gpt_oss": Family(bias=True, window=4, sinks=True, experts=4),
    "gemma": Family(window=4, cap=5.0, last_cap=3.0, gelu=True, outer_norms=True),
}


class Builder:
    """Nodes and weights of one model."""

    def __init__(self, family: Family, int4: bool, seed: int) -> None:
        self.family, self.int4 = family, int4
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[TensorProto] = []

    def add(self, type_: str, inputs: list[str], output: str, **attributes: Any) -> str:  # noqa: ANN401
        """Return a node of ONNX, or of com.microsoft (`theirs`)."""
        domain = "com.microsoft" if attributes.pop("theirs", False) else ""
        outputs = [output, *attributes.pop("more", [])]
        self.nodes.append(
            helper.make_node(type_, inputs, outputs, f"/{output}/{type_}", domain=domain, **attributes)
        )
        return output

    def weight(self, name: str, array: Array) -> str:
        """Return a constant."""
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def floats(self, name: str, *shape: int, around: float = 0.0, wide: float = 1.0) -> str:
        """Return a random constant."""
        return self.weight(name, (around + wide * self.rng.standard_normal(shape)).astype(np.float32))

    def product(self, x: str, name: str, k: int, n: int) -> str:
        """x times a matrix, which has 4 bits in blocks or is floats."""
        if not self.int4:
            return self.add("MatMul", [x, self.floats(f"{name}.weight", k, n, wide=k**-0.5)], name)
        blocks = k // BLOCK
        packed = self.rng.integers(0, 256, (n, blocks, BLOCK // 2)).astype(np.uint8)
        scales = self.rng.uniform(0.1, 0.3, (n, blocks)).astype(np.float32) * np.float32(k**-0.5)
        operands = [x, self.weight(f"{name}.q", packed), self.weight(f"{name}.s", scales)]
        sizes = {"K": k, "N": n, "bits": 4, "block_size": BLOCK, "accuracy_level": 0}
        return self.add("MatMulNBits", operands, name, theirs=True, **sizes)

    def norm(self, x: str, name: str, size: int | None = None) -> str:
        """Return an RMS norm; the exporter adds the 1 of Gemma's weights to them."""
        weight = self.floats(f"{name}.weight", size or HIDDEN, around=1.0, wide=0.1)
        return self.add("SimplifiedLayerNormalization", [x, weight], name, axis=-1, epsilon=1e-6)

    def skip_norm(self, skip: str, x: str, name: str) -> tuple[str, str]:
        """Return the norm of a sum, and the sum."""
        weight = self.floats(f"{name}.weight", HIDDEN, around=1.0, wide=0.1)
        more = ["", "", f"{name}.sum"]
        made = self.add(
            "SkipSimplifiedLayerNormalization",
            [skip, x, weight],
            name,
            theirs=True,
            epsilon=1e-6,
            more=more,
        )
        return made, more[2]

    def head_norm(self, x: str, name: str, heads: int) -> str:
        """Return a norm of each head, as the exporter writes it."""
        apart = self.weight(f"{name}.apart", np.array([0, -1, SIZE], np.int64))
        joined = self.weight(f"{name}.joined", np.array([0, -1, heads * SIZE], np.int64))
        rows = self.add("Reshape", [x, apart], f"{name}.rows")
        return self.add("Reshape", [self.norm(rows, f"{name}.normed", SIZE), joined], name)

    def attention(self, x: str, at: str, layer: int) -> str:
        """GroupQueryAttention, and what makes its operands."""
        family, q, kv = self.family, HEADS * SIZE, GROUPS * SIZE
        if family.packed:
            operands = [self.product(x, f"{at}.qkv", HIDDEN, q + 2 * kv), "", ""]
        else:
            operands = [
                self.product(x, f"{at}.{name}", HIDDEN, width)
                for name, width in (("q", q), ("k", kv), ("v", kv))
            ]
            if family.bias:
                operands = [
                    self.add("Add", [x, self.floats(f"{x}.bias", width)], f"{x}.biased")
                    for x, width in zip(operands, (q, kv, kv), strict=True)
                ]
            if family.head_norms:
                operands[0] = self.head_norm(operands[0], f"{at}.q.norm", HEADS)
                operands[1] = self.head_norm(operands[1], f"{at}.k.norm", GROUPS)
        operands += [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        operands += ["seqlens_k", "total_sequence_length", "cos_cache", "sin_cache"]
        if family.sinks:
            operands += ["", "", self.floats(f"{at}.sinks", HEADS)]
        made = self.add(
            "GroupQueryAttention",
            operands,
            f"{at}.gqa",
            theirs=True,
            more=[f"present.{layer}.key", f"present.{layer}.value"],
            num_heads=HEADS,
            kv_num_heads=GROUPS,
            scale=SIZE**-0.5,
            do_rotary=1,
            rotary_interleaved=0,
            softcap=family.cap,
            local_window_size=family.window if layer % 2 == 0 else -1,
        )
        return self.product(made, f"{at}.o", q, HIDDEN)

    def chosen(self, x: str, at: str) -> str:
        """Experts, two for each row; their gate and the rest lie side by side."""
        count = self.family.experts
        rows = self.weight(f"{at}.rows", np.array([-1, count], np.int64))
        scores = self.add("MatMul", [x, self.floats(f"{at}.router", HIDDEN, count)], f"{at}.scores")
        operands = [x, self.add("Reshape", [scores, rows], f"{at}.choice")]
        for name, out, k in (("fc1", 2 * INNER, HIDDEN), ("fc2", HIDDEN, INNER)):
            bias = self.floats(f"{at}.{name}.bias", count, out, wide=0.1)
            if not self.int4:
                operands += [self.floats(f"{at}.{name}", count, out, k, wide=k**-0.5), bias]
                continue
            packed = self.rng.integers(0, 256, (count, out, k // 2)).astype(np.uint8)
            scales = self.rng.uniform(0.1, 0.3, (count, out, k // BLOCK)).astype(np.float32) * np.float32(
                k**-0.5
            )
            operands += [self.weight(f"{at}.{name}.q", packed), self.weight(f"{at}.{name}.s", scales), bias]
        narrow = {"expert_weight_bits": 4, "block_size": BLOCK, "weights_prepacked": 0} if self.int4 else {}
        return self.add(
            "QMoE" if self.int4 else "MoE",
            operands,
            f"{at}.down",
            theirs=True,
            k=2,
            activation_type="swiglu",
            activation_alpha=1.702,
            activation_beta=1.0,
            swiglu_limit=7.0,
            swiglu_fusion=1,
            normalize_routing_weights=1,
            **narrow,
        )

    def gated(self, x: str, at: str) -> str:
        """Return the rest of a layer."""
        if self.family.experts:
            return self.chosen(x, at)
        if self.family.packed:
            both = self.product(x, f"{at}.gate_up", HIDDEN, 2 * INNER)
            sizes = self.weight(f"{at}.sizes", np.array([INNER, INNER], np.int64))
            gate = self.add("Split", [both, sizes], f"{at}.gate", more=[f"{at}.up"], axis=-1)
            up = f"{at}.up"
        else:
            gate = self.product(x, f"{at}.gate", HIDDEN, INNER)
            up = self.product(x, f"{at}.up", HIDDEN, INNER)
        if self.family.gelu:
            acted = self.add("FastGelu", [gate], f"{at}.act", theirs=True)
        else:
            acted = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{at}.sigmoid")], f"{at}.act")
        return self.product(self.add("Mul", [acted, up], f"{at}.inner"), f"{at}.down", INNER, HIDDEN)

    def lengths(self) -> None:
        """Count how many keys count, out of the mask."""
        one = self.weight("one", np.array([1], np.int64))
        self.add("ReduceSum", ["attention_mask", one], "mask_sum", keepdims=0)
        self.add("Sub", ["mask_sum", one], "last")
        self.add("Cast", ["last"], "seqlens_k", to=TensorProto.INT32)
        self.add("Shape", ["attention_mask"], "mask_shape")
        self.add("Gather", ["mask_shape", self.weight("at", np.array(1, np.int64))], "total", axis=0)
        self.add("Cast", ["total"], "total_sequence_length", to=TensorProto.INT32)

    def angles(self) -> None:
        """Cosines and sines of all positions."""
        half = self.family.turned // 2
        angle = np.arange(MOST)[:, None] / 100.0 ** (np.arange(half) / half)
        self.weight("cos_cache", np.cos(angle).astype(np.float32))
        self.weight("sin_cache", np.sin(angle).astype(np.float32))

    def model(self) -> onnx.ModelProto:
        """Embedding, layers, logits."""
        self.lengths()
        self.angles()
        family = self.family
        self.add("Gather", [self.floats("embedding", WORDS, HIDDEN), "input_ids"], "words")
        x, total = self.norm("words", "norm.0"), "words"
        for layer in range(LAYERS):
            at = f"layer.{layer}"
            made = self.attention(x, at, layer)
            if family.outer_norms:
                made = self.norm(made, f"{at}.attention_norm")
            x, total = self.skip_norm(total, made, f"{at}.middle")
            made = self.gated(x, at)
            if family.outer_norms:
                made = self.norm(made, f"{at}.rest_norm")
            x, total = self.skip_norm(total, made, f"{at}.end")
        logits = "logits" if not family.last_cap else "uncapped"
        self.product(x, logits, HIDDEN, WORDS)
        if family.last_cap:
            cap = self.weight("cap", np.array(family.last_cap, np.float32))
            ratio = self.add("Tanh", [self.add("Div", [logits, cap], "ratio")], "capped")
            self.add("Mul", [ratio, cap], "logits")
        return self.finished()

    def finished(self) -> onnx.ModelProto:
        """Return the model of these nodes."""
        info = helper.make_tensor_value_info
        inputs = [
            info(name, TensorProto.INT64, [1, size])
            for name, size in (("input_ids", "rows"), ("attention_mask", "total"))
        ]
        outputs = [info("logits", TensorProto.FLOAT, [1, "rows", WORDS])]
        for layer in range(LAYERS):
            for name in ("key", "value"):
                past, present = f"past_key_values.{layer}.{name}", f"present.{layer}.{name}"
                inputs.append(info(past, TensorProto.FLOAT, [1, GROUPS, "past", SIZE]))
                outputs.append(info(present, TensorProto.FLOAT, [1, GROUPS, "present", SIZE]))
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.tensors)
        sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10)


@dataclass
class Step:
    """Operands of one call: everything but the cache."""

    ids: Array
    seen: int  # rows before it
    mask: Array  # [1, total]


def steps_of(cache: str, count: int, seed: int) -> list[Step]:
    """Make a prompt and single rows after it."""
    words = np.random.default_rng(seed).integers(0, WORDS, (1, PROMPT + count))
    made = []
    for start, rows in [(0, PROMPT), *((PROMPT + i, 1) for i in range(count))]:
        end = start + rows
        mask = np.ones((1, end), np.int64)
        if cache in ("buffer", "positions"):
            mask = (np.arange(MOST) < end).astype(np.int64)[None]
        made.append(Step(words[:, start:end], start, mask))
    return made


def empty_cache(cache: str) -> dict[str, Array]:
    """Return what stands before the prompt."""
    rows = 0 if cache == "growing" else MOST
    names = [f"{layer}.{name}" for layer in range(LAYERS) for name in ("key", "value")]
    return {name: np.zeros((1, GROUPS, rows, SIZE), np.float32) for name in names}


@dataclass
class Call:
    """A step of ONNX Runtime: what it was given, and what it made."""

    step: Step
    past: dict[str, Array]
    outputs: dict[str, Array]

    def inputs(self, past: Mapping[str, Array], mask: bool) -> dict[str, Array]:
        """Return the inputs of the model, with some cache; the mask may be bound."""
        given = {"input_ids": self.step.ids} | ({"attention_mask": self.step.mask} if mask else {})
        return given | {f"past_key_values.{name}": array for name, array in past.items()}

    def shapes(self) -> tuple[int, ...]:
        """Return the rows, keys that there are, rows of the cache."""
        return self.step.ids.shape[1], self.step.mask.shape[1], next(iter(self.past.values())).shape[2]


def next_cache(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The present is the past of the next step."""
    return {name.removeprefix("present."): array for name, array in outputs.items() if name != "logits"}


def by_runtime(session: onnxruntime.InferenceSession, cache: str, count: int, seed: int) -> list[Call]:
    """Return all steps by ONNX Runtime."""
    names = [output.name for output in session.get_outputs()]
    past, calls = empty_cache(cache), []
    for step in steps_of(cache, count, seed):
        call = Call(step, past, {})
        call.outputs = dict(zip(names, session.run(names, call.inputs(past, True)), strict=True))
        past = next_cache(call.outputs)
        calls.append(call)
    return calls


class Ours:
    """Compiles for the shapes of a call, and runs it."""

    def __init__(self, kpusim: str, model: Path, cache: str, samples: list[Call], options: list[str]) -> None:
        self.kpusim, self.model, self.folder = kpusim, model, model.parent
        self.cache, self.samples, self.options = cache, samples, options
        self.programs: dict[tuple[int, ...], Path] = {}

    def command(self, *arguments: object) -> None:
        """Runs kpusim; ends the script with its error."""
        words = [self.kpusim, *map(str, arguments)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr}")

    def saved(self, name: str, array: Array) -> str:
        """`NAME=FILE` of an input."""
        path = self.folder / f"{name}.npy"
        np.save(path, array)
        return f"{name}={path}"

    def calibration(self, call: Call) -> list[object]:
        """For types with steps: the inputs of all calls that the program is for."""
        if "int4" not in self.options:
            return []
        folder = self.folder / f"samples{len(self.programs)}"
        alike = [other for other in self.samples if other.shapes() == call.shapes()]
        if self.cache == "bound":
            alike = [other for other in alike if np.array_equal(other.step.mask, call.step.mask)]
        for number, other in enumerate(alike):
            for name, array in other.inputs(other.past, self.cache != "bound").items():
                (folder / name).mkdir(parents=True, exist_ok=True)
                np.save(folder / name / f"{number}.npy", array)
        return ["--calibrate", folder]

    def program(self, call: Call) -> Path:
        """Return the program of its shapes and, where the mask is bound, its place."""
        key = call.shapes()
        if key not in self.programs or self.cache == "bound":
            path = self.folder / f"program{len(self.programs)}.kpu"
            sizes = zip(("rows", "total", "past"), key, strict=True)
            dims = [word for name, size in sizes for word in ("--dim", f"{name}={size}")]
            mask = call.step.mask
            bound = ["--bind", self.saved("attention_mask", mask)] if self.cache == "bound" else []
            if self.cache == "positions":
                last = key[0] - 1
                bound = ["--positions", f"{MOST - last}:4", "--bind", f"attention_mask=upto(position+{last})"]
            words = [*dims, *bound, *self.calibration(call), *self.options, "-o", path, "--force"]
            self.command("compile", self.model, *words)
            self.programs[key] = path
        return self.programs[key]

    def __call__(self, call: Call, past: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs."""
        given = call.inputs(past, self.cache in ("buffer", "growing"))
        place = ["--param", f"position={call.step.seen}"] if self.cache == "positions" else []
        words = [word for name, array in given.items() for word in ("--input", self.saved(name, array))]
        out = self.folder / "out"
        self.command("run", self.program(call), *words, *place, "--quiet", "--strict", "-o", out, "--force")
        return {path.stem: np.load(path) for path in (out / "outputs").iterdir()}


def worst_error(kpusim: str, family: str, device: str, precision: str, cache: str, count: int) -> float:
    """Return the worst error of all steps and outputs, relative to each range; each side has its cache."""
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "decoder.onnx"
        onnx.save(Builder(FAMILIES[family], precision.startswith("int4"), 7).model(), model)
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        calls = by_runtime(session, cache, count, 3)
        type_ = {"int4 in fp16": "fp16"}.get(precision, precision)
        samples = [call for seed in range(3, 11) for call in by_runtime(session, cache, count, seed)]
        ours = Ours(kpusim, model, cache, samples, ["--platform", device, "--precision", type_])
        past, worst = empty_cache(cache), 0.0
        for call in calls:
            got = ours(call, past)
            for output, wanted in call.outputs.items():
                if got[output].shape != wanted.shape:
                    raise SystemExit(f"{output}: {got[output].shape} instead of {wanted.shape}")
                apart = np.abs(got[output].astype(np.float64) - wanted).max()
                worst = max(worst, float(apart / np.abs(wanted).max()))
            past = next_cache(got)
    return worst


def tell(what: str, worst: float, bound: float) -> bool:
    """Prints an error, and whether it is too large."""
    verdict = "" if worst <= bound else f", more than {bound}"
    print(f"{what}: {worst:.2g} of the range{verdict}", flush=True)
    return worst > bound


def main() -> None:
    """Prints the worst error of each; exit code 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--family", action="append", choices=[*FAMILIES])
    parser.add_argument("--device", action="append", help="(default: two for each precision)")
    parser.add_argument("--precision", action="append", choices=[*BOUNDS])
    parser.add_argument("--cache", action="append", choices=CACHES)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    bad = 0
    precisions = options.precision or BOUNDS
    pairs = [(p, device) for p in precisions for device in options.device or DEVICES[p]]
    for family, (precision, device), cache in itertools.product(
        options.family or FAMILIES, pairs, options.cache or CACHES
    ):
        if FAMILIES[family].experts and precision == "int4":
            continue  # steps of 8 bits choose other experts where two are nearly alike
        worst = worst_error(options.kpusim, family, device, precision, cache, options.steps)
        bad += tell(f"{family}, {precision} on {device}, {cache}", worst, BOUNDS[precision])
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
