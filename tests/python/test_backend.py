"""An arithmetic engine in Python: its values are the run's, and its mistakes are exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import kpusim
import numpy as np
import numpy.typing as npt
import pytest
from kpusim import Operand, UserError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GEMM_RELU = EXAMPLES / "gemm_relu" / "gemm_relu.nem"


class Numpy:
    """Products of f16 in float64, and ReLU."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def supports(self, opcode: str, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        """Only what is here, and only on floats."""
        self.seen.add(opcode)
        return opcode in ("gemm.acc", "relu") and inputs[0] == "f16"

    def execute(
        self,
        opcode: str,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        attributes: Mapping[str, object],
    ) -> Sequence[npt.ArrayLike]:
        """Compute with NumPy."""
        arrays = [operand.array for operand in inputs]
        assert all(
            array is not None and array.shape == x.shape for array, x in zip(arrays, inputs, strict=True)
        )
        assert outputs[0].array is None
        if opcode == "relu":
            return [np.maximum(arrays[0], np.float16(0))]
        assert attributes["accum_type"] == outputs[0].element_type == "f32"
        total = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
        return [(total + (arrays[2] if len(arrays) > 2 else 0)).astype(np.float32)]


@pytest.mark.parametrize("mode", ["values+timing", "functional"])
def test_numpy_computes(mode: kpusim.simulation.Mode) -> None:
    """Products from NumPy differ from the exact ones by rounding only; cycles do not depend on them."""
    own = kpusim.simulate(GEMM_RELU, "npm_lite", mode=mode, fill=1)
    engine = Numpy()
    run = kpusim.simulate(GEMM_RELU, "npm_lite", mode=mode, fill=1, engine=engine)
    assert {"gemm.acc", "relu"} <= engine.seen
    for name, exact in own.outputs.items():
        np.testing.assert_allclose(
            run.outputs[name].astype(np.float64), exact.astype(np.float64), rtol=2e-2, atol=1e-2
        )
    if mode != "functional":
        assert run.stats["cycles.total"] == own.stats["cycles.total"]


def test_results_count() -> None:
    """Results of the engine are what the run gives."""

    class Sevens(Numpy):
        def execute(
            self, opcode: str, inputs: Sequence[Operand], outputs: Sequence[Operand], attributes: object
        ) -> list[npt.ArrayLike]:
            return [
                np.full(out.shape, 7, np.float16 if out.element_type == "f16" else np.float32)
                for out in outputs
            ]

    run = kpusim.simulate(GEMM_RELU, "npm_lite", fill=1, engine=Sevens())
    assert (run.outputs["Y"] == np.float16(7)).all()


def test_quantisation_and_attributes_arrive() -> None:
    """Integer operations bring their scales; unsupported ones fall to the own engine, with the same bits."""
    seen: dict[str, object] = {}

    class Look(Numpy):
        def supports(self, opcode: str, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
            return False

    class Take(Numpy):
        def supports(self, opcode: str, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
            return opcode == "maxpool"

        def execute(
            self,
            opcode: str,
            inputs: Sequence[Operand],
            outputs: Sequence[Operand],
            attributes: Mapping[str, object],
        ) -> list[npt.ArrayLike]:
            seen.update(attributes)
            (x,) = (operand.array for operand in inputs)
            assert x is not None
            n, h, w, c = x.shape
            return [x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))]

    program = EXAMPLES / "conv_pool" / "conv_pool.nem"
    own = kpusim.simulate(program, "npm_lite", fill=1)
    for engine in (Look(), Take()):
        run = kpusim.simulate(program, "npm_lite", fill=1, engine=engine)
        for name, value in own.outputs.items():
            np.testing.assert_array_equal(run.outputs[name], value)
    assert seen["kernel_shape"] == (2, 2) and seen["strides"] == (2, 2)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(3, np.float32), "Fix: give such an array"),
        (np.zeros((2, 2), np.float64), "Fix: give such an array"),
        (None, "no list of 1 results"),
    ],
)
def test_wrong_results(result: object, message: str) -> None:
    """Wrong shapes, dtypes and counts are refused."""

    class Wrong(Numpy):
        def execute(self, *_: object) -> object:
            return result if result is None else [result]

    with pytest.raises(UserError, match=message):
        kpusim.simulate(GEMM_RELU, "npm_lite", fill=1, engine=Wrong())


@pytest.mark.parametrize("mode", ["values+timing", "functional"])
def test_exceptions_arrive(mode: kpusim.simulation.Mode) -> None:
    """An exception of the engine ends the run and arrives as it is; the next run is not touched."""

    class MineError(Exception):
        pass

    class Fails(Numpy):
        def execute(self, *_: object) -> list[npt.ArrayLike]:
            raise MineError("here")

    with pytest.raises(MineError, match="here"):
        kpusim.simulate(GEMM_RELU, "npm_lite", mode=mode, fill=1, engine=Fails())
    assert "Y" in kpusim.simulate(GEMM_RELU, "npm_lite", mode=mode, fill=1).outputs


def test_an_engine_that_uses_its_simulation() -> None:
    """A simulation cannot be used from within."""

    class Inside(Numpy):
        def execute(self, *_: object) -> list[npt.ArrayLike]:
            simulation.step(1)
            return []

    simulation = kpusim.Simulation(GEMM_RELU, "npm_lite", engine=Inside())
    with pytest.raises(UserError, match="own callback"):
        simulation.run(fill=1)


def test_no_engine() -> None:
    """Objects that are no engine are refused."""
    for engine in ("fats", 3, object()):
        with pytest.raises(UserError, match="there is no engine"):
            kpusim.simulate(GEMM_RELU, "npm_lite", fill=1, engine=engine)  # type: ignore[arg-type]
