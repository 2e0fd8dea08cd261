"""The compiler of the client: models in, programs out."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kpusim import _core
from kpusim.errors import UserError
from kpusim.kpu.device import COMPILED, platform_of
from kpusim.kpu.runtime import static_energy_pj
from kpusim.kpu.spec import (
    Array,
    CompilationError,
    KPUCompilerInterface,
    KPUConfig,
    KPUConfigWarning,
    KPUOp,
    KPUPrecision,
    KPUProgram,
    KPUTensor,
    MemoryError,
    MemoryLayout,
    MemoryType,
    Samples,
    TileConfig,
    UnsupportedOpError,
)
from kpusim.platform import Platform
from kpusim.precision import Mixing
from kpusim.program import Program
from kpusim.simulation import Simulation
from kpusim.tables import BoundValue, OptionValue, front_end_options

ModelPath = str | os.PathLike[str]
LEAST_SAMPLES = 4  #: that the compiler of int8 asks for
TYPES = {"i8": KPUPrecision.INT8, "u8": KPUPrecision.INT8, "i4": KPUPrecision.INT4,
         "f16": KPUPrecision.FP16, "bf16": KPUPrecision.BF16}  # fmt: skip
LEVELS = {"DDR": MemoryType.DRAM, "L2": MemoryType.SRAM_L2, "L1": MemoryType.SRAM_L1}
EXCEEDED = re.compile(r"(\w+) memory exceeded: (\d+) bytes required, (\d+) bytes available")


class KPUCompiler(KPUCompilerInterface):
    """Compiles ONNX models and, with PyTorch, its modules and exported programs.

    Parameters
    ----------
    min_calibration_samples : int
        Fewest samples that int8 takes.
    trust : bool
        Whether ``.pt`` files may run code when they are loaded.
    mixing : Mixing, optional
        Operations that are wider than the others, by name or to a bound of the outputs' error.
    dims, bind : mapping, optional
        Sizes of dynamic dimensions and values of inputs that become constants, as of :func:`kpusim.compile`.
    """

    def __init__(
        self,
        min_calibration_samples: int = LEAST_SAMPLES,
        *,
        trust: bool = False,
        mixing: Mixing | None = None,
        dims: Mapping[str, int] | None = None,
        bind: Mapping[str, BoundValue] | None = None,
    ) -> None:
        if min_calibration_samples < 1:
            raise ValueError(
                f"min_calibration_samples={min_calibration_samples} is none. Fix: give 1 or more."
            )
        self.min_calibration_samples = min_calibration_samples
        self.trust = trust
        self.mixing = mixing or Mixing()
        self.shapes: dict[str, OptionValue] = {"dim": dims or {}, "bind": bind or {}}

    def compile(
        self,
        model_path: ModelPath | object = None,
        config: KPUConfig | None = None,
        precision: KPUPrecision | str = KPUPrecision.FP16,
        calibration_data: Samples | None = None,
        *,
        onnx_path: ModelPath | None = None,
        example_inputs: tuple[Any, ...] | None = None,
    ) -> KPUProgram:
        """Compile a model.

        Parameters
        ----------
        model_path : path, torch.nn.Module or torch.export.ExportedProgram
            An ``.onnx`` file; with PyTorch also a ``.pt`` or ``.pt2`` file, a module, an exported program.
        config : KPUConfig, optional
            The device.
        precision : KPUPrecision
            Of the products.
        calibration_data : iterable, optional
            Samples of the inputs, which int8 needs: arrays [1, ...], or mappings of names to them where there
            are several inputs. It is consumed once.
        onnx_path : path
            The same as ``model_path``; give one of them.
        example_inputs : tuple of torch.Tensor, optional
            Inputs of a module; without them the first sample is one.

        Returns
        -------
        KPUProgram
            Estimates are those of an execution without values.

        Raises
        ------
        CompilationError
            When the model cannot be read, or the device lacks the precision, the ranks or the batch.
        UnsupportedOpError
            With the names of all operators that cannot be compiled.
        MemoryError
            When the model does not fit.

        Warns
        -----
        KPUConfigWarning
            For operators that are not native to the device, and contradictions in ``config``.
        """
        source = _one_of(model_path, onnx_path)
        config = config or KPUConfig()
        kind = _checked_precision(config, precision)
        needs_samples = kind is KPUPrecision.INT8 or self.mixing.measures
        samples = self._samples(calibration_data) if needs_samples else []
        platform = platform_of(config)
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            path = self._onnx_file(source, Path(folder), example_inputs, samples)
            _check_operators(path, config, self.shapes)
            try:
                program = _compiled(
                    path, platform, COMPILED[kind], samples, Path(folder), self.mixing, self.shapes
                )
                result = describe(program, config, kind)
            except UserError as error:
                _refuse(error)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        result.source_model = result.name = type(source).__name__
        if isinstance(source, str | os.PathLike):
            result.source_model, result.name = os.fspath(source), Path(source).stem
        result.source_hash = digest
        _check_limits(result, config)
        return result

    def get_supported_ops(self) -> list[str]:
        """Operators of ONNX that can be compiled, by name."""
        return sorted(_core.known_operators())

    def validate_model(
        self, model_path: ModelPath | None = None, config: KPUConfig | None = None, *,
        onnx_path: ModelPath | None = None,
    ) -> list[str]:  # fmt: skip
        """What keeps a model from being compiled; empty when nothing does.

        Parameters
        ----------
        model_path, onnx_path, config
            As of :meth:`compile`.
        """
        config = config or KPUConfig()
        if issues := config.validate():
            return issues
        try:
            source = _one_of(model_path, onnx_path)
            with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
                path = self._onnx_file(source, Path(folder), None, [])
                nodes = _core.coverage(os.fspath(path), front_end_options(self.shapes))
        except (UserError, CompilationError) as error:
            return [str(error)]
        return [
            f"Unsupported operator {kind} (node {name}): {reason}" for name, kind, reason in nodes if reason
        ]

    def estimate_memory(
        self, model_path: ModelPath | None = None, config: KPUConfig | None = None,
        precision: KPUPrecision | str = KPUPrecision.FP16, *, onnx_path: ModelPath | None = None,
    ) -> dict[str, int]:  # fmt: skip
        """Bytes of ``weights``, ``activations``, ``peak_sram`` and ``peak_dram`` of the compiled model.

        Parameters
        ----------
        model_path, onnx_path, config, precision
            As of :meth:`compile`. Sizes of int8 do not depend on samples: random ones stand in.
        """
        config = config or KPUConfig()
        kind = _checked_precision(config, precision)
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            path = self._onnx_file(_one_of(model_path, onnx_path), Path(folder), None, [])
            _check_operators(path, config, self.shapes)
            options = {"calibrate": "random:1"} if kind is KPUPrecision.INT8 else {}
            try:
                program = Program.load(
                    path, (), platform=platform_of(config), precision=COMPILED[kind], **options, **self.shapes
                )
            except UserError as error:
                _refuse(error)
        sizes = _core.describe(program._core)
        return {
            "weights": sizes["weight_bytes"],
            "activations": sizes["activation_bytes"],
            "peak_sram": sizes["peak_sram_bytes"],
            "peak_dram": sizes["peak_dram_bytes"],
        }

    def _samples(self, data: Samples | None) -> list[Array | dict[str, Array]]:
        samples = [] if data is None else list(data)
        if len(samples) < self.min_calibration_samples:
            raise CompilationError(
                f"INT8 calibration requires at least {self.min_calibration_samples} samples"
                f", got {len(samples)}"
            )
        return samples

    def _onnx_file(
        self,
        source: object,
        folder: Path,
        example_inputs: tuple[Any, ...] | None,
        samples: list[Array | dict[str, Array]],
    ) -> Path:
        """The model as an ONNX file; what PyTorch has is exported."""
        if isinstance(source, str | os.PathLike):
            path = Path(source)
            if not path.is_file():
                raise CompilationError(f"{path}: no such file. Fix: check the path.")
            if path.suffix not in (".pt", ".pth", ".pt2"):
                return path
        from kpusim.torch.models import exported_file  # needs PyTorch

        if example_inputs is None and samples:
            first = samples[0]
            example_inputs = tuple(first.values()) if isinstance(first, Mapping) else (first,)
        try:
            return exported_file(source, folder, example_inputs, trust=self.trust)
        except UserError as error:
            raise CompilationError(str(error)) from error


def _one_of(model_path: object, onnx_path: ModelPath | None) -> object:
    if (model_path is None) == (onnx_path is None):
        raise TypeError("give the model as model_path or as onnx_path")
    return model_path if onnx_path is None else onnx_path


def _checked_precision(config: KPUConfig, precision: KPUPrecision | str) -> KPUPrecision:
    try:
        kind = KPUPrecision(precision)
    except ValueError:
        names = ", ".join(member.value for member in KPUPrecision)
        raise CompilationError(f"Unknown precision {precision!r}. Fix: one of {names}.") from None
    if kind not in config.supported_precisions:
        names = ", ".join(KPUPrecision(member).value for member in config.supported_precisions)
        raise CompilationError(f"Unsupported precision {kind.value}: {config.name} has {names}.")
    if kind not in COMPILED:
        names = ", ".join(member.value for member in COMPILED)
        raise CompilationError(f"Unsupported precision {kind.value}: the compiler has {names}.")
    return kind


def _check_operators(path: Path, config: KPUConfig, shapes: Mapping[str, OptionValue]) -> None:
    """Refuse what cannot be compiled; warn of what is not native."""
    try:
        nodes = _core.coverage(os.fspath(path), front_end_options(shapes))
    except UserError as error:
        raise CompilationError(str(error)) from error
    if missing := sorted({kind for _, kind, reason in nodes if reason}):
        why = {f"{kind} (node {name}): {reason}" for name, kind, reason in nodes if reason}
        unsupported = UnsupportedOpError(missing)
        unsupported.add_note("\n".join(sorted(why)))
        raise unsupported
    if foreign := sorted({kind for _, kind, _ in nodes} - set(config.native_ops)):
        warnings.warn(
            f"operators that are not native to {config.name} are compiled to others: {', '.join(foreign)}. "
            "Fix: add them to native_ops if that is wanted.",
            KPUConfigWarning,
            stacklevel=3,
        )


def _compiled(
    path: Path,
    platform: Platform,
    precision: str,
    samples: list[Array | dict[str, Array]],
    folder: Path,
    mixing: Mixing,
    shapes: Mapping[str, OptionValue],
) -> Program:
    options = {"precision": precision, **mixing.options(), **shapes}
    if samples:
        options["calibrate"] = _sample_folder(samples, folder / "samples")
    program = Program.load(path, (), platform=platform, **options)
    if not program.has_values:
        raise UserError(program._core.no_values)
    return program


def _sample_folder(samples: list[Array | dict[str, Array]], folder: Path) -> str:
    """Samples as the files that the compiler reads; few are repeated up to the number that it asks for."""
    folder.mkdir()
    for index in range(max(len(samples), LEAST_SAMPLES)):
        sample = samples[index % len(samples)]
        for name, array in sample.items() if isinstance(sample, Mapping) else [("", sample)]:
            (folder / name).mkdir(exist_ok=True)
            np.save(folder / name / f"{index:06}.npy", np.asarray(array))
    return os.fspath(folder)


def _refuse(error: UserError) -> NoReturn:
    if found := EXCEEDED.search(str(error)):
        memory = MemoryError(int(found[2]), int(found[3]), found[1])
        memory.add_note(str(error))
        raise memory from error
    raise CompilationError(str(error)) from error


def _check_limits(program: KPUProgram, config: KPUConfig) -> None:
    for tensor in program.tensors.values():
        if len(tensor.shape) > config.max_tensor_dims:
            raise CompilationError(
                f"Tensor {tensor.id} has {len(tensor.shape)} dimensions, {config.name} takes "
                f"{config.max_tensor_dims}."
            )
    for tensor in program.get_input_tensors():
        if tensor.shape and tensor.shape[0] > config.max_batch_size:
            raise CompilationError(
                f"Input {tensor.id} has a batch of {tensor.shape[0]}, {config.name} takes "
                f"{config.max_batch_size}."
            )


def describe(program: Program, config: KPUConfig, precision: KPUPrecision) -> KPUProgram:
    """A compiled program as the client sees it: estimates are those of an execution without values."""
    said = _core.describe(program._core)
    run = Simulation(program, mode="timing", hazards=False).run()
    costs = {row.id: row for row in run.ops}
    each_cycle = static_energy_pj(run) / max(run.cycles, 1)
    result = KPUProgram(name=program.name, target_config=config, precision=precision)
    result.tensors = {row["id"]: _tensor(row, precision) for row in said["tensors"]}
    for row in said["ops"]:
        if row["id"].startswith("__"):
            continue  # constants that are loaded once
        op = _op(row, result.tensors, precision)
        if cost := costs.get(op.id):
            op.estimated_cycles = cost.charged_cycles
            op.estimated_energy_pj = cost.energy_pj + each_cycle * cost.charged_cycles
        result.ops.append(op)
    result.input_ids, result.output_ids = said["input_ids"], said["output_ids"]
    for name in ("peak_sram_bytes", "peak_dram_bytes", "weight_bytes", "activation_bytes"):
        setattr(result, name, said[name])
    result.estimated_total_cycles = run.cycles
    result.estimated_total_energy_uj = float(run.stats["energy.total_uj"])
    result.weights_blob = program.to_bytes()
    return result


def _tensor(row: dict[str, Any], precision: KPUPrecision) -> KPUTensor:
    scales, zeros = row["scales"], row["zero_points"]
    return KPUTensor(
        id=row["id"],
        name=row["id"],
        shape=tuple(row["shape"]),
        dtype=TYPES.get(row["element_type"], precision),
        layout=MemoryLayout(LEVELS.get(row["level"], MemoryType.DRAM), row["offset"]),
        scale=scales[0] if len(scales) == 1 else None,
        zero_point=zeros[0] if len(zeros) == 1 else None,
        is_input=row["role"] == "input",
        is_output=row["role"] == "output",
    )


def _op(row: dict[str, Any], tensors: dict[str, KPUTensor], precision: KPUPrecision) -> KPUOp:
    """An operation; its constants become tensors, scales of channels attributes."""
    attributes: dict[str, Any] = {}
    for name, value, ints, floats in row["attributes"]:
        kind, _, weight = name.partition(" ")
        if kind != "weight":
            attributes[name] = value if value is not None else ints or floats
            continue
        one = len(floats) == 1
        tensors[weight] = KPUTensor(
            id=weight, name=weight, shape=tuple(ints), dtype=TYPES.get(value, precision), is_weight=True,
            scale=floats[0] if one else None, zero_point=0 if one else None,
        )  # fmt: skip
        if len(floats) > 1:
            attributes[f"scales of {weight}"] = list(floats)
    return KPUOp(
        id=row["id"],
        op_type=row["op_type"],
        input_ids=row["input_ids"],
        output_ids=row["output_ids"],
        attributes=attributes,
        tiling=TileConfig(
            row["tile_sizes"], row["loop_order"], row["double_buffer"], row["prefetch_distance"]
        ),
        schedule_order=row["schedule_order"],
        fused_with=row["fused_with"],
    )
