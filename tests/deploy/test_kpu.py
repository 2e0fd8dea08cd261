"""The classes of kpusim.kpu: fields, configurations, modes, errors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import pytest
from kpusim import Platform, kpu
from kpusim.kpu import spec

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "networks" / "digits_cnn.onnx"
IMAGE = np.load(ROOT / "examples" / "networks" / "images.npy")[:1]
SAMPLES = [np.load(path) for path in sorted((MODEL.parent / "calibration").glob("*.npy"))[:4]]
pytestmark = pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")

DEFAULTS = {
    "MemoryConfig": {
        "sram_l1_bytes": 262144, "sram_l2_bytes": 2097152, "dram_bytes": 4294967296,
        "dram_bandwidth_gbps": 25.6,
        "sram_bandwidth_gbps": 256.0, "cache_line_bytes": 64, "l1_associativity": 4, "l2_associativity": 8,
    },
    "ComputeConfig": {
        "systolic_rows": 16, "systolic_cols": 16, "vector_lanes": 16, "clock_mhz": 500.0, "tops_int8": 4.0,
        "tops_fp16": 2.0, "tops_posit8": 3.0, "tdp_watts": 5.0, "idle_watts": 0.5,
    },
    "TileConfig": {"tile_sizes": {}, "loop_order": [], "double_buffer": False, "prefetch_distance": 1},
    "MemoryLayout": {
        "memory_type": spec.MemoryType.DRAM, "base_address": 0, "format": "NCHW", "tile_shape": None,
        "alignment_bytes": 64, "contiguous": True,
    },
}  # fmt: skip
FIELDS = {
    "KPUConfig": "name version memory compute supported_precisions max_tensor_dims max_batch_size native_ops",
    "KPUTensor": "id name shape dtype layout scale zero_point is_weight is_input is_output",
    "KPUOp": "id op_type input_ids output_ids attributes tiling schedule_order fused_with estimated_cycles "
    "estimated_energy_pj",
    "KPUProgram": "name version source_model source_hash target_config precision ops tensors input_ids "
    "output_ids peak_sram_bytes peak_dram_bytes weight_bytes activation_bytes estimated_total_cycles "
    "estimated_total_energy_uj weights_blob",
    "KPUPerformanceMetrics": "total_cycles total_time_us compute_cycles memory_stall_cycles other_cycles "
    "dram_reads_bytes dram_writes_bytes sram_reads_bytes sram_writes_bytes l1_hits l1_misses l2_hits "
    "l2_misses average_power_watts total_energy_uj energy_per_inference_mj compute_utilization "
    "memory_bandwidth_utilization op_metrics",
    "KPUExecutionResult": "success error_message outputs metrics mode trace",
}


def compiled(precision: str = "fp16", config: kpu.KPUConfig | None = None) -> kpu.KPUProgram:
    """Return the digits network."""
    samples = SAMPLES if precision == "int8" else None
    return kpu.KPUCompiler().compile(MODEL, config or kpu.KPUConfig(), precision, samples)


@pytest.fixture(scope="module")
def program() -> kpu.KPUProgram:
    """The digits network in fp16."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled()


@pytest.fixture
def runtime(program: kpu.KPUProgram) -> kpu.KPURuntime:
    """With the program loaded."""
    loaded = kpu.KPURuntime(kpu.KPUConfig())
    loaded.load_program(program)
    return loaded


def test_fields() -> None:
    """Names, order and defaults of the interface."""
    for name, values in DEFAULTS.items():
        assert dataclasses.asdict(getattr(spec, name)()) == values
    for name, fields in FIELDS.items():
        assert [field.name for field in dataclasses.fields(getattr(spec, name))] == fields.split()
    config = kpu.KPUConfig()
    assert (config.name, config.version) == ("swkpu-v1", "1.0.0")
    assert config.supported_precisions == ["int8", "fp16"]
    assert (config.max_tensor_dims, config.max_batch_size, len(config.native_ops)) == (6, 16, 32)
    assert config.validate() == []
    sizes = [kpu.KPUTensor("t", "t", (2, 3, 5), kind).size_bytes for kind in kpu.KPUPrecision]
    assert sizes == [30, 15, 60, 60, 30, 60]
    bad = kpu.KPUConfig(supported_precisions=[])
    bad.memory.sram_l1_bytes, bad.compute.clock_mhz = 0, -1
    assert len(bad.validate()) == 3


