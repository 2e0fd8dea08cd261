"""Each fix that errors of kpusim.pallas advise works: each case makes a mistake, and follows the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import kpusim.pallas
import numpy as np
import pytest
from fixes import Case, check_complete, play
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels.case import floats
from kpusim.pallas import capture
from test_capture import on_mesh_of_refs
from test_run import doubled, if_positive

X = floats(8, 128)
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)
EMPTY = jax.ShapeDtypeStruct((0, 128), X.dtype)
ANY = pl.BlockSpec(memory_space=pl.ANY)
TABLE = jnp.arange(128, dtype=jnp.float32)
SYMBOLIC = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("rows"), 128), X.dtype)
KINDS = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8")


def call(body: Any, out: Any = SHAPE, **options: Any) -> Any:
    """A function of one call."""
    return lambda *arrays: pl.pallas_call(body, out_shape=out, **options)(*arrays)


def exported(function: Any, *shapes: Any) -> None:
    """Only captured; nothing is run."""
    kpusim.pallas.source(function, *(shapes or (SHAPE,)))


def saved(path: str) -> None:
    """Save what was captured in a file."""
    kpusim.pallas.export(doubled, SHAPE).save(path)


def copied(x: Any, o: Any) -> None:
    """A kernel that copies."""
    o[...] = x[...]


def two(x: Any, y: Any, one: Any, other: Any) -> None:
    """A kernel of two independent halves."""
    one[...] = x[...] * 2
    other[...] = y[...] * 2


def zeros(o: Any) -> None:
    """A kernel without operands."""
    o[...] = jnp.zeros(o.shape, o.dtype)


def with_table(x: Any, o: Any) -> None:
    """A kernel that captures an array."""
    o[...] = x[...] + TABLE


def with_operand(x: Any, table: Any, o: Any) -> None:
    """The same with an operand."""
    o[...] = x[...] + table[...]


def repeated(length: int) -> Any:
    """A call in a scan."""
    return lambda x: lax.scan(lambda c, _: (doubled(c), None), x, None, length=length)[0]


def repeated_in_grid(x: Any) -> Any:
    """The same in the grid of one call."""

    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = x_ref[...]

        o_ref[...] = o_ref[...] * 2

    whole = pl.BlockSpec((8, 128), lambda i: (0, 0))
    return pl.pallas_call(body, grid=(20,), in_specs=[whole], out_specs=whole, out_shape=SHAPE)(x)


def few_steps(function: Any) -> None:
    """An export that may have 10 steps."""
    with mock.patch.object(capture, "MOST_STEPS", 10):
        exported(function)


def sliced(x: Any, o: Any) -> None:
    """A slice of a size that is computed."""
    o[0] = x[pl.ds(0, x[0, 0].astype(jnp.int32))].sum(0)


def masked(x: Any, o: Any) -> None:
    """One of a known size, with a mask."""
    rows = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    o[0] = jnp.where(rows < x[0, 0].astype(jnp.int32), x[...], 0.0).sum(0)


def copied_part(n: Any, x: Any, o: Any, memory: Any, semaphore: Any) -> None:
    """A copy of it."""
    part = pl.ds(0, n[0])
    pltpu.async_copy(x.at[part], memory.at[part], semaphore).wait()
    o[...] = memory[...]


COPIED_PART = call(
    copied_part,
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY],
    scratch_shapes=[pltpu.VMEM(X.shape, X.dtype), pltpu.SemaphoreType.DMA],
)


@jax.custom_vjp
def with_gradient(x: Any) -> Any:
    """The call, whose backward pass is a kernel of its own."""
    return doubled(x)


with_gradient.defvjp(lambda x: (doubled(x), None), lambda _, gradient: (doubled(gradient),))


def gradient(function: Any, *, inside: bool) -> None:
    """The gradient of a sum, of what runs on the device or as a whole."""
    if inside:
        found = kpusim.pallas.run(jax.grad(lambda x: function(x).sum()))(X)
    else:
        found = jax.grad(lambda x: kpusim.pallas.run(function)(x).sum())(X)
    assert np.array_equal(found, np.full(X.shape, 2, X.dtype))


def wide(on: bool) -> None:
    """Elements of 64 bits, where jax has them."""
    with jax.enable_x64(on):
        exported(doubled, jnp.zeros(X.shape, float))


def row_by_row(*, inside: bool) -> None:
    """A branch of each row."""
    many = np.stack([X, -X])
    run = kpusim.pallas.run
    (run(jax.vmap(if_positive)) if inside else jax.vmap(run(if_positive)))(many)


def in_reduction(x: Any) -> Any:
    """A call where only jax computes."""
    return lax.custom_linear_solve(lambda y: y, x, lambda matvec, y: doubled(y))


def sharded() -> Any:
    """A call on each device of a mesh of one."""
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("x")
    return jax.shard_map(doubled, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)


def on_cores(x: Any) -> Any:
    """Return a kernel on TensorCores."""
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    return pl.kernel(lambda x_ref, o_ref: pltpu.sync_copy(x_ref, o_ref), SHAPE, mesh=mesh)(x)


run = kpusim.pallas.run
EXPORTED = [
    Case("pallas/capture.py", "Fix: give a function that calls one.", lambda: exported(lambda x: x),
         [lambda: exported(doubled)]),
    Case("pallas/capture.py", "Fix: write these lines with what docs/pallas.md lists.",
         lambda: exported(call(lambda x, o: o.__setitem__(..., jax.scipy.special.digamma(x[...])))),
         [lambda: exported(call(lambda x, o: o.__setitem__(..., jnp.exp(x[...]))))]),
    Case("pallas/capture.py", "Fix: leave it out of the call, and the call out if no result of it has any.",
         lambda: exported(call(two, (SHAPE, EMPTY)), SHAPE, EMPTY), [lambda: exported(call(copied))]),
    Case("pallas/capture.py", "Fix: leave it out of the call, and the call out if no result of it has any.",
         lambda: exported(lambda x: (doubled(x), call(zeros, EMPTY)())), [lambda: exported(doubled)]),
    Case("pallas/capture.py", "Fix: put the loop into the kernel's grid.", lambda: few_steps(repeated(20)),
         [lambda: few_steps(repeated_in_grid)]),
    Case("pallas/program.py", "Fix: check the path.", lambda: saved("absent/x.pallas.json"),
         [lambda: saved("x.pallas.json")]),
    Case("pallas/capture.py", "{}. Fix: give shapes of plain numbers.",
         lambda: exported(call(copied), SYMBOLIC),
         [lambda: exported(call(copied))]),
    Case("pallas/capture.py", "Fix: give them to the kernel as operands.", lambda: exported(call(with_table)),
         [lambda: exported(lambda x: call(with_operand)(x, TABLE))]),
    Case("pallas/capture.py", "{} Fix: give shapes of plain numbers.",
         lambda: exported(call(copied, SYMBOLIC)),
         [lambda: exported(call(copied))]),
    Case("pallas/capture.py", "Fix: take one of a known size, with a mask, or copy it by pltpu.async_copy.",
         lambda: exported(call(sliced)),
         [lambda: exported(call(masked)),
          lambda: exported(COPIED_PART, jax.ShapeDtypeStruct((1,), jnp.int32), SHAPE)]),
    Case("pallas/internals.py", "Fix: turn jax_enable_x64 off.", lambda: wide(True), [lambda: wide(False)]),
    Case("pallas/internals.py", "Fix: one of {}.",
         lambda: exported(doubled, jax.ShapeDtypeStruct(X.shape, jnp.complex64)),
         [lambda kind=kind: exported(doubled, jax.ShapeDtypeStruct(X.shape, kind))
          for kind in KINDS]),
    Case("pallas/running.py", "Fix: values+timing or functional.", lambda: run(doubled, mode="timing"),
         [lambda: run(doubled, mode="values+timing"), lambda: run(doubled, mode="functional")]),
]  # fmt: skip

#: They run programs.
RUN = [
    Case("pallas/capture.py",
         "Fix: give the function around the call a jax.custom_vjp whose backward "
         "pass is a kernel of its own, and take kpusim.pallas.run(jax.grad(function)).",
         lambda: gradient(doubled, inside=False),
         [lambda: gradient(with_gradient, inside=True)]),
    Case("pallas/capture.py",
         "Fix: give the function around the call a jax.custom_vjp whose backward "
         "pass is a kernel of its own, and take kpusim.pallas.run(jax.grad(function)).",
         lambda: gradient(doubled, inside=True),
         [lambda: gradient(with_gradient, inside=True)]),
    Case("pallas/running.py", "Fix: call it under jit, vmap, scan, cond, while_loop or shard_map.",
         lambda: run(in_reduction)(X),
         [lambda: run(jax.jit(doubled))(X), lambda: run(jax.vmap(doubled))(np.stack([X, X])),
          lambda: run(repeated(2))(X), lambda: run(if_positive)(X),
          lambda: run(lambda x: lax.while_loop(lambda y: y[0, 0] > 1e9, doubled, x))(X),
          lambda: run(sharded())(X)]),
    Case("pallas/running.py", "Fix: call it by pl.pallas_call or pl.kernel.", lambda: run(on_mesh_of_refs)(X),
         [lambda: run(doubled)(X), lambda: run(on_cores)(X)]),
    Case("pallas/running.py",
         "Fix: kpusim.pallas.run(jax.vmap(function)) instead of jax.vmap(kpusim.pallas.run(function)).",
         lambda: row_by_row(inside=False),
         [lambda: row_by_row(inside=True)]),
    Case("pallas/running.py", "Fix: give an array or a number; kpusim.pallas.export takes shapes alone.",
         lambda: run(doubled)(SHAPE),
         [lambda: run(doubled)(X), lambda: run(lambda x: doubled(X * x))(3),
          lambda: exported(doubled, SHAPE)]),
]  # fmt: skip

#: Texts that cannot be followed here, and why.
REASONS = {
    ("pallas/__init__.py", "which is not installed"): "to follow is to install a package",
    ("pallas/internals.py", "is not known"): "to follow is to install another jax",
}


@pytest.mark.parametrize(
    "case",
    [*EXPORTED, *(pytest.param(case, marks=pytest.mark.device) for case in RUN)],
    ids=str,
)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """Or has a reason."""
    check_complete("pallas/", [*EXPORTED, *RUN], REASONS)
