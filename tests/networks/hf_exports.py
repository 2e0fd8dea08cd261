"""Decoders of transformers, exported by torch.onnx with their caches, against PyTorch.

usage: hf_exports.py KPUSIM [--model NAME]... [--exporter dynamo|script]... [--attention sdpa|eager]...
                            [--shapes dynamic|static]... [--precision f32|fp16|int4]... [--device NAME]
                            [--steps N] [--sample N] [--seed N] [--keep FOLDER]

Each is exported twice: a prompt, which gives a cache, and a step, which takes and gives one. The prompt and
the steps run with the cache handed on, on both sides its own. Shapes are dynamic (programs for each length,
by --dim) or static (exports for each length). "int4" are the weights of ONNX Runtime's MatMulNBits quantizer
in fp16, against ONNX Runtime. Prints the worst error of each, relative to the range; exit 1 where one is
too large.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import onnx
import torch
from genai_layers import tell
from hf_models import DECODERS, ONLY_DYNAMO, WORDS, WithCache, decoder
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

PROMPT = 5
#: Bounds on errors, as shares of an output's range, for the results of a precision.
BOUNDS = {"f32": 1e-4, "fp16": 2e-2, "int4": 4e-2}
DEVICES = {"f32": "tile32", "fp16": "swkpu-v2", "int4": "swkpu-v2"}


class Point(NamedTuple):
    """Point of the table: what is exported, how, and in which precision it runs."""

    model: str
    exporter: str
    attention: str
    shapes: str
    precision: str


class StepError(Exception):
    """A step that does not come through; the message has the command."""


def export(module: WithCache, given: tuple[Tensor, ...], outputs: int, point: Point, path: Path) -> None:
    """Writes a model: inputs `input_ids`, `attention_mask`, `past.N`, outputs `logits`, `present.N`."""
    inputs = ["input_ids", "attention_mask", *(f"past.{i}" for i in range(len(given) - 2))]
    names = ["logits", *(f"present.{i}" for i in range(outputs - 1))]
    dynamic = point.shapes == "dynamic"
    grows = [i for i, name in enumerate(inputs) if name.startswith("past") and given[i].dim() == 4]
    grows = [i for i in grows if given[i].shape[2] == given[1].shape[1] - given[0].shape[1]]
    if point.exporter == "script":
        axes = {"input_ids": {1: "rows"}, "attention_mask": {1: "total"}}
        axes |= {inputs[i]: {2: "past"} for i in grows}
        if len(given) > 2:
            del axes["input_ids"]
        more: dict[str, Any] = {
            "dynamic_axes": axes if dynamic else None,
            "dynamo": False,
            "opset_version": 17,
        }
        torch.onnx.export(module, given, str(path), input_names=inputs, output_names=names, **more)
        return
    auto, fixed = torch.export.Dim.AUTO, {}
    shapes: tuple[Any, ...] = ({1: auto}, {1: auto})
    if len(given) > 2:
        past = tuple({2: auto} if i + 2 in grows else fixed for i in range(len(given) - 2))
        shapes = (fixed, {1: auto}, past)
    made = torch.onnx.export(
        module,
        given,
        input_names=inputs,
        output_names=names,
        dynamic_shapes=shapes if dynamic else None,
        dynamo=True,
        verbose=False,
    )
    made.save(path)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporters print whole graphs where they fail, past Python's streams."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            for place, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, place)
                os.close(copy)


def narrow(path: Path) -> None:
    """Weights of products get 4 bits by ONNX Runtime's quantizer."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(path), bits=4, block_size=32, is_symmetric=False)
    quantizer.process()
    onnx.save(quantizer.model.model, path)


def dims_of(path: Path, arrays: dict[str, Array]) -> list[str]:
    """`--dim NAME=N` of the axes that have names."""
    made = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, arrays[value.name].shape, strict=True):
            if dim.dim_param:
                made[dim.dim_param] = size
    return [word for name, size in made.items() for word in ("--dim", f"{name}={size}")]


