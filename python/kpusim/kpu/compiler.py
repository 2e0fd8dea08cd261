"""The compiler of the client: models in, programs out."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kpusim import _core
from kpusim.base.arguments import whole_number
from kpusim.base.tables import BoundValue, OptionValue, front_end_options
from kpusim.errors import ArgumentError, KpusimError, UserError
from kpusim.errors.compiling import CompilationError, UnsupportedOpError
from kpusim.kpu.device import COMPILED, config_of, issues_of, platform_of
from kpusim.kpu.runtime import TYPICAL_SEED, energy_uj, static_energy_pj
from kpusim.kpu.spec import (
    Array,
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
)
from kpusim.platform import Platform
from kpusim.precision import Mixing
from kpusim.program.program import Program
from kpusim.simulation.simulation import Simulation

ModelPath = str | os.PathLike[str]
LEAST_SAMPLES = 4  #: that the compiler of int8 asks for
TYPES = {"i8": KPUPrecision.INT8, "u8": KPUPrecision.INT8, "i4": KPUPrecision.INT4,
         "f16": KPUPrecision.FP16, "bf16": KPUPrecision.BF16}  # fmt: skip
LEVELS = {"DDR": MemoryType.DRAM, "L2": MemoryType.SRAM_L2, "L1": MemoryType.SRAM_L1}
SAMPLED = (KPUPrecision.INT8, KPUPrecision.INT4)  #: precisions whose steps follow from samples
RANDOM = "random:1"  #: samples where there are none
TIME_OF_VALUES = "its time is not known without values"  #: what a simulation without values says
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
    platform : Platform, str or path, optional
        The device, instead of what a configuration says of memory and compute; its limits still count.
    """

    def __init__(
        self,
        min_calibration_samples: int = LEAST_SAMPLES,
        *,
        trust: bool = False,
        mixing: Mixing | None = None,
        dims: Mapping[str, int] | None = None,
        bind: Mapping[str, BoundValue] | None = None,
        platform: Platform | str | os.PathLike[str] | None = None,
    ) -> None:
        self.min_calibration_samples = whole_number(min_calibration_samples, "min_calibration_samples", 1)
        self.trust = trust
        self.mixing = mixing or Mixing()
        self.shapes: dict[str, OptionValue] = {"dim": dims or {}, "bind": bind or {}}
        if platform is not None and not isinstance(platform, Platform):
            platform = Platform.load(platform)
        self.platform: Platform | None = platform

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
            Samples of the inputs, which int8 and int4 need: arrays [1, ...], or mappings of names to them
            where there are several inputs. It is consumed once.
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
        config, platform = self._device(config)
        kind = _checked_precision(config, precision)
        needs_samples = kind in SAMPLED or self.mixing.measures
        samples = self._samples(calibration_data, kind) if needs_samples else []
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            path = self._onnx_file(source, Path(folder), example_inputs, samples)
            _check_operators(path, config, self.shapes)
            folders = _sample_folder(samples, Path(folder) / "samples") if samples else ""
            program = self._compiled(path, platform, kind, folders)
            result = describe(program, config, kind)
            add_estimates(result, program)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        result.source_model = result.name = type(source).__name__
        if isinstance(source, str | os.PathLike):
            result.source_model, result.name = os.fspath(source), Path(source).stem
        result.source_hash = digest
        check_limits(result, config)
        if self.platform is not None:
            result.platform_text = platform.text()
        return result

    def get_supported_ops(self) -> list[str]:
        """Operators of ONNX that can be compiled, by name."""
        return sorted(_core.known_operators())

    def validate_model(
        self, model_path: ModelPath | object = None, config: KPUConfig | None = None,
        precision: KPUPrecision | str | None = None, *, onnx_path: ModelPath | None = None,
        example_inputs: tuple[Any, ...] | None = None,
    ) -> list[str]:  # fmt: skip
        """List what keeps a model from being compiled; empty when nothing does.

        Parameters
        ----------
        model_path, onnx_path, config, example_inputs
            As of :meth:`compile`.
        precision : KPUPrecision, optional
            Without it, what any precision of the device refuses is named. Random numbers stand in for
            samples.
        """
        try:
            source = _one_of(model_path, onnx_path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KPUConfigWarning)
                config, platform = self._device(config)
            asked: Iterable[KPUPrecision | str] = [precision] if precision else config.supported_precisions
            kinds = [_checked_precision(config, kind) for kind in asked]
            with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
                path = self._onnx_file(source, Path(folder), example_inputs, [])
                if missing := _unsupported(_nodes(path, self.shapes)):
                    return [f"Unsupported operator {row}" for row in missing]
                return self._refusals(path, config, platform, kinds)
        except UserError as error:
            return [str(error)]

    def _refusals(
        self, path: Path, config: KPUConfig, platform: Platform, kinds: list[KPUPrecision]
    ) -> list[str]:
        """Return what compilation says for each precision; once where all say the same."""
        found: dict[str, list[str]] = {}
        for kind in kinds:
            try:
                program = self._compiled(path, platform, kind, RANDOM if kind in SAMPLED else "")
                check_limits(describe(program, config, kind), config)
            except KpusimError as error:
                found.setdefault(str(error), []).append(kind.value)
        return [
            text if len(found) == 1 and len(names) == len(kinds) else f"{', '.join(names)}: {text}"
            for text, names in found.items()
        ]

    def estimate_memory(
        self, model_path: ModelPath | object = None, config: KPUConfig | None = None,
        precision: KPUPrecision | str = KPUPrecision.FP16, *, onnx_path: ModelPath | None = None,
    ) -> dict[str, int]:  # fmt: skip
        """Bytes of ``weights``, ``activations``, ``peak_sram`` and ``peak_dram`` of the compiled model.

        ``reserved_sram`` is what the arenas of L1 and L2 take beside ``peak_sram``, whatever the model is.

        Parameters
        ----------
        model_path, onnx_path, config, precision
            As of :meth:`compile`. Sizes of int8 do not depend on samples: random ones stand in.
        """
        config, platform = self._device(config)
        kind = _checked_precision(config, precision)
        with tempfile.TemporaryDirectory(prefix="kpusim_") as folder:
            path = self._onnx_file(_one_of(model_path, onnx_path), Path(folder), None, [])
            _check_operators(path, config, self.shapes)
            program = self._compiled(path, platform, kind, RANDOM if kind in SAMPLED else "")
        sizes = _core.describe(program._core)
        return {
            "weights": sizes["weight_bytes"],
            "activations": sizes["activation_bytes"],
            "peak_sram": sizes["peak_sram_bytes"],
            "peak_dram": sizes["peak_dram_bytes"],
            "reserved_sram": sizes["reserved_sram_bytes"],
        }

    def _device(self, config: KPUConfig | None) -> tuple[KPUConfig, Platform]:
        """Return the device; where the compiler has a platform, only the limits of a configuration count."""
        if self.platform is None:
            config = KPUConfig() if config is None else config
            return config, platform_of(config)
        own = config_of(self.platform)
        if config is None:
            return own, self.platform
        if issues := issues_of(config):
            raise CompilationError(f"Invalid configuration: {'; '.join(issues)}")
        usual = KPUConfig(config.name)
        for name in ("memory", "compute"):
            if getattr(config, name) not in (getattr(usual, name), getattr(own, name)):
                raise CompilationError(
                    f"the configuration changes {name}, but the compiler was made for {own.name}. "
                    "Fix: leave it out, or make the compiler without platform."
                )
        given = [KPUPrecision(kind) for kind in config.supported_precisions]
        own.supported_precisions = own.supported_precisions if given == usual.supported_precisions else given
        for name in ("max_tensor_dims", "max_batch_size", "native_ops"):
            setattr(own, name, getattr(config, name))
        return own, self.platform

    def _compiled(self, path: Path, platform: Platform, kind: KPUPrecision, samples: str) -> Program:
        """Return the program of the device, of samples in a folder or random ones."""
        options: dict[str, OptionValue] = {
            "precision": COMPILED[kind],
            **self.mixing.options(),
            **self.shapes,
        }
        if samples or self.mixing.measures:
            options["calibrate"] = samples or RANDOM
        try:
            return Program.load(path, (), platform=platform, **options)
        except UserError as error:
            _refuse(error, platform)

    def _samples(self, data: Samples | None, kind: KPUPrecision) -> list[Array | dict[str, Array]]:
        if data is not None and not isinstance(data, Iterable):
            raise CompilationError(
                f"calibration_data={data!r} are not samples. Fix: give arrays, or mappings of names to "
                "arrays."
            )
        samples = [] if data is None else list(data)
        if len(samples) < self.min_calibration_samples:
            raise CompilationError(
                f"{kind.name} calibration requires at least {self.min_calibration_samples} samples"
                f", got {len(samples)}. Fix: give more in calibration_data."
            )
        return samples

    def _onnx_file(
        self,
        source: object,
        folder: Path,
        example_inputs: tuple[Any, ...] | None,
        samples: list[Array | dict[str, Array]],
    ) -> Path:
        """Return the model as an ONNX file; what PyTorch has is exported."""
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
        except UnsupportedOpError:
            raise
        except UserError as error:
            raise CompilationError(str(error)) from error


