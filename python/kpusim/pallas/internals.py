"""Internals of jax that are not public, and where its releases differ. No other file imports ``jax._src``."""

from __future__ import annotations

import functools
import os
import re
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import (
    ad_util,
    checkify,
    core,
    custom_batching,
    custom_derivatives,
    debugging,
    dtypes,
    hijax,
    pjit,
    shard_map,
    source_info_util,
)
from jax._src.ad_checkpoint import name_p, remat_p
from jax._src.interpreters import batching, pxla
from jax._src.lax import convolution, lax, linalg, parallel, slicing, special, windowed_reductions
from jax._src.lax.control_flow import conditionals, loops
from jax._src.pallas import core as pallas_core
from jax._src.pallas import einshape, mpmd
from jax._src.pallas import helpers as pallas_helpers
from jax._src.pallas import pallas_call as calls
from jax._src.pallas import primitives as pallas_primitives
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import primitives as tpu_primitives
from jax._src.pallas.mosaic import random as tpu_random
from jax._src.pallas.mosaic import tpu_info
from jax._src.state import discharge, indexing, types
from jax._src.state import primitives as state_primitives

from kpusim.errors import UserError

prng = tpu_random.jax_prng  # 0.10.2 has moved it, and cut threefry2x32 out of it
threefry2x32 = getattr(tpu_random, "threefry2x32", prng)


@dataclass(frozen=True)
class Release:
    """Differences of a release of jax from others.

    Attributes
    ----------
    dma_items : int
        Of the tree of a copy: 5 refs with their transforms inside, or 9, each ref followed by its transforms.
    """

    dma_items: int


#: The releases that are tested.
RELEASES = {"0.10.2": Release(dma_items=5), "0.9.2": Release(dma_items=9)}

ClosedJaxpr = core.ClosedJaxpr
Literal = core.Literal
Var = core.Var
DropVar = core.DropVar
Tracer = core.Tracer
BatchTracer = batching.BatchTracer
AbstractRef = types.AbstractRef
NDIndexer = indexing.NDIndexer
Slice = indexing.Slice
BitcastTransform = types.BitcastTransform
ReshapeTransform = types.ReshapeTransform
TransposeTransform = types.TransposeTransform
TransformedRef = types.TransformedRef
GatherScatterMode = slicing.GatherScatterMode
Blocked = pallas_core.Blocked
Element = pallas_core.Element
Squeezed = pallas_core.Squeezed
DynamicGridDim = type(pallas_core.dynamic_grid_dim)
TpuParams = tpu_core.CompilerParams
pallas_call_p = calls.pallas_call_p
shard_map_p = shard_map.shard_map_p
with_memory_space_constraint_p = pallas_core.with_memory_space_constraint_p
#: Primitives that `pl.kernel` and `pl.core_map` make, and `pl.run_state` around the latter.
MESH_KERNELS = {mpmd.mpmd_map_p, pallas_core.core_map_p}
OF_CORES = MESH_KERNELS | {discharge.run_state_p}
#: Primitives that only carry another jaxpr, and where it stands.
INLINED = {
    pjit.jit_p: "jaxpr",
    core.closed_call_p: "call_jaxpr",
    custom_derivatives.custom_jvp_call_p: "call_jaxpr",
    custom_derivatives.custom_vjp_call_p: "call_jaxpr",
    remat_p: "jaxpr",
    custom_batching.custom_vmap_p: "call",
    lax.composite_p: "jaxpr",
}
#: Primitives that jax writes with others, and the functions that do.
WRITTEN: dict[str, Any] = {
    "bessel_i0e": special.bessel_i0e_impl,
    "ragged_dot_general": lax._ragged_dot_general_impl,
}
#: Spaces of refs that stay where they are, and are only copied.
SPACES = {
    "None": "vmem",
    "default": "vmem",
    "vmem": "vmem",
    "smem": "smem",
    "any": "any",
    "hbm": "hbm",
    "semaphore_mem": "semaphore",
}


def is_only_copied(aval: Any) -> bool:
    """Return whether a ref stays in DDR."""
    return SPACES.get(str(getattr(aval, "memory_space", ""))) in ("any", "hbm")


def known_primitives() -> dict[Any, str]:
    """Primitives that kernels may consist of, with their names. Other dialects use the same names."""
    table = {}
    modules = (
        lax,
        slicing,
        special,
        convolution,
        windowed_reductions,
        linalg,
        conditionals,
        loops,
        ad_util,
        debugging,
        state_primitives,
        pallas_core,
        pallas_primitives,
        tpu_primitives,
        prng,
        threefry2x32,
    )
    for module in modules:
        for name, value in vars(module).items():
            if name.endswith("_p") and isinstance(value, core.Primitive):
                table[value] = value.name
    table[pjit.jit_p] = "jit"
    table[checkify.check_p] = "check"
    table[name_p] = "name"
    table[parallel.axis_index_p] = "axis_index"
    table[shard_map_p] = "shard_map"
    table |= {primitive: primitive.name for primitive in INLINED}
    return table


