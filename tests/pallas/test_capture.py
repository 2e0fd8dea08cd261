"""Refusals, and how they are worded; and what of jax an export depends on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.export
import jax.numpy as jnp
import kept
import kpusim.pallas
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton
from kernels import CASES
from kpusim import UserError
from kpusim.pallas import internals, primitives

X = jax.ShapeDtypeStruct((8, 128), jnp.float32)
ANY = pl.BlockSpec(memory_space=pl.ANY)


def call(body: Any, *operands: Any, out: Any = X, **options: Any) -> Any:
    """A function of one call."""
    return lambda *arrays: pl.pallas_call(body, out_shape=out, **options)(*(operands or arrays))


def refusal(function: Any, *shapes: Any) -> str:
    """Return what an export says."""
    with pytest.raises(UserError) as caught:
        kpusim.pallas.source(function, *(shapes or (X,)))
    text = str(caught.value)
    assert "Fix: " in text
    return text


def test_jax_is_as_expected() -> None:
    """Internals of the installed release."""
    assert kpusim.pallas.self_test() == []


def test_no_private_import_elsewhere() -> None:
    """All that depends on a release of jax stands in one file."""
    folder = Path(internals.__file__).parent
    private = re.compile("^(import|from) jax._src", re.MULTILINE)
    users = [path.name for path in folder.glob("*.py") if private.search(path.read_text())]
    assert users == ["internals.py"]


def test_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not guessed what an unknown one means."""
    monkeypatch.setattr(jax, "__version__", "0.11.0")
    text = refusal(call(lambda x, o: None))
    assert "jax 0.11.0 is not known" in text
    assert "pip install jax==0.10.2" in text


def test_package_without_jax() -> None:
    """The rest of the package never needs it."""
    code = "import sys; sys.modules['jax'] = None; import kpusim; assert 'kpusim.pallas' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_registry_is_as_before() -> None:
    """The description of a TPU is there only while something is captured."""
    case = CASES["emit_pipeline"]
    kpusim.pallas.source(case.function, *case.operands)
    assert internals.tpu_info.registry == {}


def kernel_with_others(x: Any, o: Any) -> None:
    """Primitives that are not there, in its first two lines."""
    y = lax.digamma(x[...])
    o[...] = y + lax.bessel_i1e(x[...])


def test_unsupported_lines() -> None:
    """Every primitive that is not there, with its line."""
    text = refusal(call(kernel_with_others))
    here = kernel_with_others.__code__.co_firstlineno
    assert f"test_capture.py:{here + 2} (kernel_with_others): primitive `digamma`" in text
    assert f"test_capture.py:{here + 3} (kernel_with_others): primitive `bessel_i1e`" in text


def outer(x: Any) -> Any:
    """Arithmetic outside, in its last line."""
    y = call(lambda a, o: o.__setitem__(..., a[...]))(x)
    return y * 2


def test_equations_outside() -> None:
    """Arithmetic between calls."""
    text = refusal(outer)
    assert (
        f"test_capture.py:{outer.__code__.co_firstlineno + 3} (outer): `mul` outside of the kernels" in text
    )


def test_no_call() -> None:
    """A function without kernels."""
    assert "no pallas_call" in refusal(lambda x: x)


def test_no_elements() -> None:
    """Arguments and results without any."""
    nothing = jax.ShapeDtypeStruct((0, 128), jnp.float32)
    assert "without elements, of shape (0, 128)" in refusal(call(lambda x, o: None), nothing)
    assert "without elements, of shape (0, 128)" in refusal(call(lambda x, o: None, out=nothing))
    with pytest.raises(UserError, match="without elements"):
        kpusim.pallas.run(call(lambda x, o: None))(np.zeros((0, 128), np.float32))


def unused(x: Any, other: Any) -> Any:
    """A call with an operand that its kernel leaves alone."""

    def body(x_ref: Any, other_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(body, out_shape=X)(x, other)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (jnp.zeros((0, 8)), "an array without elements, of shape (0, 8). Fix: leave it out of the call"),
        (
            jnp.zeros((8, 8), jnp.complex64),
            "elements of type complex64 are not supported. Fix: one of float32, ",
        ),
        (jnp.zeros((8, 8), jnp.float8_e4m3), "elements of type float8_e4m3 are not supported. Fix: "),
    ],
)
def test_operand_is_named(other: Any, text: str) -> None:
    """With the line of the call; of an export, the argument."""
    with pytest.raises(UserError) as caught:
        kpusim.pallas.run(unused)(np.zeros((8, 128), np.float32), other)
    line = unused.__code__.co_firstlineno + 6
    assert f"test_capture.py:{line} (unused): operand `other_ref`: {text}" in str(caught.value)
    assert f"argument `other`: {text}" in refusal(unused, X, other)