def _one_of(model_path: object, onnx_path: ModelPath | None) -> object:
    if (model_path is None) == (onnx_path is None):
        raise ArgumentError("give the model as model_path or as onnx_path. Fix: give one of them.")
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


def _nodes(path: Path, shapes: Mapping[str, OptionValue]) -> list[tuple[str, str, str]]:
    """(name, operator, reason) of each node; the reason is empty where it can be imported."""
    try:
        return _core.coverage(os.fspath(path), front_end_options(shapes))
    except UserError as error:
        raise CompilationError(str(error)) from error


def _unsupported(nodes: list[tuple[str, str, str]]) -> list[str]:
    """Return the operators that cannot be imported, each with its node and the reason."""
    return sorted({f"{kind} (node {name}): {reason}" for name, kind, reason in nodes if reason})


def _check_operators(path: Path, config: KPUConfig, shapes: Mapping[str, OptionValue]) -> None:
    """Refuse what cannot be compiled; warn of what is not native."""
    nodes = _nodes(path, shapes)
    if missing := _unsupported(nodes):
        unsupported = UnsupportedOpError(sorted({row.partition(" ")[0] for row in missing}))
        unsupported.add_note("\n".join(missing))
        raise unsupported
    if foreign := sorted({kind for _, kind, _ in nodes} - set(config.native_ops)):
        warnings.warn(
            f"operators that are not native to {config.name} are compiled to others: {', '.join(foreign)}. "
            "Fix: add them to native_ops if that is wanted.",
            KPUConfigWarning,
            stacklevel=3,
        )


