"""float8e8m0 and float4e2m1: casts in each mode, scales and elements of blocks.

usage: test_block_types.py GRAPH_RUN

Against the numpy_helper of onnx, and ml_dtypes.
"""

from __future__ import annotations

import sys
import unittest

import ml_dtypes
import numpy as np
from drafts import Const, model_case
from graph_run import Array, Case, run
from onnx import TensorProto, helper, numpy_helper

TOOL = ""
E8M0, E2M1 = np.dtype(ml_dtypes.float8_e8m0fnu), np.dtype(ml_dtypes.float4_e2m1fn)


def edges() -> Array:
    """f32 about powers of two, without an exponent, and special ones."""
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    near = [np.nextafter(powers, np.float32(side)) for side in (0, np.inf)]
    others = np.array([0, np.inf, np.nan, 3e38, 1.5, 1e-40, 1.7e-38], np.float32)
    middle = (powers * np.float32(1.5)).astype(np.float32)
    middle = np.concatenate(
        [middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(9))]
    )
    every = np.concatenate([powers, *near, middle, others])
    return np.concatenate([every, -every])


class BlockTypes(unittest.TestCase):
    """Each test is a model."""

    def output(self, case: Case) -> Array:
        """Return what the graph gives."""
        run([case], TOOL)
        self.assertEqual(case.error, "")
        return case.outputs[case.model.graph.output[0].name]

    def test_casts_to_powers(self) -> None:
        """Each mode; as a constant they are computed at import."""
        x = edges()
        for mode in ("up", "down", "nearest"):
            for saturate in (0, 1):
                wanted = numpy_helper.to_float8e8m0(x, bool(saturate), mode).view(np.uint8)
                node = helper.make_node(
                    "Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate
                )
                for given in (x, Const(x)):
                    case = model_case("cast", 24, [node], {"x": given}, ["y"])
                    case.model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT8E8M0
                    got = self.output(case).view(np.uint8)
                    np.testing.assert_array_equal(got, wanted, f"{mode} {saturate}")

    def test_casts_from_powers(self) -> None:
        """All codes."""
        codes = np.arange(256, dtype=np.uint8).view(E8M0)
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
        for given in (codes, Const(codes)):
            got = self.output(model_case("cast", 24, [node], {"x": given}, ["y"]))
            np.testing.assert_array_equal(got, codes.astype(np.float32))

    def test_blocks(self) -> None:
        """MXFP4 as ONNX says it: elements in float4e2m1, scales in float8e8m0, constants and inputs."""
        random = np.random.default_rng(4)
        q = random.integers(0, 16, (4, 64)).astype(np.uint8).view(E2M1)
        s = random.integers(115, 135, (4, 2)).astype(np.uint8).view(E8M0)
        wanted = q.astype(np.float32) * np.repeat(s.astype(np.float32), 32, 1)
        node = helper.make_node(
            "DequantizeLinear", ["q", "s"], ["y"], axis=1, block_size=32, output_dtype=TensorProto.FLOAT
        )
        for given in ({"q": q, "s": s}, {"q": Const(q), "s": Const(s)}, {"q": q, "s": Const(s)}):
            got = self.output(model_case("blocks", 24, [node], given, ["y"]))
            np.testing.assert_array_equal(got, wanted)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
