"""Random numbers and rounding.

jax's interpreters give zeros for the bits of a TPU, or have no rule: ours are defined by jax.random outside
of kernels, which is what they are compared with.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, odd_floats, shape

X = floats(8, 128)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def bits(seeds: Sequence[int], draw: int, *sizes: int) -> Any:
    """Return what a draw gives after these seeds."""
    key = jax.random.key(int(seeds[0]))
    for seed in seeds[1:]:
        key = jax.random.fold_in(key, seed)
    return jax.random.bits(jax.random.fold_in(key, draw), sizes, "uint32")


def drawn(seeds: Sequence[int], draw: int, *sizes: int) -> np.ndarray:
    """Return the same as signed numbers, which kernels get."""
    return np.asarray(bits(seeds, draw, *sizes)).view(np.int32)


def one_seed(o: Any) -> None:
    pltpu.prng_seed(42)
    o[...] = pltpu.prng_random_bits(o.shape)


for name, sizes in {"tile": (8, 128), "odd": (3, 5), "row": (7,), "cube": (2, 3, 17), "one": (1, 1)}.items():

    def of_shape(interpret: Any = False, sizes: Any = sizes) -> Any:
        out = shape(*sizes, dtype=jnp.int32)
        return pl.pallas_call(one_seed, out_shape=out, interpret=interpret)()

    add(f"random_bits_{name}", of_shape, [], check=lambda sizes=sizes: drawn([42], 0, *sizes))


@kernel(
    "random_bits_of_several_seeds",
    [integers(3)],
    [shape(8, 128, dtype=jnp.int32)] * 3,
    in_specs=[SMEM],
    how={
        "check": lambda seeds: [
            drawn([*seeds, 7], 0, 8, 128),
            drawn([*seeds, 7], 1, 8, 128),
            drawn([seeds[1]], 0, 8, 128),
        ]
    },
)
def several_seeds(seeds: Any, first: Any, second: Any, third: Any) -> None:
    """Other bits at each draw, and from the beginning after a new seed."""
    pltpu.prng_seed(seeds[0], seeds[1], seeds[2], 7)
    first[...] = pltpu.prng_random_bits((8, 128))
    second[...] = pltpu.prng_random_bits((8, 128))
    pltpu.prng_seed(seeds[1])
    third[...] = pltpu.prng_random_bits((8, 128))


@kernel(
    "random_bits_of_each_step",
    [],
    shape(24, 128, dtype=jnp.int32),
    grid=(3,),
    out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    how={"check": lambda: np.concatenate([drawn([i, 5], 0, 8, 128) for i in range(3)])},
)
def each_step(o: Any) -> None:
    pltpu.prng_seed(pl.program_id(0), 5)
    o[...] = pltpu.prng_random_bits((8, 128))


def rounds(draws: int) -> np.ndarray:
    """Return a sum of draws; wraps."""
    return sum(drawn([1], draw, 8, 128) for draw in range(draws))


@kernel(
    "random_bits_go_on",
    [],
    shape(16, 128, dtype=jnp.int32),
    grid=(2,),
    out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    how={"check": lambda: np.concatenate([rounds(4), rounds(9) - rounds(4)])},
)
def going_on(o: Any) -> None:
    """In loops and branches, and from one step of the grid to the next."""

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        pltpu.prng_seed(1)

    count = jnp.where(pl.program_id(0) == 0, 4, 5)
    o[...] = lax.fori_loop(
        0, count, lambda i, total: total + pltpu.prng_random_bits((8, 128)), jnp.zeros((8, 128), jnp.int32)
    )


def kept(x: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """Dropout of a quarter."""
    threshold = np.uint32(1 << 30)
    return np.where(np.asarray(bits([int(seed[0])], 0, 8, 128)) >= threshold, x / np.float32(0.75), 0)


@kernel(
    "dropout_of_own_bits",
    [X, integers(1)],
    shape(8, 128),
    in_specs=[pl.BlockSpec(), SMEM],
    how={"check": kept},
)
def dropout(x: Any, seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0])
    noise = pltpu.bitcast(pltpu.prng_random_bits(x.shape), jnp.uint32)
    o[...] = jnp.where(noise >= jnp.uint32(1 << 30), x[...] / 0.75, 0.0)


# ---- stochastic_round


def rounded(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Up with a chance of what is above the number below, in units of bf16; whatever is not finite stays."""
    with np.errstate(all="ignore"):
        plain = np.asarray(jnp.asarray(x).astype(jnp.bfloat16))
    magnitude = np.abs(x).view(np.uint32).astype(np.int64)
    below, part = magnitude >> 16, magnitude & 0xFFFF
    up = part + (noise & 0xFFFF).astype(np.int64) > 0xFFFF
    found = (below + up).astype(np.uint16) | np.where(np.signbit(x), 0x8000, 0).astype(np.uint16)
    found = np.where(np.isfinite(x), found, plain.view(np.uint16))
    found = np.where(np.abs(x) < np.finfo(np.float32).tiny, found & 0x8000, found)  # a subnormal is 0
    return found.astype(np.uint16).view(jnp.bfloat16)


