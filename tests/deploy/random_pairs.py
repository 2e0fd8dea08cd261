"""Random models and configurations: whatever `compile` refuses, `validate_model` names before.

python tests/deploy/random_pairs.py [COUNT [SEED]]      # 300 pairs, and a seed of the clock that is printed
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import onnx
from kpusim import kpu
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT
OPERATORS = ("Relu", "Sigmoid", "Softmax", "Exp", "Det", "Col2Im", "Unheard", "Transpose", "TopK")


def model(choose: random.Random, path: Path) -> tuple[int, ...]:
    """Return a model of one to three nodes, which may have an operator, a rank or a size that is refused."""
    kind = choose.choice(["product", "window", "nodes", "nodes", "rank"])
    batch = choose.choice([1, 1, 2, 17])
    constants: dict[str, np.ndarray] = {}
    if kind == "product":
        deep, wide = choose.choice([8, 64, 300]), choose.choice([8, 100])
        shape: tuple[int, ...] = (batch, deep)
        constants["w"] = np.random.default_rng(deep).standard_normal((deep, wide)).astype(np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    elif kind == "window":
        size = choose.choice([8, 40, 400])
        shape = (batch, 1, size, size)
        nodes = [helper.make_node("MaxPool", ["x"], ["y"], "window", kernel_shape=[size // 2] * 2)]
    else:
        rank = choose.choice([7, 8]) if kind == "rank" else choose.choice([2, 3, 4])
        shape = (batch, *(choose.choice([2, 5]) for _ in range(rank - 1)))
        nodes, last = [], "x"
        for number in range(choose.choice([1, 2, 3])):
            op = choose.choice(OPERATORS)
            inputs, outputs = [last], [f"t{number}"]
            if op == "TopK":
                constants["k"] = np.array([2])
                inputs, outputs = [last, "k"], [f"t{number}", f"i{number}"]
            nodes.append(helper.make_node(op, inputs, outputs, f"node{number}"))
            last = outputs[0]
        nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = proto.SerializeToString()
    if choose.random() < 0.05:
        data = data[: len(data) * 2 // 3]
    path.write_bytes(data)
    return shape


CHANGES: list[tuple[str, list[Any]]] = [
    ("memory.sram_l1_bytes", [0, -1, 1000, 4096, 65536, 1 << 20, "large"]),
    ("memory.sram_l2_bytes", [0, 1000, 65536, 1 << 24]),
    ("memory.dram_bytes", [1000, 1 << 20, 1 << 30, None]),
    ("memory.dram_bandwidth_gbps", [0, 0.1, 6.4, 1e6, float("nan")]),
    ("memory.sram_bandwidth_gbps", [0, 1.0, 1e9]),
    ("memory.cache_line_bytes", [0, 32, 48, 128]),
    ("compute.systolic_rows", [0, 1, 7, 8, 128, 100000, 2.5]),
    ("compute.systolic_cols", [1, 16, 33]),
    ("compute.vector_lanes", [0, 1, 5, 64]),
    ("compute.clock_mhz", [0, 1.0, 333.3, 1e5, float("inf")]),
    ("compute.tops_fp16", [0, 0.064, 4.0, -1]),
    ("compute.tdp_watts", [0, 1.5]),
    ("max_tensor_dims", [1, 3, 8]),
    ("max_batch_size", [0, 1, 32]),
    ("supported_precisions", [[], ["int8"], ["fp16"], ["int4"], ["posit8"], ["bf16", "int8"], ["fp7"]]),
]


def configuration(choose: random.Random) -> kpu.KPUConfig:
    """Make a configuration of any name, with up to three fields changed."""
    config = kpu.KPUConfig(choose.choice(["swkpu-v1", "swkpu-x", *kpusim.Platform.names()]))
    for path, values in choose.sample(CHANGES, choose.choice([0, 0, 1, 1, 2])):
        part, _, field = path.rpartition(".")
        setattr(getattr(config, part) if part else config, field, choose.choice(values))
    return config


def check(seed: int, folder: Path) -> str:
    """Return what came of a pair; an AssertionError where something was refused that was not named."""
    choose = random.Random(seed)
    path = folder / "net.onnx"
    shape = model(choose, path)
    config = configuration(choose)
    compiler = kpu.KPUCompiler()
    issues = compiler.validate_model(path, config)
    refused = []
    samples = [np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i in range(4)]
    for kind in config.supported_precisions or ["fp16"]:
        try:
            compiler.compile(path, config, kind, samples)
        except kpusim.KpusimError as error:
            refused.append(str(error))
    assert bool(issues) == bool(refused), f"seed {seed}: named {issues}, refused {refused}"
    return "refused" if refused else "compiled"


def main() -> None:
    """Check many pairs."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) % 1_000_000
    print(f"{count} pairs from seed {first}")
    found: Counter[str] = Counter()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="pairs_") as folder:
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            found[check(seed, Path(folder))] += 1
    print(dict(found))
    assert min(found["compiled"], found["refused"]) >= count // 10, "too few of one kind"


if __name__ == "__main__":
    main()
