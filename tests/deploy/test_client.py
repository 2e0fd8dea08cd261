"""A client that knows the page of its interfaces alone: export, compile, pickle, execute elsewhere."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
import pytest
import torch
from kpusim import kpu
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
SHAPE = (1, 3, 32, 32)

#: The other half of the client, in a process of its own.
EXECUTE = """
import pickle, sys
import numpy as np
from kpusim.kpu import KPURuntime, SimulationMode
program = pickle.load(open(sys.argv[1], "rb"))
samples, expected = np.load(sys.argv[2]), np.load(sys.argv[3])
runtime = KPURuntime()
runtime.load_program(program)
name = runtime.get_input_specs()[0][0]
worst = 0.0
for sample, want in zip(samples, expected):
    result = runtime.execute({name: sample}, SimulationMode.FUNCTIONAL)
    assert result.success, result.error_message
    got = next(iter(result.outputs.values()))
    assert got.dtype == np.float32 and got.shape == want.shape
    worst = max(worst, float(np.abs(got - want).max()))
runtime.unload_program()
assert "torch" not in sys.modules and "onnx" not in sys.modules
print(worst)
"""


class SmallNet(nn.Module):
    """Conv, relu, pool, gemm; outputs of unit range."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.classify = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Probabilities of ten classes."""
        x = torch.relu(self.conv(x))
        x = torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1)
        return self.classify(x).softmax(-1)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    """The network, with the same weights each time."""
    torch.manual_seed(7)
    return SmallNet().eval()


