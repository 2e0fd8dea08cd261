"""Kernels of JAX Pallas on a simulated device.

>>> import kpusim.pallas  # doctest: +SKIP
>>> program = kpusim.pallas.export(softmax, jax.ShapeDtypeStruct((64, 128), "float32"))  # doctest: +SKIP
>>> program.save("softmax.pallas.json")  # doctest: +SKIP
>>> y = kpusim.pallas.run(softmax, platform="tile32")(x)  # doctest: +SKIP
>>> kpusim.pallas.last_run().cycles  # doctest: +SKIP
"""

import importlib.util

from kpusim.errors import MissingPackageError

if importlib.util.find_spec("jax") is None:
    raise MissingPackageError(
        "kpusim.pallas captures kernels with jax, which is not installed; an exported file needs none. "
        "Fix: pip install 'kpusim[pallas]'."
    )

from kpusim.pallas.inspecting import Inspection, inspect
from kpusim.pallas.internals import self_test
from kpusim.pallas.program import PallasProgram, export, source
from kpusim.pallas.running import last_run, run

__all__ = [
    "Inspection",
    "PallasProgram",
    "export",
    "inspect",
    "last_run",
    "run",
    "self_test",
    "source",
]
