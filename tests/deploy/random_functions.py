"""Functional calls on random shapes."""

from __future__ import annotations

import math

import torch
from random_base import Case, Rng
from torch import Tensor
from torch.nn import functional

UNARY = (
    torch.abs, torch.neg, torch.exp, torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.erf, torch.floor,
    torch.ceil, torch.round, torch.sign, torch.square, torch.atan, torch.sinh, torch.cosh, torch.expm1,
    torch.trunc, torch.frac, torch.relu, torch.asinh, torch.isnan, torch.isfinite, torch.exp2, torch.tan,
)  # fmt: skip


def unary(r: Rng) -> Case:
    function = r.of(*UNARY)
    return lambda x: function(x), (r.tensor(*r.shape()),)


def positive(r: Rng) -> Case:
    function = r.of(
        torch.log, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.log1p, torch.log2, torch.log10
    )
    return lambda x: function(x.abs() + 0.1), (r.tensor(*r.shape()),)


BINARY = (
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.eq, torch.ne, torch.lt, torch.le,
    torch.gt, torch.ge, torch.atan2, torch.fmax, torch.fmin, torch.hypot, torch.copysign,
)  # fmt: skip


def binary(r: Rng) -> Case:
    function, shape = r.of(*BINARY), r.shape(1, 4)
    other = tuple(size if r.int(0, 1) else 1 for size in shape)[r.int(0, len(shape) - 1) :]
    return lambda a, b: function(a, b), (r.tensor(*shape), r.tensor(*other))


def division(r: Rng) -> Case:
    mode = r.of(None, "floor", "trunc")
    return lambda a, b: torch.div(a, b.abs() + 0.5, rounding_mode=mode), (r.tensor(3, 5), r.tensor(3, 5))


def remainder(r: Rng) -> Case:
    function = r.of(torch.remainder, torch.fmod)
    return lambda a, b: function(a * 5, b.abs() + 0.5), (r.tensor(4, 5), r.tensor(5))


def power(r: Rng) -> Case:
    exponent = r.of(2, 3, 0.5, -1, 1.7)
    return lambda x: (x.abs() + 0.2) ** exponent, (r.tensor(*r.shape()),)


def ternary(r: Rng) -> Case:
    function = r.of(
        lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
        lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1),
        lambda a, b, c: torch.lerp(a, b, c),
        lambda a, b, c: torch.where(a > b, b, c),
        lambda a, b, c: torch.clamp(a, b - 1, c + 1),
    )
    shape = r.shape()
    return function, (r.tensor(*shape), r.tensor(*shape), r.tensor(*shape))


def clamp(r: Rng) -> Case:
    return lambda x: torch.clamp(x, -0.5, 0.7) + torch.clamp(x, min=0.1), (r.tensor(*r.shape()),)


def reduction(r: Rng) -> Case:
    x = r.tensor(*r.shape(2, 4))
    dim, keep = r.int(-x.dim(), x.dim() - 1), r.of(True, False)
    name = r.of("sum", "mean", "amax", "amin", "prod", "logsumexp", "std", "var", "any", "all")
    if name in ("std", "var") and x.shape[dim] < 2:
        name = "sum"
    return lambda v: getattr(torch, name)(v, dim=dim, keepdim=keep), (x,)


def reductions(r: Rng) -> Case:
    function = r.of(
        lambda x: (x.sum(), x.mean()),
        lambda x: x.mean((1, 2)),
        lambda x: x.norm(dim=1),
        lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
        lambda x: torch.var_mean(x, dim=1),
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5),
    )
    return function, (r.tensor(3, 4, r.int(2, 6)),)


def max_index(r: Rng) -> Case:
    dim = r.int(0, 2)
    return r.of(lambda x: x.max(dim), lambda x: x.argmax(dim), lambda x: x.min(dim)), (r.tensor(3, 4, 5),)


def softmax(r: Rng) -> Case:
    x = r.tensor(*r.shape(2, 4))
    dim = r.int(-x.dim(), x.dim() - 1)
    return r.of(
        lambda v: v.softmax(dim), lambda v: v.log_softmax(dim), lambda v: functional.softmin(v, dim)
    ), (x,)


def normalize(r: Rng) -> Case:
    dim = r.int(0, 2)
    return lambda x: functional.normalize(x, dim=dim), (r.tensor(3, 4, 5),)


def cosine(r: Rng) -> Case:
    return lambda a, b: functional.cosine_similarity(a, b, dim=-1), (r.tensor(4, 6), r.tensor(4, 6))


def matmul(r: Rng) -> Case:
    m, k, n = r.int(1, 9), r.int(1, 9), r.int(1, 9)
    batch = r.of((), (3,), (2, 3))
    other = r.of((), batch)
    return lambda a, b: a @ b, (r.tensor(*batch, m, k), r.tensor(*other, k, n))


def bmm(r: Rng) -> Case:
    function = r.of(
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), lambda c, a, b: torch.bmm(a, b) - c
    )
    n = r.int(1, 6)
    return function, (r.tensor(2, 3, n), r.tensor(2, 3, 4), r.tensor(2, 4, n))


