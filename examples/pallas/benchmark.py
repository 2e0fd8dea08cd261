"""How long kernels take on this host until their first result, and after: here, and in jax's interpreter.

usage: python benchmark.py [NAME ...]

For each example: capture, lowering and execution by kpusim, the second call of its function, and the first
and second call of the same function with `interpret=True`. Milliseconds.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import kpusim.pallas
from jax.experimental.pallas import tpu as pltpu
from kernels import Example, examples

HEAD = ("capture", "lowering", "execution", "again", "jax first", "jax again")


def milliseconds(call: Callable[..., Any], *operands: Any) -> float:
    """Time of a call until its results are there."""
    begin = time.perf_counter()
    jax.block_until_ready(call(*operands))
    return (time.perf_counter() - begin) * 1e3


def row(example: Example) -> list[float]:
    """All columns."""
    found = kpusim.pallas.inspect(example.function, *example.operands, platform="tile32")
    if found.error:
        raise SystemExit(found.error)
    times = [found.seconds[name] * 1e3 for name in HEAD[:3]]
    ours = kpusim.pallas.run(example.function, platform="tile32")
    milliseconds(ours, *example.operands)
    times.append(milliseconds(ours, *example.operands))
    interpret: Any = pltpu.InterpretParams() if example.interpreter == "tpu" else True
    theirs = jax.jit(functools.partial(example.function, interpret=interpret))
    return [*times, *(milliseconds(theirs, *example.operands) for _ in range(2))]


def main(names: list[str]) -> None:
    """Print a line for each example of these names, or of all."""
    print(f"{'kernel':24}" + "".join(f"{name:>12}" for name in HEAD))
    for name, example in examples().items():
        if not names or name in names:
            print(f"{name:24}" + "".join(f"{value:12.1f}" for value in row(example)))


if __name__ == "__main__":
    main(sys.argv[1:])
