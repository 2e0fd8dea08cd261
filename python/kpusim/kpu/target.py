"""The deployment target: a model becomes a program file, which is validated against the model."""

from __future__ import annotations

import importlib.util
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kpusim.kpu.compiler import KPUCompiler
from kpusim.kpu.runtime import KPURuntime
from kpusim.kpu.spec import (
    Array,
    DeploymentError,
    KPUConfig,
    KPUPrecision,
    KPUProgram,
    RuntimeError,
    SimulationMode,
    UnknownTargetError,
    Word,
)

PICTURES = (".png", ".jpg", ".jpeg")
#: Mean and deviation of ImageNet, as the client normalizes calibration pictures.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class DeploymentPrecision(Word):
    """Precisions that a deployment may ask for."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


PRECISIONS = {
    DeploymentPrecision.FP32: KPUPrecision.FP16,
    DeploymentPrecision.FP16: KPUPrecision.FP16,
    DeploymentPrecision.INT8: KPUPrecision.INT8,
}


@dataclass
class PowerConfig:
    """Limits that validation of power compares: watts, and the deviation of the prediction in percent."""

    power_budget_watts: float = 5.0
    tolerance_percent: float = 20.0
    enabled: bool = True


@dataclass
class ValidationConfig:
    """Extent of a comparison; ``test_data`` has the samples: arrays, or a folder of pictures."""

    num_samples: int = 100
    tolerance_percent: float = 1.0
    power_validation: PowerConfig | None = None
    test_data: Any = None


@dataclass
class DeploymentArtifact:
    """A program file."""

    path: Path
    precision: KPUPrecision
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class PowerResult:
    """Watts: what the program predicts, what executions took, what they may take; deviation in percent."""

    predicted_watts: float
    measured_watts: float
    power_budget_watts: float
    deviation_percent: float
    within_tolerance: bool
    passed: bool


@dataclass
class ValidationResult:
    """Whether outputs, and power where asked, are what they should be."""

    passed: bool
    samples_compared: int
    samples_passed: int
    max_difference: float
    tolerance: float
    failures: list[str] = field(default_factory=list)
    power: PowerResult | None = None


class StillwaterKPUTarget:
    """Deploys models to a KPU.

    Parameters
    ----------
    config : KPUConfig, optional
        The device.
    compiler, runtime : optional
        Anything with the methods of :class:`KPUCompilerInterface` and :class:`KPURuntimeInterface`.
    """

    name = "kpu"

    def __init__(
        self,
        config: KPUConfig | None = None,
        compiler: object = None,
        runtime: object = None,
    ) -> None:
        self.config = config or KPUConfig()
        self.compiler: Any = compiler or KPUCompiler()
        self.runtime: Any = runtime or KPURuntime(self.config)

    def is_available(self) -> bool:
        """Return whether PyTorch with ``torch.compile`` is installed."""
        if importlib.util.find_spec("torch") is None:
            return False
        import torch

        return hasattr(torch, "compile")

    def deploy(
        self,
        model: object,
        precision: DeploymentPrecision | str,
        output_path: str | Path,
        input_shape: tuple[int, ...],
        calibration: object = None,
    ) -> DeploymentArtifact:
        """Compile a model and write the program as a pickle beside `output_path`, with suffix ``.kpu``.

        Parameters
        ----------
        model : path or torch.nn.Module
            As of :meth:`KPUCompiler.compile`.
        precision : DeploymentPrecision
            fp32 is compiled as fp16.
        output_path : path
            Its suffix is replaced.
        input_shape : tuple of int
            Batch first.
        calibration : folder or iterable of arrays, optional
            Pictures, or samples of the input; int8 needs them.

        Raises
        ------
        DeploymentError
            It is a ValueError too: for a precision that the device lacks, int8 without calibration, a model
            that cannot be compiled.
        """
        kind = self._precision(precision)
        if kind is KPUPrecision.INT8 and calibration is None:
            raise DeploymentError("INT8 deployment requires calibration data. Fix: give calibration.")
        samples = None
        if kind is KPUPrecision.INT8:
            samples = calibration_samples(calibration, input_shape, str(model))
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            source = onnx_file(model, input_shape, Path(folder))
            if issues := self.compiler.validate_model(source, self.config):
                raise DeploymentError(f"Model cannot be deployed: {'; '.join(issues)}")
            program = self.compiler.compile(source, self.config, kind, samples)
        path = Path(output_path).with_suffix(".kpu")
        path.write_bytes(pickle.dumps(program))
        return DeploymentArtifact(
            path, kind, tuple(input_shape), program.get_output_tensors()[0].shape, metadata_of(program)
        )

    def validate(
        self,
        artifact: DeploymentArtifact | str | Path,
        baseline_model: Callable[[Any], Any],
        config: ValidationConfig | None = None,
    ) -> ValidationResult:
        """Compare outputs with those of the model, sample by sample.

        Parameters
        ----------
        artifact : DeploymentArtifact or path
            The program file. It is a pickle: give only files that you trust.
        baseline_model : callable
            Takes a sample, a float32 array (modules: a tensor), and gives the expected output.
        config : ValidationConfig, optional
            Samples, tolerance, power.
        """
        config = config or ValidationConfig()
        program = load_pickle(artifact.path if isinstance(artifact, DeploymentArtifact) else Path(artifact))
        self.runtime.load_program(program)
        tolerance = config.tolerance_percent / 100
        result = ValidationResult(False, 0, 0, 0.0, tolerance)
        watts = []
        name, shape, _ = self.runtime.get_input_specs()[0]
        for index, sample in enumerate(validation_samples(config, shape)):
            done = self.runtime.execute({name: sample}, SimulationMode.FUNCTIONAL)
            if not done.success:
                result.failures.append(f"sample {index}: {done.error_message}")
                continue
            difference = float(
                np.abs(expected(baseline_model, sample) - next(iter(done.outputs.values()))).max()
            )
            result.samples_compared += 1
            result.max_difference = max(result.max_difference, difference)
            watts.append(done.metrics.average_power_watts)
            if difference < tolerance:
                result.samples_passed += 1
            else:
                result.failures.append(f"sample {index}: off by {difference:.6g}, allowed {tolerance:g}")
        self.runtime.unload_program()
        result.passed = result.samples_passed == result.samples_compared > 0
        power = config.power_validation
        if power is not None and power.enabled and watts:
            result.power = power_result(program, power, float(np.mean(watts)))
            result.passed = result.passed and result.power.passed
        return result

    def _precision(self, precision: DeploymentPrecision | str) -> KPUPrecision:
        asked = getattr(precision, "value", precision)
        kind = next((to for known, to in PRECISIONS.items() if known.value == asked), None)
        if kind is None or kind not in self.config.supported_precisions:
            names = ", ".join(KPUPrecision(member).value for member in self.config.supported_precisions)
            raise DeploymentError(f"Unsupported precision {asked}: {self.config.name} has {names}.")
        return kind


def onnx_file(model: object, shape: tuple[int, ...], folder: Path) -> Path:
    """Return the model as an ONNX file: what PyTorch has is exported to `folder`.

    Raises
    ------
    CompilationError
        When that is not possible.
    """
    if isinstance(model, str | Path) and Path(model).suffix not in (".pt", ".pth", ".pt2"):
        return Path(model)
    import torch

    from kpusim.torch.models import exported_file

    return exported_file(model, folder, (torch.zeros(tuple(shape)),))


def metadata_of(program: KPUProgram) -> dict[str, Any]:
    """Return what a deployment reports of a program."""
    return {
        "kpu_version": program.target_config.version,
        "estimated_cycles": program.estimated_total_cycles,
        "estimated_energy_uj": program.estimated_total_energy_uj,
        "peak_sram_bytes": program.peak_sram_bytes,
        "weight_bytes": program.weight_bytes,
        "num_ops": len(program.ops),
        "total_params": sum(tensor.size_bytes for tensor in program.tensors.values() if tensor.is_weight),
        "total_macs": sum(int(op.attributes.get("macs", 0)) for op in program.ops),
    }


def power_result(program: KPUProgram, power: PowerConfig, measured: float) -> PowerResult:
    """Predicted watts are the estimated energy over the estimated time."""
    seconds = program.estimated_total_cycles / (program.target_config.compute.clock_mhz * 1e6)
    predicted = program.estimated_total_energy_uj * 1e-6 / seconds if seconds else 0.0
    deviation = abs(measured - predicted) / predicted * 100 if predicted else 0.0
    return PowerResult(
        predicted,
        measured,
        power.power_budget_watts,
        deviation,
        deviation <= power.tolerance_percent,
        measured <= power.power_budget_watts,
    )


class PlainUnpickler(pickle.Unpickler):
    """Reads programs: nothing but the classes that they consist of."""

    def find_class(self, module: str, name: str) -> object:
        """Return a class of a program, or an error."""
        if module == "kpusim.kpu.spec" and (name.startswith("KPU") or name in SPEC_PARTS):
            return super().find_class(module, name)
        raise RuntimeError(
            f"The program file asks for {module}.{name}, which no program has. It is not loaded."
        )


SPEC_PARTS = ("MemoryConfig", "ComputeConfig", "MemoryLayout", "MemoryType", "TileConfig")


def load_pickle(path: str | Path) -> KPUProgram:
    """Read a program from a pickle; one that would run code is refused.

    Raises
    ------
    RuntimeError
        For a file that is damaged, or asks for anything but a program.
    """
    try:
        with open(path, "rb") as file:
            program = PlainUnpickler(file).load()
    except RuntimeError:
        raise
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be read ({error.strerror}). Fix: check the path.") from error
    except Exception as error:  # a damaged pickle fails in any way
        raise RuntimeError(f"{path}: damaged program file ({error}). Fix: deploy again.") from error
    if not isinstance(program, KPUProgram):
        raise RuntimeError(f"{path}: no program, but {type(program).__name__}. Fix: deploy again.")
    return program


def calibration_samples(source: object, shape: tuple[int, ...], model: str) -> Iterator[Array]:
    """Samples for calibration: pictures of a folder, sorted and normalized, or what is given."""
    if not isinstance(source, str | Path):
        if not isinstance(source, Iterable):
            raise DeploymentError(f"{source!r} are not samples. Fix: give arrays, or a folder of pictures.")
        yield from source
        return
    for picture in pictures(source, shape):
        if "yolo" in model.lower():
            yield picture
        else:
            mean = np.asarray(MEAN, np.float32).reshape(1, 3, 1, 1)
            yield (picture - mean) / np.asarray(DEVIATION, np.float32).reshape(1, 3, 1, 1)


def validation_samples(config: ValidationConfig, shape: tuple[int, ...]) -> Iterator[Array]:
    """Samples to compare: those given, pictures divided by 255, or random numbers."""
    if config.test_data is None:
        rng = np.random.default_rng(0)
        for _ in range(config.num_samples):
            yield rng.random(shape, np.float32)
        return
    given = config.test_data
    source = pictures(given, shape) if isinstance(given, str | Path) else iter(given)
    for _, sample in zip(range(config.num_samples), source, strict=False):
        yield sample


def pictures(folder: str | Path, shape: tuple[int, ...]) -> Iterator[Array]:
    """Pictures of a folder, sorted by name, resized, divided by 255, as [1, 3, height, width]."""
    from PIL import Image

    if not Path(folder).is_dir():
        raise DeploymentError(f"{folder}: no such folder. Fix: give one with .png or .jpg files.")
    files = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in PICTURES)
    if not files:
        raise DeploymentError(f"{folder}: no calibration pictures. Fix: put .png or .jpg files there.")
    for path in files:
        try:
            with Image.open(path) as picture:
                size = (int(shape[3]), int(shape[2]))
                array = np.asarray(picture.convert("RGB").resize(size), np.float32) / np.float32(255)
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise DeploymentError(
                f"{path}: cannot be read as a picture ({error}). Fix: give another one."
            ) from error
        yield array.transpose(2, 0, 1)[None]


def expected(model: Callable[[Any], Any], sample: Array) -> Array:
    """Return what a model gives; a module of PyTorch is called with a tensor."""
    if type(model).__module__.partition(".")[0] != "torch" and not hasattr(model, "state_dict"):
        return np.asarray(model(sample))
    import torch

    with torch.no_grad():
        output = model(torch.from_numpy(np.ascontiguousarray(sample)))
    return np.asarray(output[0] if isinstance(output, tuple | list) else output)


TARGETS: dict[str, object] = {}


def register_target(name: str, target: object) -> None:
    """Make a target known by name; :func:`get_target` gives it."""
    TARGETS[name] = target


def get_target(name: str) -> object:
    """Return the target of a name.

    Raises
    ------
    UnknownTargetError
        It is a KeyError too: with the names that are known.
    """
    if name not in TARGETS:
        fix = f"one of {', '.join(TARGETS)}" if TARGETS else "give it to kpusim.kpu.register_target first"
        raise UnknownTargetError(f"there is no target {name!r}. Fix: {fix}.")
    return TARGETS[name]
