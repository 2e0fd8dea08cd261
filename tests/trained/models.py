"""Trained networks: made once a tree and kept in a folder, with the inputs that they have not seen.

usage: models.py FOLDER NAME...; NAME is one of resnet18, mobilenet_v2, yolov8n
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import detector
import digits
import numpy as np
import torch
from boxes import detections, mean_average_precision
from numpy.typing import NDArray
from scenes import KINDS, SIDE, scenes
from torch import nn

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "trained"
INPUTS, CALIBRATION = 128, 32
NETWORKS = HERE.parents[1] / "examples" / "networks"
SOURCES = {
    "resnet18": (HERE / "digits.py", NETWORKS / "resnet.py", NETWORKS / "layers.py"),
    "mobilenet_v2": (HERE / "digits.py", NETWORKS / "mobilenet.py", NETWORKS / "layers.py"),
    "yolov8n": (HERE / "detector.py", HERE / "scenes.py", NETWORKS / "yolov8.py", NETWORKS / "layers.py"),
}
Floats = NDArray[np.float32]


class Trained(NamedTuple):
    """A network with its weights, and what it is judged on."""

    name: str
    onnx: Path
    inputs: Floats  #: [INPUTS, ...], not seen in training
    calibration: list[Floats]  #: [1, ...] each, of the training's kind, not among the inputs
    exact: Floats  #: outputs of PyTorch in float32
    quality: Callable[[Floats], float]  #: of outputs: the share that is right, or mAP@0.5
    values: Callable[[Floats], dict[str, Floats]]  #: of outputs: numbers of unit range


def weights_of(name: str, folder: Path) -> Path:
    """The file of the weights; the network is trained unless it was since what makes it has changed."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES[name])).hexdigest()[:12]
    path = folder / f"{name}-{digest}.pt"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    model = detector.train() if name == "yolov8n" else digits.train(name)
    keep(path, lambda part: torch.save(model.state_dict(), part))
    print(f"{name}: trained in {time.process_time() - began:.0f} s of processor time", flush=True)
    return path


def keep(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is whole whenever it is seen."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder) / path.name
        write(part)
        os.replace(part, path)


def export(model: nn.Module, inputs: Floats, path: Path) -> None:
    """Export as ONNX, for one input."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model, (torch.from_numpy(inputs[:1]),), dynamo=True, input_names=["image"], verbose=False
        )
    keep(path, program.save)


def outputs_of(model: nn.Module, inputs: Floats) -> Floats:
    """Return the outputs in float32, by PyTorch."""
    with torch.no_grad():
        return np.concatenate([model(part).numpy() for part in torch.from_numpy(inputs).split(16)])


def softmax(logits: Floats) -> Floats:
    """Probabilities of classes."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def classifier(name: str) -> tuple[nn.Module, Floats, list[Floats], Callable, Callable]:
    """Return a classifier of digits."""
    kept, held = digits.pictures()
    labels = held.labels[:INPUTS].numpy()
    return (
        digits.MAKERS[name](digits.CLASSES),
        held.images[:INPUTS].numpy(),
        [one[None].numpy() for one in kept.images[:CALIBRATION]],
        lambda outputs: float((outputs.argmax(1) == labels).mean()),
        lambda outputs: {"probabilities": softmax(outputs)},
    )


def detects() -> tuple[nn.Module, Floats, list[Floats], Callable, Callable]:
    """Return the detector of shapes."""
    shown = scenes(INPUTS, seed=1000)
    boxes, kinds = [one.boxes for one in shown], [one.kinds for one in shown]
    return (
        detector.yolov8n(len(KINDS)),
        np.stack([one.image for one in shown]),
        [one.image[None] for one in scenes(CALIBRATION, seed=2000)],
        lambda outputs: mean_average_precision([detections(one) for one in outputs], boxes, kinds),
        lambda outputs: {"boxes": outputs[:, :4] / SIDE, "probabilities": outputs[:, 4:]},
    )


def trained(name: str, folder: Path = FOLDER) -> Trained:
    """Return a network of the table."""
    torch.set_num_threads(1)  # sums of several threads may differ from run to run
    weights = weights_of(name, folder)
    model, inputs, calibration, quality, values = detects() if name == "yolov8n" else classifier(name)
    model.load_state_dict(torch.load(weights, weights_only=True))
    model.eval()
    onnx = weights.with_suffix(".onnx")
    if not onnx.exists():
        export(model, inputs, onnx)
    return Trained(name, onnx, inputs, calibration, outputs_of(model, inputs), quality, values)


def main() -> None:
    """Train what is not there."""
    for name in sys.argv[2:]:
        network = trained(name, Path(sys.argv[1]))
        print(f"{network.onnx}: {network.quality(network.exact):.4f}")


if __name__ == "__main__":
    main()
