"""Layers with random sizes."""

from __future__ import annotations

import torch
from random_base import Case, Rng
from torch import Tensor, nn
from torch.nn import functional


def conv2d(r: Rng) -> Case:
    groups = r.of(1, 1, 2)
    cin, cout = groups * r.int(1, 4), groups * r.int(1, 4)
    layer = nn.Conv2d(cin, cout, (r.int(1, 3), r.int(1, 3)), r.int(1, 2), r.int(0, 1), r.int(1, 2), groups,
                      bias=r.of(True, False))  # fmt: skip
    return layer, (r.image(cin),)


def depthwise(r: Rng) -> Case:
    c = r.int(2, 8)
    return nn.Sequential(nn.Conv2d(c, c, 3, padding=1, groups=c), nn.BatchNorm2d(c), nn.ReLU6()), (
        r.image(c),
    )


def conv1d(r: Rng) -> Case:
    c = r.int(1, 5)
    return nn.Conv1d(c, r.int(1, 6), r.int(1, 4), r.int(1, 2), padding=r.int(0, 2)), (
        r.tensor(2, c, r.int(6, 15)),
    )


def conv3d(r: Rng) -> Case:
    return nn.Conv3d(2, r.int(1, 4), r.int(1, 3), padding=r.int(0, 1)), (r.tensor(1, 2, 4, 5, r.int(4, 6)),)


def conv_transpose(r: Rng) -> Case:
    c = r.int(1, 5)
    return nn.ConvTranspose2d(c, r.int(1, 4), r.int(2, 4), 2, padding=r.int(0, 1)), (r.image(c),)


def conv_modes(r: Rng) -> Case:
    c = r.int(1, 4)
    return nn.Conv2d(c, 3, 3, padding=1, padding_mode=r.of("reflect", "replicate", "circular")), (r.image(c),)


def conv_bn_act(r: Rng) -> Case:
    c, o = r.int(1, 6), r.int(1, 8)
    act = r.of(nn.ReLU(), nn.SiLU(), nn.Hardswish(), nn.LeakyReLU(0.1), nn.GELU(), nn.Mish())
    model = nn.Sequential(nn.Conv2d(c, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), act)
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    return model, (r.image(c),)


def residual(r: Rng) -> Case:
    c = r.int(2, 8)

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.b(torch.relu(self.a(x))) + x)

    return Residual(), (r.image(c),)


def pools(r: Rng) -> Case:
    kernel = r.int(2, 3)
    layer = r.of(
        nn.MaxPool2d(kernel, r.int(1, 2), padding=r.int(0, 1), ceil_mode=r.of(True, False)),
        nn.AvgPool2d(kernel, r.int(1, 2), padding=r.int(0, 1), count_include_pad=r.of(True, False)),
        nn.AdaptiveAvgPool2d(1),
        nn.LPPool2d(2, kernel),
    )
    return layer, (r.image(),)


def adaptive(r: Rng) -> Case:
    size = r.int(1, 3)
    image = r.tensor(1, 4, 2 * size, 3 * size)
    return r.of(nn.AdaptiveAvgPool2d(size), nn.AdaptiveMaxPool2d(size)), (image,)


def pool1d(r: Rng) -> Case:
    return r.of(nn.MaxPool1d(2), nn.AvgPool1d(3, 2)), (r.tensor(2, 3, r.int(6, 11)),)


def linear(r: Rng) -> Case:
    n = r.int(1, 12)
    return nn.Linear(n, r.int(1, 12), bias=r.of(True, False)), (r.tensor(*r.shape(1, 3), n),)


def mlp(r: Rng) -> Case:
    n, m = r.int(2, 12), r.int(2, 16)
    act = r.of(nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.ELU(), nn.SELU(), nn.Softplus())
    model = nn.Sequential(nn.Linear(n, m), act, nn.Dropout(0.3), nn.Linear(m, r.int(1, 5)), nn.Softmax(-1))
    return model, (r.tensor(r.int(1, 5), n),)


def bilinear(r: Rng) -> Case:
    return nn.Bilinear(3, 4, r.int(1, 5)), (r.tensor(5, 3), r.tensor(5, 4))


ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.SiLU, nn.GELU, nn.Mish, nn.ELU, nn.SELU, nn.CELU, nn.Softplus, nn.Softsign,
    nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.LeakyReLU, nn.LogSigmoid, nn.Tanhshrink, nn.Softshrink,
    nn.Hardshrink, nn.Sigmoid, nn.Tanh, nn.PReLU, nn.Identity,
)  # fmt: skip


def activation(r: Rng) -> Case:
    return r.of(*ACTIVATIONS)(), (r.tensor(*r.shape()),)


def glu(r: Rng) -> Case:
    return nn.GLU(-1), (r.tensor(3, 2 * r.int(1, 6)),)


def norms(r: Rng) -> Case:
    c = 2 * r.int(1, 4)
    layer = r.of(
        nn.GroupNorm(2, c), nn.InstanceNorm2d(c, affine=True), nn.BatchNorm2d(c), nn.LocalResponseNorm(3),
        nn.GroupNorm(c, c, affine=False),
    )  # fmt: skip
    return layer, (r.image(c),)


