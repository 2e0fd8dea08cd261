"""Tile schedules from Python: the original's snippets, values against NumPy, errors, the scheduler."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import numpy.typing as npt
import pytest
from kpusim import UserError
from kpusim import schedule as tile_schedule
from kpusim.schedule import (
    Engine,
    EngineConfig,
    FusionPass,
    Graph,
    LoweringPass,
    Runtime,
    SchedExecute,
    SchedLoad,
    SchedOp,
    SchedStore,
    ScheduleError,
    Scheduler,
    SchedulerConfig,
    TilingPass,
)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "tile_schedule"
Matrix = npt.NDArray[np.float32]


def single(activation: str | None = None) -> list[SchedOp]:
    """Return one product of 32 x 32."""
    return [
        SchedLoad("A", (0, 0), dst_addr=0, bytes=4096),
        SchedLoad("B", (0, 0), dst_addr=4096, bytes=4096),
        SchedExecute(m=0, n=0, k=0, a_addr=0, b_addr=4096, acc_addr=8192),
        SchedStore("C", (0, 0), src_addr=8192, bytes=4096, activation=activation),
    ]


def runtime_with_operands(seed: int = 0) -> tuple[Runtime, Matrix, Matrix]:
    """Return a runtime with A, B and C, the first two set."""
    random = np.random.default_rng(seed)
    rt = Runtime(sram_bytes=64 * 1024)
    for name in "ABC":
        rt.register_tensor(name, (32, 32))
    a, b = (random.standard_normal((32, 32), np.float32) for _ in range(2))
    rt.set_tensor("A", a)
    rt.set_tensor("B", b)
    return rt, a, b


def test_single_matmul_correctness() -> None:
    """Seed section 4.2, with only its import changed."""
    from kpusim.schedule import Runtime

    rt = Runtime(sram_bytes=64 * 1024)
    rt.register_tensor("A", (32, 32))
    rt.register_tensor("B", (32, 32))
    rt.register_tensor("C", (32, 32))
    A = np.random.randn(32, 32).astype(np.float32)
    B = np.random.randn(32, 32).astype(np.float32)
    rt.set_tensor("A", A)
    rt.set_tensor("B", B)
    schedule: list[SchedOp] = [
        SchedLoad("A", (0, 0), dst_addr=0, bytes=4096),
        SchedLoad("B", (0, 0), dst_addr=4096, bytes=4096),
        SchedExecute(m=0, n=0, k=0, a_addr=0, b_addr=4096, acc_addr=8192),
        SchedStore("C", (0, 0), src_addr=8192, bytes=4096),
    ]
    rt.execute(schedule)
    C = rt.get_tensor("C", (32, 32))
    expected = A.astype(np.float64) @ B.astype(np.float64)
    # of the largest value: a sum that nearly cancels has no relative precision
    np.testing.assert_allclose(C, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_the_snippet_of_the_bindings() -> None:
    """Seed section 2.5: the runtime by names, a schedule as bytes or as a list."""
    rt = Runtime(sram_bytes=256 * 1024)
    rt.register_tensor("x", (128, 128))
    rt.register_tensor("w1", (128, 64))
    rt.register_tensor("h1", (128, 64))
    x, w1 = np.random.default_rng(1).standard_normal((2, 128, 128), np.float32)
    rt.set_tensor("x", x)
    rt.set_tensor("w1", w1[:, :64])
    graph = Graph()
    graph.matmul(graph.input("x", (128, 128)), graph.weight("w1", (128, 64)), "h1", role="output")
    ops, _ = Scheduler().run_on_graph(graph)
    rt.execute(tile_schedule.pack(ops, ["x", "w1", "h1"]))
    output = rt.get_tensor("h1")
    rt.execute_ops(ops)
    np.testing.assert_array_equal(rt.get_tensor("h1"), output)
    exact = x.astype(np.float64) @ w1[:, :64].astype(np.float64)
    assert np.abs(output - exact).max() <= 1e-6 * np.abs(exact).max()


def test_the_wrapper_of_the_original() -> None:
    """Seed section 3.5: its own Python wrapper, on our engine."""
    import kpusim.schedule as _rt

    config = _rt.EngineConfig()
    config.sram_bytes = 64 * 1024
    engine = _rt.Engine(config)
    ids = {name: engine.register_tensor(name, 32, 32) for name in "ABC"}
    assert ids == {"A": 0, "B": 1, "C": 2}
    engine.set_tensor("A", np.eye(32).astype(np.float32).ravel())
    engine.set_tensor("B", np.full((32, 32), -2.0).astype(np.float32).ravel())
    cpp_ops: list[Any] = []
    for op in single(activation="relu"):
        if isinstance(op, SchedLoad):
            cpp_ops.append(
                _rt.SchedLoad(
                    ids[str(op.tensor)],
                    op.coord[0],
                    op.coord[1],
                    op.dst_addr,
                    op.bytes,
                    op.buffer if op.buffer is not None else -1,
                )
            )
        elif isinstance(op, SchedExecute):
            cpp_ops.append(
                _rt.SchedExecute(
                    op.m,
                    op.n,
                    op.k,
                    op.a_addr,
                    op.b_addr,
                    op.acc_addr,
                    op.buffer if op.buffer is not None else -1,
                )
            )
        elif isinstance(op, SchedStore):
            cpp_ops.append(
                _rt.SchedStore(
                    ids[str(op.tensor)],
                    op.coord[0],
                    op.coord[1],
                    op.src_addr,
                    op.bytes,
                    op.activation == "relu",
                )
            )
    engine.execute(cpp_ops)
    out = np.ones((32, 32), dtype=np.float32)
    engine.get_tensor("C", out)
    assert not out.any()
    assert (engine.stats().loads, engine.stats().executes, engine.stats().stores) == (2, 1, 1)


def test_reference_mlp_file() -> None:
    """The original's schedule of three layers: its ops, and values against float64."""
    loaded = tile_schedule.load(DATA / "mlp_3layer_256k.sched", DATA / "mlp_3layer.header")
    assert len(loaded.ops) == 99
    random = np.random.default_rng(2)
    engine = Engine(EngineConfig(sram_bytes=53248, trace=False))
    values = {}
    for tensor in loaded.tensors.values():
        engine.register_tensor(tensor.name, *tensor.shape)
        if tensor.role in ("input", "weight"):
            values[tensor.name] = random.standard_normal(tensor.shape, np.float32)
            engine.set_tensor(tensor.name, values[tensor.name])
    engine.execute(loaded.write("packed"))
    stats = engine.stats
    assert (stats.loads, stats.executes, stats.stores) == (39, 44, 16)
    exact = {name: value.astype(np.float64) for name, value in values.items()}
    a1 = np.maximum(exact["x"] @ exact["w1"], 0)
    a2 = np.maximum(a1 @ exact["w2"], 0)
    out = a2 @ exact["w3"]
    assert np.abs(engine.get_tensor("out") - out).max() <= 1e-6 * np.abs(out).max()
    # one run of the model gives the same values, and the cycles
    run = kpusim.simulate(loaded.program(53248), "tile32", values)
    np.testing.assert_array_equal(run.outputs["out"], engine.get_tensor("out"))
    assert run.stats["cycles.total"] == stats.cycles
    assert stats.cycles > stats.compute_busy > 0
    assert stats.overlap > 1


