"""Layers added up, beside all of them in one program: the table of docs/language_models.md.

usage: whole.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kpusim.llm import estimate
from kpusim.llm.families import read_model

CONFIGS = Path(__file__).parent / "configs"
#: Model, layers that are kept of it, device, types of weights and cache.
CASES = (
    ("llama-3.2-1b", 4, "npm_pro", "int4", "int8"),
    ("llama-3.2-1b", 4, "npm_lite", "fp16", "fp16"),
    ("gemma-3-1b", 6, "npm_mid", "int8", "int8"),
    ("gpt2", 12, "swkpu-v1", "fp16", "fp16"),
    ("qwen3-0.6b", 4, "core128-hbm2", "int8", "fp16"),
)


def main() -> None:
    """Print the table."""
    print("| model | device | types | prompt of 64 | token after 1,024 |\n|---|---|---|---|---|")
    for name, layers, platform, precision, kv in CASES:
        model = read_model(CONFIGS / f"{name}.json")
        cut = replace(model, layers=model.layers[:layers], vocabulary=8192)
        cells = []
        rows = [
            estimate(cut, platform, prompt=[64], precision=precision, kv=kv, whole=whole, effort="1").rows
            for whole in (False, True)
        ]
        for one, all_of_it in zip(*rows, strict=True):
            cells.append(f"{one.time_us / all_of_it.time_us - 1:+.1%}")
        what = f"{name}, {layers} layers | {platform} | {precision}, {kv}"
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
