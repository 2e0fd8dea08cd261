"""Encoders, and models with an encoder, of transformers, exported by torch.onnx, against PyTorch.

usage: hf_encoders.py KPUSIM [--model NAME]... [--exporter dynamo|script]... [--attention sdpa|eager]...
                             [--precision f32|fp16]... [--device NAME]

Small models with random weights, each run once. Prints the worst error of each, relative to the range; exit 1
where one is too large.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from genai_layers import tell
from hf_exports import BOUNDS, DEVICES, Array, Ours, StepError, apart, by_runtime, judge, quiet
from hf_models import WORDS, spread
from torch import Tensor, nn

TEXT: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
IMAGE = TEXT | {"image_size": 32, "patch_size": 8}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS}
SPEECH = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": WORDS} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in (("attention_heads", 4), ("ffn_dim", 96))
}


class Kind(NamedTuple):
    """A model, its inputs by name, and the outputs that count."""

    config: Callable[[], Any]
    made: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def config(name: str, **sizes: Any) -> Callable[[], Any]:  # noqa: ANN401
    """Return a configuration of transformers."""
    return lambda: getattr(transformers, name)(**sizes)


WORDS_IN = ("input_ids", "attention_mask")
BOTH = ("input_ids", "attention_mask", "decoder_input_ids")
LAST = ("last_hidden_state",)
KINDS = {
    "bert": Kind(config("BertConfig", **TEXT), "BertModel", WORDS_IN, LAST),
    "roberta": Kind(config("RobertaConfig", **TEXT), "RobertaModel", WORDS_IN, LAST),
    "distilbert": Kind(
        config("DistilBertConfig", vocab_size=WORDS, dim=64, hidden_dim=96, n_layers=2, n_heads=4),
        "DistilBertModel",
        WORDS_IN,
        LAST,
    ),
    "modernbert": Kind(
        config("ModernBertConfig", **TEXT, pad_token_id=0, local_attention=4),
        "ModernBertModel",
        WORDS_IN,
        LAST,
    ),
    "electra": Kind(config("ElectraConfig", **TEXT, embedding_size=32), "ElectraModel", WORDS_IN, LAST),
    "vit": Kind(config("ViTConfig", **IMAGE), "ViTModel", ("pixel_values",), LAST),
    "dinov2": Kind(config("Dinov2Config", **IMAGE), "Dinov2Model", ("pixel_values",), LAST),
    "clip": Kind(
        config("CLIPConfig", text_config=TEXT | {"eos_token_id": 2}, vision_config=IMAGE, projection_dim=32),
        "CLIPModel",
        ("input_ids", "pixel_values", "attention_mask"),
        ("logits_per_image", "text_embeds", "image_embeds"),
    ),
    "siglip": Kind(
        config("SiglipConfig", text_config=TEXT, vision_config=IMAGE),
        "SiglipModel",
        ("input_ids", "pixel_values", "attention_mask"),
        ("logits_per_image",),
    ),
    "t5": Kind(config("T5Config", **T5), "T5ForConditionalGeneration", BOTH, ("logits",)),
    "mt5": Kind(
        config("MT5Config", **T5, feed_forward_proj="gated-gelu"),
        "MT5ForConditionalGeneration",
        BOTH,
        ("logits",),
    ),
    "bart": Kind(
        config("BartConfig", **SPEECH, max_position_embeddings=32),
        "BartForConditionalGeneration",
        BOTH,
        ("logits",),
    ),
    "whisper": Kind(
        config(
            "WhisperConfig",
            **SPEECH,
            num_mel_bins=16,
            max_source_positions=16,
            max_target_positions=16,
            pad_token_id=0,
        ),
        "WhisperForConditionalGeneration",
        ("input_features", "decoder_input_ids"),
        ("logits",),
    ),
}


class Named(nn.Module):
    """Outputs of a model as a tuple."""

    def __init__(self, kind: Kind, attention: str) -> None:
        super().__init__()
        self.kind = kind
        torch.manual_seed(1)
        model = getattr(transformers, kind.made)
        try:
            self.model = model._from_config(kind.config(), attn_implementation=attention)
        except ValueError:  # it has no other
            self.model = model._from_config(kind.config(), attn_implementation="eager")
        spread(self.model, 1)
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Call the model by the names of the kind."""
        made = self.model(**dict(zip(self.kind.inputs, inputs, strict=True)))
        return tuple(made[name] for name in self.kind.outputs)


def inputs_of(kind: Kind) -> tuple[Tensor, ...]:
    """Return the numbers from a seed; the last two words do not count."""
    generator = torch.Generator().manual_seed(5)
    mask = torch.ones(1, 7, dtype=torch.int64)
    mask[0, 5:] = 0
    made = {
        "input_ids": torch.randint(3, WORDS, (1, 7), generator=generator),
        "decoder_input_ids": torch.randint(3, WORDS, (1, 4), generator=generator),
        "attention_mask": mask,
        "pixel_values": torch.randn(1, 3, 32, 32, generator=generator),
        "input_features": torch.randn(1, 16, 32, generator=generator),
    }
    return tuple(made[name] for name in kind.inputs)


def worst_error(kpusim: str, kind: Kind, exporter: str, attention: str, options: list[str]) -> float:
    """Exports, runs, compares. RuntimeError: the export fails, or is another function."""
    module, given = Named(kind, attention), inputs_of(kind)
    with torch.no_grad():
        wanted = list(module(*given))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        try:
            with quiet():
                if exporter == "script":
                    torch.onnx.export(
                        module,
                        given,
                        str(path),
                        input_names=list(kind.inputs),
                        dynamo=False,
                        opset_version=17,
                    )
                else:
                    torch.onnx.export(module, given, input_names=list(kind.inputs), dynamo=True).save(path)
        except Exception as error:
            raise RuntimeError(" ".join(str(error).split())[-160:]) from error
        arrays: dict[str, Array] = {
            key: tensor.numpy() for key, tensor in zip(kind.inputs, given, strict=True)
        }
        judge([torch.from_numpy(array) for array in by_runtime(path, arrays)], wanted)
        got = Ours(kpusim, Path(name), options)(path, arrays, None)
        return max(apart(array, theirs.numpy()) for array, theirs in zip(got, wanted, strict=True))


def main() -> None:
    """Prints the worst error of each; exit code 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--model", action="append", choices=[*KINDS])
    parser.add_argument("--exporter", action="append", choices=("dynamo", "script"))
    parser.add_argument("--attention", action="append", choices=("sdpa", "eager"))
    parser.add_argument("--precision", action="append", choices=("f32", "fp16"))
    parser.add_argument("--device")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    bad = compared = 0
    for model, exporter, attention, precision in itertools.product(
        options.model or KINDS,
        options.exporter or ("dynamo", "script"),
        options.attention or ("sdpa",),
        options.precision or ("f32",),
    ):
        told = f"{model}, {exporter}, {attention}, {precision}"
        device = ["--platform", options.device or DEVICES[precision], "--precision", precision]
        try:
            worst = worst_error(options.kpusim, KINDS[model], exporter, attention, device)
        except RuntimeError as error:
            print(f"{told}: no export: {error}", flush=True)
            continue
        except StepError as error:
            print(f"{told}: {error}", flush=True)
            bad += 1
            continue
        compared += 1
        bad += tell(told, worst, BOUNDS[precision])
    if not compared:
        print("nothing was compared")
    if bad or not compared:
        sys.exit(1)


if __name__ == "__main__":
    main()
