"""Small models, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]  # fixes.py
CONFIGS = Path(__file__).parent / "configs"
#: A model of each way to build a layer, small enough for many runs.
TINY: dict[str, dict[str, Any]] = {
    "llama": {
        "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
    },
    "qwen3": {
        "model_type": "qwen3", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "vocab_size": 160,
    },
    "gemma2": {
        "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 160, "sliding_window": 8, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gpt_neox": {
        "model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 160, "rotary_pct": 0.25,
    },
    "olmo2": {
        "model_type": "olmo2", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 160,
    },
    "falcon": {"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
               "vocab_size": 160},
    "mixtral": {
        "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
        "num_local_experts": 4, "num_experts_per_tok": 2,
    },
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Write a small model's configuration, with other fields; None: without one."""

    def write(name: str, **changes: object) -> Path:
        tree = {**TINY[name], **changes}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({key: value for key, value in tree.items() if value is not None}))
        return path

    return write


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `kpusim llm`; its exit code must be `code`."""

    def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "kpusim.llm.command", *map(str, arguments)],
            capture_output=True, text=True, timeout=200, check=False, env=dict(os.environ),
        )  # fmt: skip
        assert result.returncode == code, f"exit {result.returncode}: {result.stdout}{result.stderr}"
        return result

    return run
