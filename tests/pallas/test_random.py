"""Random numbers: how good they are, the same in all modes, and what is refused or reported."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels import CASES
from kernels.randoms import PALLAS_KEY, bits, blocks_of_samples, sampled
from kpusim import UserError
from test_faults import X, call, hazards, line_with

pytestmark = pytest.mark.device

BITS = jax.ShapeDtypeStruct((8, 128), jnp.int32)
CASE_NAMES = [
    name for name in CASES if any(word in name for word in ("random", "stochastic", "samplers", "own_bits"))
]


def unseeded(o: Any) -> None:
    """Too early."""
    o[...] = pltpu.prng_random_bits((8, 128))  # nobody seeded


def test_bits_before_a_seed_are_reported() -> None:
    """Bits before a seed are as scratch that nobody wrote: what comes of them is that of a key of zeros."""
    (message,) = hazards(call(unseeded, BITS))
    assert "nobody wrote" in message
    assert "test_random.py" in message
    words = np.asarray(kpusim.pallas.run(call(unseeded, BITS), mode="functional")()).view(np.uint32)
    assert np.array_equal(words, np.asarray(bits([0], 0, 8, 128)))


@pytest.mark.parametrize("name", CASE_NAMES)
def test_the_same_with_time(name: str) -> None:
    """No hazard, and the values of the functional mode."""
    case = CASES[name]
    found = []
    for mode in ("values+timing", "functional"):
        results = kpusim.pallas.run(case.function, mode=mode)(*case.operands)  # type: ignore[arg-type]
        found.append([np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(results)])
        run = kpusim.pallas.last_run()
        assert run is not None
        assert not run.hazards
    assert found[0] == found[1]


def many(seed: Any, o: Any) -> None:
    """Draw many of a step's own seed."""
    pltpu.prng_seed(seed[0], pl.program_id(0))
    o[...] = pltpu.prng_random_bits(o.shape)


def words(seed: int) -> np.ndarray:
    """2^16 of them, a quarter from each step's seed."""
    function = call(
        many,
        jax.ShapeDtypeStruct((512, 128), jnp.int32),
        grid=(4,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
    )
    found = kpusim.pallas.run(function, mode="functional")(np.array([seed], np.int32))
    return np.asarray(found).view(np.uint32).reshape(-1)


def test_statistics() -> None:
    """Each bit, each byte, neighbours, seeds beside each other: within 5 standard deviations of chance."""
    first, second = words(0), words(1)
    assert len(np.unique(np.concatenate([first, second]))) > 2 * 65536 - 20  # 2 equal pairs are expected

    def of_bits(array: np.ndarray) -> None:
        ones = np.unpackbits(array.view(np.uint8).reshape(-1, 4), axis=1).sum(axis=0)
        assert np.abs(ones - array.size / 2).max() < 5 * np.sqrt(array.size) / 2

    for array in (first, second, first ^ second, first[1:] ^ first[:-1], first[:16384] ^ first[16384:32768]):
        of_bits(np.ascontiguousarray(array))
    counts = np.bincount(first.view(np.uint8), minlength=256)
    expected = first.size * 4 / 256
    chi = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi - 255) < 5 * np.sqrt(2 * 255)


def test_keys_as_operands() -> None:
    """Keys serve functions that jax calls: at once, under jit, and a row of them under vmap."""

    def function(words: Any) -> Any:
        return blocks_of_samples(words, 8)

    keys = np.stack([PALLAS_KEY, PALLAS_KEY + 1])
    ours = kpusim.pallas.run(function, mode="functional")
    assert np.array_equal(jax.jit(ours)(PALLAS_KEY), sampled(PALLAS_KEY))
    for row, key in zip(np.asarray(jax.vmap(ours)(keys)), keys, strict=True):
        assert np.array_equal(row, sampled(key))


def narrow(x: Any, o: Any) -> None:
    """To f16."""
    o[...] = pltpu.stochastic_round(x[...], x[...].view(jnp.uint32), target_dtype=jnp.float16)


def eighth(x: Any, o: Any) -> None:
    """To a type of 8 bits that no TPU has."""
    rounded = pltpu.stochastic_round(x[...], x[...].view(jnp.uint32), target_dtype=jnp.float8_e4m3)
    o[...] = rounded.astype(jnp.float32)


def of_half(x: Any, o: Any) -> None:
    """Round f16."""
    half = x[...].astype(jnp.float16)
    o[...] = pltpu.stochastic_round(half, x[...].view(jnp.uint32), target_dtype=jnp.bfloat16)


def real_seed(x: Any, o: Any) -> None:
    """A float."""
    pltpu.prng_seed(x[0, 0])
    o[...] = pltpu.prng_random_bits((8, 128)).astype(jnp.float32)


def no_collective(x: Any, o: Any) -> None:
    """Wait for a barrier of a call that names none."""
    pl.semaphore_wait(pltpu.get_barrier_semaphore(), 0)
    o[...] = x[...]


@pytest.mark.parametrize(
    ("body", "dtype", "word", "why"),
    [
        (narrow, jnp.float16, "stochastic_round", "of other types than float32 to bfloat16, float8_e4m3fn"),
        (eighth, jnp.float32, "stochastic_round", "of other types than float32 to bfloat16, float8_e4m3fn"),
        (of_half, jnp.bfloat16, "stochastic_round", "of other types than float32 to bfloat16, float8_e4m3fn"),
        (real_seed, jnp.float32, "prng_seed", "use scalars of whole numbers"),
        (no_collective, jnp.float32, "get_barrier", "compiler_params=pltpu.CompilerParams(collective_id=0)"),
    ],
)
def test_refused(body: Any, dtype: Any, word: str, why: str) -> None:
    """Refusals have the name, the line and what to do."""
    with pytest.raises(UserError, match="Fix: ") as error:
        kpusim.pallas.run(call(body, jax.ShapeDtypeStruct((8, 128), dtype)))(X)
    assert line_with(body, word).replace("test_faults", "test_random") in str(error.value)
    assert why in str(error.value)
