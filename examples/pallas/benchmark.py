"""Time that kernels take on this host until their first result, and after: here, and in jax's interpreter.

usage: python benchmark.py [NAME ...]

Prints a table in Markdown, milliseconds of this process's CPU time. Each kernel has a Python of its own, in
which jax has computed something before: capture and lowering, the first call of a function of
`kpusim.pallas.run`, the median of later ones with time and without (functional), the first and later calls
under `jax.jit` with `interpret=True` (`InterpretParams()` where there are copies). Without names it goes on
with single figures: the sort from a fresh Python and from its file, and a call under `jit` beside an empty
callback.
"""

from __future__ import annotations

import functools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kpusim
import kpusim.pallas
import numpy as np
from jax.experimental import io_callback
from jax.experimental.pallas import tpu as pltpu
from kernels import Example, bitonic_sort, examples, matmul, multiply

HEAD = (
    "kernel",
    "capture",
    "lowering",
    "first",
    "timed",
    "functional",
    "interpret first",
    "interpret later",
)
#: Seconds after which an interpreter's first call is given up.
PATIENCE = 60
BIG = "matmul_1024"


def milliseconds(call: Callable[..., Any], *operands: Any) -> float:
    """CPU time of a call until its results are there."""
    begin = time.process_time()
    jax.block_until_ready(call(*operands))
    return (time.process_time() - begin) * 1e3


def later(call: Callable[..., Any], *operands: Any) -> float:
    """The median of calls, for at most a second."""
    end = time.perf_counter() + 1
    times = [milliseconds(call, *operands)]
    while time.perf_counter() < end and len(times) < 200:
        times.append(milliseconds(call, *operands))
    return statistics.median(times)


def timed_examples() -> dict[str, tuple[Example, str]]:
    """Return all examples, and their platforms; with an element-wise one of (8, 128) and a large product."""
    rng = np.random.default_rng(0)
    small, large = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 128), (1024, 1024)))
    found = {name: (example, "tile32") for name, example in examples().items()}
    found["multiply_8x128"] = Example(multiply, (small, small), np.multiply), "tile32"
    # two buffers of each block of 128x128 need more than the 256 KiB of tile32
    blocks = functools.partial(matmul, block=128)
    found[BIG] = Example(blocks, (large, large), np.matmul, 1e-5), "core128-hbm2"
    return found


def ours(name: str) -> list[float]:
    """Return the columns of kpusim, in this process."""
    example, platform = timed_examples()[name]
    operands = [jnp.asarray(operand) for operand in example.operands]
    jax.block_until_ready(jnp.sin(operands[0]) + 1)
    timed = kpusim.pallas.run(example.function, platform)
    first = milliseconds(timed, *operands)
    texts: list[str] = []
    capture = milliseconds(
        lambda *shapes: texts.append(kpusim.pallas.source(lambda *x: example.function(*x), *shapes)),
        *operands,
    )
    device = kpusim.Platform.load(platform)
    lowering = milliseconds(
        lambda: kpusim.Simulation(kpusim.Program.parse(texts[0], "x.pallas.json", platform=device), device)
    )
    functional = kpusim.pallas.run(example.function, platform, mode="functional")
    milliseconds(functional, *operands)
    return [capture, lowering, first, later(timed, *operands), later(functional, *operands)]


def theirs(name: str) -> list[float]:
    """Return the columns of jax's interpreter, in this process."""
    example, _ = timed_examples()[name]
    operands = [jnp.asarray(operand) for operand in example.operands]
    jax.block_until_ready(jnp.sin(operands[0]) + 1)
    interpret: Any = pltpu.InterpretParams() if example.interpreter == "tpu" else True
    function = jax.jit(functools.partial(example.function, interpret=interpret))
    return [milliseconds(function, *operands), later(function, *operands)]