PRIMITIVES = known_primitives()


def release() -> Release:
    """Return what is known of the jax that is installed.

    Raises
    ------
    UserError
        If it is a release that was never tested: its internals may mean something else.
    """
    if found := RELEASES.get(jax.__version__):
        return found
    tested = " or ".join(f"jax=={version}" for version in RELEASES)
    raise UserError(
        f"jax {jax.__version__} is not known: kernels are read from its internals, which change between "
        f"releases. Fix: pip install {tested}."
    )


class TpuDescribed:
    """Lets ``emit_pipeline`` trace on a host: it asks for the sizes of a TPU. Threads may trace at once.

    Its last blocks end where the array ends. A TPU pads arrays to tiles, so that there they go to the end
    of a tile.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before: Any = None
        self.tiling: Any = None

    def tiles_of_one(self, *kind: Any) -> tuple[int, ...]:
        """Tiles of one element; jax keeps what the TPU's are, and can interpret pipelines then."""
        return (1,) * len(self.tiling(*kind))

    def __enter__(self) -> None:
        """The first one in describes it."""
        registry: dict[str, Any] = tpu_info.registry
        with self.lock:
            if not self.inside:
                self.before = registry.get("cpu")
                self.tiling = tpu_info.infer_tiling
                tpu_info.infer_tiling = self.tiles_of_one
                registry["cpu"] = lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        """The last one out takes it back."""
        registry: dict[str, Any] = tpu_info.registry
        with self.lock:
            self.inside -= 1
            if self.inside:
                return
            tpu_info.infer_tiling = self.tiling
            if self.before is None:
                del registry["cpu"]
            else:
                registry["cpu"] = self.before


tpu_described = TpuDescribed()


def without_refs(closed: Any) -> Any:
    """A function around a `core_map`, as what takes and gives values in place of refs; any other as it is."""
    return pxla._discharge_internal_refs(closed) if has_core_map(closed.jaxpr) else closed


def has_core_map(jaxpr: Any) -> bool:
    """Return whether one on TensorCores is called, not within a `run_state`, whose refs are its own."""
    inside = {pallas_call_p, discharge.run_state_p}
    return any(
        is_core_map(one)
        or (one.primitive not in inside and any(has_core_map(inner) for inner in inner_jaxprs(one)))
        for one in jaxpr.eqns
    )


def is_core_map(equation: Any) -> bool:
    """Return whether it is one on TensorCores."""
    is_one = equation.primitive is pallas_core.core_map_p
    return is_one and isinstance(equation.params["mesh"], tpu_core.TensorCoreMesh)


def as_call(equation: Any) -> Any:
    """Return a kernel of `pl.kernel` on TensorCores as a `pallas_call`, whose grid they are.

    Of a `run_state` around kernels a call of what it does to values; None of any other equation.
    """
    params = dict(equation.params)
    if equation.primitive is discharge.run_state_p and has_core_map(equation.params["jaxpr"]):
        made = functools.partial(equation.primitive.impl, **params)
        closed = jax.make_jaxpr(made)(*(var.aval for var in equation.invars))
        return equation.replace(primitive=core.closed_call_p, params={"call_jaxpr": closed})
    if equation.primitive is not mpmd.mpmd_map_p or len(params["meshes"]) != 1:
        return None
    (jaxpr,), (mesh,) = params["jaxprs"], params["meshes"]
    if params.get("external_meshes") or not isinstance(mesh, tpu_core.TensorCoreMesh):
        return None
    kept = ("debug", "interpret", "cost_estimate", "out_avals", "metadata", "name", "compiler_params")
    found = {name: params[name] for name in kept} | {
        "jaxpr": jaxpr,
        "grid_mapping": mapping_of_cores(jaxpr, mesh, len(equation.invars), len(params["out_avals"])),
        "mesh": None,
        "input_output_aliases": tuple(params["input_output_aliases"].items()),
    }
    return equation.replace(primitive=pallas_call_p, params=found)


