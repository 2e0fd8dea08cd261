"""Attention of decoders as transformers writes it, exported by torch.onnx, against ONNX Runtime.

usage: torch_decoders.py KPUSIM [--form NAME]... [--opset N]... [--rows N]... [--device NAME]

Forms: masks of numbers, of booleans, windows, caps, linear biases; caches that are concatenated or written
at positions; keys of groups repeated or left to the operator; rotary embeddings of a head or a part. Opset
17 is torch's older exporter. Prints the worst error of each, relative to the range; exit 1 above 1e-5.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn import functional

HEADS, GROUPS, SIZE, WIDTH, PAST, MOST = 4, 2, 8, 32, 6, 16
BOUND = 1e-5
LOW = float(torch.finfo(torch.float32).min)

Cached = tuple[Tensor, Tensor, Tensor]


def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [1, rows, size], computed in the model."""
    inverse = 1 / 100.0 ** (torch.arange(0, SIZE, 2).float() / SIZE)
    product = inverse[None, :, None].expand(positions.shape[0], -1, 1) @ positions[:, None, :].float()
    both = torch.cat((product.transpose(1, 2), product.transpose(1, 2)), -1)
    return both.cos(), both.sin()


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Halves of a head apart."""
    middle = x.shape[-1] // 2
    across = torch.cat((-x[..., middle:], x[..., :middle]), -1)
    return x * cosine.unsqueeze(1) + across * sine.unsqueeze(1)


def repeated(x: Tensor) -> Tensor:
    """Return each group's keys for all of its heads."""
    batch, groups, rows, size = x.shape
    wide = x[:, :, None].expand(batch, groups, HEADS // groups, rows, size)
    return wide.reshape(batch, HEADS, rows, size)


def sees(rows: int, keys: int) -> Tensor:
    """Keys up to the row's own, of which the last rows are the last keys."""
    return torch.arange(keys)[None] <= torch.arange(keys - rows, keys)[:, None]


class Projected(nn.Module):
    """Projections around an attention, and an RMS norm before it."""

    groups = GROUPS

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.k = nn.Linear(WIDTH, self.groups * SIZE, bias=False)
        self.v = nn.Linear(WIDTH, self.groups * SIZE, bias=False)
        self.o = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def heads(self, x: Tensor, positions: Tensor | None) -> Cached:
        """Queries, keys and values, turned if there are positions."""
        x = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        batch, rows, _ = x.shape
        q, k, v = (p(x).view(batch, rows, -1, SIZE).transpose(1, 2) for p in (self.q, self.k, self.v))
        if positions is None:
            return q, k, v
        cosine, sine = angles(positions)
        return turned(q, cosine, sine), turned(k, cosine, sine), v

    def out(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute what follows the heads."""
        batch, heads, rows, size = y.shape
        return x + self.o(y.transpose(1, 2).reshape(batch, rows, heads * size))


class Eager(Projected):
    """Numbers are added to scores; the softmax is in float32."""

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """With a cache that grows."""
        q, k, v = self.heads(x, positions)
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        rows, keys = q.shape[2], k.shape[2]
        hidden = torch.full((rows, keys), LOW).triu(keys - rows + 1)[None, None]
        hidden = hidden.expand(x.shape[0], 1, -1, -1).clone()
        hidden = hidden.masked_fill(mask[:, None, None, :] == 0, LOW)
        scores = q @ repeated(k).transpose(2, 3) / SIZE**0.5 + hidden
        weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.out(x, weights @ repeated(v)), k, v


class Scaled(Projected):
    """scaled_dot_product_attention with a boolean mask."""

    def forward(self, x: Tensor, mask: Tensor, positions: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """With a cache that grows."""
        q, k, v = self.heads(x, positions)
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        allowed = sees(q.shape[2], k.shape[2])[None, None] & (mask[:, None, None, :] != 0)
        attend = functional.scaled_dot_product_attention
        return self.out(x, attend(q, repeated(k), repeated(v), attn_mask=allowed)), k, v


class Static(Projected):
    """A cache of a fixed length, written where `at` says."""

    def forward(self, x: Tensor, at: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """Groups are left to the operator."""
        q, k, v = self.heads(x, at[None])
        k, v = past_k.index_copy(2, at, k), past_v.index_copy(2, at, v)
        allowed = (torch.arange(k.shape[2])[None] <= at[:, None])[None, None]
        attend = functional.scaled_dot_product_attention
        return self.out(x, attend(q, k, v, attn_mask=allowed, enable_gqa=True)), k, v


class Window(Projected):
    """A window of four keys, and a cap of scores."""

    def forward(self, x: Tensor, positions: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """Scores are filled with -infinity."""
        q, k, v = self.heads(x, positions)
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        rows, keys = q.shape[2], k.shape[2]
        scores = torch.tanh(q @ repeated(k).transpose(2, 3) * SIZE**-0.5 / 3) * 3
        near = torch.arange(keys)[None] > torch.arange(keys - rows, keys)[:, None] - 4
        scores = scores.masked_fill(~(sees(rows, keys) & near), -torch.inf)
        return self.out(x, functional.softmax(scores, -1) @ repeated(v)), k, v


class Linear(Projected):
    """Biases that fall with the distance, and no rotary embedding."""

    groups = HEADS

    def forward(self, x: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """The mask is in the bias."""
        q, k, v = self.heads(x, None)
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        keys = k.shape[2]
        slopes = 2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)
        bias = slopes[:, None, None] * (torch.arange(keys)[None, None] - (keys - 1))
        hidden = torch.where(sees(q.shape[2], keys), 0.0, -torch.inf)
        attend = functional.scaled_dot_product_attention
        return self.out(x, attend(q, k, v, attn_mask=bias[None] + hidden)), k, v


class Fused(nn.Module):
    """One projection for all three, half of a head turned, a feed-forward part beside the attention."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.o = nn.Linear(WIDTH, 3 * HEADS * SIZE), nn.Linear(HEADS * SIZE, WIDTH)
        self.before, self.beside = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, positions: Tensor, past_k: Tensor, past_v: Tensor) -> Cached:
        """The mask is a part of a table."""
        batch, rows, _ = x.shape
        heads = self.all(self.before(x)).view(batch, rows, HEADS, 3 * SIZE).transpose(1, 2)
        q, k, v = heads.chunk(3, -1)
        part = SIZE // 2
        cosine, sine = (a[..., :part] for a in angles(positions))
        q, k = (torch.cat((turned(y[..., :part], cosine, sine), y[..., part:]), -1) for y in (q, k))
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        keys = k.shape[2]
        allowed = torch.ones(MOST, MOST, dtype=torch.bool).tril()[keys - rows : keys, :keys]
        scores = torch.where(allowed, q @ k.transpose(2, 3) * SIZE**-0.5, LOW)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, rows, HEADS * SIZE)
        return x + self.o(y) + self.down(functional.gelu(self.up(self.beside(x)))), k, v