def layer_norm(r: Rng) -> Case:
    x = r.tensor(*r.shape(2, 4, 6))
    count = r.int(1, x.dim() - 1)
    layer = nn.LayerNorm(x.shape[-count:], elementwise_affine=r.of(True, False))
    return r.of(layer, nn.RMSNorm(x.shape[-1:])), (x,)


def embedding(r: Rng) -> Case:
    words = r.int(3, 20)
    model = nn.Sequential(nn.Embedding(words, 8), nn.LayerNorm(8), nn.Linear(8, r.int(1, 6)))
    return model, (r.tokens(words),)


def positions(r: Rng) -> Case:
    words = r.int(3, 20)

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, 6), nn.Embedding(16, 6)

        def forward(self, tokens: Tensor) -> Tensor:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            return self.words(tokens) + self.places(places)

    return Positions(), (r.tokens(words),)


def unfold_image(r: Rng) -> Case:
    return nn.Unfold(r.int(2, 3), padding=r.int(0, 1), stride=r.int(1, 2)), (r.image(r.int(1, 3)),)


def pads(r: Rng) -> Case:
    mode = r.of("constant", "reflect", "replicate", "circular")
    amounts = [r.int(0, 2) for _ in range(4)]
    return lambda x: functional.pad(x, amounts, mode=mode), (r.image(),)


def resize(r: Rng) -> Case:
    mode = r.of("nearest", "bilinear", "bicubic", "nearest-exact", "area")
    extra = {"align_corners": r.of(True, False)} if mode in ("bilinear", "bicubic") else {}
    size = {"scale_factor": 2} if r.int(0, 1) or mode == "area" else {"size": (r.int(4, 9), r.int(4, 9))}
    return lambda x: functional.interpolate(x, mode=mode, **size, **extra), (r.image(),)


def shuffles(r: Rng) -> Case:
    layer = r.of(nn.PixelShuffle(2), nn.ChannelShuffle(2), nn.PixelUnshuffle(2))
    return layer, (r.tensor(1, 8, 4, 6),)


def weight_norm(r: Rng) -> Case:
    n = r.int(2, 6)
    layer = r.of(nn.Linear(n, 4), nn.Conv1d(n, 3, 1))
    x = r.tensor(3, n) if isinstance(layer, nn.Linear) else r.tensor(2, n, 5)
    return nn.utils.parametrizations.weight_norm(layer), (x,)


def recurrent(r: Rng) -> Case:
    kind = r.of(nn.LSTM, nn.GRU, nn.RNN)
    n, m = r.int(1, 5), r.int(1, 6)
    layer = kind(n, m, num_layers=r.int(1, 2), batch_first=r.of(True, False), bidirectional=r.of(True, False))
    return layer, (r.tensor(2, 3, n),)


def cell(r: Rng) -> Case:
    return r.of(nn.LSTMCell(3, 4), nn.GRUCell(3, 4), nn.RNNCell(3, 4)), (r.tensor(2, 3),)


def attention(r: Rng) -> Case:
    heads, width = r.int(1, 3), 2 * r.int(1, 4)
    causal = r.of(True, False)
    q, k, v = (r.tensor(1, heads, 5, width) for _ in range(3))
    return lambda a, b, c: functional.scaled_dot_product_attention(a, b, c, is_causal=causal), (q, k, v)


def masked_attention(r: Rng) -> Case:
    q, k, v = (r.tensor(1, 2, 4, 6) for _ in range(3))
    mask = r.of(torch.rand(4, 4) > 0.3, r.tensor(4, 4))
    if mask.dtype is torch.bool:
        mask[:, 0] = True
    return lambda a, b, c, m: functional.scaled_dot_product_attention(a, b, c, attn_mask=m), (q, k, v, mask)


def multihead(r: Rng) -> Case:
    layer, weights = nn.MultiheadAttention(8, r.of(1, 2, 4), batch_first=True), r.of(True, False)

    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, x, x, need_weights=weights)[0]

    return SelfAttention(), (r.tensor(2, r.int(2, 6), 8),)


def encoder(r: Rng) -> Case:
    kind, first = r.of("relu", "gelu"), r.of(True, False)
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=kind, norm_first=first, batch_first=True)
    return r.of(layer, nn.TransformerEncoder(layer, 2)), (r.tensor(1, r.int(2, 6), 8),)


def rotary(r: Rng) -> Case:
    def rotate(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)

    return rotate, (r.tensor(2, r.int(2, 6), 8),)


def squeeze_excite(r: Rng) -> Case:
    c = r.int(2, 6)
    factors = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 2, 1), nn.ReLU(), nn.Conv2d(2, c, 1), nn.Sigmoid()
    )

    class Excite(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factors = factors

        def forward(self, x: Tensor) -> Tensor:
            return x * self.factors(x)

    return Excite(), (r.image(c),)