def mapping_of_cores(jaxpr: Any, mesh: Any, operands: int, results: int) -> Any:
    """Return its grid and blocks, which are whole arrays."""
    avals = [var.aval for var in jaxpr.invars]
    blocks = [pallas_core.BlockSpec(memory_space=aval.memory_space) for aval in avals[: operands + results]]
    scratch = [pallas_core.MemoryRef(aval.inner_aval, aval.memory_space) for aval in avals[len(blocks) :]]
    spec = pallas_core.GridSpec(
        grid=tuple(mesh.shape.items()),
        in_specs=tuple(blocks[:operands]),
        out_specs=tuple(blocks[operands:]),
        scratch_shapes=tuple(scratch),
    )
    inner = [aval.inner_aval for aval in avals]
    sides: list[Any] = []
    for name, part in (("operand", inner[:operands]), ("result", inner[operands : len(blocks)])):
        tree = jax.tree_util.tree_structure(tuple(part))
        sides += [part, tree, [f"{name} {number}" for number in range(len(part))]]
    _, mapping = pallas_core.get_grid_mapping(spec, *sides, debug=False)
    return mapping


def at_place_of(equation: Any) -> Any:
    """Return a context in which what jax makes has the place of `equation`."""
    return source_info_util.user_context(equation.source_info.traceback)


def place_of(equation: Any) -> str:
    """Return where an equation was written: ``file:line (function)``; empty if jax does not know."""
    frame = source_info_util.user_frame(equation.source_info.traceback)
    if frame is None:
        return ""
    return place(frame.file_name, frame.start_line, frame.function_name)


def is_of_computed_size(error: Exception) -> bool:
    """Return whether tracing failed at an array one of whose sizes is computed.

    All that jax says of it is its type, in one release as ``DShapedArray``, in another as
    ``float32[int32[],128]``.
    """
    return isinstance(error, AssertionError) and bool(re.search(r"DShapedArray|\[.*\w\[\]", str(error)))


def place_of_error(error: Exception) -> str:
    """Return the innermost line of a caller's file that an error went through."""
    library = os.path.dirname(os.__file__) + os.sep + "contextlib.py"
    frames = traceback.extract_tb(error.__traceback__)
    found = [
        frame
        for frame in frames
        if source_info_util.is_user_filename(frame.filename) and frame.filename != library
    ]
    return place(found[-1].filename, found[-1].lineno or 0, found[-1].name)


def place(file: str, line: int, function: str) -> str:
    """Files below the current folder are given relative to it."""
    path = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if path.startswith('..') else path}:{line} ({function.rpartition('.')[2]})"


def argument_names(jaxpr: Any) -> Sequence[str]:
    """Return the names of its arguments, as far as jax knows them."""
    names: Sequence[str] = jaxpr.debug_info.safe_arg_names(len(jaxpr.invars))
    return names


def element_type(dtype: Any) -> str:
    """Name of a type of elements, semaphores among them."""
    names = {
        "float32": "f32",
        "float16": "f16",
        "bfloat16": "bf16",
        "int32": "i32",
        "int16": "i16",
        "int8": "i8",
        "uint32": "u32",
        "uint16": "u16",
        "uint8": "u8",
        "int4": "i4",
        "uint4": "u4",
        "int2": "i2",
        "uint2": "u2",
        "float8_e4m3fn": "f8_e4m3fn",
        "float8_e5m2": "f8_e5m2",
        "float8_e4m3b11fnuz": "f8_e4m3b11fnuz",
        "bool": "bool",
        "dma_sem": "dma_semaphore",
        "semaphore": "semaphore",
        "barrier_semaphore": "semaphore",
    }
    name = str(dtype.name if hasattr(dtype, "name") else np.dtype(dtype).name)
    if name not in names:
        more = " Fix: turn jax_enable_x64 off." if name in ("float64", "int64", "uint64") else ""
        numbers = ", ".join(one for one in names if "sem" not in one)
        raise UserError(f"elements of type {name} are not supported.{more or f' Fix: one of {numbers}.'}")
    return names[name]


def least(dtype: Any) -> Any:
    """Return what is not above any element of a type."""
    return lax._get_max_identity(dtype)


def greatest(dtype: Any) -> Any:
    """Return what is not below any element of a type."""
    return lax._get_min_identity(dtype)


def function_of(jaxpr: Any, constants: Sequence[Any]) -> Any:
    """Return what a jaxpr computes of its operands, as a list; a closed one has its constants."""
    return core.jaxpr_as_fun(jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, constants))


def is_whole(dtype: Any) -> bool:
    """Return whether elements are whole numbers: NumPy does not count those of ml_dtypes."""
    return bool(dtypes.issubdtype(dtype, np.integer))


def bits_of(dtype: Any) -> int:
    """Bits of an element."""
    return int(dtypes.itemsize_bits(dtype))