@pytest.fixture(scope="module")
def onnx_file(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported as the client does: opset 17, names, dynamic batch."""
    path = tmp_path_factory.mktemp("model") / "small_net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (torch.zeros(SHAPE),),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
        )
    return path


def calibration(count: int = 4) -> Iterator[npt.NDArray[np.float32]]:
    """Images as the client generates them, one at a time."""
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.random(SHAPE, np.float32)


@pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
@pytest.mark.parametrize("keyword", ["onnx_path", "model_path"])
@pytest.mark.parametrize("precision", [kpu.KPUPrecision.FP16, kpu.KPUPrecision.INT8])
def test_sequence(
    onnx_file: Path, model: nn.Module, tmp_path: Path, precision: kpu.KPUPrecision, keyword: str
) -> None:
    """Validate, compile, pickle; unpickle in a fresh process, load, execute each sample, unload."""
    compiler, config = kpu.KPUCompiler(), kpu.KPUConfig()
    assert compiler.validate_model(onnx_file, config) == []
    samples = calibration() if precision is kpu.KPUPrecision.INT8 else None
    program = compiler.compile(
        **{keyword: onnx_file}, config=config, precision=precision, calibration_data=samples
    )
    assert program.name == "small_net"
    assert program.ops and program.tensors and program.input_ids == ["input"]
    assert program.output_ids == ["output"] and program.get_output_tensors()[0].shape == (1, 10)
    assert min(program.estimated_total_cycles, program.peak_sram_bytes, program.weight_bytes) > 0
    assert program.estimated_total_energy_uj > 0
    import pickle

    (tmp_path / "net.kpu").write_bytes(pickle.dumps(program))
    images = np.random.default_rng(5).random((6, *SHAPE), np.float32)
    with torch.no_grad():
        wanted = np.stack([model(torch.from_numpy(image)).numpy() for image in images])
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "wanted.npy", wanted)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            EXECUTE,
            *(str(tmp_path / n) for n in ("net.kpu", "images.npy", "wanted.npy")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.01


@pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_target(onnx_file: Path, model: nn.Module, tmp_path: Path, precision: str) -> None:
    """Deploy and validate, with the power of the device."""
    target = kpu.StillwaterKPUTarget()
    assert target.is_available()
    samples = list(calibration()) if precision == "int8" else None
    artifact = target.deploy(onnx_file, precision, tmp_path / "net.engine", SHAPE, samples)
    assert artifact.path == tmp_path / "net.kpu" and artifact.path.is_file()
    assert artifact.output_shape == (1, 10)
    keys = (
        "kpu_version estimated_cycles estimated_energy_uj peak_sram_bytes weight_bytes num_ops total_params"
    )
    assert set(artifact.metadata) == {*keys.split(), "total_macs"}
    assert artifact.metadata["total_macs"] == 32 * 32 * 16 * 27 + 160
    power = kpu.PowerConfig(power_budget_watts=5.0, tolerance_percent=20.0)
    result = target.validate(artifact, model, kpu.ValidationConfig(num_samples=5, power_validation=power))
    assert result.passed and result.samples_passed == result.samples_compared == 5
    assert result.max_difference < result.tolerance == 0.01
    assert result.power is not None and result.power.passed and result.power.within_tolerance
    assert 0 < result.power.measured_watts <= 5.0
    tight = kpu.ValidationConfig(num_samples=1, power_validation=kpu.PowerConfig(power_budget_watts=0.001))
    assert not target.validate(artifact, model, tight).passed


@pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
def test_wrong_outputs_fail(onnx_file: Path, tmp_path: Path) -> None:
    """Validation against another model finds the difference."""
    target = kpu.StillwaterKPUTarget()
    artifact = target.deploy(onnx_file, "fp16", tmp_path / "net", SHAPE)
    result = target.validate(artifact, lambda sample: np.ones((1, 10), np.float32), kpu.ValidationConfig(2))
    assert not result.passed and result.samples_passed == 0 and len(result.failures) == 2


@pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
def test_modules_and_files(model: nn.Module, tmp_path: Path) -> None:
    """A module, an exported program, and files of both give the same program."""
    x = torch.rand(SHAPE)
    with torch.no_grad():
        wanted = model(x).numpy()
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 30 * 30, 5)).eval()
    torch.save(plain, tmp_path / "plain.pt")
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "net.pt2")
    compiler, config = kpu.KPUCompiler(), kpu.KPUConfig()
    target = kpu.StillwaterKPUTarget()
    for source, baseline in ((tmp_path / "plain.pt", plain), (tmp_path / "net.pt2", model), (model, model)):
        artifact = target.deploy(source, "fp16", tmp_path / "deployed", SHAPE)
        assert target.validate(artifact, baseline, kpu.ValidationConfig(2)).passed
    with pytest.raises(ValueError, match=r"needs code.*trust"):
        torch.save(model, tmp_path / "code.pt")
        target.deploy(tmp_path / "code.pt", "fp16", tmp_path / "deployed", SHAPE)
    for source, expected in (
        (model, wanted),
        (torch.export.export(model, (x,)), wanted),
        (tmp_path / "net.pt2", wanted),
        (tmp_path / "plain.pt", plain(x).detach().numpy()),
    ):
        program = compiler.compile(source, config, "fp16", example_inputs=(x,))
        runtime = kpu.KPURuntime(config)
        runtime.load_program(program)
        result = runtime.execute({runtime.get_input_specs()[0][0]: x.numpy()})
        assert result.success, result.error_message
        assert np.abs(next(iter(result.outputs.values())) - expected).max() < 0.01


def test_third_parties(onnx_file: Path, tmp_path: Path) -> None:
    """Any object with the methods serves as compiler or runtime."""

    class OtherCompiler:
        def validate_model(self, path: Path, config: kpu.KPUConfig) -> list[str]:
            return [] if path.suffix == ".onnx" else ["no ONNX"]

        def compile(self, path: Path, config: kpu.KPUConfig, *rest: object) -> kpu.KPUProgram:
            tensor = kpu.KPUTensor("y", "y", (1, 10), kpu.KPUPrecision.FP16, is_output=True)
            return kpu.KPUProgram("other", tensors={"y": tensor}, output_ids=["y"])

    class OtherRuntime:
        loaded: object = None

        def load_program(self, program: kpu.KPUProgram) -> None:
            self.loaded = program

        def get_input_specs(self) -> list[tuple[str, tuple[int, ...], str]]:
            return [("x", (1, 2), "float32")]

        def execute(self, inputs: dict[str, object], mode: object) -> kpu.KPUExecutionResult:
            metrics = kpu.spec.KPUPerformanceMetrics(average_power_watts=2.0)
            return kpu.KPUExecutionResult(True, outputs={"y": np.zeros((1, 10))}, metrics=metrics)

        def unload_program(self) -> None:
            self.loaded = None

    target = kpu.StillwaterKPUTarget(compiler=OtherCompiler(), runtime=OtherRuntime())
    kpu.register_target("other", target)
    assert kpu.get_target("other") is target
    artifact = target.deploy(onnx_file, "fp16", tmp_path / "other", (1, 2))
    assert target.validate(artifact, lambda x: np.zeros((1, 10)), kpu.ValidationConfig(3)).passed
    with pytest.raises(ValueError, match="no ONNX"):
        target.deploy(tmp_path / "other.kpu", "fp16", tmp_path / "again", (1, 2))


@pytest.mark.filterwarnings("ignore::kpusim.kpu.KPUConfigWarning")
def test_inputs_that_decide_structure(tmp_path: Path) -> None:
    """Sizes of dimensions and bound inputs count for looking at a model, its memory and its program alike."""
    path = tmp_path / "net.onnx"
    inputs = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, "?"]),
        onnx.helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, [2]),
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Expand", ["x", "sizes"], ["y"])], "g", inputs, [onnx.ValueInfoProto(name="y")]
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    (issue,) = kpu.KPUCompiler().validate_model(path)
    assert "not constant" in issue
    compiler = kpu.KPUCompiler(dims={"x.1": 5}, bind={"sizes": [3, 5]})
    assert compiler.validate_model(path) == []
    assert compiler.estimate_memory(path)["activations"] > 0
    (output,) = compiler.compile(path).get_output_tensors()
    assert output.shape == (3, 5)
