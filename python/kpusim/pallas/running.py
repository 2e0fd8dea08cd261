"""Functions of jax whose kernels run on a simulated device; jax does everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental import io_callback

from kpusim.errors import UserError
from kpusim.pallas import internals as jx
from kpusim.pallas.capture import NO_GRADIENT, on_mesh, traced
from kpusim.pallas.program import PallasProgram, export_call
from kpusim.platform import Platform
from kpusim.program.program import StrPath
from kpusim.run.run import Run
from kpusim.run.view import Mode
from kpusim.simulation.simulation import Simulation

#: Device of a run that names none; read with the package, so that no first call waits for it.
PLATFORM = "tile32"
DEFAULT = Platform.load(PLATFORM)
LAST: list[Run] = []


def last_run() -> Run | None:
    """The results of the kernel call that ended last, in whichever thread: outputs, cycles, causes, energy.

    Returns
    -------
    Run or None
        None when there was none.
    """
    return LAST[-1] if LAST else None


@dataclass
class Device:
    """A device for kernels, and those that were compiled for it.

    Attributes
    ----------
    platform : Platform, str or path
        The device.
    mode : str
        ``values+timing`` or ``functional``.
    """

    platform: Platform | StrPath
    mode: Mode
    compiled: dict[Any, Compiled] = field(default_factory=dict)
    shards: dict[int, tuple[Any, Callable[..., Any]]] = field(default_factory=dict)
    on_cores: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    @cached_property
    def loaded(self) -> Platform:
        """The device, read once."""
        if self.platform == PLATFORM:
            return DEFAULT
        return self.platform if isinstance(self.platform, Platform) else Platform.load(self.platform)

    def call(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """Run one `pallas_call`: at once on concrete operands, else when the compiled function runs."""
        key = (id(equation), tuple((x.shape, x.dtype) for x in operands))
        compiled = self.compiled.get(key)
        if compiled is None:
            compiled = self.compiled.setdefault(key, Compiled(self, equation))
        if any(isinstance(operand, jx.Tracer) for operand in operands):
            if not any(isinstance(operand, jx.BatchTracer) for operand in operands):
                compiled.load()  # what is refused is said here: jax wraps errors of a callback
            results = compiled.traced(*operands)
            return [jx.varying_as(one, var.aval) for one, var in zip(results, equation.outvars, strict=True)]
        return [jax.device_put(result) for result in compiled(*operands)]

    def as_call(self, equation: Any) -> Any:
        """Return a kernel of `pl.kernel` as a `pallas_call`, the same each time; None if it is none."""
        if equation.primitive not in jx.OF_CORES:
            return None
        # the equation is kept with it, so that its id is not used again
        return self.on_cores.setdefault(id(equation), (equation, jx.as_call(equation)))[1]

    def sharded(self, equation: Any) -> Callable[..., Any]:
        """A `shard_map` around calls, compiled once: each of jax's devices calls kernels for its own part."""
        found = self.shards.get(id(equation))
        if found is None:
            params = equation.params
            jaxpr, constants = jx.opened(params["jaxpr"])
            function = jax.shard_map(
                lambda *parts: tuple(evaluated(jaxpr, constants, parts, self)),
                mesh=params["mesh"],
                in_specs=tuple(params["in_specs"]),
                out_specs=tuple(params["out_specs"]),
                axis_names=jx.mapped_axes(params),
                check_vma=params["check_vma"],
            )
            # the equation is kept with it, so that its id is not used again
            found = self.shards.setdefault(id(equation), (equation, jax.jit(function)))
        return found[1]