ODD = odd_floats("rounding")
ODD[7, :6] = [3.4e38, -3.4e38, 1e-40, -1e-40, 1.1754944e-38, -1.0]
NOISE = integers(8, 128, low=0, high=2**32, dtype=np.uint32)
NOISE[0] = 0
NOISE[7] = 0xFFFFFFFF


@kernel("stochastic_round", [ODD, NOISE], shape(8, 128, dtype=jnp.bfloat16), how={"check": rounded})
def stochastic_round(x: Any, noise: Any, o: Any) -> None:
    o[...] = pltpu.stochastic_round(x[...], noise[...], target_dtype=jnp.bfloat16)


@kernel(
    "stochastic_round_of_own_bits",
    [X],
    shape(8, 128, dtype=jnp.bfloat16),
    how={"check": lambda x: rounded(x, np.asarray(bits([3], 0, 8, 128)))},
)
def own_bits(x: Any, o: Any) -> None:
    pltpu.prng_seed(3)
    noise = pltpu.bitcast(pltpu.prng_random_bits((8, 128)), jnp.uint32)
    o[...] = pltpu.stochastic_round(x[...], noise, target_dtype=jnp.bfloat16)


def rounded_to(dtype: Any) -> Any:
    """The same in units of a float of 8 bits, of which the least numbers have no fewer bits than 1/2."""
    limits = jnp.finfo(dtype)
    below = (1 << 23 - limits.nmant) - 1

    def function(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            size = np.abs(x).astype(np.float64)
            power = np.floor(np.log2(np.where(size > 0, size, 1)))
            unit = np.exp2(np.maximum(power, np.log2(float(limits.smallest_normal))) - limits.nmant)
            part = (noise & below).astype(np.float64) / (below + 1)
            found = np.floor(size / unit + part) * unit
            return np.copysign(np.where(np.isfinite(x), found, size), x).astype(np.float32).astype(dtype)

    return function


SMALL = (floats(8, 128, seed="eighths") * np.exp2(integers(8, 128, low=-20, high=12))).astype(np.float32)
SMALL[0, :8] = [0, -0.0, 448, -460, np.inf, -np.inf, np.nan, 1e-40]

for dtype in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz):

    @kernel(
        f"stochastic_round_{np.dtype(dtype).name}",
        [SMALL, NOISE],
        shape(8, 128, dtype=dtype),
        how={"check": rounded_to(dtype)},
    )
    def to_eighth(x: Any, noise: Any, o: Any) -> None:
        o[...] = pltpu.stochastic_round(x[...], noise[...], target_dtype=o.dtype)


# ---- samplers of jax.random on the generator, whose keys mean nothing


def uniform(words: Any) -> np.ndarray:
    """In [0, 1), as jax.random.uniform makes it of words."""
    return (np.asarray(words) >> 9 | 0x3F800000).view(np.float32) - np.float32(1)