FORMS: dict[str, Callable[[], nn.Module]] = {
    form.__name__.lower(): form for form in (Eager, Scaled, Static, Window, Linear, Fused)
}


def inputs_of(form: str, rows: int) -> tuple[Tensor, ...]:
    """Make inputs of so many rows after a past."""
    x, positions = torch.randn(1, rows, WIDTH), torch.arange(PAST, PAST + rows)
    groups = HEADS if form in ("linear", "fused") else GROUPS
    cache = [torch.randn(1, groups, MOST if form == "static" else PAST, SIZE) for _ in range(2)]
    mask = torch.ones(1, PAST + rows, dtype=torch.int64)
    mask[0, 0] = 0
    between = {
        "eager": [mask, positions[None]],
        "scaled": [mask, positions[None]],
        "static": [positions],
        "linear": [],
    }
    return (x, *between.get(form, [positions[None]]), *cache)


def worst_error(kpusim: str, form: str, opset: int, rows: int, device: str) -> float:
    """Exports, runs, compares."""
    torch.manual_seed(rows)
    module, given = FORMS[form]().eval(), inputs_of(form, rows)
    with tempfile.TemporaryDirectory() as name:
        model, out = Path(name) / "model.onnx", Path(name) / "out"
        if opset < 18:
            torch.onnx.export(module, given, model, dynamo=False, opset_version=opset)
        else:
            made = torch.onnx.export(module, given, dynamo=True, opset_version=opset, verbose=False)
            made.save(model)
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        arrays = {i.name: t.numpy() for i, t in zip(session.get_inputs(), given, strict=True)}
        words = ["--platform", device, "--precision", "f32", "--quiet", "-o", str(out)]
        for number, (key, array) in enumerate(arrays.items()):
            np.save(Path(name) / f"{number}.npy", array)
            words += ["--input", f"{key}={Path(name) / f'{number}.npy'}"]
        done = subprocess.run([kpusim, "run", model, *words], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{form}, opset {opset}: {done.stderr}")
        worst = 0.0
        for output, wanted in zip(session.get_outputs(), session.run(None, arrays), strict=True):
            got = np.load(out / "outputs" / f"{quote(output.name, safe='')}.npy")
            worst = max(worst, float(np.abs(got - wanted).max() / np.abs(wanted).max()))
    return worst


def main() -> None:
    """Prints the worst error of each; exit code 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--form", action="append", choices=[*FORMS])
    parser.add_argument("--opset", action="append", type=int)
    parser.add_argument("--rows", action="append", type=int)
    parser.add_argument("--device", default="tile32")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    bad = 0
    every = options.form or FORMS, options.opset or (17, 18, 23, 24), options.rows or (1, 5)
    for form, opset, rows in itertools.product(*every):
        if form == "static" and opset == 17:
            continue  # the older exporter has no groups of keys
        worst = worst_error(options.kpusim, form, opset, rows, options.device)
        bad += worst > BOUND
        print(f"{form}, opset {opset}, {rows} rows: {worst:.2g} of the range", flush=True)
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