class Loaded:
    """The program of a kernel call on its device."""

    def __init__(self, equation: Any, device: Device) -> None:
        self.program: PallasProgram = export_call(equation, device.loaded)
        self.simulation = Simulation(self.program, device.loaded, mode=device.mode)
        #: shapes of the operands that the program reads, which has fewer dimensions for many
        self.needed = {spec.name: tuple(spec.shape) for spec in self.simulation.input_specs}
        self.lock = threading.RLock()  # a warning of the run may call the function again

    def run(self, arrays: Sequence[Any]) -> Run:
        """Run it and return its results; threads take turns."""
        given = zip(self.program.operands, arrays, strict=True)
        with self.lock:
            return self.simulation.run(
                {name: array.reshape(self.needed[name]) for name, array in given if name in self.needed}
            )


class Compiled:
    """A kernel call for one set of shapes."""

    def __init__(self, device: Device, equation: Any) -> None:
        self.equation = equation  # keeps its id from being used again
        self.device = device
        self.loaded: Loaded | None = None
        self.results = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in equation.outvars]
        self.traced = self.for_tracing()

    def bound(self, *operands: Any) -> Any:
        """The call as jax has it, and at its place."""
        given = [jx.as_key(x, var.aval.dtype) for x, var in zip(operands, self.equation.invars, strict=True)]
        with jx.at_place_of(self.equation):
            return jx.pallas_call_p.bind(*given, **self.equation.params)

    def load(self) -> Loaded:
        """Return the program, made when it is first asked for."""
        loaded = self.loaded
        if loaded is None:
            # no lock: the export computes with jax, whose threads may be those that would wait for it
            loaded = self.loaded = Loaded(self.equation, self.device)
        return loaded

    def __call__(self, *operands: Any) -> list[Any]:
        """Execute on the device."""
        arrays = [np.asarray(operand) for operand in operands]
        loaded = self.load()
        result = loaded.run(arrays)
        LAST[:] = [result]
        found = [result.outputs[name] for name in loaded.program.results]
        return [as_wanted(array, wanted) for array, wanted in zip(found, self.results, strict=True)]

    def for_tracing(self) -> Callable[..., Any]:
        """The call inside of `jit`, `vmap` and `scan`."""

        def execute(*operands: Any) -> tuple[Any, ...]:
            return tuple(self(*operands))

        @custom_vmap
        def called(*operands: Any) -> tuple[Any, ...]:
            return tuple(io_callback(execute, tuple(self.results), *operands))

        @called.def_vmap
        def batched(size: int, batched_in: Sequence[bool], *operands: Any) -> tuple[Any, Any]:
            del size
            axes = [0 if is_batched else None for is_batched in batched_in]
            function = on_device(jax.vmap(self.bound, in_axes=axes), self.device)
            return tuple(function(*operands)), (True,) * len(self.results)

        @jax.custom_jvp
        def differentiable(*operands: Any) -> tuple[Any, ...]:
            return tuple(called(*operands))

        @differentiable.defjvp
        def refused(primals: Any, tangents: Any) -> Any:
            raise UserError(NO_GRADIENT)

        # with its own checks on, jax refuses callbacks there; without, it says that they have no gradient
        traced_call: Callable[..., Any] = called if jax.config.jax_enable_checks else differentiable
        return traced_call


def as_wanted(array: Any, wanted: Any) -> Any:
    """Return what the device gives, in the shape and type that jax expects."""
    array = np.ascontiguousarray(array)
    if array.dtype != wanted.dtype:  # whole numbers of 4 bits come as bytes, bf16 and float8 as their bits
        array = array.astype(wanted.dtype) if jx.is_whole(wanted.dtype) else array.view(wanted.dtype)
    return array.reshape(wanted.shape)


def on_device(function: Callable[..., Any], device: Device) -> Callable[..., Any]:
    """Return the function, with its kernels on the device."""
    captured: dict[Any, Any] = {}

    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten((arguments, keywords))
        key = (tree, types_of(leaves, tree))
        found = captured.get(key)
        if found is None:
            shapes = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in key[1]]
            closed, results = traced(function, *jax.tree_util.tree_unflatten(tree, shapes))
            found = captured.setdefault(key, (closed, jax.tree_util.tree_structure(results)))
        closed, results = found
        values = evaluated(closed.jaxpr, closed.consts, leaves, device)
        # an argument that is given back is one of jax too, as of jit
        arrays = [x if isinstance(x, jax.Array) else jax.numpy.asarray(x) for x in values]
        return jax.tree_util.tree_unflatten(results, arrays)

    wrapper.__name__ = getattr(function, "__name__", "function")
    wrapper.__doc__ = function.__doc__
    return wrapper


