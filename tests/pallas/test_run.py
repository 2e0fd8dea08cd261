"""Kernels on a device: at once, under jit and vmap, from a file; what failed runs say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kpusim
import kpusim.pallas
import numpy as np
import numpy_reference
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernels.algorithms import EXAMPLES
from kernels.case import floats
from kpusim import UserError
from kpusim.pallas import running

X = floats(8, 128)


@pytest.fixture(params=["numpy", pytest.param("model", marks=pytest.mark.device)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who executes the kernels: the model, or NumPy in its place, for what jax has to do with it."""
    if request.param == "numpy":

        def execute(self: running.Compiled, *operands: Any) -> list[Any]:
            document = json.loads(kpusim.pallas.source(self.bound, *operands))
            return numpy_reference.run(document, [np.asarray(operand) for operand in operands])

        monkeypatch.setattr(running.Compiled, "__call__", execute)
    return str(request.param)


def doubled(x: Any, interpret: Any = False) -> Any:
    """The simplest call."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def around(x: Any) -> Any:
    """jax computes what stands around the call."""
    return {"y": doubled(x + 1) * 3, "x": x}


def test_concrete(engine: str) -> None:
    """At once, with the rest by jax."""
    result = kpusim.pallas.run(around)(X)
    assert np.array_equal(result["y"], ((X + 1) * 2) * 3)
    run = kpusim.pallas.last_run()
    assert engine == "numpy" or (run is not None and run.cycles > 0)


def test_jit(engine: str) -> None:
    """Through a callback."""
    function = jax.jit(lambda x: jnp.sin(kpusim.pallas.run(doubled)(x)))
    assert np.allclose(function(X), np.sin(X * 2))
    assert np.allclose(function(X + 1), np.sin((X + 1) * 2))


def test_vmap(engine: str) -> None:
    """A grid axis more: one call."""
    many = np.stack([X, X + 1, X * 3])
    assert np.array_equal(jax.vmap(kpusim.pallas.run(doubled))(many), many * 2)
    assert np.array_equal(jax.jit(jax.vmap(kpusim.pallas.run(doubled)))(many), many * 2)


def test_vmap_of_copies(engine: str) -> None:
    """Refs in ANY have no windows: a call for each row, also where one operand is the same for all."""

    def kernel(x: Any, y: Any, o: Any, memory: Any, semaphore: Any) -> None:
        pltpu.async_copy(x, memory, semaphore).wait()
        o[...] = memory[...] * 2 + y[...]

    def function(x: Any, y: Any) -> Any:
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec()],
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        )(x, y)

    many = np.stack([X, X + 1, X * 3])
    mapped = jax.vmap(kpusim.pallas.run(function), in_axes=(0, None))
    assert np.array_equal(mapped(many, X), many * 2 + X)
    assert np.array_equal(jax.jit(mapped)(many, X), many * 2 + X)
    with pytest.raises(UserError, match=r"put it around kpusim\.pallas\.run"):
        kpusim.pallas.run(jax.vmap(function))(many, many)


def test_scan(engine: str) -> None:
    """Inside a loop of jax."""
    function = kpusim.pallas.run(
        lambda x: jax.lax.scan(lambda c, _: (doubled(c), c[0, 0]), x, None, length=3)
    )
    last, firsts = function(X)
    assert np.array_equal(last, X * 8)
    assert np.array_equal(firsts, X[0, 0] * np.array([1, 2, 4], np.float32))


def test_gradient_is_refused(engine: str) -> None:
    """Also inside of vmap."""
    loss = lambda x: kpusim.pallas.run(doubled)(x).sum()  # noqa: E731
    with pytest.raises(UserError, match=r"no gradients.*Fix: "):
        jax.grad(loss)(X)
    with pytest.raises(UserError, match="no gradients"):
        jax.vmap(jax.grad(loss))(np.stack([X, X]))


@pytest.mark.device
def test_file_without_jax(tmp_path: Path) -> None:
    """The exported file needs no jax, and is a program like any other."""
    path = tmp_path / "doubled.pallas.json"
    kpusim.pallas.export(doubled, X).save(path)
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys; sys.modules['jax'] = None; import kpusim, numpy as np; x = np.load(sys.argv[2]); "
        "run = kpusim.simulate(sys.argv[1], 'tile32', {'x': x}); "
        "assert np.array_equal(next(iter(run.outputs.values())).reshape(x.shape), x * 2)"
    )
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "x.npy"], check=True)


@pytest.mark.device
def test_truncated_file(tmp_path: Path) -> None:
    """What is cut off is said."""
    text = kpusim.pallas.source(doubled, X)
    with pytest.raises(UserError, match="Fix: "):
        kpusim.Program.parse(text[: len(text) // 2], "half.pallas.json")


@pytest.mark.device
def test_inspect() -> None:
    """All three phases."""
    found = kpusim.pallas.inspect(doubled, X)
    assert not found.error
    assert set(found.seconds) == {"capture", "lowering", "execution"}


@pytest.mark.device
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    """Values against NumPy; cycles, against the table of docs/pallas.md."""
    example = EXAMPLES[name]
    results = kpusim.pallas.run(example.function, platform="tile32")(*example.operands)
    examples = sys.modules["pallas_examples"]
    assert examples.wrong(example, results) == ""
    page = Path(__file__).resolve().parents[2] / "docs/pallas.md"
    if jax.__version__ == "0.9.2":
        return  # its equations of large_sort are others
    assert examples.cycle_row(name, kpusim.pallas.last_run()) in page.read_text().splitlines()


@pytest.mark.device
def test_benchmark() -> None:
    """The table of docs/pallas.md has a line for a kernel: all of its columns are times."""
    script = Path(__file__).resolve().parents[2] / "examples/pallas/benchmark.py"
    command = [sys.executable, script, "multiply_8x128"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    columns = [line.strip("| ").split(" | ") for line in lines if not line.startswith("|-")]
    assert len(columns) == 2
    assert columns[0][0] == "kernel"
    assert columns[1][0] == "multiply_8x128"
    assert len(columns[1]) == len(columns[0])
    assert all(float(time) > 0 for time in columns[1][1:])


def long(x: Any, o: Any) -> None:
    """More statements than kernels of rule set gpu may have."""
    value = x[...]
    for i in range(5000):
        value = value * 0.5 + float(i % 7)
    o[...] = value


@pytest.mark.device
def test_long_kernels() -> None:
    """Against the same in NumPy."""
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    found = kpusim.pallas.run(pl.pallas_call(long, out_shape=shape), mode="functional")(x)
    for i in range(5000):
        x = x * np.float32(0.5) + np.float32(i % 7)
    assert np.array_equal(found, x)


@pytest.mark.device
def test_jax_with_its_own_checks() -> None:
    """They refuse callbacks inside of functions with derivatives of their own."""

    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    x = jnp.ones((8, 128))
    with jax.enable_checks(True):
        function = kpusim.pallas.run(pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)))
        assert float(jax.jit(function)(x).sum()) == 2 * x.size
        with pytest.raises(ValueError, match="callbacks do not support JVP"):
            jax.grad(lambda x: jax.jit(function)(x).sum())(x)
