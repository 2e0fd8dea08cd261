"""Steps belong to the place where a model quantizes."""

from __future__ import annotations

import numpy as np
import onnx
from builders import Array, Case, constant, info, model, node, rounded, steps
from onnx import TensorProto


def concat_two_steps() -> dict[str, Case]:
    """Two dequantised tensors whose steps differ, side by side, floats after: each in its own steps."""
    x, w = np.array([[-100, 3, 77, 100]], np.float32), np.array([[-900, 30, 440, 1290]], np.float32)
    constants = [
        constant("s", 1, np.float32),
        constant("z", 0, np.int8),
        constant("s2", 10, np.float32),
        constant("z2", 5, np.int8),
    ]
    both = steps("X", "a", "s", "z") + steps("W", "b", "s2", "z2")
    parts = rounded(x, 1), rounded(w, 10, 5)
    ports = [info("X", [1, 4]), info("W", [1, 4])]

    def of(order: list[str], wanted: Array, *more: onnx.NodeProto) -> Case:
        nodes = [*both, node("Concat", order, ["c" if more else "Y"], axis=1), *more]
        return Case(
            model(nodes, ports, [info("Y", [1, 8])], constants), {"X": x, "W": w}, {"Y": wanted}, 1e-5
        )

    whole = np.concatenate(parts, 1)
    cases = {
        "output": of(["a", "b"], whole),
        "coarse_first": of(["b", "a"], np.concatenate(parts[::-1], 1)),
        "then_relu": of(["a", "b"], np.maximum(whole, 0), node("Relu", ["c"], ["Y"])),
        "fp16_device": of(["a", "b"], whole),
    }
    cases["fp16_device"].options, cases["fp16_device"].tolerance = ("--platform", "swkpu-v1"), 1.0
    return cases


def resize_linear_steps() -> dict[str, Case]:
    """Linear Resize: interpolate the floats, then round once to the steps of the output."""

    def of(x: list[int], wanted: Array, scale: float, zero: int, *, behind: bool = True) -> Case:
        nodes = steps("X", "a", "s", "z")
        way = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
        nodes.append(node("Resize", ["a", "", "", "n"], ["r" if behind else "Y"], **way))
        nodes += steps("r", "Y", "s2", "z2") if behind else []
        constants = [
            constant("s", 1, np.float32),
            constant("z", 0, np.int8),
            constant("s2", scale, np.float32),
            constant("z2", zero, np.int8),
            constant("n", [1, 1, 1, 5], np.int64),
        ]
        made = model(nodes, [info("X", [1, 1, 1, 2])], [info("Y", [1, 1, 1, 5])], constants)
        return Case(made, {"X": np.array([[[x]]], np.float32)}, {"Y": wanted}, 1e-5)

    line = np.array([[[[-100, -50, 0, 50, 100]]]], np.float32)
    quarters = np.array([[[[0, 0.25, 0.5, 0.75, 1]]]], np.float32)
    return {
        "half_steps": of([-100, 100], rounded(line, 0.5), 0.5, 0),  # -64, -50, 0, 50, 63.5
        "steps_0.7": of([-100, 100], rounded(line, 0.7, -5), 0.7, -5),
        "no_quantize_behind": of([0, 1], quarters, 1, 0, behind=False),
    }


def quantize_divides_in_f32() -> dict[str, Case]:
    """Pixels p / 255 in steps of 2 / 255 lie half way between two integers: the quotient in f32 is one."""
    pixels, scale = (np.arange(256) / 255).astype(np.float32), np.float32(2 / 255)
    wanted = np.clip(np.rint(pixels / scale) - 128, -128, 127).astype(np.int8)
    constants = [constant("s", scale), constant("z", -128, np.int8)]
    made = model(
        [node("QuantizeLinear", ["X", "s", "z"], ["Y"])],
        [info("X", [256])],
        [info("Y", [256], TensorProto.INT8)],
        constants,
        opset=19,
    )
    return {"pixels": Case(made, {"X": pixels}, {"Y": wanted})}


def two_quantizers_of_one_tensor() -> dict[str, Case]:
    """Return one tensor, two QuantizeLinear of different steps: each consumer has its own."""
    x = (np.linspace(-2, 2, 16) * 1.01).astype(np.float32)[None]
    constants = [
        constant("s1", 0.02, np.float32),
        constant("z1", 0, np.int8),
        constant("s2", 0.5, np.float32),
        constant("z2", 3, np.int8),
    ]

    def of(op: str, y: Array) -> Case:
        nodes = [node(op, ["X"], ["m"]), *steps("m", "A", "s1", "z1"), *steps("m", "B", "s2", "z2")]
        ports = [info("A", [1, 16]), info("B", [1, 16])]
        wanted = {"A": rounded(y, 0.02), "B": rounded(y, 0.5, 3)}
        return Case(model(nodes, [info("X", [1, 16])], ports, constants), {"X": x}, wanted, 1e-6)

    return {"input": of("Identity", x), "neg": of("Neg", -x)}


GROUPS = (concat_two_steps, resize_linear_steps, quantize_divides_in_f32, two_quantizers_of_one_tensor)