def addmm(r: Rng) -> Case:
    return lambda c, a, b: torch.addmm(c, a, b, alpha=0.5), (r.tensor(5), r.tensor(3, 4), r.tensor(4, 5))


def einsum(r: Rng) -> Case:
    text, a, b = r.of(
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("ij,kj->ik", (3, 4), (5, 4)),
        ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
        ("i,j->ij", (3,), (4,)),
        ("bij,ij->b", (2, 3, 4), (3, 4)),
    )
    return lambda x, y: torch.einsum(text, x, y), (r.tensor(*a), r.tensor(*b))


def vectors(r: Rng) -> Case:
    function = r.of(torch.dot, torch.outer, lambda a, b: (a * b).sum())
    n = r.int(2, 9)
    return lambda a, b: function(a, b), (r.tensor(n), r.tensor(n))


def reshapes(r: Rng) -> Case:
    function = r.of(
        lambda x: x.reshape(-1, 4) * 2,
        lambda x: x.permute(2, 0, 1).contiguous() + 1,
        lambda x: x.transpose(1, 2).flatten(1) + 0,
        lambda x: x.unsqueeze(1).expand(-1, 3, -1, -1) * 1.5,
        lambda x: x.unflatten(2, (2, 2)) - 1,
        lambda x: x.movedim(0, -1) * 3,
        lambda x: x.repeat(2, 1, 2),
        lambda x: x.tile(1, 2, 1) + x.flip(1).tile(1, 2, 1),
        lambda x: x.repeat_interleave(2, dim=1),
        lambda x: x.view(x.shape[0], -1).T * 2,
        lambda x: x.swapaxes(0, 2) + 1,
    )
    return function, (r.tensor(2, 3, 4),)


def joins(r: Rng) -> Case:
    dim = r.int(0, 1)
    function = r.of(
        lambda a, b: torch.cat((a, b), dim),
        lambda a, b: torch.stack((a, b), dim),
        lambda a, b: torch.hstack((a, b)),
        lambda a, b: torch.cat((a * 2, b, a), 1).relu(),
    )
    return function, (r.tensor(3, 4), r.tensor(3, 4))


def parts(r: Rng) -> Case:
    function = r.of(
        lambda x: x.chunk(3, 1),
        lambda x: [p * 2 for p in x.split([1, 2, 3], 1)],
        lambda x: torch.unbind(x, 0),
        lambda x: x.tensor_split(2, dim=1),
        lambda x: {"a": x[:, :2], "b": (x[:, 2:] + 1,)},
    )
    return function, (r.tensor(3, 6, 2),)


def slices(r: Rng) -> Case:
    function = r.of(
        lambda x: x[1:, ::2] * 2,
        lambda x: x[..., -1],
        lambda x: x[0] + x[:, 1].sum(),
        lambda x: x[:, None, 1:3],
        lambda x: x.narrow(1, 1, 3) + 1,
        lambda x: x.select(2, 1),
        lambda x: x[:, -3:, :1],
    )
    return function, (r.tensor(3, 5, 4),)


def index_constant(r: Rng) -> Case:
    function = r.of(
        lambda x: x[[0, 2, 1]],
        lambda x: x[:, torch.tensor([1, 1, 3])],
        lambda x: x[torch.tensor([0, 1]), torch.tensor([2, 3])],
        lambda x: torch.index_select(x, 1, torch.tensor([0, 3])),
        lambda x: x[torch.tensor([[0, 1], [2, 0]])],
        lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)],
    )
    return function, (r.tensor(3, 5, 4),)


def index_tensor(r: Rng) -> Case:
    index = torch.randint(0, 3, (4,))
    function = r.of(
        lambda x, i: x[i],
        lambda x, i: torch.index_select(x, 0, i),
        lambda x, i: x[i] + x[i.flip(0)],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
    )
    return function, (r.tensor(3, 5), index)


def gather(r: Rng) -> Case:
    index = torch.randint(0, 5, (3, r.int(1, 5)))
    return r.of(lambda x, i: torch.gather(x, 1, i), lambda x, i: torch.take_along_dim(x, i, 1)), (
        r.tensor(3, 5),
        index,
    )


