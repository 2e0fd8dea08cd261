"""Results of layers, with weights put in: a step gives what the prompt gives, and what NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from kpusim.llm.architecture import Model
from kpusim.llm.experts import Routing
from kpusim.llm.families import read_model
from kpusim.llm.formats import Formats
from kpusim.llm.layers import Step
from kpusim.llm.work import Piece, graph_of
from onnx import numpy_helper

Array = npt.NDArray[np.float32]
F32 = Formats.of("f32", None)
UNIFORM = Routing.of("uniform")


def weights(name: str, shape: tuple[int, ...], first: int, window: int | None) -> Array:
    """Return a constant of a layer: the same for each length, rotations and masks as positions have them."""
    kind = name.rsplit(".", 1)[-1].split("_")[0]
    if kind in ("cosines", "sines"):
        half = shape[2] // 2
        angles = (first + np.arange(shape[0]))[:, None] * 0.7 ** np.arange(half)
        turned = np.cos(angles) if kind == "cosines" else np.sin(angles)
        return np.concatenate([turned, turned], 1)[:, None].astype(np.float32)
    if name.startswith("mask"):  # the last row of a block is the last key that it sees
        back = np.arange(shape[0])[:, None] + shape[1] - shape[0] - np.arange(shape[1])
        seen = (back >= 0) & (back < (window or 1 << 30))
        return np.where(seen, 0, -3e38).astype(np.float32)
    random = np.random.default_rng(sum(name.encode()))
    return (random.standard_normal(shape) / shape[0] ** 0.5 + (len(shape) == 1)).astype(np.float32)


def outputs(
    model: Model,
    piece: Piece,
    folder: Path,
    inputs: dict[str, npt.NDArray[np.generic]],
    first: int = 0,
    within: tuple[str, ...] = (),
) -> dict[str, Array]:
    """Return what ONNX Runtime computes of a piece that begins at a position, and values within it."""
    path = folder / "piece.onnx"
    graph_of(piece, model, F32, UNIFORM).save(path)
    made = onnx.load(path, load_external_data=False)
    window = piece.layer.attention.window if piece.layer else None
    for tensor in made.graph.initializer:
        if tensor.external_data:
            values = weights(tensor.name, tuple(tensor.dims), first, window)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in within)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("queries", [5, 256])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "gpt_neox", "olmo2", "falcon"])
def test_step_follows_prompt(
    config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, queries: int
) -> None:
    """The last row of a prompt is the step after the others, with their keys and values as the cache."""
    monkeypatch.setattr("kpusim.llm.layers.QUERIES", queries)
    model = read_model(config(name))
    batch, tokens = 2, 13
    x = np.random.default_rng(1).standard_normal((batch * tokens, model.hidden)).astype(np.float32)
    for layer in model.kinds():
        prompt = outputs(model, Piece(Step(batch, tokens, None), layer), tmp_path, {"x": x})
        last = x.reshape(batch, tokens, -1)[:, -1]
        seen = layer.attention.cached(tokens - 1)
        cache = {f"past_{n}": prompt[f"new_{n}"][:, :, tokens - 1 - seen : tokens - 1] for n in "kv"}
        step = Piece(Step(batch, 1, tokens - 1), layer)
        found = outputs(model, step, tmp_path, {"x": last, **cache}, first=tokens - 1)
        expected = prompt["y"].reshape(batch, tokens, -1)[:, -1]
        np.testing.assert_allclose(found["y"], expected, rtol=2e-4, atol=2e-4)
        for n in "kv":
            np.testing.assert_allclose(found[f"new_{n}"], prompt[f"new_{n}"][:, :, -1:], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("queries", [4, 256])
def test_llama_layer(
    config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    """A layer of Llama is what NumPy makes of its definition, head by head."""
    monkeypatch.setattr("kpusim.llm.layers.QUERIES", queries)
    model = read_model(config("llama"))
    layer, tokens = model.layers[0], 9
    x = np.random.default_rng(2).standard_normal((tokens, 64)).astype(np.float32)
    found = outputs(model, Piece(Step(1, tokens, None), layer), tmp_path, {"x": x})["y"]

    def weight(name: str, *shape: int) -> Array:
        return weights(f"{name}.weight", shape, 0, None)

    def norm(v: Array, name: str) -> Array:
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5) * weight(name, 64)

    def turned(v: Array) -> Array:
        angles = np.arange(tokens)[:, None] * 0.7 ** np.arange(8)
        a, b = v[:, :8], v[:, 8:]
        return np.concatenate(
            [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], 1
        )

    a = norm(x, "norm1")
    q, k, v = a @ weight("q", 64, 64), a @ weight("k", 64, 32), a @ weight("v", 64, 32)
    heads = []
    for head in range(4):
        of = head // 2 * 16
        scores = turned(q[:, head * 16 : head * 16 + 16]) @ turned(k[:, of : of + 16]).T / 4
        scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
        exps = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(exps / exps.sum(-1, keepdims=True) @ v[:, of : of + 16])
    x = x + np.concatenate(heads, 1) @ weight("o", 64, 64)
    b = norm(x, "norm2")
    gate = b @ weight("gate", 64, 96)
    expected = x + (gate / (1 + np.exp(-gate)) * (b @ weight("up", 64, 96))) @ weight("down", 96, 64)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_head_sees_last_tokens(config: Callable[..., Path], tmp_path: Path) -> None:
    """All in one program: its head takes the last row of each sequence."""
    model = read_model(config("llama"))
    x = np.random.default_rng(3).standard_normal((2 * 5, 64)).astype(np.float32)
    whole = outputs(model, Piece(Step(2, 5, None), whole=True), tmp_path, {"x": x})
    assert whole["logits"].shape == (2, 160)
    changed = x.copy()
    changed[5:9] += (
        1  # the first tokens of the second sequence: its last one sees them, the first sequence not
    )
    other = outputs(model, Piece(Step(2, 5, None), whole=True), tmp_path, {"x": changed})
    np.testing.assert_array_equal(whole["logits"][0], other["logits"][0])
    assert np.abs(whole["logits"][1] - other["logits"][1]).max() > 1e-3


def test_mixture(config: Callable[..., Path], tmp_path: Path) -> None:
    """A layer of experts is the sum of what each token chose, in proportion to its gates."""
    model = read_model(config("mixtral"))
    layer, tokens = model.layers[0], 6
    counts = UNIFORM.rows(4, 2, tokens)
    assert sum(counts) == 2 * tokens
    # any choice that gives each expert its rows: the experts of tokens, one after the other
    chosen = np.resize(np.repeat(np.arange(4), counts), 2 * tokens).reshape(2, tokens).T
    order = np.argsort(chosen.reshape(-1), kind="stable")
    x = np.random.default_rng(4).standard_normal((tokens, 64)).astype(np.float32)
    inputs = {"x": x, "rows": (order // 2).astype(np.int32), "places": np.argsort(order).astype(np.int32)}
    piece = Piece(Step(1, tokens, None), layer)
    found = outputs(model, piece, tmp_path, inputs, within=("residual1",))

    def weight(name: str, *shape: int) -> Array:
        return weights(f"{name}.weight", shape, 0, None)

    def feed(b: Array, name: str) -> Array:
        gate = b @ weight(f"{name}gate", 64, 96)
        return (gate / (1 + np.exp(-gate)) * (b @ weight(f"{name}up", 64, 96))) @ weight(
            f"{name}down", 96, 64
        )

    residual = found["residual1"]
    b = residual / np.sqrt((residual**2).mean(-1, keepdims=True) + 1e-5) * weight("norm2", 64)
    top = np.sort(b @ weight("router", 64, 4), axis=1)[:, :1:-1]
    gates = np.exp(top - top.max(1, keepdims=True))
    gates /= gates.sum(1, keepdims=True)
    expected = residual.copy()
    for token in range(tokens):
        for choice in range(2):
            expert = f"expert{chosen[token, choice]}."
            expected[token] += gates[token, choice] * feed(b[token], expert)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-4)
