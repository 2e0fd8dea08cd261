"""Grids, blocks, index maps, prefetched scalars, aliases, scratch, and refs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

X = floats(32, 256)
SUM: dict[str, Any] = {"how": {"compare": "sum"}}
I32 = jnp.int32


def spec(*sizes: Any, at: Any, **more: Any) -> pl.BlockSpec:
    return pl.BlockSpec(sizes, at, **more)


@kernel(
    "grid_1d",
    [X],
    shape(32, 256),
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0))],
    out_specs=spec(8, 256, at=lambda i: (i, 0)),
)
def grid_1d(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "grid_2d_transposed_blocks",
    [X],
    shape(256, 32),
    grid=(4, 2),
    in_specs=[spec(8, 128, at=lambda i, j: (i, j))],
    out_specs=spec(128, 8, at=lambda i, j: (j, i)),
)
def transposed(x: Any, o: Any) -> None:
    o[...] = x[...].T


@kernel(
    "six_dimensions",
    [floats(2, 1, 3, 1, 1, 8)],
    shape(2, 1, 3, 1, 1, 8),
    grid=(2,),
    in_specs=[spec(1, 1, 3, 1, 1, 8, at=lambda i: (i, 0, 0, 0, 0, 0))],
    out_specs=spec(1, 1, 3, 1, 1, 8, at=lambda i: (i, 0, 0, 0, 0, 0)),
)
def six_dimensions(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@kernel(
    "program_ids",
    [],
    shape(4, 3, 8, dtype=I32),
    grid=(4, 3),
    out_specs=spec(None, None, 8, at=lambda i, j: (i, j, 0)),
)
def program_ids(o: Any) -> None:
    o[...] = jnp.full((8,), pl.program_id(0) * 100 + pl.program_id(1) * 10 + pl.num_programs(1), I32)


@kernel(
    "squeezed",
    [floats(4, 8, 128)],
    shape(4, 8, 128),
    grid=(4,),
    in_specs=[spec(None, 8, 128, at=lambda i: (3 - i, 0, 0))],
    out_specs=spec(None, 8, 128, at=lambda i: (i, 0, 0)),
)
def squeezed(x: Any, o: Any) -> None:
    o[...] = x[...] + 1


@kernel(
    "input_block_kept",
    [X, floats(8, 256, seed="k")],
    shape(32, 256),
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0)), spec(8, 256, at=lambda i: (0, 0))],
    out_specs=spec(8, 256, at=lambda i: (i, 0)),
)
def kept(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...]


@kernel(
    "output_accumulates",
    [X],
    shape(8, 256),
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0))],
    out_specs=spec(8, 256, at=lambda i: (0, 0)),
    **SUM,
)
def accumulates(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@kernel(
    "index_map_arithmetic",
    [X],
    shape(32, 256),
    grid=(4, 2),
    in_specs=[spec(8, 128, at=lambda i, j: ((i * 3 + 1) % 4, 1 - j))],
    out_specs=spec(8, 128, at=lambda i, j: (i, j)),
)
def arithmetic(x: Any, o: Any) -> None:
    o[...] = x[...]


@kernel(
    "index_map_division",
    [X],
    shape(64, 256),
    grid=(8,),
    in_specs=[spec(8, 256, at=lambda i: (i // 2, 0))],
    out_specs=spec(8, 256, at=lambda i: (i, 0)),
)
def division(x: Any, o: Any) -> None:
    o[...] = x[...] * pl.program_id(0).astype(jnp.float32)


@kernel(
    "element_blocks",
    [floats(64, 128)],
    shape(32, 128),
    grid=(4,),
    in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (i * 8 + 3, 0))],
    out_specs=spec(8, 128, at=lambda i: (i, 0)),
)
def element(x: Any, o: Any) -> None:
    o[...] = x[0:8, :] + x[8:16, :]


@kernel(
    "ragged_rows",
    [floats(20, 128)],
    shape(20, 128),
    grid=(3,),
    in_specs=[spec(8, 128, at=lambda i: (i, 0))],
    out_specs=spec(8, 128, at=lambda i: (i, 0)),
)
def ragged(x: Any, o: Any) -> None:
    o[...] = x[...] - 1


@kernel(
    "ragged_both",
    [floats(20, 200)],
    shape(20, 200),
    grid=(3, 2),
    in_specs=[spec(8, 128, at=lambda i, j: (i, j))],
    out_specs=spec(8, 128, at=lambda i, j: (i, j)),
)
def ragged_both(x: Any, o: Any) -> None:
    o[...] = x[...] * x[...]


@kernel(
    "two_outputs",
    [X],
    [shape(32, 256), shape(32, 1)],
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0))],
    out_specs=[spec(8, 256, at=lambda i: (i, 0)), spec(8, 1, at=lambda i: (i, 0))],
)
def two_outputs(x: Any, o: Any, most: Any) -> None:
    o[...] = -x[...]
    most[...] = jnp.max(x[...], axis=1, keepdims=True)


@kernel(
    "buffered",
    [X],
    shape(32, 256),
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0), pipeline_mode=pl.Buffered(3))],
    out_specs=spec(8, 256, at=lambda i: (i, 0)),
)
def buffered(x: Any, o: Any) -> None:
    o[...] = x[...] * 0.5


@kernel(
    "aliased",
    [floats(16, 128), floats(16, 128, seed="z")],
    shape(16, 128),
    input_output_aliases={0: 0},
    grid=(2,),
    in_specs=[spec(8, 128, at=lambda i: (i, 0))] * 2,
    out_specs=spec(8, 128, at=lambda i: (i, 0)),
)
def aliased(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...]


def prefetch(name: str, operands: list[Any], out: Any, grid_spec: Any, **how: Any) -> Any:
    def enter(body: Any) -> Any:
        def call(*arrays: Any, interpret: Any = False) -> Any:
            return pl.pallas_call(body, grid_spec=grid_spec, out_shape=out, interpret=interpret)(*arrays)

        add(name, call, operands, **how)
        return body

    return enter


@prefetch(
    "prefetch_order",
    [np.array([2, 0, 3, 1], np.int32), X],
    shape(32, 256),
    pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[spec(8, 256, at=lambda i, order: (order[i], 0))],
        out_specs=spec(8, 256, at=lambda i, order: (i, 0)),
    ),
)
def prefetch_order(order: Any, x: Any, o: Any) -> None:
    o[...] = x[...] + order[pl.program_id(0)].astype(jnp.float32)


@prefetch(
    "prefetch_two",
    [np.array([[1, 3], [2, 0]], np.int32), np.array([5], np.int32), X],
    shape(16, 256),
    pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(2,),
        in_specs=[spec(8, 256, at=lambda i, t, u: (t[i, 1] + 0 * u[0], 0))],
        out_specs=spec(8, 256, at=lambda i, t, u: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 256), jnp.float32)],
    ),
)
def prefetch_two(t: Any, u: Any, x: Any, o: Any, scratch: Any) -> None:
    scratch[...] = x[...] * u[0].astype(jnp.float32)
    o[...] = scratch[...]


@kernel(
    "scratch_between_steps",
    [X],
    shape(32, 256),
    grid=(4,),
    in_specs=[spec(8, 256, at=lambda i: (i, 0))],
    out_specs=spec(8, 256, at=lambda i: (i, 0)),
    scratch_shapes=[pltpu.VMEM((8, 256), jnp.float32)],
)
def scratch(x: Any, o: Any, total: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        total[...] = jnp.zeros_like(total)

    total[...] = jnp.maximum(total[...], x[...])
    o[...] = total[...]


@kernel("smem_scratch", [integers(8, 128)], shape(8, 128, dtype=I32), scratch_shapes=[pltpu.SMEM((4,), I32)])
def smem(x: Any, o: Any, s: Any) -> None:
    s[0] = 5
    s[1] = s[0] + 2
    o[...] = x[...] * s[1]


@kernel(
    "smem_operand",
    [np.array([3, 4], np.int32), integers(8, 128)],
    shape(8, 128, dtype=I32),
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
)
def smem_operand(s: Any, x: Any, o: Any) -> None:
    o[...] = x[...] * s[0] + s[1]


# --- refs

R = floats(16, 128)


@kernel("ref_slices", [R], shape(16, 128))
def slices(x: Any, o: Any) -> None:
    o[0:8, :] = x[8:16, :]
    o[8:16, 0:64] = x[0:8, 64:128]
    o[8:16, 64:128] = x[0:8, 0:64] * 2


@kernel("ref_strided", [R], shape(8, 128))
def strided(x: Any, o: Any) -> None:
    o[...] = x[pl.ds(1, 8, stride=2), :]


@kernel("ref_dynamic", [R, np.array([[5, 2]], np.int32)], shape(8, 128))
def dynamic(x: Any, at: Any, o: Any) -> None:
    o[...] = x[pl.ds(at[0, 0], 8), :]
    o[at[0, 1], :] = x[at[0, 0], :] + 1


@kernel("ref_int_row", [R], shape(128))
def int_row(x: Any, o: Any) -> None:
    o[...] = x[3] + x[4, :]


@kernel("ref_index_array", [R, np.array([1, 5, 3, 15], np.int32)], shape(4, 128))
def index_array(x: Any, i: Any, o: Any) -> None:
    o[...] = x[i[...], :]


@kernel("ref_index_apart", [floats(8, 16, 128), np.array([1, 5, 3, 0], np.int32)], shape(4, 16))
def index_apart(x: Any, i: Any, o: Any) -> None:
    o[...] = x[i[...], :, i[...] * 2]


@kernel("ref_index_scatter", [floats(4, 128), np.array([1, 5, 3, 0], np.int32)], shape(8, 128))
def index_scatter(x: Any, i: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)
    o[i[...], :] = x[...]


@kernel("ref_at_chain", [R], shape(3, 32))
def at_chain(x: Any, o: Any) -> None:
    o[...] = x.at[2:10, :].at[:, 0:64].at[1:4, 16:48][...]


@kernel("ref_bitcast", [R], shape(16, 128, dtype=I32))
def ref_bitcast(x: Any, o: Any) -> None:
    o[...] = x.bitcast(I32)[...] ^ 1


@kernel(
    "ref_bitcast_narrow", [integers(8, 128, low=-(2**31), high=2**31 - 1)], shape(16, 128, dtype=jnp.int16)
)
def ref_bitcast_narrow(x: Any, o: Any) -> None:
    o[...] = x.bitcast(jnp.int16)[...]


@kernel("ref_reshape", [R], shape(4, 512))
def ref_reshape(x: Any, o: Any) -> None:
    o[...] = x.reshape(4, 512)[...]


@kernel("ref_addupdate", [R], shape(16, 128), how={"compare": "exact"})
def addupdate(x: Any, o: Any) -> None:
    o[...] = jnp.ones_like(o)
    jax.ref.addupdate(o, (slice(2, 6), slice(None)), x[2:6, :])


@kernel("ref_swap", [R, floats(16, 128, seed="other")], [shape(16, 128), shape(16, 128)])
def ref_swap(x: Any, y: Any, o: Any, old: Any) -> None:
    o[...] = x[...]
    old[...] = jax.ref.swap(o, (...,), y[...])


@kernel("masked_load", [R], shape(16, 128))
def masked_load(x: Any, o: Any) -> None:
    above = x[...] > 0
    o[...] = jnp.where(above, pltpu.load(x, mask=above), -1.0)


@kernel("masked_store", [R], shape(16, 128))
def masked_store(x: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(o)
    pltpu.store(o, x[...], mask=x[...] > 0.5)


@kernel("iota_mask_tail", [floats(16, 128)], shape(16, 128))
def iota_mask(x: Any, o: Any) -> None:
    row = lax.broadcasted_iota(I32, (16, 128), 0)
    o[...] = jnp.where(row < 5, x[...], 0.0)


# --- several calls, and what stands between them


def add_one(x: Any, o: Any) -> None:
    o[...] = x[...] + 1


def one(x: Any, interpret: Any) -> Any:
    return pl.pallas_call(add_one, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def two_calls(x: Any, interpret: Any = False) -> Any:
    return one(one(x, interpret).T, interpret)


def calls_moved(x: Any, y: Any, interpret: Any = False) -> Any:
    both = jnp.concatenate([x, y[::-1]], axis=0)
    padded = jnp.pad(one(both, interpret), ((0, 0), (2, 2)), constant_values=7)
    return one(padded[4:, :].reshape(-1, 66), interpret), jnp.broadcast_to(x[0], (3, 128)), x


def scanned(x: Any, interpret: Any = False) -> Any:
    def body(carry: Any, row: Any) -> Any:
        carry = one(carry, interpret)
        return carry, one(row, interpret)

    return lax.scan(body, x[0], x)


def jitted(x: Any, interpret: Any = False) -> Any:
    return jax.jit(lambda y: one(y, interpret))(x)


add("two_calls", two_calls, [R], compare="ulp")  # XLA adds the constants first
add("calls_moved", calls_moved, [floats(16, 128), floats(8, 128)])
add("scan_of_calls", scanned, [floats(3, 8, 128)])
add("jit_of_call", jitted, [R])
add("vmap_of_call", lambda x, interpret=False: jax.vmap(lambda y: one(y, interpret))(x), [floats(3, 8, 128)])


def dynamic_grid(n: Any, x: Any, interpret: Any = False) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] * pl.num_programs(0)

    return pl.pallas_call(
        body,
        grid=(n,),
        in_specs=[spec(8, 128, at=lambda i: (i, 0))],
        out_specs=spec(8, 128, at=lambda i: (0, 0)),
        out_shape=shape(8, 128, dtype=I32),
        interpret=interpret,
    )(x)


add("dynamic_grid", dynamic_grid, [np.int32(3), integers(32, 128)])