def physical(shape: Sequence[int], dtype: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of what holds an array: a random key is its words, whatever is said of them."""
    if is_key(dtype):
        return (*shape, *dtype._impl.key_shape), np.dtype(np.uint32)
    return tuple(shape), dtype


def is_key(dtype: Any) -> bool:
    """Return whether elements are random keys."""
    return isinstance(dtype, prng.KeyTy)


def as_key(words: Any, dtype: Any) -> Any:
    """Return the keys that have these words; other arrays as they are."""
    return prng.random_wrap(words, impl=dtype._impl) if is_key(dtype) else words


def words(value: Any) -> Any:
    """Return the words of keys; another value as it is."""
    return jax.random.key_data(value) if is_key(getattr(value, "dtype", None)) else value


def checks_are_on() -> bool:
    """Return whether jax lets `pl.debug_check` check anything."""
    of: Any = pallas_core if hasattr(pallas_core, "debug_checks_enabled") else pallas_helpers  # 0.9.2
    return bool(of.debug_checks_enabled())


def mapped_axes(params: Any) -> Any:
    """Axes of the mesh that a `shard_map` goes over."""
    return params["newly_manual_axes" if "newly_manual_axes" in params else "manual_axes"]  # 0.9.2


def varying(aval: Any) -> frozenset[Any]:
    """Axes of a `shard_map` along which a value is known to differ."""
    kind: Any = getattr(aval, "mat", None)
    found: frozenset[Any] = aval.vma if kind is None else kind.varying  # 0.9.2 has the former
    return found


def varying_as(value: Any, aval: Any) -> Any:
    """Return a callback's result, said to differ along the axes along which `aval` does."""
    axes = varying(aval) - varying(jax.typeof(value))
    return jax.lax.pcast(value, tuple(axes), to="varying") if axes else value


def is_pallas_key(kind: Any) -> bool:
    """Return whether keys of a kind seed the generator of Pallas."""
    return bool(tpu_random.is_pallas_impl(kind))


def opened(closed: Any) -> tuple[Any, Sequence[Any]]:
    """Return a jaxpr and the values of its constants."""
    return (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, ())


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Jaxprs among its parameters."""
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr | core.Jaxpr):
                yield opened(item)[0]


def expanded(equation: Any) -> Any:
    """Return the equations of `pltpu.einshape`, or of another primitive that is a class; None for others."""
    if equation.primitive is einshape.einshape_lo_p:
        sizes = dict(equation.params["sizes"])
        made = functools.partial(einshape._einshape, equation.params["equation"], **sizes)
    elif equation.primitive is hijax.call_hi_primitive_p:
        made = equation.params["_prim"].expand
    else:
        return None
    return jax.make_jaxpr(made)(*(var.aval for var in equation.invars))


def kernel_in(equation: Any) -> Any:
    """The first call of a kernel that it makes, itself or inside of it; None if there is none."""
    if equation.primitive is pallas_call_p or equation.primitive in MESH_KERNELS:
        return equation
    inner = (kernel_in(one) for jaxpr in inner_jaxprs(equation) for one in jaxpr.eqns)
    return next((kernel for kernel in inner if kernel is not None), None)


def copy_parts(equation: Any) -> list[Any]:
    """Source, destination, semaphore, source's semaphore, and device of a copy, refs with transforms."""
    items = jax.tree_util.tree_unflatten(equation.params["tree"], equation.invars)
    if release().dma_items == 9:
        *pairs, device = items
        refs = [
            None if ref is None else (ref, transforms or ())
            for ref, transforms in zip(pairs[::2], pairs[1::2], strict=True)
        ]
    else:
        *found, device = items
        refs = [None if ref is None else plain_ref(ref) for ref in found]
    return [*refs, None if device is None else (device, ())]


def plain_ref(ref: Any) -> tuple[Any, Sequence[Any]]:
    """Return a ref and its transforms."""
    if isinstance(ref, TransformedRef):
        inner, before = plain_ref(ref.ref)
        return inner, (*before, *ref.transforms)
    return ref, ()


def self_test() -> list[str]:
    """List what of jax's internals is not as this file expects; empty if all is well."""
    release()
    wrong = []
    captured = jax.make_jaxpr(lambda x: jax.jit(lambda y: y + 1)(x))(jax.ShapeDtypeStruct((2,), np.float32))
    equation = captured.jaxpr.eqns[0]
    if equation.primitive not in INLINED or INLINED[equation.primitive] not in equation.params:
        wrong.append("jit is not an equation with a jaxpr")
    for name in "get swap addupdate dma_start dma_wait run_scoped cond while scan program_id".split():
        if name not in PRIMITIVES.values():
            wrong.append(f"there is no primitive {name}")
    fields = pallas_core.GridMapping.__dataclass_fields__
    for name in "grid block_mappings num_index_operands num_inputs num_outputs vmapped_dims".split():
        if name not in fields:
            wrong.append(f"GridMapping has no {name}")
    fields = pallas_core.BlockMapping.__dataclass_fields__
    for name in "block_shape index_map_jaxpr array_aval pipeline_mode transforms".split():
        if name not in fields:
            wrong.append(f"BlockMapping has no {name}")
    return wrong