@kernel(
    "stateful_samplers",
    [],
    [shape(8, 128), shape(8, 128), shape(8, 128, dtype=jnp.uint32)],
    how={
        "check": lambda: [
            uniform(bits([11], 0, 8, 128)),
            np.where(uniform(bits([11], 1, 8, 128)) < np.float32(0.25), 1, 0).astype(np.float32),
            np.asarray(bits([11], 2, 8, 128)),
        ]
    },
)
def samplers(first: Any, second: Any, third: Any) -> None:
    pltpu.prng_seed(11)
    first[...] = pltpu.stateful_uniform((8, 128))
    second[...] = pltpu.stateful_bernoulli(0.25, (8, 128)).astype(jnp.float32)
    third[...] = pltpu.stateful_bits((8, 128), jnp.uint32)


# ---- jax.random inside of a kernel, with keys of jax


@kernel(
    "jax_random",
    [],
    [shape(16, 128), shape(16, 128)],
    grid=(2,),
    out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))] * 2,
    how={"compare": "ulp", "ulp": 100},  # erf_inv of jax
)
def jax_random(first: Any, second: Any) -> None:
    key = jax.random.fold_in(jax.random.key(3), pl.program_id(0))
    first[...] = jax.random.uniform(key, (8, 128), minval=-1)
    second[...] = jax.random.normal(jax.random.fold_in(key, 1), (8, 128))


@kernel("jax_random_split", [], shape(2, 8, 128, dtype=jnp.uint32))
def split(o: Any) -> None:
    one, other = jax.random.split(jax.random.key(-7))
    o[0] = jax.random.bits(one, (8, 128))
    again = jax.random.wrap_key_data(jax.random.key_data(other) ^ jnp.uint32(1))
    o[1] = jax.random.bits(jnp.stack([one, again])[1], (8, 128))


KEYS = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(5), 4)))


def of_keys(words: Any, interpret: Any = False) -> Any:
    """Return a block of keys for each step; which of them is known late."""

    def body(keys: Any, o: Any) -> None:
        key = keys[pl.program_id(0) % 2]
        o[...] = jax.random.bits(jax.random.split(key, 3)[2], (8, 128))

    return pl.pallas_call(
        body,
        out_shape=shape(32, 128, dtype=jnp.uint32),
        grid=(4,),
        in_specs=[pl.BlockSpec((2,), lambda i: (i // 2,))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        interpret=interpret,
    )(jax.random.wrap_key_data(words))


add("jax_random_keys", of_keys, [KEYS])


def block_words(words: np.ndarray, block: int) -> list[int]:
    """Return a key of pltpu for a block: its number added to the second word, then one round of Threefry."""
    first, second = (int(word) for word in words[0])
    second = (second + block) % 2**32
    first = (first + second) % 2**32
    return [first, (second << 13 | second >> 19) % 2**32 ^ first]


def sampled(words: np.ndarray) -> np.ndarray:
    """Blocks of [0, 1), each from its own key."""
    rows = []
    for block in range(4):
        first, second = (int(np.uint32(word).view(np.int32)) for word in block_words(words, block))
        rows.append(uniform(bits([first, second], 0, 8, 128)))
    return np.concatenate(rows)


PALLAS_KEY = np.asarray(jax.random.key_data(pltpu.to_pallas_key(jax.random.key(8))))


def blocks_of_samples(words: Any, rows: int, interpret: Any = False) -> Any:
    """The same numbers whatever the blocks are."""

    def body(key: Any, o: Any) -> None:
        o[...] = pltpu.sample_block(
            jax.random.uniform, key[...], block_size=(rows, 128), tile_size=(8, 128), total_size=(32, 128)
        )

    return pl.pallas_call(
        body,
        out_shape=shape(32, 128),
        grid=(32 // rows, 1),
        in_specs=[SMEM],
        out_specs=pl.BlockSpec((rows, 128), lambda i, j: (i, j)),
        interpret=interpret,
    )(jax.random.wrap_key_data(words, impl="pallas_tpu"))


for rows in (8, 16):
    add(f"sample_block_{rows}", functools.partial(blocks_of_samples, rows=rows), [PALLAS_KEY], check=sampled)
