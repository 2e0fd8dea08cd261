"""A three-layer network from graph to result: schedule it, execute it, compare with NumPy, look at its time.

usage: mlp_runtime.py [SRAM_KIB ...]     default: 12 52 256
"""

from __future__ import annotations

import sys

import numpy as np
from kpusim.schedule import Graph, Runtime, Scheduler, SchedulerConfig


def build_graph() -> Graph:
    """out = relu(relu(x @ w1) @ w2) @ w3, with x of 128 x 128."""
    graph = Graph()
    x = graph.input("x", (128, 128))
    a1 = graph.relu(graph.matmul(x, graph.weight("w1", (128, 64))))
    a2 = graph.relu(graph.matmul(a1, graph.weight("w2", (64, 32))))
    graph.matmul(a2, graph.weight("w3", (32, 32)), "out", role="output")
    return graph


def main() -> None:
    """Run the network in arenas of several sizes."""
    graph = build_graph()
    random = np.random.default_rng(0)
    data = {
        t.name: random.standard_normal(t.shape, np.float32)
        for t in graph.tensors.values()
        if t.role in ("input", "weight")
    }
    exact = {name: value.astype(np.float64) for name, value in data.items()}
    expected = np.maximum(np.maximum(exact["x"] @ exact["w1"], 0) @ exact["w2"], 0) @ exact["w3"]
    print("   SRAM   loads  removed  executes  stores    cycles  overlap  largest error")
    for kib in map(int, sys.argv[1:] or ("12", "52", "256")):
        ops, stats = Scheduler(SchedulerConfig(kib * 1024)).run_on_graph(graph)
        runtime = Runtime(sram_bytes=kib * 1024)
        for tensor in graph.tensors.values():
            runtime.register_tensor(tensor.name, tensor.shape)
        for name, value in data.items():
            runtime.set_tensor(name, value)
        runtime.execute(ops)
        error = np.abs(runtime.get_tensor("out") - expected).max() / np.abs(expected).max()
        done = runtime.stats
        print(
            f"{kib:4} KiB  {done.loads:6}  {stats.loads_removed:6.1%}  {done.executes:8}  {done.stores:6}  "
            f"{done.cycles:8,}  {done.overlap:6.2f}x  {error:.1e}"
        )
        assert error <= 1e-6


if __name__ == "__main__":
    main()
