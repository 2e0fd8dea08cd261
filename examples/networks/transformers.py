"""Transformers: BERT-base and one layer of it, a block of GPT-2 small and a step of decoding, ViT-tiny."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Scaled dot-product attention with several heads."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attention of each position to all, or to those before it."""
        batch, length, width = x.shape
        parts = self.project(x).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.join(mixed.transpose(1, 2).reshape(batch, length, width))

    def step(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attention of one new position to itself and those before it; the cache with it.

        The cache is [batch, heads, positions, width / heads].
        """
        batch, length, width = x.shape
        parts = self.project(x).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        keys, values = torch.cat((keys, key), 2), torch.cat((values, value), 2)
        mixed = functional.scaled_dot_product_attention(query, keys, values)
        return self.join(mixed.transpose(1, 2).reshape(batch, length, width)), keys, values


class Block(nn.Module):
    """Attention and two products with a shortcut each; norms before them, or after as in BERT."""

    def __init__(self, width: int, heads: int, gelu: str, causal: bool = False, before: bool = True) -> None:
        super().__init__()
        self.before = before
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.products = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate=gelu), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block on [batch, length, width]."""
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self.products(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.products(x))


class Gpt2(nn.Module):
    """Embeddings, blocks, and the logits of the next token."""

    def __init__(self, words: int, positions: int, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(Block(width, heads, "tanh", causal=True) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, words] of tokens int64[batch, length]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.blocks(self.words(tokens) + self.positions(places)))
        return x @ self.words.weight.T


class Gpt2Step(Gpt2):
    """One step of decoding with one block: a token, and the cache of those before it."""

    def forward(self, token: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [batch, 1, words] of token int64[batch, 1], and the cache with it."""
        x = self.words(token) + self.positions.weight[keys.shape[2]]
        block = self.blocks[0]
        mixed, keys, values = block.attention.step(block.norm1(x), keys, values)
        x = x + mixed
        x = x + block.products(block.norm2(x))
        return self.norm(x) @ self.words.weight.T, keys, values


class Vit(nn.Module):
    """Patches of a picture as a sequence, after a class token."""

    def __init__(self, size: int, patch: int, width: int, heads: int, blocks: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, "none") for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of pictures [batch, 3, size, size]."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.classify(self.norm(self.blocks(x))[:, 0])


def bert_layer() -> nn.Module:
    """Return one layer of BERT-base: width 768, 12 heads; 7.1 M parameters."""
    return Block(768, 12, "none", before=False)


def bert_base() -> nn.Module:
    """Return the twelve layers of BERT-base, without embeddings; 85 M parameters."""
    return nn.Sequential(*(bert_layer() for _ in range(12)))


def gpt2_block() -> nn.Module:
    """GPT-2 small with one block of its twelve, and 1,000 of its words."""
    return Gpt2(1000, 1024, 768, 12, 1)


def gpt2_decode() -> nn.Module:
    """Return the same network, one token at a time."""
    return Gpt2Step(1000, 1024, 768, 12, 1)


def vit_tiny(classes: int = 1000) -> nn.Module:
    """ViT-tiny, patches of 16x16: 5.7 M parameters, 1.1 G MACs."""
    return Vit(224, 16, 192, 3, 12, classes)
