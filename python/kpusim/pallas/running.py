"""Functions of jax whose kernels run on a simulated device; jax does everything else."""

from __future__ import annotations

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
from kpusim.pallas.capture import traced
from kpusim.pallas.program import PallasProgram, export_call
from kpusim.platform import Platform
from kpusim.program import StrPath
from kpusim.run import Run
from kpusim.simulation import Mode, Simulation

#: Device of a run that names none; read with the package, so that no first call waits for it.
PLATFORM = "tile32"
DEFAULT = Platform.load(PLATFORM)
LAST: list[Run] = []


def last_run() -> Run | None:
    """The results of the last kernel call that was executed: outputs, cycles, causes, energy.

    Returns
    -------
    Run or None
        None when there was none.
    """
    return LAST[-1] if LAST else None


@dataclass
class Device:
    """Where kernels run, and those that were compiled for it.

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

    @cached_property
    def loaded(self) -> Platform:
        """The device, read once."""
        if self.platform == PLATFORM:
            return DEFAULT
        return self.platform if isinstance(self.platform, Platform) else Platform.load(self.platform)

    def call(self, equation: Any, operands: Sequence[Any]) -> list[Any]:
        """One `pallas_call`: at once on concrete operands, else when the compiled function runs."""
        key = (id(equation), tuple((x.shape, x.dtype) for x in operands))
        compiled = self.compiled.get(key)
        if compiled is None:
            compiled = self.compiled[key] = Compiled(self, equation)
        if any(isinstance(operand, jx.Tracer) for operand in operands):
            return list(compiled.traced(*operands))
        return [jax.device_put(result) for result in compiled(*operands)]


class Compiled:
    """A kernel call for one set of shapes."""

    def __init__(self, device: Device, equation: Any) -> None:
        self.equation = equation  # keeps its id from being used again
        self.device = device
        self.simulation: Simulation | None = None
        self.program: PallasProgram
        self.needed: set[str] = set()  #: operands that the program reads
        self.results = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in equation.outvars]
        self.traced = self.for_tracing()

    def bound(self, *operands: Any) -> Any:
        """The call as jax has it, and at its place."""
        given = [jx.as_key(x, var.aval.dtype) for x, var in zip(operands, self.equation.invars, strict=True)]
        with jx.at_place_of(self.equation):
            return jx.pallas_call_p.bind(*given, **self.equation.params)

    def __call__(self, *operands: Any) -> list[Any]:
        """Execute on the device."""
        arrays = [np.asarray(operand) for operand in operands]
        if self.simulation is None:
            self.program = export_call(self.equation, self.device.loaded)
            self.simulation = Simulation(self.program, self.device.loaded, mode=self.device.mode)
            self.needed = {spec.name for spec in self.simulation.input_specs}
        given = zip(self.program.operands, arrays, strict=True)
        result = self.simulation.run({name: array for name, array in given if name in self.needed})
        LAST[:] = [result]
        found = [result.outputs[name] for name in self.program.results]
        return [as_wanted(array, wanted) for array, wanted in zip(found, self.results, strict=True)]

    @staticmethod
    def one_by_one(function: Callable[..., Any], batched: Sequence[bool], operands: Sequence[Any]) -> Any:
        """A call for each row of the operands that are batched."""

        def one(rows: Sequence[Any]) -> Any:
            row = iter(rows)
            given = zip(operands, batched, strict=True)
            return function(*(next(row) if is_batched else operand for operand, is_batched in given))

        rows = [operand for operand, is_batched in zip(operands, batched, strict=True) if is_batched]
        return jax.lax.map(one, rows)

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
            if jx.leaves_in_ddr(
                self.equation
            ):  # vmap would make windows of such refs, which blocks alone have
                return self.one_by_one(called, batched_in, operands), (True,) * len(self.results)
            axes = [0 if is_batched else None for is_batched in batched_in]
            function = on_device(jax.vmap(self.bound, in_axes=axes), self.device)
            return tuple(function(*operands)), (True,) * len(self.results)

        @jax.custom_jvp
        def differentiable(*operands: Any) -> tuple[Any, ...]:
            return tuple(called(*operands))

        @differentiable.defjvp
        def refused(primals: Any, tangents: Any) -> Any:
            raise UserError(
                "kpusim computes no gradients of kernels. Fix: give the function around the call a "
                "jax.custom_vjp whose backward pass is a kernel of its own."
            )

        # with its own checks on, jax refuses callbacks there; without, it says that they have no gradient
        traced_call: Callable[..., Any] = called if jax.config.jax_enable_checks else differentiable
        return traced_call


def as_wanted(array: Any, wanted: Any) -> Any:
    """What the device gives, in the shape and type that jax expects."""
    array = np.ascontiguousarray(array)
    if array.dtype != wanted.dtype:
        array = array.view(wanted.dtype)
    return array.reshape(wanted.shape)


def on_device(function: Callable[..., Any], device: Device) -> Callable[..., Any]:
    """The function, with its kernels on the device."""
    captured: dict[Any, Any] = {}

    def wrapper(*arguments: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        key = (tree, tuple((np.shape(leaf), dtype_of(leaf)) for leaf in leaves))
        if key not in captured:
            shapes = [jax.ShapeDtypeStruct(*of_leaf) for of_leaf in key[1]]
            closed, results = traced(function, jax.tree_util.tree_unflatten(tree, shapes))
            captured[key] = closed, jax.tree_util.tree_structure(results)
        closed, results = captured[key]
        values = evaluated(closed.jaxpr, closed.consts, leaves, device)
        return jax.tree_util.tree_unflatten(results, values)

    wrapper.__name__ = getattr(function, "__name__", "function")
    wrapper.__doc__ = function.__doc__
    return wrapper


def dtype_of(leaf: Any) -> Any:
    """Type of an argument as jax takes it: 64 bits become 32."""
    return (
        leaf.dtype if isinstance(leaf, jax.Array) else jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype)
    )


def as_array(value: Any) -> Any:
    """An operand of a kernel, of keys their words. The device takes arrays of NumPy, so those stay."""
    value = jx.words(value)
    fits = isinstance(value, np.ndarray) and value.dtype == dtype_of(value)
    return value if fits else jax.numpy.asarray(value)


def holds_call(equation: Any) -> bool:
    """Whether a kernel is called by it, or by a function inside it."""
    return equation.primitive is jx.pallas_call_p or any(
        holds_call(inner) for jaxpr in jx.inner_jaxprs(equation) for inner in jaxpr.eqns
    )


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
    primitive, params = equation.primitive, equation.params
    if primitive is jx.pallas_call_p:
        return device.call(equation, [as_array(value) for value in values])
    if not holds_call(equation):
        with equation.ctx.manager:
            found = primitive.bind(*values, **primitive.get_bind_params(params))
        return found if primitive.multiple_results else [found]
    if primitive in jx.INLINED:
        closed = params[jx.INLINED[primitive]]
        return evaluated(*jx.opened(closed), values, device)
    loop = LOOPS.get(jx.PRIMITIVES.get(primitive, ""))
    if loop is None:
        raise UserError(
            f"{jx.place_of(equation)}: a kernel is called inside of `{primitive.name}`. "
            "Fix: call it under jit, vmap, scan, cond or while_loop."
        )
    return loop(params, values, device)


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
    found: Sequence[Any] = jax.lax.while_loop(
        lambda state: evaluated(*condition, [*of_cond, *state], device)[0],
        lambda state: evaluated(*body, [*of_body, *state], device),
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


LOOPS: dict[str, Callable[..., Sequence[Any]]] = {"scan": scan, "while": while_loop, "cond": cond}


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