def empty_callback(_: str) -> list[float]:
    """First and later calls under `jit`: of a callback that does nothing, and of the element-wise kernel."""
    operand = jnp.ones((8, 128))
    jax.block_until_ready(jnp.sin(operand) + 1)
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    functions = [
        jax.jit(lambda x: io_callback(lambda _: np.zeros(shape.shape, shape.dtype), shape, x)),
        jax.jit(lambda x: kpusim.pallas.run(multiply, "tile32")(x, x)),
    ]
    firsts = [milliseconds(function, operand) for function in functions]
    return [*firsts, *(later(function, operand) for function in functions)]


def from_file(mode_and_path: str) -> list[float]:
    """A file is opened, then run for the first time, then again."""
    mode, path = mode_and_path.split(" ", 1)
    operand = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    kpusim.Platform.load("tile32")
    begin = time.process_time()
    simulation = kpusim.Simulation(path, "tile32", mode=mode)  # type: ignore[arg-type]
    inputs = {spec.name: operand for spec in simulation.input_specs}
    opened = (time.process_time() - begin) * 1e3
    return [opened, milliseconds(simulation.run, inputs), later(simulation.run, inputs)]


def fresh_sort(_: str) -> list[float]:
    """Nothing but a first call: its process is what is measured."""
    kpusim.pallas.run(bitonic_sort, "tile32")(np.ones((8, 128), np.float32))
    return []


PARTS: dict[str, Callable[[str], list[float]]] = {
    part.__name__: part for part in (ours, theirs, empty_callback, from_file, fresh_sort)
}


def apart(part: Callable[[str], list[float]], name: str) -> list[float]:
    """Return what a part measures, in a Python of its own; nothing when it takes too long."""
    command = [sys.executable, __file__, "--part", part.__name__, name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return []
    return list(json.loads(done.stdout.splitlines()[-1]))


def least(part: Callable[[str], list[float]], name: str) -> list[float]:
    """Return the least of each column in several Pythons, since others' use of the caches only adds to it."""
    return [min(column) for column in zip(*(apart(part, name) for _ in range(9)), strict=True)]


def process_seconds(command: list[str]) -> float:
    """CPU time of a whole process: the least of three, as of :func:`least`."""
    import resource

    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def rounded(value: float) -> str:
    """Return two digits after the point where the first ones stand there."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(names: list[str]) -> None:
    """A line for each kernel."""
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for name in names:
        columns = [rounded(value) for value in apart(ours, name)]
        interpreted = [rounded(value) for value in apart(theirs, name)] or [f"> {PATIENCE} s", ""]
        print("| " + " | ".join([name, *columns, *interpreted]) + " |", flush=True)


def figures() -> None:
    """Measure what is no column."""
    whole, jax_alone = (
        process_seconds([sys.executable, __file__, "--part", "fresh_sort", ""]),
        process_seconds([sys.executable, "-c", "import jax"]),
    )
    print(f"\n- (8, 128) sort from a fresh Python: {whole:.2f} s, of which `import jax` is {jax_alone:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sort.pallas.json")
        kpusim.pallas.export(bitonic_sort, jax.ShapeDtypeStruct((8, 128), "float32")).save(path)
        for mode in ("values+timing", "functional"):
            opened, first, again = least(from_file, f"{mode} {path}")
            print(f"- its file, {mode}: opened in {opened:.1f} ms, run in {first:.2f}, again in {again:.2f}")
            if command := shutil.which("kpusim"):
                line = [command, "run", str(path), "--platform", "tile32", "--fill", "zeros", "--mode", mode]
                print(
                    f"- `kpusim run` of it, {mode}: {process_seconds(line) * 1e3:.1f} ms, the whole process"
                )
    empty, call, empty_later, call_later = least(empty_callback, "")
    print(f"- under `jit`, first call: {call:.1f} ms, an empty `io_callback` {empty:.1f} ms")
    print(f"- under `jit`, later: {call_later:.2f} ms, an empty `io_callback` {empty_later:.2f} ms")


def main(names: list[str]) -> None:
    """Print the table."""
    if names[:1] == ["--part"]:
        print(json.dumps(PARTS[names[1]](names[2])))
        return
    known = timed_examples()
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no kernel {', '.join(unknown)}. Fix: take of {', '.join(known)}.")
    table(names or list(known))
    if not names:
        figures()


if __name__ == "__main__":
    main(sys.argv[1:])