def _sample_folder(samples: list[Array | dict[str, Array]], folder: Path) -> str:
    """Samples as the files that the compiler reads; few are repeated up to the number that it asks for."""
    folder.mkdir()
    for index in range(max(len(samples), LEAST_SAMPLES)):
        sample = samples[index % len(samples)]
        for name, array in sample.items() if isinstance(sample, Mapping) else [("", sample)]:
            (folder / name).mkdir(exist_ok=True)
            np.save(folder / name / f"{index:06}.npy", np.asarray(array))
    return os.fspath(folder)


def _refuse(error: UserError, platform: Platform) -> NoReturn:
    if found := EXCEEDED.search(str(error)):
        required, available, reserved = int(found[2]), int(found[3]), 0
        if found[1] == "SRAM":  # of L1, a part is the device's own
            size = config_of(platform).memory.sram_l1_bytes
            reserved = max(size - available, 0)
            required, available = required + reserved, available + reserved
        memory = MemoryError(required, available, found[1], reserved)
        memory.add_note(str(error))
        raise memory from error
    raise CompilationError(str(error)) from error


def check_limits(program: KPUProgram, config: KPUConfig) -> None:
    """Refuse ranks and batches that a configuration does not allow."""
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
    """Return a compiled program as the client sees it, without estimates."""
    said = _core.describe(program._core)
    result = KPUProgram(name=program.name, target_config=config, precision=precision)
    result.tensors = {row["id"]: _tensor(row, precision) for row in said["tensors"]}
    for row in said["ops"]:
        if not row["id"].startswith("__"):  # constants that are loaded once
            result.ops.append(_op(row, result.tensors, precision))
    result.input_ids, result.output_ids = said["input_ids"], said["output_ids"]
    for name in ("peak_sram", "peak_dram", "weight", "activation", "reserved_sram"):
        setattr(result, f"{name}_bytes", said[f"{name}_bytes"])
    result.weights_blob = program.to_bytes()
    return result


