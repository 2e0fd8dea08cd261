"""Floats of 8 bits, and whole numbers of 4 and 2, in memory, conversions, arithmetic and products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, rng, shape
from kernels.shapes import whole

F32, I32, BF16 = jnp.float32, jnp.int32, jnp.bfloat16
EIGHTHS = [np.dtype(one) for one in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz)]
NIBBLES = [np.dtype(one) for one in (jnp.int4, jnp.uint4, jnp.int2, jnp.uint2)]
HALVES = np.arange(1 << 16, dtype=np.uint16).reshape(512, 128)


def edges(dtype: Any) -> np.ndarray:
    """Return all numbers of a type as f32, those half way between them, and what is next to any of these."""
    with np.errstate(all="ignore"):
        numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        numbers = np.unique(numbers[np.isfinite(numbers)])
        middles = (numbers[1:].astype(np.float64) + numbers[:-1]) / 2
        top = numbers[-1] + (numbers[-1] - numbers[-2]) / np.array([4, 2, 1])
        some = np.concatenate([numbers, middles, top, -top, [0.0, -0.0]]).astype(np.float32)
        far = np.array([np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-40, 65519, 65520, 1e-30], np.float32)
        near = [np.nextafter(some, np.float32(side)) for side in (np.inf, -np.inf)]
        found = np.concatenate(
            [some, *near, some * np.float32(1 + 2**-11), some * np.float32(1 - 2**-12), far]
        )
        return np.resize(found, (-(-found.size // 128), 128))


def by_rows(name: str, function: Any, *operands: Any) -> None:
    """A call with a grid, as L1 has no room for all."""
    out = jax.eval_shape(function, *operands)
    block = pl.BlockSpec((32, 256), lambda i: (i, 0))

    def body(x: Any, y: Any, *results: Any) -> None:
        for ref, value in zip(results, function(x[...], y[...]), strict=True):
            ref[...] = value

    def call(*arrays: Any, interpret: Any = False) -> Any:
        specs: Any = {"in_specs": [block] * 2, "out_specs": [block] * len(out)}
        return pl.pallas_call(body, grid=(8,), out_shape=list(out), interpret=interpret, **specs)(*arrays)

    add(name, call, operands)


def enter_floats(dtype: Any) -> None:
    name = dtype.name
    patterns = np.arange(256, dtype=np.uint8).view(dtype)
    a, b = np.repeat(patterns, 256).reshape(256, 256), np.tile(patterns, 256).reshape(256, 256)
    # that jax has no order of the NaN of fnuz, which looks like -0, is left alone
    some = np.delete(patterns, 0x80) if name.endswith("fnuz") else patterns
    mixed = rng(name).choice(some, (32, 256))
    narrowed = lambda x: x.astype(dtype)  # noqa: E731
    whole(f"{name}_of_f16", narrowed, HALVES.view(np.float16))
    whole(f"{name}_of_bf16", narrowed, HALVES.view(BF16))
    whole(f"{name}_of_f32", narrowed, edges(dtype))
    whole(
        f"{name}_of_i32",
        lambda x: (x.astype(dtype), (x > 0).astype(dtype)),
        integers(8, 128, low=-600, high=600),
    )
    targets = [F32, BF16, jnp.float16, I32, jnp.int8, jnp.uint8, jnp.bool_, *NIBBLES, *EIGHTHS]
    whole(f"{name}_conversions", lambda x: tuple(x.astype(one) for one in targets), patterns)
    by_rows(
        f"{name}_arithmetic",
        lambda x, y: (x + y, x - y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), lax.rem(x, y)),
        a,
        b,
    )
    by_rows(f"{name}_comparisons", lambda x, y: (x < y, x == y, x != y, x >= y, jnp.where(x > y, x, y)), a, b)
    whole(
        f"{name}_each",
        lambda x: (
            -x,
            jnp.abs(x),
            jnp.sign(x),
            jnp.floor(x),
            jnp.ceil(x),
            jnp.isfinite(x),
            jnp.clip(x, -1, 2),
        ),
        patterns,
    )
    whole(f"{name}_functions", lambda x: (jnp.sqrt(x), jnp.tanh(x), jnp.exp(x), lax.rsqrt(x)), patterns)
    whole(
        f"{name}_orders",
        lambda x: (jnp.sort(x, axis=1), jnp.argsort(x, axis=1), jnp.argmax(x, axis=0)),
        mixed,
    )
    whole(f"{name}_largest", lambda x: (jnp.max(x, axis=1), jnp.min(x, axis=0), lax.cummax(x, axis=1)), mixed)
    few = integers(8, 8, low=-1, high=2, seed=name).astype(dtype)
    whole(f"{name}_sums", lambda x: (jnp.sum(x, axis=1), lax.cumsum(x, axis=0)), few)
    whole(
        f"{name}_moves",
        lambda x: (x.T, jnp.pad(x, 1), jnp.roll(x, 3, 1), x[:, ::3], jnp.tile(x, (2, 1))),
        a[:8],
    )
    whole(f"{name}_bits", lambda x: (pltpu.bitcast(x, I32), lax.bitcast_convert_type(x, jnp.uint8)), a[:8])
    x, y = (floats(16, 64, seed=name + side).astype(dtype) for side in "xy")
    rows = (((1,), (1,)), ((), ()))
    whole(
        f"{name}_dot",
        lambda x, y: lax.dot_general(x, y, rows, preferred_element_type=F32),
        x,
        y,
        compare="sum",
    )
    whole(
        f"{name}_dot_narrow",
        lambda x, y: tuple(lax.dot_general(x, y, rows, preferred_element_type=one) for one in (BF16, dtype)),
        (x.astype(np.float32) / 4).astype(dtype),
        y,
        compare="ulp",
        ulp=1,
    )


def enter_integers(dtype: Any) -> None:
    name = dtype.name
    numbers = np.arange(1 << int(name[-1]), dtype=np.int8).astype(dtype)
    a, b = np.repeat(numbers, numbers.size).reshape(-1, 4), np.tile(numbers, numbers.size).reshape(-1, 4)
    whole(
        f"{name}_arithmetic",
        lambda x, y: (
            x + y,
            x - y,
            x * y,
            lax.div(x, y),
            lax.rem(x, y),
            jnp.maximum(x, y),
            jnp.minimum(x, y),
        ),
        a,
        b,
    )
    whole(
        f"{name}_bits",
        lambda x, y: (
            x & y,
            x ^ y,
            ~x,
            lax.shift_left(x, y),
            lax.shift_right_arithmetic(x, y),
            lax.shift_right_logical(x, y),
        ),
        a,
        b,
    )
    whole(f"{name}_comparisons", lambda x, y: (x < y, x == y, x >= y, jnp.where(x > y, x, -y)), a, b)
    targets = [F32, BF16, jnp.float16, I32, jnp.int8, jnp.uint8, jnp.bool_, *NIBBLES, *EIGHTHS]
    whole(f"{name}_conversions", lambda x: tuple(x.astype(one) for one in targets), a)
    whole(f"{name}_of_i32", lambda x: (x.astype(dtype), (x > 0).astype(dtype)), integers(8, 128))
    whole(f"{name}_of_u8", lambda x: x.astype(dtype), np.arange(256, dtype=np.uint8))
    halves = np.append(np.arange(-10, 20, 0.25), [np.nan, np.inf, -np.inf, 1e30]).astype(np.float32)
    whole(f"{name}_of_f32", lambda x: (x.astype(dtype), x.astype(BF16).astype(dtype)), halves)
    if numbers.size == 16:  # jax's interpreters fail at 2 bits
        whole(
            f"{name}_orders",
            lambda x: (
                jnp.sort(x, axis=0),
                jnp.argsort(x, axis=0),
                jnp.argmin(x, axis=1),
                jnp.argmax(x, axis=0),
            ),
            b,
        )
    whole(
        f"{name}_reductions",
        lambda x: (jnp.max(x, axis=1), jnp.min(x, axis=0), lax.cumsum(x, axis=0), lax.cummax(x, axis=1)),
        b,
    )
    whole(
        f"{name}_moves",
        lambda x: (x.T, jnp.roll(x, 1, 1), x[:, ::3], lax.iota(dtype, 8), jnp.tile(x, (2, 1))),
        a,
    )


for one in EIGHTHS:
    enter_floats(one)
for one in NIBBLES:
    enter_integers(one)

# several in one wider element: row 2r of int4 is the low half of row r
BYTES = integers(8, 128, low=-128, high=128, dtype=np.int8, seed="packed")
WORDS = integers(8, 128, low=-(2**31), high=2**31, dtype=np.int64, seed="words").astype(np.int32)
whole("bytes_as_int4", lambda x: tuple(pltpu.bitcast(x, one) for one in (jnp.int4, jnp.uint4)), BYTES)
whole(
    "words_as_narrow",
    lambda x: tuple(pltpu.bitcast(x, one) for one in (jnp.int4, jnp.int2, EIGHTHS[0])),
    WORDS,
)
whole("last_as_int4", lambda x: lax.bitcast_convert_type(x, jnp.int4), BYTES)
whole(
    "int4_as_last", lambda x: lax.bitcast_convert_type(x.reshape(8, 64, 2), jnp.int8), BYTES.astype(jnp.int4)
)
whole(
    "int4_as_wide",
    lambda x: tuple(pltpu.bitcast(x, one) for one in (jnp.int8, I32, jnp.uint4, jnp.int2)),
    BYTES.astype(jnp.int4),
)


def nibbles(x: np.ndarray) -> list[np.ndarray]:
    """Return the nibbles of each byte, as signed numbers."""
    return [((x >> at & 15) ^ 8) - 8 for at in (0, 4)]


whole(
    "pack_nibbles",
    lambda *x: pltpu.pack_elementwise(list(x), packed_dtype=jnp.int4),
    *(integers(8, 128, low=-20, high=20, seed=seed, dtype=np.int8) for seed in "ab"),
    check=lambda a, b: (a.view(np.uint8) & 15) | (b.view(np.uint8) << 4),
)
if jax.__version__ != "0.9.2":  # which takes uint32 only
    whole(
        "unpack_nibbles",
        lambda x: tuple(
            pltpu.unpack_elementwise(x, index=i, packed_dtype=jnp.int4, unpacked_dtype=jnp.int8)
            for i in (0, 1)
        ),
        BYTES,
        check=nibbles,
    )

# products: jax's interpreters fail at those of int4 that are summed in a wider type
LEFT, RIGHT = (integers(16, 32, low=-8, high=8, seed=side).astype(jnp.int4) for side in "lr")
ROWS = (((1,), (1,)), ((), ()))
whole("dot_int4", lambda x, y: lax.dot_general(x, y, ROWS), LEFT, RIGHT)
whole(
    "dot_int4_wide",
    lambda x, y: tuple(lax.dot_general(x, y, ROWS, preferred_element_type=one) for one in (I32, jnp.int8)),
    LEFT,
    RIGHT,
    check=lambda x, y: [
        (x.astype(np.int64) @ y.astype(np.int64).T).astype(one) for one in (np.int32, np.int8)
    ],
)
whole(
    "dot_int8_int4",
    lambda x, y: lax.dot_general(x, y, ROWS, preferred_element_type=I32),
    integers(8, 32, low=-128, high=128, dtype=np.int8, seed="8"),
    RIGHT,
    check=lambda x, y: (x.astype(np.int64) @ y.astype(np.int64).T).astype(np.int32),
)
whole(
    "dot_bf16_int4",
    lambda x, y: lax.dot_general(x, y.astype(BF16), ROWS, preferred_element_type=F32),
    floats(8, 32, seed="half").astype(BF16),
    RIGHT,
    compare="sum",
)


def scaled(x: Any, w: Any, scale: Any, o: Any, total: Any) -> None:
    """A step of a product with quantised weights, one scale for each group of rows."""
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _() -> None:
        total[...] = jnp.zeros_like(total)

    part = jnp.dot(x[...].astype(BF16), w[...].astype(BF16), preferred_element_type=F32)
    total[...] += part * scale[...]

    @pl.when(step == pl.num_programs(2) - 1)
    def _() -> None:
        o[...] = total[...]


def by_blocks(interpret: Any, x: Any, w: Any, scale: Any) -> Any:
    return pl.pallas_call(
        scaled,
        grid=(2, 2, 4),
        in_specs=[
            pl.BlockSpec((16, 32), lambda i, j, k: (i, k)),
            pl.BlockSpec((32, 64), lambda i, j, k: (k, j)),
            pl.BlockSpec((None, 1, 64), lambda i, j, k: (k, 0, j)),
        ],
        out_specs=pl.BlockSpec((16, 64), lambda i, j, k: (i, j)),
        out_shape=shape(32, 128),
        scratch_shapes=[pltpu.VMEM((16, 64), F32)],
        interpret=interpret,
    )(x, w, scale)


for one in (*EIGHTHS[:2], *NIBBLES[:2]):
    add(
        f"weights_{one.name}",
        lambda *arrays, interpret=False: by_blocks(interpret, *arrays),
        [
            floats(32, 128, seed="x").astype(EIGHTHS[0]),
            integers(128, 128, low=0, high=8, seed="w").astype(one),
            np.abs(floats(4, 1, 128, seed="scale")),
        ],
        compare="close",
    )


def quantized(x: Any, w: Any, scale: Any) -> None:
    """A row at a time to its own scale."""
    most = jnp.max(jnp.abs(x[...]), axis=1, keepdims=True)
    scale[...] = most / 8
    w[...] = jnp.round(x[...] / scale[...]).astype(w.dtype)


for one in (EIGHTHS[0], NIBBLES[0]):

    def to_narrow(x: Any, interpret: Any = False, one: Any = one) -> Any:
        rows = lambda columns: pl.BlockSpec((8, columns), lambda i: (i, 0))  # noqa: E731
        return pl.pallas_call(
            quantized,
            grid=(4,),
            in_specs=[rows(128)],
            out_specs=[rows(128), rows(1)],
            out_shape=[shape(32, 128, dtype=one), shape(32, 1)],
            interpret=interpret,
        )(x)

    add(f"quantize_{one.name}", to_narrow, [floats(32, 128, seed="q")])

# memory: scratch, ragged blocks, slices, masks, copies
for one in (EIGHTHS[1], *NIBBLES[:2]):
    data = integers(24, 128, low=-8, high=8, seed="memory").astype(one)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)

    @kernel(
        f"copies_{one.name}",
        [data],
        shape(24, 128, dtype=one),
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM((2, 8, 128), one), pltpu.SemaphoreType.DMA((2,))],
        how={"check": lambda x: np.concatenate([x[8:16], x[:8], x[16:]])},
    )
    def copied(x: Any, o: Any, memory: Any, semaphores: Any) -> None:
        for i in range(2):
            pltpu.make_async_copy(x.at[pl.ds(8 * i, 8)], memory.at[i], semaphores.at[i]).start()
        for i in range(2):
            pltpu.make_async_copy(x.at[pl.ds(8 * i, 8)], memory.at[i], semaphores.at[i]).wait()
        for i in range(2):
            pltpu.sync_copy(memory.at[1 - i], o.at[pl.ds(8 * i, 8)])
        pltpu.sync_copy(x.at[pl.ds(16, 8)], o.at[pl.ds(16, 8)])

    @kernel(
        f"slices_{one.name}", [data], shape(24, 128, dtype=one), scratch_shapes=[pltpu.VMEM((24, 128), one)]
    )
    def slices(x: Any, o: Any, memory: Any) -> None:
        memory[...] = x[...] + x[...]
        memory[3, 5:9] = x[0, 1:5]
        memory[:, pl.ds(100, 20)] = jnp.maximum(memory[:, pl.ds(100, 20)], x[:, 3:23])
        o[...] = memory[...]