def build_mlp_graph() -> Graph:
    """Return the network of the original."""
    graph = Graph()
    x = graph.input("x", (128, 128))
    a1 = graph.relu(graph.matmul(x, graph.weight("w1", (128, 64)), "h1"), "a1")
    a2 = graph.relu(graph.matmul(a1, graph.weight("w2", (64, 32)), "h2"), "a2")
    graph.matmul(a2, graph.weight("w3", (32, 32)), "out", role="output")
    return graph


@pytest.mark.parametrize("total_bytes", [12 * 1024, 53248, 256 * 1024])
def test_mlp_end_to_end(total_bytes: int) -> None:
    """Seed section 4.2, as it stands there but for the imports."""
    g = build_mlp_graph()
    config = SchedulerConfig(total_bytes=total_bytes)
    FusionPass().run(g)
    TilingPass().run(g)
    LoweringPass().run(g)
    schedule, stats = Scheduler(config).run_on_graph(g)
    rt = Runtime(sram_bytes=config.total_bytes)
    for tensor in g.tensors.values():
        rt.register_tensor(tensor.name, tensor.shape)
    random = np.random.default_rng(3)
    data = {
        name: random.standard_normal(g.tensors[name].shape, np.float32) for name in ("x", "w1", "w2", "w3")
    }
    for name, value in data.items():
        rt.set_tensor(name, value)
    rt.execute(schedule)
    exact = {name: value.astype(np.float64) for name, value in data.items()}
    out = np.maximum(np.maximum(exact["x"] @ exact["w1"], 0) @ exact["w2"], 0) @ exact["w3"]
    assert np.abs(rt.get_tensor("out") - out).max() <= 1e-6 * np.abs(out).max()
    assert stats.loads_without_reuse == 88
    if total_bytes >= 53248:
        assert stats.loads_removed >= 0.5568


