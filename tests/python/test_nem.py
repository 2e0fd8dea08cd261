"""The interpreter: load, run, step, inspect, diagnostics, statistics, reset."""

from __future__ import annotations

import os
from pathlib import Path

import kpusim
import numpy as np
import pytest
from kpusim.nem import NemInterpreter, TaskRecord

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(os.environ.get("KPUSIM_CASES", ROOT / "build/release/tests/conformance/nem"))


@pytest.fixture
def x() -> np.ndarray:
    """Input of the small program."""
    return np.linspace(-1, 1, 256).astype(np.float16)


@pytest.mark.parametrize("device", [None, "npm_lite"])
def test_run(relu: str, x: np.ndarray, device: str | None) -> None:
    """With a device there is time, without one only values."""
    interpreter = NemInterpreter()
    interpreter.load(relu, device)
    outputs = interpreter.run({"x": x})
    assert np.array_equal(outputs["y"], np.maximum(x, 0))
    assert interpreter.mode == ("functional" if device is None else "values+timing")
    assert ("cycles.total" in interpreter.stats) == (device is not None)
    assert np.array_equal(interpreter.run()["y"], outputs["y"])
    assert np.array_equal(interpreter.run({"x": -x})["y"], np.maximum(-x, 0))


@pytest.mark.parametrize("case", ["gemm_f16", "cast_f16_bf16", "relu_i8", "softmax_f16"])
def test_conformance_cases(case: str) -> None:
    """Cases of the conformance suite give NumPy's values; bf16 is its bit patterns."""
    folder = CASES / "execute" / case
    assert folder.exists(), f"{folder} is missing. Fix: build the target conformance_cases"
    interpreter = NemInterpreter()
    interpreter.load(folder / "program.nem")
    inputs = {path.stem: np.load(path) for path in (folder / "inputs").glob("*.npy")}
    outputs = interpreter.run(inputs)
    for path in (folder / "expected").glob("*.npy"):
        expected = np.load(path)
        got = outputs[path.stem]
        assert got.dtype == expected.dtype
        if expected.dtype.kind == "f":
            assert np.allclose(got.reshape(expected.shape), expected, rtol=2e-3, atol=2e-3, equal_nan=True)
        else:
            assert np.array_equal(got.reshape(expected.shape), expected)


@pytest.mark.parametrize("device", [None, "npm_lite"])
def test_inspect_between_steps(relu: str, x: np.ndarray, device: str | None) -> None:
    """Buffers, regions with loop values, and tasks follow the steps."""
    interpreter = NemInterpreter()
    interpreter.load(relu, device)
    interpreter.set_inputs({"x": x})
    assert np.array_equal(interpreter.inspect("x"), x)  # before the first step
    record = interpreter.inspect("act")
    assert isinstance(record, TaskRecord)
    assert (record.state, record.completed, record.live) == ("not issued", 0, ())
    assert (record.opcode, record.unit, record.deps, record.loops) == ("relu", "CSTL", ("fetch",), ("i",))
    assert (record.inputs, record.outputs, record.carried) == (("near",), ("near",), ())
    seen: dict[str, int] = {}
    while (task := interpreter.step()) is not None:
        seen[task.name] = seen.get(task.name, 0) + 1
        record = interpreter.inspect(task.name)
        assert isinstance(record, TaskRecord)
        assert record.completed == seen[task.name]
        assert record.place == task.place
        iteration = int(task.iteration.removeprefix("i="))
        tile = slice(64 * iteration, 64 * iteration + 64)
        if task.name == "fetch":
            near = interpreter.inspect("near", i=iteration)
            assert isinstance(near, np.ndarray)
            assert (near.dtype, near.shape) == (np.float16, (64,))
            assert np.array_equal(near, x[tile])
        elif task.name == "act":
            assert np.array_equal(interpreter.inspect("near", i=iteration), np.maximum(x[tile], 0))
        elif task.name == "save":
            assert np.array_equal(interpreter.inspect("y")[tile], np.maximum(x[tile], 0))
    assert seen == dict.fromkeys(["load", "fetch", "act", "keep", "save"], 4)
    record = interpreter.inspect("save")
    assert isinstance(record, TaskRecord)
    assert record.state == "complete"
    assert interpreter.step() is None


