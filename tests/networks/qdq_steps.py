"""Sources of numbers, and QuantizeLinear and DequantizeLinear of each type around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from qdq_graph import MICROSOFT, QdqGraph

MOST = 100.0  #: parts give each other no larger numbers: sums of them stay within f16


@dataclass
class Steps:
    """Operands of a QuantizeLinear beside its tensor."""

    scale: str
    zero: str  #: empty: the model leaves it out
    dtype: Any
    attributes: dict[str, Any]

    @property
    def operands(self) -> list[str]:
        """Return the operands of the node."""
        return [self.scale, self.zero] if self.zero else [self.scale]


def shape_of(g: QdqGraph, rank: int) -> list[int]:
    """Return a small one, mostly."""
    if g.chance(0.05):
        return {4: [1, g.integer(8, 40), g.integer(9, 33), g.integer(9, 33)], 3: [1, 48, 80]}.get(
            rank, [40, 72]
        )
    if rank == 4:
        return [g.pick([1, 1, 1, 2]), g.integer(1, 6), g.integer(3, 8), g.integer(3, 8)]
    if rank == 3:
        return [g.pick([1, 1, 2]), g.integer(2, 8), g.integer(2, 12)]
    return [g.integer(1, 6), g.integer(4, 24)]


def fresh(g: QdqGraph, shape: Sequence[int]) -> str:
    """Return a new input."""
    style = g.pick(["normal", "normal", "grid", "pixels", "wide"])
    if style == "pixels":
        return g.input((g.rng.integers(0, 256, tuple(shape)) / 255).astype(np.float32))
    array = g.reals(shape, 1.0)
    if style == "grid":  # half steps of powers of two
        array = (np.rint(array * 32) / 32).astype(np.float32)
    elif style == "wide":
        array = (array * np.where(g.rng.random(array.shape) < 0.1, 8, 1)).astype(np.float32)
    return g.input(array)


def source(g: QdqGraph, rank: int = 4, new: float = 0.3) -> str:
    """Floats of a rank: of another part, or an input."""
    fitting = [name for name in g.live if g.values[name].ndim == rank]
    return g.pick(fitting) if fitting and not g.chance(new) else fresh(g, shape_of(g, rank))


def like(g: QdqGraph, x: str, new: float = 0.5) -> str:
    """Other floats of the shape of some."""
    shape = g.values[x].shape
    fitting = [name for name in g.live if g.values[name].shape == shape and name != x]
    return g.pick(fitting) if fitting and not g.chance(new) else fresh(g, shape)


def offer(g: QdqGraph, *names: str) -> None:
    """Other parts may use these."""
    for name in names:
        array = g.values[name]
        tame = (
            array.dtype == np.float32
            and array.size
            and np.isfinite(array).all()
            and np.abs(array).max() < MOST
        )
        if tame:
            g.live.append(name)


def type_of(g: QdqGraph, wide: bool) -> Any:  # noqa: ANN401
    """Draw the type of the integers."""
    if g.only_i8:
        g.kind("i8")
        return np.int8
    if wide and g.chance(0.12):
        dtype = g.pick([np.int16, np.uint16])
        g.kind("16 bits")
        return dtype
    dtype = g.pick([np.int8, np.uint8])
    g.kind("i8" if dtype is np.int8 else "u8")
    return dtype


def steps_for(
    g: QdqGraph, x: str, *, axis: int | None = None, wide: bool = True, given: float | None = None
) -> Steps:
    """Steps for a tensor: that hold its numbers, too narrow ones, coarse ones, powers of two, a given one."""
    array = g.values[x]
    dtype = type_of(g, wide)
    limits = np.iinfo(dtype)
    half = limits.max / 2 if limits.min == 0 else limits.max
    most = max(float(np.abs(array).max(initial=0)), 1e-3)
    style = g.pick(["fit", "fit", "narrow", "coarse", "power", "power", "pixel"])
    scale = most / half
    if given is not None:
        scale = given
        g.kind("ties")
    elif style == "narrow":
        scale /= float(g.rng.uniform(1.5, 4))
        g.kind("saturates")
    elif style == "coarse":
        scale = most / float(g.rng.uniform(3, 20))
    elif style == "power":
        scale = float(2.0 ** np.ceil(np.log2(max(scale, most / 64))))
        g.kind("ties")
    elif style == "pixel" and most <= 1:
        scale = g.pick([1, 2]) / 255
        g.kind("ties")
    count = [] if axis is None else [array.shape[axis]]
    scales = np.asarray(scale * g.rng.uniform(0.6, 1.4, count) if count else scale, np.float32)
    centre = 0 if limits.min < 0 else (int(limits.max) + 1) // 2
    zero = np.full(count, centre)
    if g.chance(0.5):
        reach = int(limits.max) // (16 if dtype in (np.int16, np.uint16) else 3)
        zero = zero + g.rng.integers(-reach, reach + 1, count)
        g.kind("zero point off centre")
    bare = dtype is np.uint8 and axis is None and style == "coarse" and g.chance(0.3)
    attributes: dict[str, Any] = {}
    if axis is not None:
        attributes["axis"] = axis
        g.kind("per channel activation")
    if dtype in (np.int16, np.uint16) and g.opset < 21:
        attributes["domain"] = MICROSOFT
    return Steps(g.constant(scales, np.float32), "" if bare else g.constant(zero, dtype), dtype, attributes)


def quantize(g: QdqGraph, x: str, steps: Steps) -> str:
    """Integers."""
    return g.add("QuantizeLinear", x, *steps.operands, **steps.attributes)


def dequantize(g: QdqGraph, q: str, steps: Steps) -> str:
    """Floats again, in the same steps under names of their own, or in others."""
    if steps.zero and g.chance(0.15):
        scale, zero = g.values[steps.scale], g.values[steps.zero]
        if g.chance(0.3):
            g.kind("read in other steps")
            scale = (scale * np.float32(g.pick([0.5, 1.7]))).astype(np.float32)
        steps = Steps(g.constant(scale), g.constant(zero), steps.dtype, steps.attributes)
    return g.add("DequantizeLinear", q, *steps.operands, **steps.attributes)


def rounded(g: QdqGraph, x: str, steps: Steps | None = None, **how: Any) -> str:  # noqa: ANN401
    """Floats in steps."""
    steps = steps or steps_for(g, x, **how)
    q = quantize(g, x, steps)
    if g.chance(0.05):
        q = g.add("Identity", q)
    if g.chance(0.08):
        g.outputs.append(q)
        g.kind("integer output")
    return dequantize(g, q, steps)


def maybe_rounded(g: QdqGraph, x: str, probability: float = 0.5) -> str:
    """Floats, so often in steps of their own."""
    return rounded(g, x) if g.chance(probability) else x


def weights(g: QdqGraph, shape: Sequence[int], axis: int, gain: float = 1.0) -> str:
    """Return a constant that is stored in steps, of one scale or one for each channel."""
    dtype = g.pick([np.int8, np.int8, np.uint8])
    low = -127 if dtype is np.int8 else 0
    numbers = g.rng.integers(low, low + 255, tuple(shape)).astype(dtype)
    taken = np.prod(shape) / shape[axis]
    scale = gain * 1.7 / 127 / np.sqrt(max(taken, 1))
    attributes: dict[str, int] = {}
    count: list[int] = []
    if g.opset >= 13 and g.chance(0.6):
        attributes["axis"], count = axis, [shape[axis]]
        g.kind("per channel weight")
    scales = np.asarray(scale * g.rng.uniform(0.5, 1.5, count), np.float32)
    centre = 0 if dtype is np.int8 else 128
    if g.chance(0.2):
        centre = centre + g.rng.integers(-40, 40, count)
        g.kind("zero point of weights")
    if not count and centre == 0 and g.chance(0.3):
        return g.add("DequantizeLinear", g.constant(numbers), g.constant(scales))
    steps = [g.constant(scales), g.constant(np.broadcast_to(centre, count), dtype)]
    if g.chance(0.2):
        g.kind("weights quantized by the model")
        q = g.add(
            "QuantizeLinear", real_constant(g, shape, float(np.mean(scales)) * 60), *steps, **attributes
        )
    else:
        q = g.constant(numbers)
    return g.add("DequantizeLinear", q, *steps, **attributes)


def bias(g: QdqGraph, channels: int) -> str:
    """Return a constant of int32 in steps of its own."""
    numbers = g.rng.integers(-20000, 20000, channels).astype(np.int32)
    g.kind("int32 bias")
    if g.opset >= 13 and g.chance(0.4):
        scales = g.constant(g.rng.uniform(0.5, 2, channels) * 2.0**-15, np.float32)
        return g.add("DequantizeLinear", g.constant(numbers), scales, axis=0)
    return g.add("DequantizeLinear", g.constant(numbers), g.constant(2.0**-15, np.float32))


def real_constant(g: QdqGraph, shape: Sequence[int], spread: float = 1.0) -> str:
    """Return a constant of floats."""
    return g.constant(g.reals(shape, spread))