def add_estimates(result: KPUProgram, program: Program) -> None:
    """Cycles and energy of an execution without values; of a typical one where time depends on them."""
    try:
        run = Simulation(program, mode="timing", hazards=False).run()
    except KpusimError as error:
        if TIME_OF_VALUES not in str(error):
            raise CompilationError(str(error)) from error
        result.time_depends_on_values = True
        warnings.warn(
            f"time depends on values: {first_sentence(error)}. The estimates are those of inputs that are "
            "random numbers of seed 1. Fix: execute with real inputs for the time of these.",
            KPUConfigWarning,
            stacklevel=3,
        )
        run = Simulation(program, hazards=False).run(fill=TYPICAL_SEED)
    costs = {row.id: row for row in run.ops}
    each_cycle = static_energy_pj(run) / max(run.cycles, 1)
    for op in result.ops:
        if cost := costs.get(op.id):
            op.estimated_cycles = cost.charged_cycles
            op.estimated_energy_pj = cost.energy_pj + each_cycle * cost.charged_cycles
    result.estimated_total_cycles = run.cycles
    result.estimated_total_energy_uj = energy_uj(run)


def first_sentence(error: KpusimError) -> str:
    """Return what an error says before its fix."""
    return error.message.partition(", so its time")[0]


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
    """Return an operation; its constants become tensors, scales of channels attributes."""
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
        tiling=_tiling(row),
        schedule_order=row["schedule_order"],
        fused_with=row["fused_with"],
    )


def _tiling(row: dict[str, Any]) -> TileConfig:
    """Return the tiles of an operation, by the client's names of dimensions."""
    names = dimension_names(row["op_type"], list(row["tile_sizes"]))
    return TileConfig(
        {names[name]: size for name, size in row["tile_sizes"].items()},
        [names[name] for name in row["loop_order"]],
        row["double_buffer"],
        row["prefetch_distance"],
    )


#: Axes of the compiler as the client calls them: those of NCHW, and M, N, K of a product.
PRODUCT_AXES = {"m": "M", "n": "N", "k": "K"}
PICTURE_AXES = {"n": "N", "z": "D", "y": "H", "x": "W", "o": "C", "c": "C_in", "g": "groups", "pixels": "H*W"}
#: Operators whose dimensions d0 to d3 are those of pictures, channels last.
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "GlobalLpPool")


def dimension_names(op_type: str, axes: list[str]) -> dict[str, str]:
    """Return the names for the axes of an operation; what has no other name keeps its number: D0, D1."""
    if any(axis in axes for axis in ("y", "x", "z", "o", "c", "g", "pixels")):
        names = PICTURE_AXES
    elif op_type in POOLS:
        names = {"d0": "N", "d1": "H", "d2": "W", "d3": "C"}
    else:
        names = PRODUCT_AXES
    return {axis: names.get(axis, axis.upper()) for axis in axes}