def test_types_of_numbers() -> None:
    """Types of numbers are those of jit, where they are operands."""
    function = lambda x, number: call(lambda a, b, o: o.__setitem__(..., a[...] * b[0]))(  # noqa: E731
        x, jnp.broadcast_to(number, (1,))
    )
    for number in (2.5, np.float64(2.5), jnp.asarray(2.5)):
        document = json.loads(kpusim.pallas.source(function, X, number))
        assert [row["type"] for row in document["arrays"][:2]] == ["f32", "f32"]


def test_dynamic_shape() -> None:
    """Sizes that are symbols, in whatever jax makes of them."""
    (rows,) = jax.export.symbolic_shape("rows")
    doubled = call(
        lambda x, o: o.__setitem__(..., x[...] * 2), out=jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    )
    assert "an argument of shape (rows, 128)" in refusal(
        doubled, jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    )
    assert "dynamically-shaped" in refusal(doubled)
    slices = call(lambda x, o: o.__setitem__(0, x[pl.ds(0, x[0, 0].astype(jnp.int32))].sum(0)))
    assert re.search(r"test_capture\.py:\d+ \(.*a slice of a size that is computed.*Fix: ", refusal(slices))


def test_captured_array() -> None:
    """jax refuses it; we say what to do."""
    table = jnp.arange(128, dtype=jnp.float32)
    text = refusal(call(lambda x, o: o.__setitem__(..., x[...] + table)))
    assert "captures constants" in text
    assert "as operands" in text


def test_array_outside_is_constant() -> None:
    """An array that the function, not the kernel, captures becomes an operand with data."""
    table = np.arange(1024, dtype=np.float32).reshape(8, 128)

    def function(x: Any) -> Any:
        return call(lambda a, b, o: o.__setitem__(..., a[...] + b[...]))(x, jnp.asarray(table))

    document = json.loads(kpusim.pallas.source(function, X))
    assert [row["role"] for row in document["arrays"]] == ["input", "output", "constant"]


def test_direct_access_to_hbm() -> None:
    """A ref that is not in VMEM is copied, not read."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    interpreted = call(body, in_specs=[ANY], interpret=True)
    assert "cannot be referenced directly" in refusal(interpreted)


class OtherMesh:
    """Mesh of no TensorCores."""

    shape: ClassVar[dict[str, int]] = {"core": 1}

    def discharges_effect(self, effect: Any) -> bool:
        return False


def on_mesh_of_refs(x: Any) -> Any:
    """Return a kernel of refs around it, in the last line of `copy`."""
    mesh = OtherMesh()

    def copy(refs: Any) -> None:
        pl.core_map(mesh)(lambda: pltpu.sync_copy(*refs))

    return pl.run_state(copy)((x, jnp.zeros_like(x)))[1]


def test_mesh() -> None:
    """A mesh is refused by its line, under `jit` and in loops too."""
    what = "_map`: a kernel on a mesh of cores"
    assert what in refusal(on_mesh_of_refs)
    place = f"test_capture.py:{on_mesh_of_refs.__code__.co_firstlineno + 5} "
    looped = lambda x: lax.fori_loop(0, 2, lambda _, y: on_mesh_of_refs(y), x)  # noqa: E731
    for one in (on_mesh_of_refs, jax.jit(on_mesh_of_refs), looped):
        with pytest.raises(UserError, match=r"Fix: call it by pl\.pallas_call or pl\.kernel") as caught:
            kpusim.pallas.run(one)(np.zeros((8, 128), np.float32))
        assert place in str(caught.value)
        assert what in str(caught.value)


def test_another_dialect() -> None:
    """Another dialect is refused by its name."""
    options = triton.CompilerParams()
    text = refusal(call(lambda x, o: o.__setitem__(..., x[...]), compiler_params=options))
    assert "compiler_params of triton: only those of the TPU dialect" in text


def test_remote_copy() -> None:
    """There is one device."""

    def body(x: Any, o: Any, one: Any, other: Any) -> None:
        copy = pltpu.make_async_remote_copy(x, o, one, other, device_id=(1,))
        copy.start()
        copy.wait()

    scratch = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
    text = refusal(call(body, in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch))
    assert "a copy to another device" in text


def test_bounded_slice() -> None:
    """A block dimension that neither of jax's interpreters runs."""
    spec = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(i * 8, 8), 0))
    text = refusal(call(lambda x, o: o.__setitem__(..., x[...]), grid=(1,), in_specs=[spec]))
    assert "BoundedSlice" in text


def test_accuracy() -> None:
    """Only the usual one."""
    text = refusal(call(lambda x, o: o.__setitem__(..., lax.exp(x[...], accuracy=lax.Tolerance(rtol=1e-3)))))
    assert "`exp` with a chosen accuracy" in text


def test_wide_types() -> None:
    """64 bits are not there."""
    with jax.enable_x64(True):
        wide = jax.ShapeDtypeStruct((8, 128), jnp.float64)
        text = refusal(call(lambda x, o: o.__setitem__(..., x[...]), out=wide), wide)
    assert "float64" in text


