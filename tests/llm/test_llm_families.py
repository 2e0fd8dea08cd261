"""Contents of configurations: sizes of published models, kinds of layers, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CONFIGS, TINY
from kpusim.errors import UserError
from kpusim.llm.experts import Routing
from kpusim.llm.families import FAMILIES, read_model
from kpusim.llm.formats import Formats
from kpusim.llm.layers import Step
from kpusim.llm.work import graph_of, pieces_of

#: Parameters as the models' publishers count them, and those of them that are no weight of a product or norm
#: here: the table of embeddings where the head has weights of its own, and positions.
PUBLISHED = {
    "llama-3.2-1b": (1_235_814_400, 0),
    "smollm2-135m": (134_515_008, 0),
    "llama-3.1-8b": (8_030_261_248, 128256 * 4096),
    "llama-3.1-70b": (70_553_706_496, 128256 * 8192),
    "mistral-7b": (7_241_732_096, 32000 * 4096),
    "mixtral-8x7b": (46_702_792_704, 32000 * 4096),
    "qwen2.5-0.5b": (494_032_768, 0),
    "qwen3-0.6b": (596_049_920, 0),
    "gemma-2b": (2_506_172_416, 0),
    "gemma-2-2b": (2_614_341_888, 0),
    "gemma-3-1b": (999_885_952, 0),
    "phi-3-mini": (3_821_079_552, 32064 * 3072),
    "gpt2": (124_439_808, 1024 * 768),
    "pythia-160m": (162_322_944, 50304 * 768),
    "olmo-1b": (1_176_764_416, 0),
    "falcon-7b": (6_921_720_704, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name: str) -> None:
    """All weights of all pieces are the published number, but for the table."""
    model, step = (
        read_model(CONFIGS / f"{name}.json"),
        Step(1, 64, None),
    )  # so many that all experts are chosen
    counts = pieces_of(model, step, whole=False)
    formats, routing = Formats.of("fp16", None), Routing.of("uniform")
    weights = sum(
        graph_of(piece, model, formats, routing).weight_bytes * count for piece, count in counts.items()
    )
    total, table = PUBLISHED[name]
    assert weights / 2 == total - table


def test_every_family_has_a_model() -> None:
    """The tests' configurations use each known family."""
    used = {json.loads(path.read_text())["model_type"] for path in CONFIGS.glob("*.json")}
    assert set(FAMILIES) - used == {"gemma3"}  # which has pictures around gemma3_text


def test_kinds_of_layers() -> None:
    """Kinds of layers say which of them slide."""
    kinds = {
        layer.attention.window: n for layer, n in read_model(CONFIGS / "gemma-3-1b.json").kinds().items()
    }
    assert kinds == {512: 22, None: 4}
    kinds = {
        layer.attention.window: n for layer, n in read_model(CONFIGS / "gemma-2-2b.json").kinds().items()
    }
    assert kinds == {4096: 13, None: 13}
    assert [layer.attention.window for layer in read_model(CONFIGS / "gemma-3-1b.json").layers[:7]] == [
        *[512] * 5, None, 512
    ]  # fmt: skip


def test_layer_types(config: Callable[..., Path]) -> None:
    """They are as the configuration lists them, if it does."""
    path = config("gemma2", layer_types=["full_attention"] * 3 + ["sliding_attention"])
    assert [layer.attention.window for layer in read_model(path).layers] == [None, None, None, 8]


def test_windows_that_are_not_full_yet(config: Callable[..., Path]) -> None:
    """Layers that slide are as the others, until their window is full."""
    model = read_model(config("gemma2"))
    assert [len(pieces_of(model, Step(1, 1, n), whole=False)) for n in (7, 8)] == [2, 3]  # with the head


def test_folder_and_inner_configuration(tmp_path: Path) -> None:
    """A folder with config.json, and a text model beside one for pictures."""
    inner = json.loads((CONFIGS / "gemma-3-1b.json").read_text())
    folder = tmp_path / "gemma"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": inner}))
    model = read_model(folder)
    assert (model.name, model.family, len(model.layers)) == ("gemma", "gemma3_text", 26)
    assert any("pictures" in remark for remark in model.remarks)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("llama", {"model_type": "mamba"}, "`model_type` is 'mamba', which is not modelled. Fix: "),
        ("llama", {"model_type": None}, "`model_type` is missing. Fix: give one of llama"),
        ("llama", {"hidden_act": "sine"}, "`hidden_act` is 'sine', which is not modelled. Fix: "),
        ("llama", {"hidden_size": None}, "`hidden_size` is missing. Fix: "),
        ("llama", {"hidden_size": -1}, "`hidden_size` is -1. Fix: give an integer from 1"),
        ("llama", {"hidden_size": 2**40}, "`hidden_size` is 1099511627776. Fix: "),
        ("llama", {"num_key_value_heads": 3}, "`num_key_value_heads` is 3, for 4 heads. Fix: "),
        ("llama", {"attention_bias": 1}, "`attention_bias` is 1. Fix: give true or false"),
        ("llama", {"quantization_config": {"bits": 4}}, "`quantization_config` is {'bits': 4}, which is not"),
        ("llama", {"rope_scaling": {"rope_type": "spiral"}}, "`rope_type` is 'spiral', which is not"),
        ("gemma2", {"layer_types": ["linear_attention"] * 4}, "`layer_types` has 'linear_attention'"),
        ("gemma2", {"layer_types": ["full_attention"]}, "`layer_types` has not 4 entries"),
        ("gemma2", {"sliding_window": None}, "`sliding_window` is missing"),
        ("gpt_neox", {"rotary_pct": 2}, "`rotary_pct` is 2. Fix: give a number from 0 to 1"),
        ("falcon", {"alibi": True}, "`alibi` is True, which is not modelled. Fix: "),
        ("mixtral", {"num_experts_per_tok": 5}, "`num_experts_per_tok` is 5, of 4. Fix: "),
    ],
)  # fmt: skip
def test_refused(config: Callable[..., Path], name: str, changes: dict[str, object], said: str) -> None:
    """Features that are not modelled are named, with their file and a fix."""
    with pytest.raises(UserError) as found:
        read_model(config(name, **changes))
    assert f"{name}.json: " in str(found.value) and said in str(found.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, '{"model_type": 3}'])
def test_no_configuration(tmp_path: Path, text: str) -> None:
    """Files that are none."""
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"Fix: "):
        read_model(path)
    with pytest.raises(UserError, match=r"No such file or directory\. Fix: "):
        read_model(tmp_path / "none.json")


def test_configurations_are_small_enough() -> None:
    """Configurations of the tests stay what they are for: many runs."""
    assert all(tree.get("hidden_size", 0) <= 64 for tree in TINY.values())
