"""Networks with a planted failure, and commands that fail on it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/docs")]  # fixes.py, check_page.py
UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Sqrt", "Softplus", "Erf")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


def network(seed: int, count: int, planted: dict[int, str], side: int = 8) -> onnx.ModelProto:
    """Return a random network of one shape, `count` nodes long, with operators planted at some places."""
    chosen = random.Random(seed)
    values, nodes, constants = ["x", "y"], [], []
    for index in range(count):
        kind = planted.get(index) or chosen.choice((*UNARY, *BINARY, "Gemm"))
        made = f"v{index}"
        if kind == "Gemm":
            weight = np.random.default_rng(index).standard_normal((side, side)).astype(np.float32)
            constants.append(numpy_helper.from_array(weight, f"w{index}"))
            nodes.append(
                helper.make_node(kind, [chosen.choice(values[-6:]), f"w{index}"], [made], f"n{index}")
            )
        else:
            reads = [chosen.choice(values[-6:]) for _ in range(2 if kind in BINARY else 1)]
            nodes.append(helper.make_node(kind, reads, [made], f"n{index}"))
        values.append(made)
    read = {name for node in nodes for name in node.input}
    ends = [name for name in values if name not in read and name not in ("x", "y")]
    info = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [side, side]) for name in values}
    graph = helper.make_graph(nodes, "made", [info["x"], info["y"]], [info[name] for name in ends], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def failing(*kinds: str) -> list[str]:
    """Return the command that fails on models with all of these operators, by their names in the file."""
    found = " && ".join(f'grep -aqw {kind} "$0"' for kind in kinds)
    return ["sh", "-c", f"if {found}; then exit 7; fi", "{}"]
