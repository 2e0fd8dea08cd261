"""Layers that are added up, against all of them in one program; experts; where bytes go."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kpusim.errors import UserError
from kpusim.llm.composing import Estimate, estimate
from kpusim.llm.experts import Routing
from kpusim.llm.report import text_of

#: Share of the time: what the page says of the largest difference.
MOST = 0.12


def found(config: Path, **more: object) -> Estimate:
    """Return an estimate on a small device, at the compiler's first effort."""
    given = {"platform": "npm_lite", "prompt": [24], "context": [200], "batch": [2], "effort": "1", **more}
    return estimate(config, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "precision", "kv"),
    [("llama", "fp16", None), ("gemma2", "int8", "int8"), ("gpt_neox", "fp16", "int8")],
)
def test_sum_is_near_the_whole(
    config: Callable[..., Path], name: str, precision: str, kv: str | None
) -> None:
    """The sum is near the whole for models whose layers are long beside what a program takes to begin."""
    path = config(
        name, hidden_size=512, intermediate_size=1024, vocab_size=2048, sliding_window=64, head_dim=64
    )
    options = {"precision": precision, "kv": kv}
    composed, whole = found(path, **options), found(path, whole=True, **options)
    for one, other in zip(composed.rows, whole.rows, strict=True):
        assert abs(one.time_us / other.time_us - 1) < MOST, (one.phase, one.cycles, other.cycles)
        assert one.compulsory_bytes == other.compulsory_bytes and set(one.parts) == set(other.parts)
        assert sum(one.parts.values()) == sum(one.bounds.values()) == one.cycles
        assert sum(other.parts.values()) == other.cycles


def test_bytes(config: Callable[..., Path]) -> None:
    """Compulsory bytes by hand, and moved ones not far above them: nothing is copied, and no key repeated."""
    path = config("llama", hidden_size=512, intermediate_size=1024, vocab_size=2048)
    rows = found(path, precision="fp16", context=[1000], prompt=[16]).rows
    heads, size = 2, 512 // 4  # of keys and values
    layer = 512 * (512 * 2 + 2 * heads * size) + 3 * 512 * 1024 + 2 * 512
    weights = 3 * layer + 512 * 2048 + 512
    prompt, token = rows
    assert token.compulsory_bytes == 2 * (weights + 3 * 2 * 2 * heads * size * (1000 + 1))
    assert prompt.compulsory_bytes == 2 * (weights + 3 * 2 * 2 * heads * size * 16)
    assert 1 <= token.dram_bytes / token.compulsory_bytes < 1.05
    assert 1 <= prompt.dram_bytes / prompt.compulsory_bytes < 1.1
    bandwidth = 4 * 6.4  # GB/s: 4 bytes at 6,400 MT/s
    assert token.least_us == pytest.approx(token.compulsory_bytes / bandwidth / 1e3, rel=0.01)
    assert token.least_us < token.time_us and prompt.least_us < prompt.time_us


def test_what_does_not_fit(config: Callable[..., Path]) -> None:
    """All weights, of each expert, and the cache; the report says what DRAM cannot hold."""
    path = config("mixtral", hidden_size=256, intermediate_size=512, num_local_experts=8)
    sizes = {"precision": "fp16", "context": [64, 3000], "prompt": [], "sets": {"ddr.size_bytes": 1 << 24}}
    small, large = (estimated := found(path, **sizes)).rows
    layer = 256 * (2 * 256 + 2 * 128) + 8 * 3 * 256 * 512 + 8 * 256 + 2 * 256
    weights = 2 * (2 * layer + 160 * 256 + 256)
    assert small.resident_bytes == weights + 2 * (2 * 2 * 2 * 64 * 65) * 2
    assert large.resident_bytes == weights + 2 * (2 * 2 * 2 * 64 * 3001) * 2
    text = text_of(estimated)
    assert "what does not fit into DRAM of 16.0 MiB" in text
    assert text.count("weights and cache take") == 1 and small.resident_bytes < 1 << 24 < large.resident_bytes


