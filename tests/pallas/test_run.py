"""Kernels on a device: at once, under jit and vmap, from a file; what failed runs say."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
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
    """Choose who executes the kernels: the model, or NumPy in its place, for what jax has to do with it."""
    if request.param == "numpy":

        def execute(self: running.Compiled, *operands: Any) -> list[Any]:
            document = json.loads(kpusim.pallas.source(self.bound, *operands))
            return numpy_reference.run(document, [np.asarray(operand) for operand in operands])

        monkeypatch.setattr(running.Compiled, "__call__", execute)
        monkeypatch.setattr(running.Compiled, "load", lambda self: None)
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
    """A row sees a part of a ref in ANY; also where one operand is the same for all."""

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
    inside = kpusim.pallas.run(jax.vmap(jax.vmap(function, in_axes=(0, None), out_axes=1)))
    both = np.stack([many, many - 4])
    assert np.array_equal(inside(both, both[:, 1]), (both * 2 + both[:, 1:2]).transpose(0, 2, 1, 3))


def test_scan(engine: str) -> None:
    """Inside a loop of jax."""
    function = kpusim.pallas.run(
        lambda x: jax.lax.scan(lambda c, _: (doubled(c), c[0, 0]), x, None, length=3)
    )
    last, firsts = function(X)
    assert np.array_equal(last, X * 8)
    assert np.array_equal(firsts, X[0, 0] * np.array([1, 2, 4], np.float32))


@pytest.mark.parametrize("checked", [False, True])
def test_shard_map(engine: str, checked: bool) -> None:
    """Each device does its part, and knows where it is and what others have."""
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("x")

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    def part(x: Any) -> Any:
        twice = pl.pallas_call(body, out_shape=jax.eval_shape(lambda x: x, x))(x)
        return twice + jax.lax.axis_index("x"), jax.lax.psum(twice, "x")

    out = rows, jax.sharding.PartitionSpec()
    function = jax.shard_map(part, mesh=mesh, in_specs=rows, out_specs=out, check_vma=checked)
    ours = kpusim.pallas.run(function)
    for call in (ours, ours, jax.jit(ours), kpusim.pallas.run(jax.jit(function))):  # compiled, found, traced
        assert all(np.array_equal(result, X * 2) for result in call(X))


@pytest.mark.device
def test_traced_random_numbers() -> None:
    """Jax's own, which are computed of others, are those of a call with arrays."""

    def body(seed: Any, o: Any) -> None:
        key = jax.random.wrap_key_data(jnp.stack([seed[0], seed[1]]), impl="threefry2x32")
        o[...] = jax.random.uniform(jax.random.fold_in(key, 3), o.shape)

    memory = [pl.BlockSpec(memory_space=pltpu.SMEM)]
    function = pl.pallas_call(body, in_specs=memory, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))
    seed = np.array([1, 2], np.uint32)
    key = jax.random.fold_in(jax.random.wrap_key_data(seed, impl="threefry2x32"), 3)
    assert np.array_equal(jax.jit(kpusim.pallas.run(function))(seed), jax.random.uniform(key, X.shape))


@pytest.mark.device
@pytest.mark.parametrize("around", [jax.jit, lambda function: lambda x: jax.lax.map(function, x[None])[0]])
def test_refused_where_jax_calls_back(around: Any) -> None:
    """Refusals are as outside of loops and jit: jax would hide them in an error of its own."""

    def body(x: Any, o: Any) -> None:
        o[...] = jax.scipy.special.digamma(x[...])

    function = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))
    with pytest.raises(UserError, match="primitive `digamma`"):
        around(kpusim.pallas.run(function))(X)
    with pytest.raises(UserError, match="primitive `digamma`"):
        kpusim.pallas.run(around(function))(X)


def weak_arguments(interpret: Any) -> Any:
    """Return a function of an array and a number that gives both to a kernel, and the number back."""
    return lambda x, number: (doubled(x * number, interpret), number)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize("number", [3, 2.5, True, np.float32(2.5), np.float64(2.5), jnp.asarray(2.5)])
def test_types_of_numbers(engine: str, dtype: Any, number: Any) -> None:
    """Types are those of jit: numbers of Python, and what jax makes of them, take the type of the array."""
    x = jnp.full((8, 128), 3, dtype)
    expected = jax.jit(weak_arguments(True))(x, number)
    found = kpusim.pallas.run(weak_arguments(False))(x, number)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
        assert np.array_equal(one, other)


def test_types_of_later_numbers(engine: str) -> None:
    """A capture for a number of Python does not serve an array."""
    function, x = kpusim.pallas.run(weak_arguments(False)), jnp.ones((8, 128), jnp.bfloat16)
    assert function(x, 2.5)[0].dtype == jnp.bfloat16
    assert function(x, np.float32(2.5))[0].dtype == jnp.float32


