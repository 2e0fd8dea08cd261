"""Operators of PyTorch that its ONNX exporter does not know, in terms of those that it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten


def hypot(a: Tensor, b: Tensor) -> Tensor:
    """Length of (a, b), without overflow on the way."""
    large, small = torch.maximum(a.abs(), b.abs()), torch.minimum(a.abs(), b.abs())
    ratio = torch.where(large > 0, small / torch.where(large > 0, large, torch.ones_like(large)), small)
    return large * torch.sqrt(1 + ratio * ratio)


def copysign(a: Tensor, b: Tensor) -> Tensor:
    """Return the size of a with the sign of b, -0 included."""
    negative = (b < 0) | ((b == 0) & (1 / b < 0))
    return torch.where(negative, -a.abs(), a.abs())


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second dimension, or the only one."""
    return torch.cat(tuple(torch.atleast_1d(part) for part in tensors), 0 if tensors[0].dim() < 2 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the first of at least two dimensions."""
    return torch.cat(tuple(torch.atleast_2d(part) for part in tensors), 0)


def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Put one number where a mask is true; other forms are left to the exporter."""
    mask = indices[0] if len(indices) == 1 else None
    if mask is None or mask.dtype is not torch.bool or values.numel() != 1 or accumulate:
        return NotImplemented
    mask = mask.reshape(*mask.shape, *(1 for _ in range(x.dim() - mask.dim())))
    return torch.where(mask, values.reshape(()), x)


def attention(
    x: Tensor,
    width: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    join_weight: Tensor,
    join_bias: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Tensor:
    """Self-attention of several heads; masks are true (or minus infinity) where nothing is attended to."""
    batch, length, _ = x.shape
    parts = functional.linear(x, weight, bias).reshape(batch, length, 3, heads, width // heads)
    query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask, float("-inf"))
    if mask is not None and mask_type == 1:  # one flag for each position
        mask = mask.reshape(batch, 1, 1, length)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return functional.linear(mixed.transpose(1, 2).reshape(batch, length, width), join_weight, join_bias)


def encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    join_weight: Tensor,
    join_bias: Tensor,
    gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm1_weight: Tensor,
    norm1_bias: Tensor,
    norm2_weight: Tensor,
    norm2_bias: Tensor,
    wide_weight: Tensor,
    wide_bias: Tensor,
    narrow_weight: Tensor,
    narrow_bias: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Return a layer of torch.nn.TransformerEncoder, which eager mode executes as one operator."""

    def norm1(value: Tensor) -> Tensor:
        return functional.layer_norm(value, (width,), norm1_weight, norm1_bias, epsilon)

    def norm2(value: Tensor) -> Tensor:
        return functional.layer_norm(value, (width,), norm2_weight, norm2_bias, epsilon)

    def mix(value: Tensor) -> Tensor:
        return attention(value, width, heads, weight, bias, join_weight, join_bias, mask, mask_type)

    def products(value: Tensor) -> Tensor:
        wide = functional.linear(value, wide_weight, wide_bias)
        wide = functional.gelu(wide) if gelu else torch.relu(wide)
        return functional.linear(wide, narrow_weight, narrow_bias)

    if norm_first:
        x = x + mix(norm1(x))
        return x + products(norm2(x))
    x = norm1(x + mix(x))
    return norm2(x + products(x))


def native_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    weight: Tensor,
    bias: Tensor,
    join_weight: Tensor,
    join_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """torch.nn.MultiheadAttention, which eager mode executes as one operator where it attends to itself."""
    del key, value  # the same as the query, else the operator is not used
    mixed = attention(query, width, heads, weight, bias, join_weight, join_bias, mask, mask_type)
    if not need_weights:
        return mixed, None
    batch, length, _ = query.shape
    parts = functional.linear(query, weight, bias).reshape(batch, length, 3, heads, width // heads)
    first, second, _ = parts.permute(2, 0, 3, 1, 4).unbind(0)
    scores = first @ second.transpose(-1, -2) / (width // heads) ** 0.5
    if mask is not None:
        far = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, float("-inf"))
        scores = scores + (far.reshape(batch, 1, 1, length) if mask_type == 1 else far)
    weights = scores.softmax(-1)
    return mixed, weights.mean(1) if average_attn_weights else weights


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.hypot.default: hypot,
    aten.copysign.Tensor: copysign,
    aten.hstack.default: hstack,
    aten.vstack.default: vstack,
    aten.index_put.default: index_put,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
    aten._native_multi_head_attention.default: native_attention,
}