def types_of(leaves: Sequence[Any], tree: Any) -> tuple[tuple[Any, ...], ...]:
    """Shape and type of each argument as jax takes it, and whether another's type prevails (`3.0`, say)."""
    found = []
    for number, leaf in enumerate(leaves):
        try:
            if isinstance(leaf, jax.ShapeDtypeStruct):  # which has a type for jax, but no values
                raise TypeError
            aval = jax.typeof(leaf)
        except TypeError:
            given = jax.tree_util.tree_unflatten(tree, leaves)
            path, _ = jax.tree_util.tree_leaves_with_path(given)[number]
            raise UserError(
                f"argument {jax.tree_util.keystr(path[1:])} is not an array, but of type "
                f"{type(leaf).__name__}. Fix: give an array or a number; kpusim.pallas.export "
                "takes shapes alone."
            ) from None
        found.append((aval.shape, aval.dtype, aval.weak_type))
    return tuple(found)


def as_array(value: Any) -> Any:
    """Return an operand of a kernel, of keys their words. The device takes arrays of NumPy, so those stay."""
    value = jx.words(value)
    fits = isinstance(value, np.ndarray) and value.dtype == jax.dtypes.canonicalize_dtype(value.dtype)
    return value if fits else jax.numpy.asarray(value)


def evaluated(jaxpr: Any, constants: Sequence[Any], values: Sequence[Any], device: Device) -> list[Any]:
    """Results of a jaxpr, its kernels on the device."""
    scope: dict[Any, Any] = {}

    def read(var: Any) -> Any:
        return var.val if isinstance(var, jx.Literal) else scope[var]

    scope.update(zip(jaxpr.constvars, constants, strict=True))
    scope.update(zip(jaxpr.invars, values, strict=True))
    for equation in jaxpr.eqns:
        results = step(equation, [read(var) for var in equation.invars], device)
        scope.update(zip(equation.outvars, results, strict=True))
    return [read(var) for var in jaxpr.outvars]


def step(equation: Any, values: list[Any], device: Device) -> Sequence[Any]:
    """Results of one equation."""
    equation = device.as_call(equation) or equation
    primitive, params = equation.primitive, equation.params
    if primitive is jx.pallas_call_p:
        return device.call(equation, [as_array(value) for value in values])
    if primitive is jx.with_memory_space_constraint_p:
        return values  # jax has no rule to execute it
    kernel = jx.kernel_in(equation)
    if kernel is None:
        with equation.ctx.manager:
            found = primitive.bind(*values, **primitive.get_bind_params(params))
        return found if primitive.multiple_results else [found]
    if primitive in jx.INLINED:
        closed = params[jx.INLINED[primitive]]
        return evaluated(*jx.opened(closed), values, device)
    if primitive is jx.shard_map_p:
        return list(device.sharded(equation)(*values))
    loop = LOOPS.get(jx.PRIMITIVES.get(primitive, ""))
    if loop is not None:
        return in_loop(loop, equation, values, device)
    if kernel.primitive in jx.MESH_KERNELS:
        place = jx.place_of(kernel) or "unknown line"
        raise UserError(f"{place}: {on_mesh(kernel)}. Fix: call it by pl.pallas_call or pl.kernel.")
    raise UserError(
        f"{jx.place_of(equation) or jx.place_of(kernel)}: a kernel is called inside of `{primitive.name}`. "
        "Fix: call it under jit, vmap, scan, cond, while_loop or shard_map."
    )