def test_semaphore_array_without_index() -> None:
    """jax itself refuses it."""

    def body(x: Any, o: Any, semaphores: Any) -> None:
        pl.semaphore_signal(semaphores, 1)
        o[...] = x[...]

    with pytest.raises(ValueError, match="non-\\(\\)-shaped semaphore"):
        kpusim.pallas.source(call(body, scratch_shapes=[pltpu.SemaphoreType.REGULAR((2,))]), X)


def test_print_warns() -> None:
    """Operations without an effect are said."""

    def body(x: Any, o: Any) -> None:
        pl.debug_print("step {}", pl.program_id(0))
        jax.debug.callback(lambda step: None, pl.program_id(0))
        o[...] = x[...]

    with pytest.warns(UserWarning) as warned:
        kpusim.pallas.source(call(body, grid=(1,)), X)
    text = " ".join(str(one.message) for one in warned)
    assert "`debug_print` has no effect" in text
    assert "`debug_callback` has no effect" in text


@pytest.mark.parametrize("on", [False, True])
def test_debug_check(on: bool, recwarn: pytest.WarningsRecorder) -> None:
    """Jax leaves it out unless checks are on; then it is said that it checks nothing here."""

    def body(x: Any, o: Any) -> None:
        pl.debug_check(x[0, 0] < 3, "too large")
        o[...] = x[...]

    with pl.enable_debug_checks(on):
        document = json.loads(kpusim.pallas.source(call(body), X))
    ops = [equation["op"] for equation in document["steps"][0]["call"]["body"]["equations"]]
    assert ops[-2:] == ["get", "swap"]
    assert "check" not in ops
    assert ["`check` has no effect" in str(warning.message) for warning in recwarn] == [True] * on


def test_checkify() -> None:
    """Checks that jax turns into values before it lowers: a kernel has none."""

    def body(x: Any, o: Any) -> None:
        checkify.check(x[0, 0] < 3, "too large")
        o[...] = x[...]

    assert "`checkify.check`; take pl.debug_check" in refusal(call(body))


@pytest.mark.parametrize("devices", [1, 2])
def test_shard_map(devices: int) -> None:
    """Over one device it is what that does."""
    mesh = jax.sharding.AbstractMesh((devices,), ("x",))
    rows = jax.sharding.PartitionSpec("x")
    double = call(lambda x, o: o.__setitem__(..., x[...] * 2), out=jax.ShapeDtypeStruct((4, 128), X.dtype))
    function = jax.shard_map(double, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)
    if devices == 2:
        assert "`shard_map` over several devices" in refusal(function)
    else:
        document = json.loads(kpusim.pallas.source(function, jax.ShapeDtypeStruct((4, 128), X.dtype)))
        assert [list(step) for step in document["steps"]] == [["call"]]


def test_inspection_names_what_is_missing() -> None:
    """Counts, and lines."""
    found = kpusim.pallas.inspect(call(kernel_with_others), X)
    assert found.primitives["add"] == 1
    assert [what for what, _ in found.unsupported] == [
        "primitive `digamma`",
        "primitive `bessel_i1e`",
    ]
    assert set(found.seconds) == {"capture"}
    assert found.calls == ["kernel_with_others"]


def test_what_is_made_of_others_has_its_place() -> None:
    """Scatters and random keys are exported as several equations, with the kernel's lines."""
    for name in ("at_columns_of_rows", "jax_random_split"):
        case = CASES[name]
        lines = json.loads(kpusim.pallas.source(case.function, *case.operands))["lines"]
        assert lines
        assert all("kernels/" in line for line in lines), lines


def test_loops_stay_loops() -> None:
    """A scan inside a kernel is one equation, whatever its length."""

    def body(x: Any, o: Any) -> None:
        o[...] = lax.fori_loop(0, 1000, lambda i, v: v + 1, x[...])

    document = json.loads(kpusim.pallas.source(call(body), X))
    ops = [row["op"] for row in document["steps"][0]["call"]["body"]["equations"]]
    assert ops.count("scan") == 1
    assert len(ops) < 6


def test_coverage_page() -> None:
    """The table of the documentation is that of the handlers."""
    page = (Path(__file__).parents[2] / "docs/pallas.md").read_text()
    begin, end = page.index("<!-- primitives -->\n"), page.index("<!-- end of primitives -->")
    assert page[begin:end].split("\n", 1)[1] == primitives.coverage()


def test_every_case_is_a_primitive_with_a_test() -> None:
    """Primitives that have a handler are used by a kernel here."""
    used: set[str] = set()
    for case in CASES.values():
        used |= set(kept.exported(case).primitives)
    without = {
        "add_any",
        "stop_gradient",
        "optimization_barrier",
        "multiple_of",
        "copy",
        "check",
        "debug_print",
        "debug_callback",
        "delay",
        "trace_value",
    }
    if jax.__version__ == "0.9.2":
        without.add("empty2")  # 0.10.2 begins loops with it
    there = set(primitives.HANDLERS) & set(internals.PRIMITIVES.values())
    assert sorted(there - used - without) == []
