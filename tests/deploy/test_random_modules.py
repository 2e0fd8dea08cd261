"""Random modules through torch.compile against eager execution: right, or refused by name; never wrong.

usage: test_random_modules.py [CASES [PART PARTS]]; without parts in two processes
"""

from __future__ import annotations

import copy
import gc
import math
import os
import subprocess
import sys
import warnings
from typing import Any

import kpusim
import kpusim.torch
import torch
from random_modules import CASES, make
from torch import Tensor
from torch.utils import _pytree as pytree

OPTIONS = {"platform": "tile32", "precision": "f32", "mode": "functional"}
LEAST_RIGHT = 0.9
BOUND = 1e-5  #: of the largest number of the output


def difference(want: object, got: object) -> str:
    """Say in what two results differ; empty: in nothing that matters."""
    wanted, shape = pytree.tree_flatten(want)
    given, other_shape = pytree.tree_flatten(got)
    if shape != other_shape:
        return f"{other_shape} instead of {shape}"
    for a, b in zip(wanted, given, strict=True):
        if found := difference_of_leaves(a, b):
            return found
    return ""


def difference_of_leaves(want: Any, got: Any) -> str:  # noqa: ANN401
    """Return the same of two tensors or other values."""
    if not isinstance(want, Tensor):
        return "" if want == got else f"{got} instead of {want}"
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if not want.is_floating_point():
        return "" if torch.equal(want, got) else f"{got} instead of {want}"
    finite = want.isfinite()
    if not torch.equal(finite, got.isfinite()):
        return "infinities or NaN elsewhere"
    if not finite.any():
        return ""
    off = float((want - got)[finite].abs().max())
    allowed = BOUND * max(1.0, float(want[finite].abs().max()))
    return "" if off <= allowed else f"off by {off:g}, allowed {allowed:g}"


def outcome(index: int) -> tuple[str, str]:
    """("right" | "refused" | "wrong", why) of a case."""
    name, module, inputs = make(index)
    torch._dynamo.reset()
    with torch.no_grad():
        want_inputs = copy.deepcopy(inputs)
        want = module(*want_inputs)
        try:
            got = torch.compile(module, backend="kpusim", options=OPTIONS)(*inputs)
        except kpusim.UserError as error:
            named = "Fix: " in str(error)
            return "refused" if named else "wrong", f"{name}: {error}"
    why = difference(want, got) or difference(want_inputs, inputs)
    return ("wrong", f"{name}: {why}") if why else ("right", name)


def part(first: int, last: int, step: int) -> None:
    """Print the outcome of each case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    gc.set_threshold(100_000, 50, 100)  # a fifth of an export goes into looking for garbage
    for index in range(first, last, step):
        kind, why = outcome(index)
        print(index, kind, " ".join(why.split()), flush=True)


def main() -> int:
    """Run all cases in two processes, or every PARTS-th in one."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    starts, step = ([int(sys.argv[2]) - 1], int(sys.argv[3])) if len(sys.argv) > 3 else ([0, 1], 2)
    command = [sys.executable, "-B", "-W", "ignore", __file__, "--cases"]
    jobs = [
        subprocess.Popen(
            [*command, str(start), str(count), str(step)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for start in starts
    ]
    count = sum(len(range(start, count, step)) for start in starts)
    results = [job.communicate() for job in jobs]
    lines = [line for output, _ in results for line in output.splitlines()]
    kinds = [line.split()[1] for line in lines]
    for line in sorted(lines, key=lambda text: int(text.split()[0])):
        if " right " not in line:
            print(line[:400])
    print(f"{count} cases: {kinds.count('right')} right, {kinds.count('refused')} refused by name")
    if any(job.returncode for job in jobs) or len(kinds) != count:
        print("a process failed:", *(error[-2000:] for _, error in results), sep="\n")
        return 1
    return int("wrong" in kinds or kinds.count("right") < math.ceil(LEAST_RIGHT * count))


if __name__ == "__main__":
    if "--cases" in sys.argv:
        part(*map(int, sys.argv[2:]))
    else:
        raise SystemExit(main())