def in_loop(loop: Loop, equation: Any, values: list[Any], device: Device) -> Sequence[Any]:
    """A loop or a branch around calls, where vmap allows it."""
    try:
        return loop(equation.params, values, device)
    except Exception as error:  # of several classes, among them this one
        if "IO effect" not in str(error):
            raise
        raise UserError(
            f"{jx.place_of(equation)}: vmap gives each row its own condition of `{equation.primitive.name}`, "
            "where jax allows no callbacks. Fix: kpusim.pallas.run(jax.vmap(function)) instead of "
            "jax.vmap(kpusim.pallas.run(function))."
        ) from error


def scan(params: Any, values: list[Any], device: Device) -> Sequence[Any]:
    """A scan around calls."""
    outside, carried = params["num_consts"], params["num_carry"]
    jaxpr, constants = jx.opened(params["jaxpr"])

    def body(carry: Any, row: Any) -> Any:
        results = evaluated(jaxpr, constants, [*values[:outside], *carry, *row], device)
        return results[:carried], results[carried:]

    state, rows = jax.lax.scan(
        body,
        values[outside : outside + carried],
        values[outside + carried :],
        length=params["length"],
        reverse=params["reverse"],
    )
    return [*state, *rows]


def while_loop(params: Any, values: list[Any], device: Device) -> Sequence[Any]:
    """A loop around calls."""
    first, second = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = values[:first], values[first : first + second]
    condition, body = jx.opened(params["cond_jaxpr"]), jx.opened(params["body_jaxpr"])

    def goes_on(state: Sequence[Any]) -> Any:
        return evaluated(*condition, [*of_cond, *state], device)[0]

    def trip(state: Sequence[Any]) -> Sequence[Any]:
        return evaluated(*body, [*of_body, *state], device)

    def trip_of_rows(state: Sequence[Any]) -> Sequence[Any]:
        """Return the rows that are done keep what they have."""
        rows = goes_on(state)
        return [
            jax.numpy.where(rows.reshape(rows.shape + (1,) * (new.ndim - rows.ndim)), new, old)
            for new, old in zip(trip(state), state, strict=True)
        ]

    of_vmap = condition[0].outvars[0].aval.shape  # of the loop: each row has its own condition
    found: Sequence[Any] = jax.lax.while_loop(
        (lambda state: goes_on(state).any()) if of_vmap else goes_on,
        trip_of_rows if of_vmap else trip,
        values[first + second :],
    )
    return found


def cond(params: Any, values: list[Any], device: Device) -> Sequence[Any]:
    """Branches that call kernels."""

    def branch(closed: Any) -> Callable[..., Any]:
        return lambda *operands: evaluated(*jx.opened(closed), operands, device)

    branches = [branch(closed) for closed in params["branches"]]
    found: Sequence[Any] = jax.lax.switch(values[0], branches, *values[1:])
    return found


Loop = Callable[[Any, list[Any], Device], Sequence[Any]]
LOOPS: dict[str, Loop] = {"scan": scan, "while": while_loop, "cond": cond}


def run(
    function: Callable[..., Any],
    platform: Platform | StrPath = PLATFORM,
    *,
    mode: Mode = "values+timing",
) -> Callable[..., Any]:
    """Run the kernels of a function on a simulated device; jax does what stands around them.

    Parameters
    ----------
    function : callable
        Calls ``pallas_call``.
    platform : Platform, str or path
        The device.
    mode : str
        ``values+timing`` or ``functional``.

    Returns
    -------
    callable
        Takes the arguments of the function. Called with arrays, it executes at once; under ``jit``, ``vmap``
        and ``scan`` the kernels run when jax comes to them.

    Raises
    ------
    UserError
        When the result is called: with the line of what is not supported.

    Examples
    --------
    >>> y = kpusim.pallas.run(softmax, platform="tile32")(x)  # doctest: +SKIP
    """
    if mode not in ("values+timing", "functional"):
        raise UserError(f"mode {mode!r} gives no values. Fix: values+timing or functional.")
    return on_device(function, Device(platform, mode))