def test_keywords(engine: str) -> None:
    """Trees and numbers, in any order."""

    def function(x: Any, *, shift: Any, factor: Any = 1.0) -> Any:
        return doubled(x) * factor + shift["by"]

    run = kpusim.pallas.run(function)
    assert np.array_equal(run(X, shift={"by": 1}), X * 2 + 1)
    assert np.array_equal(run(X, shift={"by": X}, factor=3.0), X * 6 + X)
    assert np.array_equal(jax.jit(run)(factor=3.0, shift={"by": 1}, x=X), X * 6 + 1)
    with pytest.raises(UserError, match=r"argument \['shift'\]\['by'\] is not an array.*type str.*Fix: "):
        run(X, shift={"by": "1"})


def test_shapes_have_no_values() -> None:
    """They are for an export."""
    with pytest.raises(UserError, match=r"argument \[0\] is not an array.*ShapeDtypeStruct.*Fix: "):
        kpusim.pallas.run(doubled)(jax.ShapeDtypeStruct((8, 128), jnp.float32))


def until_large(x: Any, interpret: Any = False) -> Any:
    """Call as many times as it takes; and return their number."""

    def trip(state: Any) -> Any:
        return doubled(state[0], interpret), state[1] + 1

    return jax.lax.while_loop(lambda state: jnp.abs(state[0]).max() < 50, trip, (x, 0))


def if_positive(x: Any, interpret: Any = False) -> Any:
    """One branch calls a kernel."""
    return jax.lax.cond(x[0, 0] > 0, lambda y: doubled(y, interpret), lambda y: y, x)


@pytest.mark.parametrize("function", [until_large, if_positive])
def test_conditions_of_rows(engine: str, function: Any) -> None:
    """vmap inside of `run`: rows that are done keep what they have. Outside jax has no form for it."""
    many = np.stack([X, X * 30, -X, X / 8]).reshape(2, 2, 8, 128)
    expected = jax.jit(jax.vmap(jax.vmap(lambda x: function(x, True))))(many)
    mapped = kpusim.pallas.run(jax.vmap(jax.vmap(function)))
    for run in (mapped, jax.jit(mapped)):
        assert jax.tree_util.tree_all(jax.tree_util.tree_map(np.array_equal, run(many), expected))
    for run in (jax.vmap(kpusim.pallas.run(function)), jax.jit(jax.vmap(kpusim.pallas.run(function)))):
        with pytest.raises(UserError, match=r"test_run\.py:\d+ .*Fix: kpusim\.pallas\.run\(jax\.vmap\("):
            run(many[0])


def test_memory_space(engine: str) -> None:
    """jax executes the constraint under jit only."""
    function = lambda x: doubled(pltpu.with_memory_space_constraint(x, pltpu.HBM))  # noqa: E731
    for run in (kpusim.pallas.run(function), kpusim.pallas.run(jax.jit(function))):
        assert np.array_equal(run(X), X * 2)
    assert np.array_equal(jax.jit(kpusim.pallas.run(function))(X), X * 2)


def pipelined(x: Any) -> Any:
    """A call that asks jax for the sizes of a TPU."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def kernel(x_ref: Any, o_ref: Any) -> None:
        block = pl.BlockSpec((4, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(2,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, in_specs=[anywhere], out_specs=anywhere, out_shape=out)(x)


@pytest.mark.device
@pytest.mark.parametrize("around_run", [lambda function: function, jax.jit])
def test_threads(around_run: Any) -> None:
    """One function, captured and run by several threads at once."""
    function = around_run(kpusim.pallas.run(pipelined))
    begin = threading.Barrier(4)
    wrong: list[Any] = []

    def calls(factor: int) -> None:
        begin.wait()
        for _ in range(10):
            try:
                if not np.array_equal(function(X * factor), X * 2 * factor):
                    wrong.append(factor)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=calls, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    run = kpusim.pallas.last_run()
    assert run is not None
    assert run.complete


def test_gradient_is_refused(engine: str) -> None:
    """Also inside of vmap."""
    loss = lambda x: kpusim.pallas.run(doubled)(x).sum()  # noqa: E731
    with pytest.raises(UserError, match=r"no gradients.*Fix: "):
        jax.grad(loss)(X)
    with pytest.raises(UserError, match="no gradients"):
        jax.vmap(jax.grad(loss))(np.stack([X, X]))
    with pytest.raises(UserError, match=r"test_run\.py:\d+ \(.*no gradients"):
        kpusim.pallas.run(jax.vmap(jax.grad(lambda x: doubled(x).sum())))(np.stack([X, X]))


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
    """A file that is cut off is said to be."""
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
