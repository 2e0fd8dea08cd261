"""Networks from Python: inputs that are constants, sizes by place, weights that are not there."""

from __future__ import annotations

import pickle
from pathlib import Path

import kpusim
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def saved(path: Path, weights: bool = True) -> str:
    """Relu or Neg, by the input `rate`, of x times w; x is resized to the input `sizes`."""
    value = helper.make_tensor_value_info
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["m"], [name])], name, [], [onnx.ValueInfoProto(name=name)]
        )
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [
        helper.make_node("Resize", ["x", "", "", "sizes"], ["r"], mode="nearest"),
        helper.make_node("MatMul", ["r", "w"], ["m"]),
        helper.make_node("Equal", ["rate", "k"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    w = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4) - 8, "w")
    if not weights:
        w.raw_data = b""
    graph = helper.make_graph(
        nodes,
        "g",
        [
            value("x", TensorProto.FLOAT, ["?", "?"]),
            value("sizes", TensorProto.INT64, [2]),
            value("rate", TensorProto.INT64, []),
        ],
        [onnx.ValueInfoProto(name="y")],
        [w, numpy_helper.from_array(np.array(16000), "k")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, path)
    return str(path)


SIZES = {"x.0": 2, "x.1": 2}


def expected(x: np.ndarray, rate: int) -> np.ndarray:
    """Return the same by NumPy."""
    m = np.repeat(np.repeat(x, 2, 0), 2, 1) @ (np.arange(16, dtype=np.float32).reshape(4, 4) - 8)
    return np.maximum(m, 0) if rate == 16000 else -m


def test_bound_inputs(tmp_path: Path) -> None:
    """Numbers, lists, arrays and files; in compile, load and simulate, also for another device."""
    path = saved(tmp_path / "net.onnx")
    np.save(tmp_path / "sizes.npy", np.array([4, 4]))
    x = np.array([[1, -2], [3, 4]], np.float32)
    for sizes in ([4, 4], np.array([4, 4]), tmp_path / "sizes.npy", "[4,4]"):
        for rate in (16000, np.int64(8000)):
            bind = {"sizes": sizes, "rate": rate}
            program = kpusim.compile(path, "tile32", "f32", dims=SIZES, bind=bind)
            run = kpusim.simulate(program, inputs={"x": x})
            assert np.array_equal(run.outputs["y"], expected(x, int(rate)))
    other = kpusim.load(path, "core128-hbm2", precision="f32", dim=SIZES, bind={"sizes": (4, 4)})
    for rate in (16000, 8000):
        run = kpusim.simulate(other.made_for("tile32"), inputs={"x": x, "rate": np.array(rate)})
        assert np.array_equal(run.outputs["y"], expected(x, rate))
    run = kpusim.simulate(path, "tile32", {"x": x}, precision="f32", dim=SIZES, bind=bind)
    assert np.array_equal(run.outputs["y"], expected(x, 8000))


@pytest.mark.parametrize(
    ("bind", "said"),
    [
        ({"size": 1}, "the model has no such input"),
        ({"sizes": [4.0, 4.0]}, "4.0 is not int64"),
        ({"sizes": [4]}, r"its shape is \[1\]"),
        ({"sizes": np.ones(2, bool)}, "true is not int64"),
        ({}, r"its sizes are not constant(.|\n)*bind=\{'sizes': VALUE\}"),
    ],
)
def test_refused(tmp_path: Path, bind: dict[str, object], said: str) -> None:
    """Unknown inputs, other types and shapes; what could be bound is named."""
    with pytest.raises(kpusim.UserError, match=said):
        kpusim.compile(saved(tmp_path / "net.onnx"), "tile32", "f32", dims=SIZES, bind=bind)  # type: ignore[arg-type]


def test_absent_weights(tmp_path: Path) -> None:
    """Time is that with them; values are refused, saving too."""
    bind = {"sizes": [4, 4], "rate": 1}
    programs = [
        kpusim.compile(saved(tmp_path / f"{has}.onnx", has), "tile32", "f32", dims=SIZES, bind=bind)
        for has in (True, False)
    ]
    assert [program.has_values for program in programs] == [True, False]
    times = [kpusim.simulate(program, mode="timing").cycles for program in programs]
    assert times[0] == times[1]
    without = programs[1]
    assert any("made-up numbers" in str(note) for note in without.diagnostics)
    for program in (without, pickle.loads(pickle.dumps(without))):
        assert kpusim.simulate(program, mode="timing").cycles == times[0]
        with pytest.raises(
            kpusim.UserError, match=r"`w`: the file has none of its bytes. Fix: .*mode='timing'"
        ):
            kpusim.simulate(program, fill=1)
    with pytest.raises(kpusim.UserError, match="none of its bytes"):
        without.save(tmp_path / "net.kpu")