def test_passes_say_what_the_scheduler_does() -> None:
    """Fused nodes, tiles and loops of a graph are those of its schedule."""
    g = build_mlp_graph()
    assert FusionPass().run(g) == [("h1", "a1"), ("h2", "a2"), ("out",)]
    tiles = TilingPass().run(g)
    assert (tiles["x"], tiles["w1"], tiles["a2"]) == ((4, 4), (4, 2), (4, 1))
    loops = LoweringPass().run(g)
    assert loops == {"a1": (4, 2, 4), "a2": (4, 1, 2), "out": (4, 1, 1)}
    ops, stats = Scheduler().run_on_graph(g)
    assert sum(m * n * k for m, n, k in loops.values()) == stats.executes
    assert {op.tensor for op in ops if isinstance(op, SchedStore)} == set(loops)
    odd = Graph()
    x = odd.input("x", (33, 20))
    relu = odd.relu(x, "r")
    odd.add(odd.matmul(relu, odd.weight("w", (20, 70)), "p"), odd.input("y", (33, 70)), "s", role="output")
    assert FusionPass().run(odd) == [("r",), ("p", "s")]
    assert LoweringPass().run(odd) == {"r": (2, 1, 0), "s": (2, 3, 1)}
    assert TilingPass(64).run(odd)["s"] == (1, 2)
    odd.add(x, relu, "refused", role="output")
    with pytest.raises(UserError, match="adds two tensors"):
        FusionPass().run(odd)


@pytest.mark.parametrize(
    ("change", "kind", "op"),
    [
        (lambda ops: ops.__setitem__(0, SchedLoad("Z", (0, 0), 0, 4096)), "unknown_tensor", 0),
        (lambda ops: ops.__setitem__(0, SchedLoad(7, (0, 0), 0, 4096)), "unknown_tensor", 0),
        (lambda ops: ops.__setitem__(0, SchedLoad("A", (1, 0), 0, 4096)), "tile_outside", 0),
        (lambda ops: ops.__setitem__(0, SchedLoad("A", (0, 0), 65536, 4096)), "outside_arena", 0),
        (lambda ops: ops.__setitem__(0, SchedLoad("A", (0, 0), 4, 4096)), "unaligned", 0),
        (lambda ops: ops.__setitem__(3, SchedStore("C", (0, 0), 8192, 2048)), "wrong_bytes", 3),
        (lambda ops: ops.__delitem__(1), "never_loaded", 1),
        (lambda ops: ops.insert(3, ops[2]), "unstored_sum", 3),
        (lambda ops: ops.__setitem__(2, SchedExecute(0, 0, 0, 0, 4096, 4096)), "overlap", 2),
    ],
)
def test_illegal_schedules(change: Callable[[list[SchedOp]], None], kind: str, op: int) -> None:
    """Each mistake raises a ScheduleError of its kind, and nothing has run."""
    rt, _, _ = runtime_with_operands()
    ops = single()
    change(ops)
    with pytest.raises(ScheduleError, match=f"op {op}") as caught:
        rt.execute(ops)
    assert (caught.value.kind, caught.value.op) == (kind, op)
    assert isinstance(caught.value, ValueError)
    assert not rt.get_tensor("C").any()
    assert rt.stats.loads == 0