def test_tasks_say_what_they_wait_for(relu: str, x: np.ndarray) -> None:
    """While the first transfer runs, the rest of the iteration waits for it in a chain."""
    interpreter = NemInterpreter()
    interpreter.load(relu, "npm_lite")
    interpreter.set_inputs({"x": x})
    interpreter.simulation.step(60)
    load, fetch = interpreter.inspect("load"), interpreter.inspect("fetch")
    assert isinstance(load, TaskRecord)
    assert isinstance(fetch, TaskRecord)
    assert load.state == "running"
    assert fetch.state == "waiting"
    assert fetch.live[0].missing == (load.live[0].serial,)
    assert interpreter.state.units["sdma0"]
    assert interpreter.state.l2_bytes > 0


def test_inspect_refuses_what_it_cannot_show(relu: str, x: np.ndarray) -> None:
    """Unknown names, missing and wrong loop values, places outside of memory."""
    interpreter = NemInterpreter()
    interpreter.load(relu)
    interpreter.set_inputs({"x": x})
    with pytest.raises(kpusim.UserError, match=r"no `nowhere`.*near.*act"):
        interpreter.inspect("nowhere")
    with pytest.raises(kpusim.UserError, match="moves with i"):
        interpreter.inspect("near")
    with pytest.raises(kpusim.UserError, match="does not move with `j`"):
        interpreter.inspect("near", j=0)
    with pytest.raises(kpusim.UserError, match="leave out"):
        interpreter.inspect("x", i=0)
    with pytest.raises(kpusim.UserError, match="outside"):
        interpreter.inspect("src", i=1_000_000)


def test_tensors_and_buffers_are_typed() -> None:
    """A declared tensor has its shape; a buffer the type of its regions; i4 has an element per byte."""
    interpreter = NemInterpreter()
    interpreter.load(ROOT / "examples/gemm_relu/gemm_relu.nem")
    interpreter.set_inputs({}, fill=1)
    tensor = interpreter.inspect("A")
    assert isinstance(tensor, np.ndarray)
    assert (tensor.shape, tensor.dtype) == ((256, 256), np.float16)
    buffer = interpreter.inspect("acc_l1")
    assert isinstance(buffer, np.ndarray)
    assert (buffer.shape, buffer.dtype) == ((2 * 64 * 64,), np.float32)
    interpreter.load(
        """
program p:
buffer x : DDR (size = 8)
buffer m : L2 (size = 8)
let r = region(m, 0, 8) elem=i4, shape=[16], layout=N
let s = region(x, 0, 8) elem=i4, shape=[16], layout=N
a = transfer.async(dst=r, src=s)
"""
    )
    values = np.arange(-8, 8, dtype=np.int8)
    interpreter.run({"x": values})
    assert np.array_equal(interpreter.inspect("m"), values)
    assert np.array_equal(interpreter.inspect("r"), values)
    with pytest.raises(kpusim.UserError, match=r"-8\.\.7"):
        interpreter.run({"x": values + 1})


def test_stats_between_steps_do_not_disturb(relu: str, x: np.ndarray) -> None:
    """Asking in the middle changes nothing, and counts what has happened so far."""
    interpreter = NemInterpreter()
    interpreter.load(relu, "npm_lite")
    interpreter.set_inputs({"x": x})
    for _ in range(9):
        interpreter.step()
    so_far = interpreter.stats
    assert 0 < so_far["bytes.dram.read"] <= x.nbytes
    assert so_far["cycles.total"] == interpreter.state.cycle
    outputs = interpreter.run()
    assert np.array_equal(outputs["y"], np.maximum(x, 0))
    alone = kpusim.simulate(relu, "npm_lite", {"x": x})
    assert dict(interpreter.stats) == dict(alone.stats)
    interpreter.reset()
    assert interpreter.state.cycle == 0
    assert np.array_equal(interpreter.run()["y"], np.maximum(x, 0))


