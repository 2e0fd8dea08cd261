"""Kernels that jax ships for TPUs, as they are: with time, free of hazards, against what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import example_kernel, flash_attention, matmul
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.random import philox, threefry
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

pytestmark = pytest.mark.device
LOWEST = -1e30
SCALE = 0.1


class Shipped(NamedTuple):
    """A call, its operands, the results asked for, and how far off they may be, as a part of the largest."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    expected: Any
    tolerance: float = 2e-6


SHIPPED: dict[str, Callable[[], Shipped]] = {}


def shipped(make: Callable[[], Shipped]) -> Callable[[], Shipped]:
    """Enter a case."""
    SHIPPED[make.__name__] = make
    return make


def floats(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
    """Normally distributed numbers, the same for the same shape."""
    values = np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)
    return jnp.asarray(values).astype(dtype)


def three(*shape: int) -> list[jax.Array]:
    """Queries, keys and values."""
    return [part[0] for part in jnp.split(floats(3, *shape), 3)]


@shipped
def doubled() -> Shipped:
    """Their smallest one."""
    x = floats(16, 128)
    return Shipped(example_kernel.double, (x,), 2 * x, 0)


def product(dtype: Any, out: Any, tolerance: float) -> Shipped:
    """With an accumulator in scratch, over blocks of K."""
    if dtype == jnp.int8:
        a, b = (
            jnp.asarray(np.random.default_rng(n).integers(-128, 128, (256, 256)), dtype) for n in range(2)
        )
    else:
        a, b = floats(256, 256, dtype=dtype), floats(256, 128, dtype=dtype)
    function = functools.partial(matmul.matmul, block_shape=(128, 128), block_k=128, out_dtype=out)
    return Shipped(function, (a, b), jnp.dot(a, b, preferred_element_type=out), tolerance)


SHIPPED["matmul_f32"] = lambda: product(jnp.float32, jnp.float32, 2e-6)
SHIPPED["matmul_bf16"] = lambda: product(jnp.bfloat16, jnp.float32, 2e-6)
SHIPPED["matmul_i8"] = lambda: product(jnp.int8, jnp.int32, 0)