def test_arrays_of_every_kind() -> None:
    """Strided, read-only and other dtypes are taken by value; wrong shapes and types are refused."""
    rt, a, b = runtime_with_operands()
    rt.execute(single())
    expected = rt.get_tensor("C")
    wide = np.repeat(a.astype(np.float64), 2, axis=1)
    for same in (np.asfortranarray(a), wide[:, ::2], a.ravel(), a.tolist(), a.astype(">f4")):
        rt.set_tensor("A", np.zeros((32, 32)))
        rt.set_tensor("A", same)
        rt.execute(single())
        np.testing.assert_array_equal(rt.get_tensor("C"), expected)
    b.flags.writeable = False
    rt.set_tensor("B", b)
    for wrong in (
        np.zeros((32, 31)),
        np.zeros((16, 64)),
        np.zeros(1023),
        "text",
        object(),
        np.zeros((32, 32), complex),
    ):
        with pytest.raises(kpusim.UserError):
            rt.set_tensor("A", wrong)  # type: ignore[arg-type]
    with pytest.raises(kpusim.UserError, match="did you mean"):
        rt.get_tensor("c")
    with pytest.raises(kpusim.UserError, match="has shape"):
        rt.get_tensor("C", (31, 32))
    engine = Engine()
    engine.register_tensor("C", 32, 32)
    fixed = np.zeros((32, 32), np.float32)
    fixed.flags.writeable = False
    for out in (fixed, np.zeros((31, 32), np.float32), np.zeros((32, 32), np.int32)):
        with pytest.raises(kpusim.UserError):
            engine.get_tensor("C", out)
    strided = np.ones((32, 64), np.float32)[:, ::2]
    assert not engine.get_tensor("C", strided).any()