def test_importable_without_extras() -> None:
    """NumPy is enough."""
    code = """
import sys
for name in ("torch", "onnx", "onnxscript", "PIL"): sys.modules[name] = None
from kpusim.kpu import *
print(StillwaterKPUTarget().config.name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "swkpu-v1\n", done.stderr


def test_modes(runtime: kpu.KPURuntime) -> None:
    """Equal outputs; metrics that agree with each other and with their parts."""
    results = [runtime.execute({"image": IMAGE}, mode) for mode in kpu.SimulationMode]
    assert all(result.success for result in results)
    assert len({result.outputs["logits"].tobytes() for result in results}) == 1
    for result in results:
        m = result.metrics
        assert m.total_cycles == m.compute_cycles + m.memory_stall_cycles + m.other_cycles > 0
        assert m.total_time_us == pytest.approx(m.total_cycles / 500)
        assert m.total_energy_uj == pytest.approx(m.average_power_watts * m.total_time_us)
        assert m.energy_per_inference_mj == pytest.approx(m.total_energy_uj / 1000)
        assert sum(row["cycles"] for row in m.op_metrics.values()) == m.total_cycles
        assert sum(row["energy_uj"] for row in m.op_metrics.values()) == pytest.approx(m.total_energy_uj)
        assert 0 < m.compute_utilization < 1 and 0 < m.memory_bandwidth_utilization < 1
        assert min(m.l1_hits, m.l2_hits, m.sram_reads_bytes, m.dram_reads_bytes) > 0
    watts = results[2].metrics.op_metrics
    assert watts["conv2"]["macs"] == 4 * 4 * 32 * 9 * 16
    for row in (row for row in watts.values() if row["cycles"]):
        assert row["watts"] * row["cycles"] / 500 == pytest.approx(row["energy_uj"])
    assert results[1].trace and "watts" not in results[1].metrics.op_metrics["conv2"]


def test_program(program: kpu.KPUProgram) -> None:
    """Everything that a program says is there and fits together."""
    assert program.validate() == []
    assert sum(op.estimated_cycles for op in program.ops) <= program.estimated_total_cycles
    assert [op.id for op in program.get_ops_in_order()] == ["conv1", "pool1", "conv2", "pool2", "classify"]
    assert program.ops[0].fused_with == ["relu1"] and program.ops[0].tiling is not None
    assert {t.id: t.shape for t in program.get_input_tensors()} == {"image": (1, 1, 8, 8)}
    weights = [t for t in program.tensors.values() if t.is_weight]
    assert len(weights) == 6 and sum(t.size_bytes for t in weights) >= 2 * (16 * 9 + 32 * 144 + 1280)
    int8 = compiled("int8")
    scales = int8.ops[2].attributes["scales of " + int8.ops[2].input_ids[1]]
    assert len(scales) == 32 and len(set(scales)) > 1
    estimate = kpu.KPUCompiler().estimate_memory(MODEL, kpu.KPUConfig(), kpu.KPUPrecision.INT8)
    assert estimate["weights"] == int8.weight_bytes and estimate["peak_sram"] == int8.peak_sram_bytes


CHANGES = {
    "memory.sram_l1_bytes": 65536, "memory.sram_l2_bytes": 1048576, "memory.dram_bytes": 2**31,
    "memory.dram_bandwidth_gbps": 6.4, "memory.sram_bandwidth_gbps": 32.0, "memory.cache_line_bytes": 128,
    "compute.systolic_rows": 8, "compute.systolic_cols": 8, "compute.vector_lanes": 4,
    "compute.clock_mhz": 250.0,
    "compute.tops_fp16": 1.0, "compute.tops_int8": 2.0, "compute.tdp_watts": 1.0,
}  # fmt: skip
IGNORED = {"memory.l1_associativity": 2, "memory.l2_associativity": 2, "compute.idle_watts": 1.0,
           "compute.tops_posit8": 1.0}  # fmt: skip


def changed(path: str, value: float) -> kpu.KPUConfig:
    """Return the usual device with one other field."""
    config = kpu.KPUConfig()
    part, field = path.split(".")
    setattr(getattr(config, part), field, value)
    return config


@pytest.mark.parametrize("path", [*CHANGES, *IGNORED])
def test_every_field_counts(path: str) -> None:
    """A field changes the platform, or a warning says that it is ignored."""
    usual = kpu.platform_of(kpu.KPUConfig())
    config = changed(path, {**CHANGES, **IGNORED}[path])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        platform = kpu.platform_of(config)
    said = [str(item.message) for item in caught]
    if path in IGNORED:
        assert platform is usual or platform == usual
        assert any(path.split(".")[1] in text and "ignored" in text for text in said)
    else:
        assert platform != usual
        back = kpu.config_of(platform)
        part, field = path.split(".")
        if not field.startswith("tops"):
            assert getattr(getattr(back, part), field) == pytest.approx(CHANGES[path])


def test_results_follow_the_device(program: kpu.KPUProgram) -> None:
    """Less bandwidth, a slower clock, a smaller array: more cycles or more time."""

    def cycles(path: str) -> kpu.KPUProgram:
        return compiled("fp16", changed(path, CHANGES[path]))

    assert cycles("memory.dram_bandwidth_gbps").estimated_total_cycles > program.estimated_total_cycles
    assert cycles("compute.systolic_cols").estimated_total_cycles > program.estimated_total_cycles
    assert cycles("compute.tops_fp16").estimated_total_cycles > program.estimated_total_cycles
    assert cycles("compute.vector_lanes").estimated_total_cycles > program.estimated_total_cycles


@pytest.mark.parametrize("name", Platform.names())
def test_platforms_as_configurations(name: str) -> None:
    """A shipped device as a configuration and back keeps what configurations say."""
    config = kpu.config_of(Platform.load(name))
    assert config.name == name and config.validate() == []
    if name == "swkpu-v1":
        again = kpu.config_of(kpu.platform_of(config))
        assert again == config


def test_contradiction_is_told() -> None:
    """TOPS that array and clock do not give: a warning with both numbers."""
    with pytest.warns(kpu.KPUConfigWarning, match=r"tops_int8 is 4, .*0\.256 TOPS"):
        compiled()
    config = kpu.KPUConfig()
    config.compute.tops_int8, config.compute.tops_fp16 = 0.256, 0.128
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(config=config)


def test_other_configurations() -> None:
    """Another name, bf16, an operator that is not native."""
    config = kpu.KPUConfig(name="swkpu-x", version="2.0.0", supported_precisions=[kpu.KPUPrecision.BF16])
    config.native_ops.remove("Conv")
    with pytest.warns(kpu.KPUConfigWarning, match="not native to swkpu-x.*: Conv"):
        program = compiled("bf16", config)
    runtime = kpu.KPURuntime(config)
    runtime.load_program(program)
    assert runtime.execute({"image": IMAGE}).success


def test_compiler_errors(tmp_path: Path) -> None:
    """Each has its class and text."""
    compiler, config = kpu.KPUCompiler(), kpu.KPUConfig()
    with pytest.raises(kpu.CompilationError, match="INT8 calibration requires at least 4 samples"):
        compiler.compile(MODEL, config, kpu.KPUPrecision.INT8)
    with pytest.raises(kpu.CompilationError, match="INT8 calibration requires at least 9 samples"):
        kpu.KPUCompiler(9).compile(MODEL, config, "int8", iter(SAMPLES))
    for kind in ("bf16", "int4", "posit8", "posit16"):
        with pytest.raises(
            kpu.CompilationError, match=f"Unsupported precision {kind}: swkpu-v1 has int8, fp16"
        ):
            compiler.compile(MODEL, config, kind)
    with pytest.raises(
        kpu.CompilationError, match="tile32 has no products of posit8, but of int8, fp16, bf16"
    ):
        compiler.compile(
            MODEL, kpu.KPUConfig("tile32", supported_precisions=[kpu.KPUPrecision.POSIT8]), "posit8"
        )
    with pytest.raises(kpu.CompilationError, match="no such file"):
        compiler.compile(tmp_path / "absent.onnx", config)
    (tmp_path / "cut.onnx").write_bytes(MODEL.read_bytes()[:900])
    with pytest.raises(kpu.CompilationError, match=r"cut\.onnx"):
        compiler.compile(tmp_path / "cut.onnx", config)
    assert "cut.onnx" in compiler.validate_model(tmp_path / "cut.onnx", config)[0]
    with pytest.raises(kpu.CompilationError, match="has 4 dimensions, swkpu-v1 takes 3"):
        compiler.compile(MODEL, kpu.KPUConfig(max_tensor_dims=3))
    with pytest.raises(kpu.CompilationError, match="a batch of 1, swkpu-v1 takes 0"):
        compiler.compile(MODEL, kpu.KPUConfig(max_batch_size=0))
    value = onnx.helper.make_tensor_value_info
    # a window needs what it covers whole
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[600, 600])],
        "g",
        [value("x", 1, [1, 1, 700, 700])],
        [value("y", 1, [1, 1, 101, 101])],
    )
    wide = tmp_path / "wide.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), wide)
    with pytest.raises(
        kpu.MemoryError, match=r"SRAM memory exceeded: \d+ bytes required, \d+ bytes available"
    ) as e:
        compiler.compile(wide, config)
    assert e.value.required > e.value.available and e.value.memory_type == "SRAM"
    with pytest.raises(TypeError):
        compiler.compile(MODEL, config, onnx_path=MODEL)


def test_unsupported_operators(tmp_path: Path) -> None:
    """All of them by name."""
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    x = make.make_tensor_value_info("x", 1, [2, 3])
    nodes = [make.make_node(kind, ["x"], [kind], kind) for kind in ("Col2Im", "Det", "Relu")]
    outputs = [make.make_tensor_value_info("Relu", 1, [2, 3])]
    graph = make.make_graph(nodes, "g", [x], outputs)
    path = tmp_path / "net.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(kpu.UnsupportedOpError) as error:
        kpu.KPUCompiler().compile(path)
    assert str(error.value) == "Unsupported operators: Col2Im, Det" and error.value.ops == ["Col2Im", "Det"]
    assert len(kpu.KPUCompiler().validate_model(path)) == 2


def test_execution_errors(runtime: kpu.KPURuntime) -> None:
    """After loading, what goes wrong is told in the result."""
    for inputs, text in (
        (
            {"image": np.zeros((1, 1, 9, 8), np.float32)},
            "Input shape mismatch: expected (1,1,8,8), got (1,1,9,8)",
        ),
        ({"image": IMAGE.astype(np.float64)}, "Input dtype mismatch: expected float32, got float64"),
        ({}, "Missing input: image"),
        ({"image": IMAGE, "more": IMAGE}, "Unknown input: more"),
    ):
        result = runtime.execute(inputs)
        assert not result.success and result.error_message is not None and text in result.error_message
        assert result.outputs == {}
    assert runtime.execute({"image": IMAGE}).success
    runtime.unload_program()
    runtime.unload_program()
    for call in (
        runtime.get_input_specs,
        runtime.get_output_specs,
        lambda: runtime.execute({"image": IMAGE}),
    ):
        with pytest.raises(kpu.RuntimeError, match="No program loaded"):
            call()


def test_loading_errors(program: kpu.KPUProgram, tmp_path: Path) -> None:
    """Another device, damaged bytes, missing parts."""
    other = kpu.KPURuntime(changed("compute.systolic_rows", 32))
    with pytest.raises(kpu.RuntimeError, match=r"compute\.systolic_rows is 16, here it is 32"):
        other.load_program(program)
    damaged = copy.deepcopy(program)
    assert damaged.weights_blob is not None
    for at in (0, len(damaged.weights_blob) // 2, len(damaged.weights_blob) - 9):
        blob = bytearray(program.weights_blob or b"")
        blob[at] ^= 255
        damaged.weights_blob = bytes(blob)
        with pytest.raises(kpu.RuntimeError, match="Damaged program"):
            kpu.KPURuntime().load_program(damaged)
    damaged.weights_blob = None
    with pytest.raises(kpu.RuntimeError, match="has no weights"):
        kpu.KPURuntime().load_program(damaged)
    damaged = copy.deepcopy(program)
    damaged.output_ids = ["nothing"]
    with pytest.raises(kpu.RuntimeError, match="nothing"):
        kpu.KPURuntime().load_program(damaged)


def test_side_file(program: kpu.KPUProgram, tmp_path: Path) -> None:
    """Weights in a file of their own, checked by SHA-256, also after a pickle."""
    detached = copy.deepcopy(program)
    kpu.detach_weights(detached, tmp_path / "weights.bin")
    assert detached.weights_blob is None
    detached = pickle.loads(pickle.dumps(detached))
    runtime = kpu.KPURuntime()
    runtime.load_program(detached)
    assert runtime.execute({"image": IMAGE}).success
    (tmp_path / "weights.bin").write_bytes(b"other")
    with pytest.raises(kpu.RuntimeError, match="SHA-256"):
        runtime.load_program(detached)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(kpu.RuntimeError, match="cannot be read"):
        runtime.load_program(detached)


class Malicious:
    """Runs code when it is unpickled, if that is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Code that leaves a file."""
        return exec, (f"open({str(self.path)!r}, 'w')",)


def test_pickles(program: kpu.KPUProgram, tmp_path: Path) -> None:
    """A pickle that is damaged, or would run code, is refused and not executed."""
    path, trace = tmp_path / "net.kpu", tmp_path / "executed"
    path.write_bytes(pickle.dumps(program))
    assert kpu.load_pickle(path) == program
    path.write_bytes(pickle.dumps(program)[:-50])
    with pytest.raises(kpu.RuntimeError, match="damaged"):
        kpu.load_pickle(path)
    for bad in (Malicious(trace), [Malicious(trace)]):
        path.write_bytes(pickle.dumps(bad))
        with pytest.raises(kpu.RuntimeError, match="exec"):
            kpu.load_pickle(path)
    assert not trace.exists()
    path.write_bytes(pickle.dumps(kpu.KPUConfig()))
    with pytest.raises(kpu.RuntimeError, match="no program"):
        kpu.load_pickle(path)


def test_target_errors(tmp_path: Path) -> None:
    """Models that cannot be deployed are a ValueError."""
    target = kpu.StillwaterKPUTarget(kpu.KPUConfig(supported_precisions=[kpu.KPUPrecision.FP16]))
    for precision in ("int8", "int4", "fp8"):
        with pytest.raises(ValueError, match="Unsupported precision"):
            target.deploy(MODEL, precision, tmp_path / "x", (1, 1, 8, 8))
    with pytest.raises(ValueError, match="calibration"):
        kpu.StillwaterKPUTarget().deploy(MODEL, "int8", tmp_path / "x", (1, 1, 8, 8))
    (tmp_path / "bad.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"bad\.onnx"):
        target.deploy(tmp_path / "bad.onnx", "fp16", tmp_path / "x", (1, 1, 8, 8))
    assert not (tmp_path / "x.kpu").exists()
    with pytest.raises(KeyError, match="no target"):
        kpu.get_target("absent")


def test_simulator(program: kpu.KPUProgram, runtime: kpu.KPURuntime) -> None:
    """Step by step, with traces in the middle, to the outputs and cycles of the runtime."""
    whole = runtime.execute({"image": IMAGE}, kpu.SimulationMode.CYCLE_ACCURATE)
    simulator = kpu.KPUSimulator(program, {"image": IMAGE})
    simulator.step(700)
    state = simulator.get_state()
    assert state["cycle"] == 700 and state["status"] == "paused" and state["units"]["e0_nmu0"]
    power, memory = simulator.get_power_trace(), simulator.get_memory_trace()
    assert power[0][0] == 0 and all(watts > 0 for _, watts in power)
    assert memory and all(cycle <= 700 for cycle, _, _, _ in memory)
    assert {kind for _, kind, _, _ in memory} == {"read", "write"}
    assert simulator.run_until_complete() == whole.metrics.total_cycles == simulator.run_until_complete()
    assert simulator.get_outputs()["logits"].tobytes() == whole.outputs["logits"].tobytes()
    later = simulator.get_memory_trace()
    assert set(memory) < set(later)
    simulator.reset()
    simulator.step()
    assert simulator.get_state()["cycle"] == 1
    timing = kpu.KPUSimulator(program)
    assert timing.run_until_complete() == whole.metrics.total_cycles and timing.get_outputs() == {}
    with pytest.raises(kpu.RuntimeError, match="No program"):
        kpu.KPUSimulator().step()
    with pytest.raises(kpu.RuntimeError, match="shape"):
        kpu.KPUSimulator(program, {"image": IMAGE[:, :, :7]})


def test_parts_of_an_output_are_known_tensors(tmp_path: Path) -> None:
    """Operands of a Concat are written where its result is, and have no tensors of their own."""
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    nodes = [node("Relu", ["X"], ["a"]), node("Neg", ["X"], ["b"])]
    nodes += [node("Concat", ["a", "b"], ["Y"], axis=1), node("Add", ["a", "b"], ["Z"])]
    shapes = {"X": [1, 64], "Y": [1, 128], "Z": [1, 64]}
    ports = [info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "parts.onnx")
    program = kpu.KPUCompiler(platform="tile32").compile(tmp_path / "parts.onnx")
    assert program.validate() == []
    kpu.KPURuntime(kpu.KPUConfig(name="tile32")).load_program(program)