def flash(causal: bool, bias: bool = False, segments: bool = False, length: int = 256) -> Shipped:
    """Blocks of 128 queries and keys."""
    q, k, v = three(1, 2, length, 128)
    added = (floats(1, 2, length, length),) if bias else ()
    halves = jnp.asarray(np.repeat([0, 1], length // 2)[None])
    ids = flash_attention.SegmentIds(halves, halves) if segments else None
    blocks = flash_attention.BlockSizes(block_q=128, block_k_major=128, block_k=128, block_b=1)
    options: dict[str, Any] = {"causal": causal, "sm_scale": SCALE}

    def function(q: Any, k: Any, v: Any, added: Any = None) -> Any:
        return flash_attention.flash_attention(q, k, v, added, ids, block_sizes=blocks, **options)

    right = flash_attention.mha_reference(q, k, v, *(added or (None,)), ids, **options)
    return Shipped(function, (q, k, v, *added), right)


SHIPPED["flash"] = lambda: flash(False)
SHIPPED["flash_causal"] = lambda: flash(True)
SHIPPED["flash_bias"] = lambda: flash(True, bias=True)
SHIPPED["flash_segments"] = lambda: flash(False, segments=True)
SHIPPED["flash_one_step"] = lambda: flash(False, length=128)


@shipped
def flash_gradients() -> Shipped:
    """Three calls: forward, and what goes back to keys with values, and to queries."""
    operands = three(1, 1, 128, 128)
    blocks = flash_attention.BlockSizes.get_default(1, 1, 128, 128, 128)

    def gradients(attention: Callable[..., Any]) -> Callable[..., Any]:
        return jax.grad(lambda *a: attention(*a, causal=True, sm_scale=SCALE).sum(), (0, 1, 2))

    ours = gradients(functools.partial(flash_attention.flash_attention, block_sizes=blocks))
    theirs = gradients(lambda *a, **o: flash_attention.mha_reference_no_custom_vjp(*a, None, **o))
    return Shipped(ours, tuple(operands), theirs(*operands), 5e-6)


@pytest.mark.parametrize("inline", [True, False])
def test_pages(inline: bool) -> None:
    """Pages of keys and values by double-buffered copies; the kernel rounds them to bf16."""
    heads, kv_heads, page, pages, batch = 4, 2, 16, 4, 2
    q = floats(batch, heads, 128)
    keys = floats(kv_heads, batch * pages, page, 128)
    values = -floats(kv_heads, batch * pages, page, 128)
    lengths = jnp.asarray([17, 50], jnp.int32)
    order = np.random.default_rng(0).permutation(batch * pages).reshape(batch, pages)

    def rows(of: jax.Array) -> jax.Array:
        rounded = of.astype(jnp.bfloat16).astype(jnp.float32)
        return jnp.stack([rounded[:, row].reshape(kv_heads, -1, 128) for row in order])

    logits = jnp.einsum("bkgd,bktd->bkgt", q.reshape(batch, kv_heads, -1, 128), rows(keys))
    inside = jnp.arange(page * pages) < lengths[:, None, None, None]
    weights = jax.nn.softmax(jnp.where(inside, logits, LOWEST), -1)
    right = jnp.einsum("bkgt,bktd->bkgd", weights, rows(values)).reshape(q.shape)
    function = functools.partial(paged_attention, pages_per_compute_block=2, inline_seq_dim=inline)
    check(Shipped(function, (q, keys, values, lengths, jnp.asarray(order, jnp.int32)), right))


@shipped
def ragged_pages() -> Shipped:
    """Sequences of 8 and 16 queries with 20 and 40 keys, in bf16; pages are read for blocks of queries."""
    order = np.resize(np.random.default_rng(0).permutation(8), (4, 4))
    operands = (
        floats(24, 4, 128, dtype=jnp.bfloat16),
        floats(8, 16, 4, 128, dtype=jnp.bfloat16),
        *(jnp.asarray(row, jnp.int32) for row in ([20, 40, 0, 0], order, [0, 8, 24, 24, 24], [2])),
    )
    options = {"num_kv_pages_per_block": 2, "num_queries_per_block": 8}
    function = functools.partial(ragged.ragged_paged_attention, sm_scale=SCALE, **options)
    return Shipped(function, operands, ragged.ref_ragged_paged_attention(*operands, sm_scale=SCALE), 2**-7)


GROUPS = (100, 28, 128)
ENDS = np.cumsum((0, *GROUPS))


@shipped
def grouped_product() -> Shipped:
    """Return the rows of three groups, each with weights of its own; a group ends within a block."""
    a, b = floats(256, 128), floats(3, 128, 128)
    right = jnp.concatenate([a[ENDS[i] : ENDS[i + 1]] @ b[i] for i in range(3)])
    options = {"preferred_element_type": jnp.float32, "tiling": (128, 128, 128)}
    return Shipped(functools.partial(gmm, **options), (a, b, jnp.asarray(GROUPS, jnp.int32)), right)


@shipped
def grouped_gradient() -> Shipped:
    """Return the same for gradients of the weights."""
    a, b = floats(128, 256), floats(256, 128)
    right = jnp.stack([a[:, ENDS[i] : ENDS[i + 1]] @ b[ENDS[i] : ENDS[i + 1]] for i in range(3)])
    options = {"preferred_element_type": jnp.float32, "tiling": (128, 128, 128)}
    return Shipped(functools.partial(tgmm, **options), (a, b, jnp.asarray(GROUPS, jnp.int32)), right)


def splashed(mask: Any, inside: np.ndarray, heads: bool = True, cap: float | None = None) -> Shipped:
    """Blocks that the mask leaves out are not visited."""
    length = len(inside)
    q, k, v = three(2, length, 128)
    if not heads:
        k, v = k[0], v[0]
    sizes = splash.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128)
    make = functools.partial(splash.make_splash_mha, head_shards=1) if heads else splash.make_splash_mqa
    extra: dict[str, Any] = {} if heads else {"head_shards": 1}
    kernel = make(
        masks.MultiHeadMask([mask, mask]),
        q_seq_shards=1,
        block_sizes=sizes,
        attn_logits_soft_cap=cap,
        **extra,
    )
    over = "hkd" if heads else "kd"
    logits = jnp.einsum(f"hqd,{over}->hqk", q, k)
    if cap is not None:
        logits = cap * jnp.tanh(logits / cap)
    weights = jax.nn.softmax(jnp.where(inside, logits, LOWEST), -1)
    right = jnp.einsum(f"hqk,{over}->hqd", weights, v)
    return Shipped(lambda q, k, v: kernel(q, k, v), (q, k, v), right, 5e-6)


APART = np.arange(256)[:, None] - np.arange(256)
SHIPPED["splash_causal"] = lambda: splashed(masks.CausalMask((256, 256)), APART >= 0)
SHIPPED["splash_local"] = lambda: splashed(
    masks.LocalMask((256, 256), (64, 0), 0), (APART >= 0) & (APART <= 64)
)
SHIPPED["splash_one_key_head"] = lambda: splashed(
    masks.FullMask((128, 128)), np.ones((128, 128), bool), heads=False, cap=20.0
)


@shipped
def threefry_bits() -> Shipped:
    """Return the primitive broadcasts its key."""
    key = jnp.asarray([1, 2], jnp.uint32)
    right = jax.random.bits(jax.random.wrap_key_data(key, impl="threefry2x32"), (512, 512))
    return Shipped(lambda key: threefry.plthreefry_random_bits(key, 32, (512, 512)), (key,), right, 0)


@shipped
def philox_bits() -> Shipped:
    """Against the interpreter: jax has no other."""
    key = jnp.asarray([1, 2], jnp.uint32)

    def function(key: Any) -> Any:
        return philox.philox_4x32_count(key, (256, 256))

    with pltpu.force_tpu_interpret_mode():
        return Shipped(function, (key,), function(key), 0)


def check(case: Shipped) -> None:
    """Right, without hazards."""
    results = kpusim.pallas.run(case.function, platform="core128-hbm2")(*case.operands)
    run = kpusim.pallas.last_run()
    assert run is not None
    assert not run.hazards
    ours, theirs = jax.tree_util.tree_leaves(results), jax.tree_util.tree_leaves(case.expected)
    for mine, right in zip(ours, theirs, strict=True):
        assert mine.shape == right.shape
        exact = np.asarray(right).astype(np.float64)
        error = np.abs(np.asarray(mine).astype(np.float64) - exact).max()
        assert error <= case.tolerance * np.abs(exact).max(), error / np.abs(exact).max()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped(name: str) -> None:
    """Each of them."""
    check(SHIPPED[name]())