def test_memory_without_a_device() -> None:
    """DDR of 256 MiB, L2 of 64 MiB, L1 of 16 MiB: one byte more is refused."""
    text = "program p:\nbuffer b : {} (size = {})\n"
    for level, mib in (("DDR", 256), ("L2", 64), ("L1[0]", 16)):
        interpreter = NemInterpreter()
        interpreter.load(text.format(level, mib << 20))
        with pytest.raises(kpusim.UserError, match="Fix: name a device"):
            interpreter.load(text.format(level, (mib << 20) + 1))


def test_devices_from_files(relu: str, x: np.ndarray, tmp_path: Path) -> None:
    """A NEM device file is a device; the program's own directive is one too."""
    device = tmp_path / "mine.nem"
    device.write_text((ROOT / "platforms/npm_lite.nem").read_text())
    interpreter = NemInterpreter()
    interpreter.load(relu, device)
    assert interpreter.platform is not None
    interpreter.run({"x": x})
    interpreter.load('device "npm_lite.nem"\n' + relu.lstrip())
    assert interpreter.platform is not None
    assert interpreter.platform.name == "npm_lite"


def test_errors_carry_their_place() -> None:
    """File, line, column, message and fix; all findings, and the loaded program stays."""
    interpreter = NemInterpreter()
    with pytest.raises(kpusim.UserError) as caught:
        interpreter.load(
            "program p:\nbuffer b : L2 (size = 64)\nlet r = region(c, 0, 1)\nlet s = region(d, 0, 1)\n"
        )
    assert [(item.line, item.severity) for item in caught.value.diagnostics] == [(3, "error"), (4, "error")]
    assert (caught.value.file, caught.value.line, caught.value.column) == ("<text>", 3, 16)
    assert "c" in caught.value.message
    assert caught.value.fix
    with pytest.raises(kpusim.UserError, match="no program is loaded"):
        interpreter.run()


def test_a_run_time_error_carries_its_place() -> None:
    """A region that leaves its buffer in some iteration is found when that iteration comes."""
    interpreter = NemInterpreter()
    text = """
program p:
buffer a : DDR (size = 64)
buffer b : L2 (size = 64)
loop i in [0..4]:
    t = transfer.sync(dst=region(b, 0, 16), src=region(a, i * 16, 16))
endloop
"""
    with pytest.raises(kpusim.KpusimError, match="a"):
        interpreter.load(text)
        interpreter.run({"a": np.zeros(64, np.uint8)})


CARRIED = """#! requires kpusim
program sums:
buffer x : DDR (size = 256)
buffer m : L2 (size = 64)
let x_k = region(x, 0, 64) elem=i8, shape=[64], layout=C
let all = region(m, 0, 64) elem=i8, shape=[64], layout=C
loop k in [0..3] @max_in_flight(4):
    #! deps step[k-1], step[k-2]
    step = transfer.async(dst=all, src=x_k)
endloop
"""


def test_tokens_of_earlier_iterations_are_listed() -> None:
    """A task's record has what it needs of earlier iterations, and its instances wait for it."""
    interpreter = NemInterpreter()
    interpreter.load(CARRIED, "npm_lite")
    interpreter.set_inputs({"x": np.zeros(256, np.int8)})
    record = interpreter.inspect("step")
    assert isinstance(record, TaskRecord)
    assert record.carried == ("step[k-1]", "step[k-2]")
    assert interpreter.step() is not None
    record = interpreter.inspect("step")
    assert isinstance(record, TaskRecord)
    assert [len(instance.missing) for instance in record.live] == [0, 1, 2]
