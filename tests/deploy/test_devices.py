"""Every shipped device and precision by the client's classes; what programs say of time and memory."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import onnx
import pytest
from kpusim import Platform, kpu
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "networks" / "digits_cnn.onnx"
IMAGE = np.load(ROOT / "examples" / "networks" / "images.npy")[:1]
SAMPLES = [np.load(path) for path in sorted((MODEL.parent / "calibration").glob("*.npy"))[:4]]
pytestmark = pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
#: Bounds as shares of the logits' range, by the bits of the type's fraction.
BOUNDS = {"int8": 0.1, "int4": 0.5, "fp16": 0.01, "bf16": 0.05, "posit8": 0.3, "posit16": 0.01}
#: The types that docs of the platforms say their arrays have.
SHIPPED = {
    "core128-fp8": "int8 fp16 bf16", "core128-hbm2": "int8 fp16 bf16",
    "core128-mx": "int8 fp16 bf16", "edge16": "int8 fp16", "gemmini16": "int8", "gemmini16_big": "int8",
    "npm_lite": "int8 fp16",
    "npm_mid": "int8 int4 fp16", "npm_pro": "int8 int4 fp16", "npm_quad_cstl": "int8 fp16",
    "swkpu-v1": "int8 fp16", "swkpu-v2": "int8 int4 fp16 bf16 posit8 posit16", "tile32": "int8 fp16 bf16",
    "tpu_v3_core": "int8 fp16 bf16", "tpu_v4_core": "int8 fp16 bf16", "wormhole": "int8 fp16 bf16",
}  # fmt: skip


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Return what ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(os_path(MODEL), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"image": IMAGE})[0])


def os_path(path: Path) -> str:
    """Return the path as text."""
    return str(path)


def test_every_platform_is_here() -> None:
    """Those without a vector unit too: their products end in the array."""
    assert sorted(SHIPPED) == sorted(Platform.names())


@pytest.mark.parametrize("name", SHIPPED)
def test_every_platform_by_its_name(name: str, expected: np.ndarray) -> None:
    """The device itself, with each of its precisions; the others are refused by name."""
    config = kpu.KPUConfig(name=name)
    assert kpu.platform_of(config) == Platform.load(name)
    assert [kind.value for kind in config.supported_precisions] == SHIPPED[name].split()
    assert config.compute.clock_mhz == Platform.load(name).core_mhz
    runtime = kpu.KPURuntime(config)
    for kind in kpu.KPUPrecision:
        if kind not in config.supported_precisions:
            with pytest.raises(kpu.CompilationError, match=f"Unsupported precision {kind.value}: {name} has"):
                kpu.KPUCompiler().compile(MODEL, config, kind, SAMPLES)
            continue
        program = kpu.KPUCompiler().compile(MODEL, config, kind, SAMPLES)
        runtime.load_program(pickle.loads(pickle.dumps(program)))
        result = runtime.execute({"image": IMAGE}, "cycle_accurate")
        assert result.success and result.metrics.total_cycles == program.estimated_total_cycles
        off = np.abs(result.outputs["logits"] - expected).max() / np.ptp(expected)
        assert off < BOUNDS[kind.value], kind


@pytest.mark.parametrize("name", ["swkpu-v2", "npm_mid"])
def test_compiler_with_a_platform(name: str, tmp_path: Path) -> None:
    """A platform by name, by file or as an object gives the same; limits of a configuration still count."""
    by_name = kpu.KPUCompiler(platform=name).compile(MODEL)
    direct = kpu.KPUCompiler().compile(MODEL, kpu.KPUConfig(name=name))
    assert by_name.estimated_total_cycles == direct.estimated_total_cycles
    slow = Platform.load(name).with_(**{"clock.core_mhz": 123})
    (tmp_path / "slow.textproto").write_text(slow.text())
    for given in (slow, tmp_path / "slow.textproto"):
        program = kpu.KPUCompiler(platform=given).compile(MODEL, kpu.KPUConfig(max_batch_size=1))
        assert program.target_config.compute.clock_mhz == 123 and program.target_config.max_batch_size == 1
        runtime = kpu.KPURuntime()
        runtime.load_program(pickle.loads(pickle.dumps(program)))
        metrics = runtime.execute({"image": IMAGE}, "cycle_accurate").metrics
        assert metrics.total_time_us == pytest.approx(metrics.total_cycles / 123)
    changed = kpu.KPUConfig()
    changed.compute.systolic_rows = 8
    with pytest.raises(kpu.CompilationError, match=f"changes compute, but the compiler was made for {name}"):
        kpu.KPUCompiler(platform=name).compile(MODEL, changed)


def test_all_precisions_of_a_changed_device() -> None:
    """A device of the client's defaults has every precision that is asked for."""
    config = kpu.KPUConfig(name="mine", supported_precisions=list(kpu.KPUPrecision))
    assert kpu.platform_of(config).name == "mine"
    cycles = {}
    for rate in (3.0, 0.5):
        config.compute.tops_posit8 = rate
        cycles[rate] = kpu.KPUCompiler().compile(MODEL, config, "posit8").estimated_total_cycles
    assert cycles[0.5] > cycles[3.0]
    config = kpu.KPUConfig(name="tile32")
    config.memory.sram_l1_bytes = 131072
    assert kpu.config_of(kpu.platform_of(config)).memory.sram_l1_bytes == 131072


