"""Functions of jax.numpy, jax.nn and jax itself inside of kernels, on whole values; pytrees of refs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from kernels.case import add, floats, integers, kernel, shape

F32 = jnp.float32
X, Y = floats(8, 128, seed="library x"), floats(8, 128, seed="library y")
N = integers(8, 128, low=-50, high=50, seed="library n")
TABLE = np.sort(floats(16, seed="library t"))


def whole(name: str, function: Callable[..., Any], *operands: Any, compare: str = "close") -> None:
    """A kernel that stores what the function makes of its operands."""
    made = jax.tree_util.tree_leaves(jax.eval_shape(function, *operands))

    def body(*refs: Any) -> None:
        values = jax.tree_util.tree_leaves(function(*(ref[...] for ref in refs[: len(operands)])))
        for ref, value in zip(refs[len(operands) :], values, strict=True):
            ref[...] = value

    def call(*arrays: Any, interpret: Any = False) -> Any:
        out = [shape(*result.shape, dtype=result.dtype) for result in made]
        return pl.pallas_call(body, out_shape=out, interpret=interpret)(*arrays)

    add("library_" + name, call, operands, compare=compare)


whole("ragged_dot", lax.ragged_dot, X[:, :16], floats(3, 16, 4, seed="rd"), np.array([3, 0, 4], np.int32))
whole("bessel", jnp.i0, 4 * X)
whole("interp", jnp.interp, X, TABLE, TABLE * 2)
whole("searchsorted", jnp.searchsorted, TABLE, X[0])
whole("kron_outer", lambda x, y: (jnp.kron(x, y), jnp.outer(x, y)), X[0, :4], Y[0, :16])
whole("cross", jnp.cross, X[:, :3], Y[:, :3])
whole("diagonals", lambda x: (jnp.triu(x), jnp.tril(x, -1), jnp.trace(x), jnp.diagonal(x)), X[:, :8])
whole("covariance", jnp.cov, X)
whole("quantiles", lambda x: (jnp.median(x, axis=1), jnp.quantile(x, 0.3, axis=1)), X)
whole("activations", lambda x: (jax.nn.softplus(x), jax.nn.mish(x), jax.nn.selu(x), jax.nn.glu(x)), X)
whole("gcd", lambda x, y: (jnp.gcd(x, y), jnp.lcm(x, y)), np.abs(N), np.abs(N[::-1]))
whole("divmod", jnp.divmod, N, np.where(N == 0, 3, N)[::-1])
whole("frexp", jnp.frexp, X, compare="exact")
whole("packbits", lambda x: jnp.packbits(x > 0, axis=1), X)
whole("pad_modes", lambda x: (jnp.pad(x, 2, mode="reflect"), jnp.pad(x, 1, mode="wrap")), X, compare="exact")
whole("lexsort", lambda x, y: jnp.lexsort((x, y)), N[0] % 5, N[1])
whole("isin", jnp.isin, N, N[0, :8])
whole("matrix_power", lambda x: jnp.linalg.matrix_power(x, 5), X[:, :8] * 0.3)
whole("vmap", jax.vmap(lambda a, b: jnp.dot(a, b) * a), X, Y)
whole("grad", jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), X)
whole("vjp_softmax", lambda x, y: jax.vjp(lambda z: jax.nn.softmax(z, axis=1), x)[1](y)[0], X, Y)
whole("checkpoint", jax.checkpoint(lambda x: jnp.sin(x) * 2), X)
whole("map", lambda x: lax.map(lambda row: jnp.sum(row) * row, x), X)
whole(
    "while_in_while",
    lambda x: lax.while_loop(
        lambda c: c[0] < 3,
        lambda c: (
            c[0] + 1,
            lax.while_loop(lambda d: d[0] < c[0], lambda d: (d[0] + 1, d[1] * 2), (0, c[1]))[1],
        ),
        (0, x),
    ),
    X,
    compare="exact",
)


@kernel("trees_of_outputs", [X], {"a": shape(8, 128), "b": (shape(8, 1),)})
def trees(x: Any, o: Any) -> None:
    o["a"][...] = x[...] + 1
    o["b"][0][...] = x[:, :1]


if jax.__version__ != "0.9.2":  # which takes no names

    @kernel("scratch_by_name", [X], shape(8, 128), scratch_shapes={"kept": pltpu.VMEM((8, 128), F32)})
    def by_name(x: Any, o: Any, kept: Any) -> None:
        kept[...] = x[...] * 2
        o[...] = kept[...]


@kernel(
    "bools_in_scratch",
    [X > 0, N],
    [shape(8, 128, dtype=jnp.bool_), shape(8, 128)],
    scratch_shapes=[pltpu.VMEM((8, 128), jnp.bool_)],
)
def bools(mask: Any, n: Any, o: Any, p: Any, kept: Any) -> None:
    kept[...] = mask[...] & (n[...] > 0)
    o[...] = ~kept[...]
    p[...] = jnp.where(kept[...], 1.0, 0.0)


@kernel(
    "aliases_crossed", [N, N + 1], [shape(8, 128, dtype=jnp.int32)] * 2, input_output_aliases={0: 1, 1: 0}
)
def crossed(x: Any, y: Any, o: Any, p: Any) -> None:
    o[...] = y[...] * 2
    p[...] = x[...] - 5