def test_what_is_no_schedule() -> None:
    """Other objects than ops and packed bytes are refused; so are numbers that do not fit."""
    rt, _, _ = runtime_with_operands()
    for wrong in ("L 0 0 0 0", b"KPUPROG\0", b"\0", 7, None, [None], [single()], {"a": 1}):
        with pytest.raises((kpusim.UserError, TypeError)):
            rt.execute(wrong)  # type: ignore[arg-type]
    rt.execute([])
    rt.execute(b"")
    rt.execute(memoryview(bytearray(tile_schedule.pack(single(), ["A", "B", "C"]))))
    for arguments in ((-1, 0, 0, 0, 0, 0), (0, 0, 0, 2**32, 0, 0), (0.5, 0, 0, 0, 0, 0)):
        with pytest.raises(TypeError):
            SchedExecute(*arguments)  # type: ignore[arg-type]
    for config in (
        EngineConfig(sram_bytes=0),
        EngineConfig(sram_bytes=-1),
        EngineConfig(tile=0),
        EngineConfig(elem="f64"),
    ):
        with pytest.raises(kpusim.UserError):
            Engine(config)
    with pytest.raises(kpusim.UserError):
        rt.register_tensor("A", (32, 32))
    with pytest.raises(kpusim.UserError):
        rt.register_tensor("D", (0, 32))
    with pytest.raises(kpusim.UserError):
        rt.register_tensor("D", (32, 32, 32))  # type: ignore[arg-type]


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16", "i8"])
def test_element_types(elem: str) -> None:
    """Accumulation is f32 (i32); a STORE converts to the tensor's type, i8 by its scale."""
    random = np.random.default_rng(4)
    engine = Engine(EngineConfig(sram_bytes=65536, tile=16, elem=elem))
    for name in "AB":
        engine.register_tensor(name, 16, 16)
    wide = "i32" if elem == "i8" else "f32"
    engine.register_tensor("wide", 16, 16, wide)
    engine.register_tensor("narrow", 16, 16, elem, 16.0 if elem == "i8" else None)
    for name in "AB":
        values = random.integers(-8, 8, (16, 16))
        engine.set_tensor(name, values if elem == "i8" else values.astype(np.float32))
    size = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[elem] * 256
    engine.execute(
        [
            SchedLoad("A", (0, 0), 0, size),
            SchedLoad("B", (0, 0), 1024, size),
            SchedExecute(0, 0, 0, 0, 1024, 2048),
            SchedStore("wide", (0, 0), 2048, 1024),
            SchedStore("narrow", (0, 0), 2048, 1024, "relu"),
        ]
    )
    sums = engine.get_tensor("wide").astype(np.int64)
    narrow = engine.get_tensor("narrow")
    if elem == "i8":
        expected: Any = np.clip(np.round(np.maximum(sums, 0) / 16), -128, 127)
    else:
        expected = np.maximum(sums, 0)
        if elem == "bf16":
            narrow = (narrow.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(narrow, expected, rtol=2**-8 if elem == "bf16" else 0)


def test_add_and_refusals() -> None:
    """An Add joins the product before it; a lone one is refused, by name."""
    graph = Graph()
    x, w, c = graph.input("x", (40, 50)), graph.weight("w", (50, 30)), graph.input("c", (40, 30))
    graph.relu(graph.add(graph.matmul(x, w), c), "y", role="output")
    ops, stats = Scheduler(SchedulerConfig(65536)).run_on_graph(graph)
    rt = Runtime(65536)
    random = np.random.default_rng(5)
    data = {}
    for tensor in graph.tensors.values():
        rt.register_tensor(tensor.name, tensor.shape)
        data[tensor.name] = random.standard_normal(tensor.shape, np.float32)
        if tensor.role in ("input", "weight"):
            rt.set_tensor(tensor.name, data[tensor.name])
    rt.execute(ops)
    expected = np.maximum(data["x"].astype(np.float64) @ data["w"] + data["c"], 0)
    np.testing.assert_allclose(rt.get_tensor("y"), expected, atol=1e-5)
    assert stats.stores == 2
    lone = Graph()
    lone.add(lone.input("a", (32, 32)), lone.input("b", (32, 32)), "y", role="output")
    with pytest.raises(kpusim.UserError, match="no op of a schedule adds two tensors"):
        Scheduler().run_on_graph(lone)


def test_forms_round_trip(tmp_path: Path) -> None:
    """A scheduled graph goes through every form and back, and runs from the command's file."""
    made, _ = Scheduler(SchedulerConfig(53248)).schedule(build_mlp_graph())
    for form in ("text", "protobuf", "json"):
        path = tmp_path / form
        path.write_bytes(made.write(form))  # type: ignore[arg-type]
        again = tile_schedule.load(path)
        assert again.ops == made.ops
        assert again.tensors == made.tensors
    bad = tmp_path / "bad"
    bad.write_text("tile 32 f32\nL 0 0\n")
    with pytest.raises(kpusim.UserError, match="bad:2:1") as caught:
        tile_schedule.load(bad)
    assert caught.value.line == 2
    with pytest.raises(kpusim.UserError, match="cannot read"):
        tile_schedule.load(tmp_path / "none")


def test_threads_share_an_engine() -> None:
    """Several threads on one engine: one at a time, and every count is there."""
    rt, _, _ = runtime_with_operands()
    threads = [threading.Thread(target=lambda: [rt.execute(single()) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rt.stats.executes == 200


def test_objects_may_go_in_any_order() -> None:
    """Statistics and results outlive their engine; a process of its own shows a clean exit."""
    program = (
        "import gc, numpy as np\n"
        "from kpusim.schedule import Runtime\n"
        "rt = Runtime(65536); rt.register_tensor('x', (4, 4)); rt.set_tensor('x', np.ones((4, 4)))\n"
        "stats, x = rt.stats, rt.get_tensor('x')\n"
        "del rt; gc.collect()\n"
        "print(stats.loads, stats.cycles, x.sum())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "0 0 16.0\n"), done.stderr
    gc.collect()


def test_trace() -> None:
    """A line for each op of the last execute, only when asked for."""
    config = EngineConfig(sram_bytes=65536, trace=True)
    engine = Engine(config)
    for name in "ABC":
        engine.register_tensor(name, 32, 32)
    engine.execute(single())
    assert engine.trace == ["0 LOAD A[0,0]", "1 LOAD B[0,0]", "2 EXECUTE (0,0,0)", "3 STORE C[0,0]"]
    assert "loads=2" in repr(engine.stats)


def test_example() -> None:
    """The example runs, and says what it is for."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "mlp_runtime.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["12", "52", "256"]
    assert float(rows[1][7].rstrip("x")) > 1.3  # DRAM is the bound: see docs/tile_schedules.md