def saved(
    path: Path,
    nodes: list[Any],
    shape: tuple[int, ...],
    outputs: list[tuple[str, int]],
    **constants: np.ndarray,
) -> Path:
    """Return a model of one input."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


NODES: dict[str, tuple[Any, ...]] = {
    "TopK": ((4, 40), [("v", 1), ("i", 7)], ["x", "k"], {"k": np.array([3])}),
    "Unique": ((12,), [("v", 1)], ["x"], {}),
    "NonZero": ((4, 5), [("v", 7)], ["x"], {}),
    "Compress": ((6,), [("v", 1)], ["x", "c"], {"c": np.array([1, 0, 1, 1, 0, 1], bool)}),
}


@pytest.mark.parametrize("op", NODES)
def test_time_that_depends_on_values(op: str, tmp_path: Path) -> None:
    """Compiled with the time of a typical case, which is told; an execution has its own in every mode."""
    shape, outputs, inputs, constants = NODES[op]
    names = [name for name, _ in outputs]
    path = saved(
        tmp_path / "net.onnx", [helper.make_node(op, inputs, names, op)], shape, outputs, **constants
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = kpu.KPUCompiler().compile(path)
    told = [str(item.message) for item in caught if "random numbers of seed 1" in str(item.message)]
    assert program.estimated_total_cycles > 0 and bool(told) == program.time_depends_on_values
    assert program.time_depends_on_values or op == "Compress"
    runtime = kpu.KPURuntime()
    runtime.load_program(program)
    x = np.sort(np.random.default_rng(2).standard_normal(shape).astype(np.float32))
    results = [runtime.execute({"x": x}, mode) for mode in kpu.SimulationMode]
    assert all(result.success for result in results), results[0].error_message
    assert len({result.metrics.total_cycles for result in results}) == 1
    simulator = kpu.KPUSimulator(program)
    assert simulator.run_until_complete() == program.estimated_total_cycles


def test_used_and_reserved_memory(tmp_path: Path) -> None:
    """A small model uses little; what the device keeps for tiles is another number."""
    weights = np.ones((16, 10), np.float32)
    path = saved(
        tmp_path / "fc.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], (1, 16), [("y", 1)], w=weights
    )
    sizes = kpu.KPUCompiler().estimate_memory(path)
    assert sizes["weights"] == 320 and sizes["peak_sram"] < 4096 < sizes["reserved_sram"] <= 2 * 262144
    program = kpu.KPUCompiler().compile(path)
    assert (program.peak_sram_bytes, program.reserved_sram_bytes) == (
        sizes["peak_sram"],
        sizes["reserved_sram"],
    )

    window = [helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[600, 600])]
    wide = saved(tmp_path / "wide.onnx", window, (1, 1, 700, 700), [("y", 1)])
    with pytest.raises(kpu.MemoryError, match=r"\d+ bytes required, 262144 bytes available") as caught:
        kpu.KPUCompiler().compile(wide)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.available == 262144 and 600 * 600 * 2 <= error.used <= error.required
    assert error.required == error.used + error.reserved


def test_tiles_have_the_client_s_names() -> None:
    """N, C, H, W of pictures; M, N, K of products; every loop is over one of them."""
    program = kpu.KPUCompiler().compile(MODEL)
    tiles = {op.id: op.tiling for op in program.ops}
    assert set(tiles["conv2"].tile_sizes) == {"H", "W", "C", "C_in"}
    assert set(tiles["pool1"].tile_sizes) == {"H", "W", "C"} and tiles["pool1"].tile_sizes["C"] == 16
    assert tiles["classify"].tile_sizes == {"N": 10, "K": 128}
    assert all(set(tiling.loop_order) <= set(tiling.tile_sizes) for tiling in tiles.values())


def test_traces() -> None:
    """Bins of another width have the same energy; addresses are a level, an engine and an offset."""
    simulator = kpu.KPUSimulator(kpu.KPUCompiler().compile(MODEL))
    simulator.run_until_complete()
    usual, fine = simulator.get_power_trace(), simulator.get_power_trace(bin_ns=100)
    assert [cycle for cycle, _ in fine[:3]] == [0, 50, 100] and len(fine) > 5 * len(usual)
    with pytest.raises(kpu.RuntimeError, match="Fix: give a positive number"):
        simulator.get_power_trace(bin_ns=0)
    trace = simulator.get_memory_trace()
    assert {access.level for access in trace} == {"dram", "l1", "l2"}
    for access in trace:
        cycle, kind, address, size = access
        assert cycle >= 0 and kind in ("read", "write") and size > 0
        assert 0 <= access.offset < 4294967296 and address & 0xFF_FFFF_FFFF == access.offset
        assert access.engine == 0
    again = pickle.loads(pickle.dumps(trace[0]))
    assert again == trace[0] and again.level == trace[0].level


BAD: list[tuple[str, Callable[[], Any]]] = [
    ("samples", lambda: kpu.KPUCompiler(0)),
    ("platform", lambda: kpu.KPUCompiler(platform="absent")),
    ("both", lambda: kpu.KPUCompiler().compile(MODEL, onnx_path=MODEL)),
    ("none", lambda: kpu.KPUCompiler().compile()),
    ("config", lambda: kpu.KPUCompiler().compile(MODEL, "swkpu-v1")),
    ("precision", lambda: kpu.KPUCompiler().compile(MODEL, None, "int7")),
    ("data", lambda: kpu.KPUCompiler().compile(MODEL, None, "int8", 5)),
    ("path", lambda: kpu.KPUCompiler().compile("absent.onnx")),
    ("deploy", lambda: kpu.StillwaterKPUTarget().deploy(MODEL, "fp8", "x", (1, 1, 8, 8))),
    ("calibration", lambda: kpu.StillwaterKPUTarget().deploy(MODEL, "int8", "x", (1, 1, 8, 8))),
    ("no samples", lambda: kpu.StillwaterKPUTarget().deploy(MODEL, "int8", "x", (1, 1, 8, 8), 5)),
    ("no folder", lambda: kpu.StillwaterKPUTarget().deploy(MODEL, "int8", "x", (1, 3, 8, 8), "absent")),
    ("target", lambda: kpu.get_target("absent")),
    ("pickle", lambda: kpu.load_pickle("absent.kpu")),
    ("empty", lambda: kpu.KPURuntime().execute({})),
    ("step", lambda: kpu.KPUSimulator().step()),
    ("program", lambda: kpu.KPURuntime().load_program(None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("name", [name for name, _ in BAD])
def test_errors_are_of_the_package(name: str) -> None:
    """Whatever a user gives, it is a KpusimError with a fix; and of Python's class where there is one."""
    with pytest.raises(kpusim.KpusimError) as caught:
        dict(BAD)[name]()
    assert str(caught.value)
    kinds = {"deploy": ValueError, "calibration": ValueError, "target": KeyError, "both": TypeError}
    assert isinstance(caught.value, kinds.get(name, kpusim.KpusimError))


def test_energy_that_is_not_modelled() -> None:
    """A device beyond the energy table has times, and energies that are not numbers, never 0."""
    config = kpu.KPUConfig("edge16")
    config.compute.clock_mhz = 1.0  # memories of so many bytes a cycle are beyond the table
    program = kpu.KPUCompiler().compile(MODEL, config, "fp16")
    assert program.estimated_total_cycles > 0 and np.isnan(program.estimated_total_energy_uj)
    runtime = kpu.KPURuntime()
    runtime.load_program(program)
    metrics = runtime.execute({"image": IMAGE}, "cycle_accurate").metrics
    assert metrics.total_cycles == program.estimated_total_cycles and np.isnan(metrics.total_energy_uj)