def test_what_moves_it(config: Callable[..., Path]) -> None:
    """Weights and cache of fewer bits are faster, a faster DRAM too; a batch shares the weights."""
    path = config("llama", hidden_size=512, intermediate_size=1024, vocab_size=2048)
    one = {"context": [2000], "prompt": [], "batch": [1], "platform": "npm_mid"}
    times = {
        name: found(path, **{**one, **more}).rows[0].time_us
        for name, more in {
            "fp16": {"precision": "fp16"}, "int8": {"precision": "int8"}, "int4": {"precision": "int4"},
            "int4 int8": {"precision": "int4", "kv": "int8"},
            "channels": {"precision": "int4", "kv": "int8", "sets": {"ddr.channels": 4}},
        }.items()
    }  # fmt: skip
    assert times["fp16"] > times["int8"] > times["int4"] > times["int4 int8"] > times["channels"]
    batch = found(path, **{**one, "batch": [4], "precision": "int4", "kv": "int8"}).rows[0]
    assert batch.time_us < 4 * times["int4 int8"]


def test_only_chosen_experts_move(config: Callable[..., Path]) -> None:
    """A token reads the experts that it takes, many tokens read all; a skew leaves some out."""
    path = config("mixtral", hidden_size=256, intermediate_size=512, num_local_experts=8)
    sizes = {"precision": "fp16", "context": [64], "prompt": [4, 64], "batch": [1]}
    prompt, long, token = found(path, **sizes).rows
    expert = 2 * 2 * 3 * 256 * 512  # of both layers
    assert token.weight_bytes == pytest.approx(long.weight_bytes - 6 * expert)
    chosen = round(8 * (1 - (1 - 2 / 8) ** 4))
    assert prompt.weight_bytes == pytest.approx(long.weight_bytes - (8 - chosen) * expert)
    assert token.dram_bytes < token.compulsory_bytes * 1.1
    skewed = found(path, routing="skewed:2", **sizes)
    assert skewed.rows[0].weight_bytes < prompt.weight_bytes and any(
        "skewed:2" in note for note in skewed.notes
    )


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.5])
def test_expected_experts(skew: float) -> None:
    """Experts are as many as when tokens draw, without putting back, in proportion to the shares."""
    random, experts, chosen, tokens = np.random.default_rng(7), 16, 4, 6
    keys = np.log(random.random((3000, tokens, experts))) * (np.arange(experts) + 1.0) ** skew
    drawn = np.argsort(-keys, axis=2)[:, :, :chosen]
    distinct = np.mean([len(np.unique(trial)) for trial in drawn])
    rows = Routing(skew).rows(experts, chosen, tokens)
    assert sum(rows) == chosen * tokens and min(rows) >= 1 and rows == sorted(rows, reverse=True)
    assert abs(len(rows) - distinct) < 0.75
    shares = Routing(skew).shares(experts, chosen)
    often = np.bincount(drawn.reshape(-1), minlength=experts) / drawn.shape[0] / tokens
    np.testing.assert_allclose(shares, often, atol=0.03)
    assert math.isclose(sum(shares), chosen, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"precision": "int3"},
            "precision `int3` is not valid. Fix: give one of f32, fp16, bf16, int8, int4",
        ),
        (
            {"precision": "bf16", "kv": "fp16"},
            "a cache of fp16 with weights of bf16 is not valid. Fix: make it int8 or bf16",
        ),
        ({"routing": "skewed:x"}, "routing `skewed:x` is not valid. Fix: uniform, or skewed:S"),
        ({"routing": "random"}, "routing `random` is not valid. Fix: "),
        ({"prompt": [], "context": []}, "neither a prompt nor a context. Fix: "),
        ({"context": [1 << 21]}, "context 2097152 is more than 1048576. Fix: "),
        ({"precision": "int4"}, "have no int4 products. Fix: "),
    ],
)
def test_refused(config: Callable[..., Path], more: dict[str, object], said: str) -> None:
    """Unknown things are refused; in the compiler's own words where it refuses."""
    with pytest.raises(UserError) as error:
        found(config("llama"), **more)
    assert said in str(error.value) and "/tmp" not in str(error.value)