def integers(r: Rng) -> Case:
    function = r.of(
        lambda x: (x * 2 + 1, x.sum()),
        lambda x: x.float() / 3,
        lambda x: (x % 3 == 0, x // 2),
        lambda x: torch.where(x > 2, x, -x),
        lambda x: x.cumsum(1),
        lambda x: functional.one_hot(x, 9).float() @ torch.ones(9, 2),
        lambda x: x.clamp(1, 4).to(torch.int32),
    )
    return function, (r.tokens(9),)


def booleans(r: Rng) -> Case:
    function = r.of(
        lambda m, x: x.masked_fill(m, -1.0),
        lambda m, x: torch.where(m, x, x * 2),
        lambda m, x: (~m, m & (x > 0), m | (x < 0), m ^ (x > 1)),
        lambda m, x: m.any(1),
        lambda m, x: (m * x, m.sum(1), m.all()),
    )
    return function, (torch.rand(3, 5) > 0.5, r.tensor(3, 5))


def masks(r: Rng) -> Case:
    function = r.of(
        lambda x: x.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf).softmax(-1),
        lambda x: torch.tril(x) + torch.triu(x, 1) * 2,
        lambda x: x * (torch.arange(5)[None] <= torch.arange(5)[:, None]),
        lambda x: x + torch.eye(5),
        lambda x: x + torch.full((5, 5), 0.5) + torch.zeros_like(x) + torch.ones_like(x),
    )
    return function, (r.tensor(2, 5, 5),)


def cumulative(r: Rng) -> Case:
    function = r.of(
        lambda x: x.cumsum(r_dim),
        lambda x: torch.diff(x, dim=r_dim),
        lambda x: x.cumsum(1).flip(1),
        lambda x: torch.diff((x > 0).long().cumsum(1), dim=1) == 1,
    )
    r_dim = r.int(0, 1)
    return function, (r.tensor(3, 6),)


def set_item(r: Rng) -> Case:
    def first(x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 1] = 0.5
        return y * 2

    def second(x: Tensor) -> Tensor:
        y = torch.zeros(4, 6)
        y[1:, ::2] = x[1:, :3]
        y[0] += 1
        return y

    def third(x: Tensor) -> Tensor:
        y = x * 2
        y[x > 0] = 0
        return y

    def fourth(x: Tensor) -> Tensor:
        y = x + 1
        y.mul_(2).add_(1)
        y[..., -1] = x[..., 0]
        return y

    return r.of(first, second, third, fourth), (r.tensor(4, 6),)


def in_place_input(r: Rng) -> Case:
    def change(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    return change, (r.tensor(3, 4),)


def rolls(r: Rng) -> Case:
    function = r.of(
        lambda x: torch.roll(x, 2, 1),
        lambda x: torch.roll(x, (1, -1), (0, 1)),
        lambda x: x.flip(0, 1),
        lambda x: torch.rot90(x, 1, (0, 1)),
        lambda x: x.roll(3),
    )
    return function, (r.tensor(4, 5),)


def windows(r: Rng) -> Case:
    function = r.of(
        lambda x: x.unfold(1, 3, 2),
        lambda x: torch.as_strided(x, (3, 2), (2, 1)) * 2,
        lambda x: x.diagonal() + 1,
        lambda x: x.unfold(0, 2, 1).sum(-1),
    )
    return function, (r.tensor(4, 7),)


def vmapped(r: Rng) -> Case:
    function = r.of(
        lambda x, w: torch.vmap(lambda row: row @ w)(x),
        lambda x, w: torch.vmap(lambda row: (row[:, None] * w).sum(0).relu())(x),
    )
    return function, (r.tensor(3, 4), r.tensor(4, 5))


def losses(r: Rng) -> Case:
    function = r.of(
        functional.mse_loss,
        functional.l1_loss,
        functional.smooth_l1_loss,
        lambda a, b: functional.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"),
        lambda a, b: functional.binary_cross_entropy(a.sigmoid(), b.sigmoid()),
    )
    return lambda a, b: function(a, b), (r.tensor(4, 5), r.tensor(4, 5))


def cross_entropy(r: Rng) -> Case:
    return lambda x, t: functional.cross_entropy(x, t), (r.tensor(4, 7), torch.randint(0, 7, (4,)))


def scalars(r: Rng) -> Case:
    return lambda x: (2 * x - x.shape[0], x.size(1), 3, None, x), (r.tensor(3, 4),)


def constants(r: Rng) -> Case:
    return lambda x: (torch.ones(2, 3), x + torch.tensor([1.0, 2.0, 3.0])), (r.tensor(2, 3),)


def casts(r: Rng) -> Case:
    function = r.of(
        lambda x: x.half().float(),
        lambda x: x.to(torch.int32).float() + 0.5,
        lambda x: (x > 0).float(),
        lambda x: x.bool(),
        lambda x: x.to(torch.bfloat16).float(),
    )
    return function, (r.tensor(3, 4) * 3,)


def sorting(r: Rng) -> Case:
    function = r.of(
        lambda x: x.sort(1), lambda x: x.topk(2), lambda x: torch.unique(x), lambda x: x.nonzero()
    )
    return function, (r.tensor(3, 5),)


def scatter(r: Rng) -> Case:
    index = torch.randint(0, 5, (3, 5))
    function = r.of(
        lambda x, i: torch.scatter(x, 1, torch.tensor([[0, 2], [1, 3], [4, 0]]), 1.5),
        lambda x, i: torch.zeros(3, 5).scatter_add(1, i, x),
        lambda x, i: x.index_add(0, torch.tensor([0, 2]), x[:2]),
    )
    return function, (r.tensor(3, 5), index)
