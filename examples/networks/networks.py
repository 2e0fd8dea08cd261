"""Well-known networks in PyTorch with random, well-scaled weights, and as ONNX models.

usage: networks.py NAME OUT.onnx [--opset N]

Needs PyTorch, onnx and onnxscript. Weights come from a fixed seed. The statistics of each batch norm are
measured on random pictures, layer after layer, so that activations keep the scale of a trained network.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mobilenet import mobilenet_v2, mobilenet_v3_small
from recurrent import lstm
from resnet import resnet18, resnet50
from transformers import bert_base, bert_layer, gpt2_block, gpt2_decode, vit_tiny
from unet import small_unet
from yolov8 import yolov8n


class Network(NamedTuple):
    """A network and its input for one sample."""

    make: Callable[[], nn.Module]
    input: str
    shape: tuple[int, ...]
    output: str = "logits"
    words: int = 0  #: inputs are integers below it
    state: tuple[tuple[str, tuple[int, ...]], ...] = ()  #: further inputs; each has an output `next_NAME`


NETWORKS = {
    "resnet18": Network(resnet18, "image", (3, 224, 224)),
    "resnet50": Network(resnet50, "image", (3, 224, 224)),
    "mobilenet_v2": Network(mobilenet_v2, "image", (3, 224, 224)),
    "mobilenet_v3_small": Network(mobilenet_v3_small, "image", (3, 224, 224)),
    "yolov8n": Network(yolov8n, "image", (3, 640, 640), "detections"),
    "small_unet": Network(small_unet, "image", (3, 128, 128), "marks"),
    "bert_layer": Network(bert_layer, "states", (128, 768), "next_states"),
    "bert_base": Network(bert_base, "states", (128, 768), "next_states"),
    "gpt2_block": Network(gpt2_block, "tokens", (64,), "logits", 1000),
    "gpt2_decode": Network(
        gpt2_decode, "token", (1,), "logits", 1000, (("keys", (12, 64, 64)), ("values", (12, 64, 64)))
    ),
    "vit_tiny": Network(vit_tiny, "image", (3, 224, 224)),
    "lstm": Network(lstm, "sequence", (16, 32)),
}


def sample(name: str, batch: int = 1, seed: int = 1) -> Tensor:
    """Return a random first input of a network."""
    network = NETWORKS[name]
    rng = torch.Generator().manual_seed(seed)
    if network.words:
        return torch.randint(0, network.words, (batch, *network.shape), generator=rng)
    return torch.randn((batch, *network.shape), generator=rng)


def samples(name: str, batch: int = 1, seed: int = 1) -> tuple[Tensor, ...]:
    """Return random inputs of a network, all of them."""
    rng = torch.Generator().manual_seed(seed + 1)
    state = (torch.randn((batch, *shape), generator=rng) for _, shape in NETWORKS[name].state)
    return (sample(name, batch, seed), *state)


def randomize(model: nn.Module, seed: int) -> None:
    """Weights that keep the scale of activations; affine parts of norms near 1 and 0."""
    rng = torch.Generator().manual_seed(seed)
    for part in model.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            fan_in = part.weight[0].numel() if not isinstance(part, nn.ConvTranspose2d) else part.in_channels
            gain = 2 if isinstance(part, nn.Conv2d) else 1
            part.weight.data.normal_(0, math.sqrt(gain / fan_in), generator=rng)
            if part.bias is not None:
                part.bias.data.normal_(0, 0.02, generator=rng)
        elif isinstance(part, nn.BatchNorm2d | nn.LayerNorm):
            part.weight.data.uniform_(0.8, 1.2, generator=rng)
            part.bias.data.normal_(0, 0.1, generator=rng)
        elif isinstance(part, nn.LSTM):
            for weight in part.parameters():
                weight.data.normal_(0, 1 / math.sqrt(part.hidden_size), generator=rng)
        elif isinstance(part, nn.Embedding):
            part.weight.data.normal_(0, 1 / math.sqrt(part.embedding_dim), generator=rng)
        else:
            for weight in part.parameters(recurse=False):
                weight.data.normal_(0, 0.02, generator=rng)


def build(name: str, seed: int = 18) -> nn.Module:
    """Return the network with its weights, for inference."""
    model = NETWORKS[name].make()
    randomize(model, seed)
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the plain mean of what is seen
    if norms:
        model.train()
        with torch.no_grad():
            model(sample(name, batch=4, seed=0))
    return model.eval()


def export(name: str, path: str, opset: int | None = None) -> None:
    """Write the network as ONNX: dynamic batch, large weights in a file beside it."""
    network = NETWORKS[name]
    states = [state for state, _ in network.state]
    torch.onnx.export(
        build(name),
        samples(name, batch=2),
        path,
        dynamo=True,
        opset_version=opset,
        input_names=[network.input, *states],
        output_names=[network.output, *(f"next_{state}" for state in states)],
        dynamic_shapes=tuple({0: torch.export.Dim("batch")} for _ in (network.input, *states)),
        verbose=False,
    )


def main() -> None:
    """Build and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("out")
    parser.add_argument("--opset", type=int)
    given = parser.parse_args()
    export(given.name, given.out, given.opset)


if __name__ == "__main__":
    main()
