"""Results of jax's interpreters for the kernels, and the exports: once a tree, in build/pallas."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jaxlib
import made
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from kernels import Case
from kpusim.pallas import capture, internals

KERNELS = Path(__file__).parent / "kernels"
ROOT = KERNELS.parents[2]
FOLDER = ROOT / "build" / "pallas" / jax.__version__


@functools.cache
def digest(*folders: str) -> str:
    """Return a digest of all that results of the cases depend on, and of further folders."""
    sources = [KERNELS, Path(__file__), *(ROOT / folder for folder in ("examples/pallas", *folders))]
    options = f"{jax.__version__} {jaxlib.__version__} {os.environ['XLA_FLAGS']}"
    return made.contents(sources, "numpy", "ml_dtypes", also=options)


def interpreted(case: Case) -> list[np.ndarray]:
    """Return what jax's interpreter gives. Operands are arguments: constants would be folded."""
    with internals.tpu_described:  # pipelines are traced for its tiles, also where no capture did that before
        if case.check is not None:
            found = case.check(*case.operands)
        else:
            interpret: Any = pltpu.InterpretParams() if case.interpreter == "tpu" else True
            found = jax.jit(functools.partial(case.function, interpret=interpret))(*case.operands)
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(found)]


def expected(case: Case) -> list[np.ndarray]:
    """Return the same, once a tree for each release of jax."""
    path = FOLDER / f"{case.name}.expected"
    found: list[np.ndarray] = made.value(path, digest(), lambda: interpreted(case))
    return found


class Exported(NamedTuple):
    """The document of a case, and the primitives in it."""

    document: dict[str, Any]
    primitives: list[str]


def exported(case: Case) -> Exported:
    """Once a tree too; what `kpusim.pallas.source` gives."""

    def make() -> tuple[str, list[str]]:
        document, notes = capture.captured(case.function, case.operands)
        capture.check(notes, document["name"])
        return capture.text_of(document), sorted(notes.primitives)

    path = FOLDER / f"{case.name}.export"
    text, primitives = made.value(path, digest("python/kpusim"), make)
    return Exported(json.loads(text), primitives)