class Ours:
    """Compiles a model for shapes, and runs it."""

    def __init__(self, kpusim: str, folder: Path, options: list[str]) -> None:
        self.kpusim, self.folder, self.options = kpusim, folder, options

    def command(self, *arguments: object) -> None:
        """Runs kpusim."""
        words = [self.kpusim, *map(str, arguments)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise StepError(f"{' '.join(words)}\n{done.stderr}")

    def __call__(self, model: Path, arrays: dict[str, Array], outputs: list[str] | None) -> list[Array]:
        """Return the outputs; without names all, in the order of the model."""
        out = self.folder / "out"
        words = []
        graph = onnx.load(model, load_external_data=False).graph
        known = {value.name for value in graph.input}
        outputs = outputs or [value.name for value in graph.output]
        for number, (name, array) in enumerate(arrays.items()):
            path = self.folder / f"{number}.npy"
            np.save(path, array)
            words += ["--input", f"{name}={path}"] if name in known else []
        program = self.folder / "program.kpu"
        dims = dims_of(model, arrays)
        self.command("compile", model, *dims, *self.options, "-o", program, "--force")
        self.command("run", program, *words, "--quiet", "--strict", "-o", out, "--force")
        return [np.load(out / "outputs" / f"{quote(name, safe='')}.npy") for name in outputs]


def by_runtime(path: Path, arrays: dict[str, Array]) -> list[Array]:
    """ONNX Runtime's outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        known = {value.name for value in session.get_inputs()}
        return list(session.run(None, {name: array for name, array in arrays.items() if name in known}))
    except Exception as error:
        raise RuntimeError(f"ONNX Runtime refuses it: {' '.join(str(error).split())[:160]}") from error


def apart(got: Array, wanted: Array) -> float:
    """Return the largest difference, relative to the range."""
    return float(np.abs(got.astype(np.float64) - wanted).max() / np.abs(wanted).max())


def judge(runtimes: list[Tensor], torchs: list[Tensor]) -> None:
    """An export that is not the model is no measure: ONNX Runtime shows it."""
    for ours, theirs in zip(runtimes, torchs, strict=True):
        if ours.shape != theirs.shape or apart(ours.numpy(), theirs.numpy()) > BOUNDS["f32"] / 2:
            raise RuntimeError("what it writes is another function, by ONNX Runtime")


def exported(module: WithCache, given: tuple[Tensor, ...], outputs: int, point: Point, path: Path) -> Path:
    """Return the model of a file; an export that fails is a failure of the exporter, told apart."""
    if not path.exists():
        try:
            with quiet():
                export(module, given, outputs, point, path)
        except Exception as error:
            raise RuntimeError(" ".join(str(error).split())[-160:]) from error
        if point.precision == "int4":
            narrow(path)
    return path


def worst_error(kpusim: str, point: Point, device: str, steps: int, folder: Path) -> float:
    """Return the worst error of all outputs of the prompt and all steps, relative to the range of each."""
    module = WithCache(decoder(point.model, point.attention))
    precision = {"int4": "fp16"}.get(point.precision, point.precision)
    ours = Ours(kpusim, folder, ["--platform", device, "--precision", precision])
    words = torch.randint(3, WORDS, (1, PROMPT + steps), generator=torch.Generator().manual_seed(3))
    wanted_past: list[Tensor] = []
    got_past: list[Array] = []
    worst = 0.0
    for start, rows in [(0, PROMPT), *((PROMPT + i, 1) for i in range(steps))]:
        given = (words[:, start : start + rows], torch.ones(1, start + rows, dtype=torch.int64), *wanted_past)
        with torch.no_grad():
            wanted = list(module(*given))
        name = "prompt" if start == 0 else "step" if point.shapes == "dynamic" else f"step{start}"
        path = exported(module, given, len(wanted), point, folder / f"{name}.onnx")
        inputs = ["input_ids", "attention_mask", *(f"past.{i}" for i in range(len(wanted_past)))]
        arrays = {key: tensor.numpy() for key, tensor in zip(inputs, given, strict=True)}
        if point.precision == "int4" or not path.with_suffix(".judged").exists():
            theirs = [torch.from_numpy(array) for array in by_runtime(path, arrays)]
            if point.precision != "int4":
                judge(theirs, wanted)
                path.with_suffix(".judged").touch()
            wanted = theirs
        arrays |= dict(zip(inputs[2:], got_past, strict=True))
        got = ours(path, arrays, ["logits", *(f"present.{i}" for i in range(len(wanted) - 1))])
        for array, theirs in zip(got, wanted, strict=True):
            if array.shape != theirs.shape:
                raise StepError(f"{array.shape} instead of {tuple(theirs.shape)}")
            worst = max(worst, apart(array, theirs.numpy()))
        wanted_past, got_past = wanted[1:], got[1:]
    return worst


def points_of(options: argparse.Namespace) -> list[Point]:
    """Return all that were asked for, or a sample of them."""
    every = [
        Point(*each)
        for each in itertools.product(
            options.model or DECODERS,
            options.exporter or ("dynamo", "script"),
            options.attention or ("sdpa", "eager"),
            options.shapes or ("dynamic", "static"),
            options.precision or BOUNDS,
        )
    ]
    if options.sample:
        every = [each for each in every if each.exporter == "dynamo" or each.model not in ONLY_DYNAMO]
        print(f"{options.sample} of {len(every)} by seed {options.seed}")
        return random.Random(options.seed).sample(every, options.sample)
    return every


def main() -> None:
    """Prints the worst error of each; exit code 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--model", action="append", choices=[*DECODERS])
    parser.add_argument("--exporter", action="append", choices=("dynamo", "script"))
    parser.add_argument("--attention", action="append", choices=("sdpa", "eager"))
    parser.add_argument("--shapes", action="append", choices=("dynamic", "static"))
    parser.add_argument("--precision", action="append", choices=[*BOUNDS])
    parser.add_argument("--device")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sample", type=int, metavar="N", help="so many of the points, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leaves models there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    bad = compared = 0
    for point in points_of(options):
        told = ", ".join(point)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if options.keep:
                folder = options.keep / "-".join(point)
                folder.mkdir(parents=True, exist_ok=True)
            try:
                device = options.device or DEVICES[point.precision]
                worst = worst_error(options.kpusim, point, device, options.steps, folder)
            except RuntimeError as error:
                print(f"{told}: torch does not export it: {error}", flush=True)
                continue
            except StepError as error:
                print(f"{told}: {error}", flush=True)
                bad += 1
                continue
        compared += 1
        bad += tell(told, worst, BOUNDS[point.precision])
    if not compared:
        print("nothing was compared")
    if bad or not compared:
        sys.exit(1)


if __name__ == "__main__":
    main()
