"""float8 on a device, by the command, against ml_dtypes: elementwise opcodes, casts, products.

usage: test_float8.py, with the command in the variable KPUSIM

Every opcode of one operand gets all patterns, of two all pairs of them; products are a million. Numbers are
read and rounded by ml_dtypes; between, binary64 functions of functions.py, and f32 sums of NumPy. What leaves
the range is clipped before ml_dtypes rounds, which would make NaN or infinities of it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

import functions
import ml_dtypes
import network_cases
import numpy as np
import numpy.typing as npt

KPUSIM = os.environ.get("KPUSIM", "")
TYPES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
HOST: dict[str, type] = dict.fromkeys([*TYPES, "f6e2m3", "f6e3m2", "f4e2m1"], np.uint8) | {
    "u8": np.uint8,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "i8": np.int8,
    "i32": np.int32,
}
PLAIN = "relu abs neg leaky_relu clamp add sub mul div min max".split()
LANGUAGE = "sigmoid tanh exp log sqrt gelu silu pow".split()
ELEMENTWISE = [*PLAIN, *LANGUAGE, *network_cases.PLAIN, *network_cases.FUNCTIONS, *network_cases.COMPARISONS]
ELEMENTWISE = [*(name for name in ELEMENTWISE if name != "where"), "is_nan", "is_inf"]
CONDITIONS = (*network_cases.COMPARISONS, "is_nan", "is_inf")
Array = npt.NDArray[np.generic]


def values(elem: str, patterns: Array) -> npt.NDArray[np.float64]:
    """Return the numbers of patterns."""
    return patterns.view(TYPES[elem]).astype(np.float64)


def rounded(elem: str, numbers: npt.NDArray[np.float64]) -> Array:
    """Return the patterns nearest to numbers: finite ones stay finite, and so do infinities of f8e4m3."""
    most = float(ml_dtypes.finfo(TYPES[elem]).max)
    cut = np.clip(numbers, -most, most)
    if elem == "f8e5m2":
        cut = np.where(np.isinf(numbers), numbers, cut)
    with np.errstate(invalid="ignore"):
        bits = cut.astype(TYPES[elem]).view(np.uint8)
    return np.where(np.isnan(numbers), {"f8e4m3": 0x7F, "f8e5m2": 0x7E}[elem], bits).astype(np.uint8)


class Program:
    """Operations on whole arrays, from L2 through L1 and back, one after the other."""

    def __init__(self, device: str = "core128-fp8") -> None:
        """Nothing yet."""
        self.lines = [f'device "{device}"', "program float8:"]
        self.inputs: dict[str, Array] = {}
        self.outputs: dict[str, tuple[tuple[int, ...], str]] = {}

    def region(self, name: str, elem: str, shape: tuple[int, ...], bits: str) -> None:
        """A buffer in L2 and one in L1."""
        size = int(np.prod(shape)) * np.dtype(HOST[elem]).itemsize // (2 if elem == "f4e2m1" else 1)
        typed = (
            f"elem={bits}, shape=[{', '.join(map(str, shape))}], layout={'MN' if len(shape) == 2 else 'C'}"
        )
        for place, level in (("from", "L2"), ("at", "L1[0]")):
            buffer = name if place == "from" else f"{name}_l1"
            self.lines.append(f"buffer {buffer} : {level} (size = {size}, align = 64)")
            self.lines.append(f"let {name}_{place} = region({buffer}, 0, {size}) {typed}")

    def add_input(self, name: str, elem: str, array: Array) -> None:
        """An array that operations may read."""
        self.region(name, elem, array.shape, elem)
        self.lines.append(f"t_{name} = transfer.async(dst={name}_at, src={name}_from)")
        self.inputs[name] = array

    def add(
        self, name: str, opcode: str, inputs: Sequence[str], elem: str, shape: tuple[int, ...], attrs: dict
    ) -> None:
        """An operation, whose result is an output."""
        self.region(name, elem, shape, elem)
        words = "".join(f" {key}={str(value).lower()}" for key, value in attrs.items())
        operands, waits = ", ".join(f"{n}_at" for n in inputs), ", ".join(f"t_{n}" for n in inputs)
        self.lines.append(f"c_{name} = {opcode}.async in {operands} out {name}_at{words} deps=[{waits}]")
        self.lines.append(f"s_{name} = store.async(dst={name}_from, src={name}_at, deps=[c_{name}])")
        self.outputs[name] = shape, elem

    def add_two(
        self,
        name: str,
        beside: str,
        opcode: str,
        operand: str,
        elems: tuple[str, str],
        shape: tuple[int, ...],
        other: tuple[int, ...],
    ) -> None:
        """An operation with two results; operations may read both."""
        self.region(name, elems[0], shape, elems[0])
        self.region(beside, elems[1], other, elems[1])
        self.lines.append(
            f"t_{name} = {opcode}.async in {operand}_at out {name}_at, {beside}_at deps=[t_{operand}]"
        )
        for out, of, elem in ((name, shape, elems[0]), (beside, other, elems[1])):
            self.lines.append(f"s_{out} = store.async(dst={out}_from, src={out}_at, deps=[t_{name}])")
            self.outputs[out] = of, elem

    def run(self, *texts: tuple[str, str]) -> dict[str, Array]:
        """Return what the device makes of it; files beside it."""
        with tempfile.TemporaryDirectory(prefix="kpusim_float8_") as scratch:
            folder = Path(scratch)
            (folder / "p.nem").write_text("\n".join(self.lines) + "\n")
            for name, text in texts:
                (folder / name).write_text(text)
            command = [KPUSIM, "run", "p.nem", "--quiet", "--mode", "functional", "-o", "out"]
            for name, array in self.inputs.items():
                np.save(folder / f"{name}.npy", array)
                command += ["--input", f"{name}={name}.npy"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            arrays = {name: np.load(folder / "out" / "outputs" / f"{name}.npy") for name in self.outputs}
        for name, (shape, elem) in self.outputs.items():
            assert arrays[name].dtype == HOST[elem], (name, arrays[name].dtype)
            arrays[name] = arrays[name].reshape(shape)
        return arrays


def pairs() -> tuple[Array, Array]:
    """Return every pair of patterns."""
    every = np.arange(256, dtype=np.uint8)
    return np.repeat(every, 256), np.tile(every, 256)


def expected(
    opcode: str, attrs: dict, operands: Sequence[npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Each element in binary64; beyond its range a finite power or exponential is its largest number."""
    rows = zip(*(x.tolist() for x in operands), strict=True)
    result = np.array([functions.element(opcode, attrs, row, False) for row in rows])
    if opcode in ("exp", "pow", "sinh", "cosh"):
        finite = np.all([np.isfinite(x) for x in operands], axis=0)
        pole = operands[0] == 0 if opcode == "pow" else np.zeros(len(result), bool)
        most = np.finfo(np.float64).max
        result = np.where(finite & ~pole, np.clip(result, -most, most), result)
    return result


class Float8(unittest.TestCase):
    """One rounding of the exact result, in every case."""

    def test_every_elementwise_opcode(self) -> None:
        """On all patterns; of two operands on all pairs."""
        every = np.arange(256, dtype=np.uint8)
        a, b = pairs()
        for elem in TYPES:
            program = Program()
            for name, array in (("x", every), ("a", a), ("b", b)):
                program.add_input(name, elem, array)
            of: dict[str, list[str]] = {}
            for opcode in ELEMENTWISE:
                of[opcode] = ["a", "b"] if opcode in functions.BINARY else ["x"]
                to = "u8" if opcode in CONDITIONS else elem
                shape = program.inputs[of[opcode][0]].shape
                attrs = network_cases.ATTRIBUTES.get(opcode, {})
                program.add(f"y_{opcode}", opcode, of[opcode], to, shape, attrs)
            got = program.run()
            for opcode in ELEMENTWISE:
                with self.subTest(opcode=opcode, elem=elem):
                    operands = [values(elem, program.inputs[name]) for name in of[opcode]]
                    want = expected(opcode, network_cases.ATTRIBUTES.get(opcode, {}), operands)
                    bits = want.astype(np.uint8) if opcode in CONDITIONS else rounded(elem, want)
                    np.testing.assert_array_equal(got[f"y_{opcode}"], bits)

    def test_widening(self) -> None:
        """All patterns are exact in wider floats; to integers they are truncated."""
        every = np.arange(256, dtype=np.uint8)
        for elem, dtype in TYPES.items():
            program = Program()
            program.add_input("x", elem, every)
            for to in ("f32", "f16", "bf16", "i8", "i32"):
                program.add(f"y_{to}", "cast", ["x"], to, every.shape, {})
            got = program.run()
            exact = every.view(dtype).astype(np.float32)
            np.testing.assert_array_equal(got["y_f32"], exact)
            np.testing.assert_array_equal(got["y_f16"], exact.astype(np.float16))
            wide = got["y_bf16"].view(ml_dtypes.bfloat16).astype(np.float32)
            np.testing.assert_array_equal(wide, exact)
            ends = {"nan": 0.0, "posinf": 2.0**31 - 1, "neginf": -(2.0**31)}
            whole = np.trunc(np.nan_to_num(exact.astype(np.float64), **ends))
            np.testing.assert_array_equal(got["y_i32"], whole.astype(np.int64))
            np.testing.assert_array_equal(got["y_i8"], np.clip(whole, -128, 127))

    def test_casts_saturate_or_do_not(self) -> None:
        """Casts of all f16, of ties and their neighbours in f32, of infinities, saturate or do not."""
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        for elem, dtype in TYPES.items():
            numbers = np.sort(np.unique(np.arange(127, dtype=np.uint8).view(dtype).astype(np.float32)))
            numbers = numbers[np.isfinite(numbers)]
            ties = (numbers[1:] + numbers[:-1]) / 2
            ends = np.array([464, 480, 61440, 65536, 1e9, 3e38, np.inf, np.nan, 1e-45], np.float32)
            around = [np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(1e9))]
            singles = np.concatenate([ties, *around, ends])
            singles = np.concatenate([singles, -singles])
            program = Program()
            program.add_input("h", "f16", halves)
            program.add_input("s", "f32", singles)
            for name, array in (("h", halves), ("s", singles)):
                for flag in (True, False):
                    program.add(f"{name}_{flag}", "cast", [name], elem, array.shape, {"saturate": flag})
            got = program.run()
            most = float(ml_dtypes.finfo(dtype).max)
            for name, array in (("h", halves), ("s", singles)):
                wide = array.astype(np.float64)
                want = rounded(elem, np.clip(wide, -most, most))
                np.testing.assert_array_equal(got[f"{name}_True"], want)
                with np.errstate(invalid="ignore"):
                    plain = wide.astype(dtype).view(np.uint8)
                nan = np.isnan(plain.view(dtype).astype(np.float32))
                plain = np.where(nan, {"f8e4m3": 0x7F, "f8e5m2": 0x7E}[elem], plain)
                np.testing.assert_array_equal(got[f"{name}_False"], plain)

    def test_products(self) -> None:
        """Products are exact in f32; sums are f32, k ascending, and are rounded once."""
        random = np.random.default_rng(6)
        size = 100
        for elem in TYPES:
            greatest = 0x7E if elem == "f8e4m3" else 0x7B
            a, b = (random.integers(0, greatest + 1, (size, size), dtype=np.uint8) for _ in range(2))
            a |= random.integers(0, 2, a.shape, dtype=np.uint8) << 7
            b |= random.integers(0, 2, b.shape, dtype=np.uint8) << 7
            program = Program()
            program.add_input("a", elem, a)
            program.add_input("b", elem, b)
            program.add("y", "gemm", ["a", "b"], elem, (size, size), {"accum_type": "f32"})
            program.add("sums", "gemm.acc", ["a", "b"], "f32", (size, size), {})
            got = program.run()
            x, w = (values(elem, array).astype(np.float32) for array in (a, b))
            sums = np.zeros((size, size), np.float32)
            for k in range(size):
                sums += x[:, k, None] * w[k]
            np.testing.assert_array_equal(got["sums"], sums)
            np.testing.assert_array_equal(got["y"], rounded(elem, sums.astype(np.float64)))

    def test_products_of_blocks(self) -> None:
        """MXFP8: what the device makes of f32 matrices, read by ml_dtypes; near the exact product."""
        random = np.random.default_rng(7)
        a, b = (random.normal(size=shape).astype(np.float32) for shape in ((40, 100), (100, 24)))
        a *= np.exp2(random.integers(-30, 30, (40, 1)))  # each row has exponents of its own
        for elem, dtype in TYPES.items():
            program = Program()
            program.add_input("a", "f32", a)
            program.add_input("b", "f32", b)
            for name, matrix, axis, blocks in (("a", a, 1, (40, 4)), ("b", b, 0, (4, 24))):
                program.region(f"q{name}", elem, matrix.shape, elem)
                program.region(f"s{name}", "u8", blocks, "u8")
                outputs = f"q{name}_at, s{name}_at axis={axis}"
                program.lines += [f"t_q{name} = quantize.mx.async in {name}_at out {outputs} deps=[t_{name}]"]
                for out, shape, kind in ((f"q{name}", matrix.shape, elem), (f"s{name}", blocks, "u8")):
                    program.lines.append(
                        f"s_{out} = store.async(dst={out}_from, src={out}_at, deps=[t_q{name}])"
                    )
                    program.outputs[out] = shape, kind
            program.region("y", "f32", (40, 24), "f32")
            program.lines += ["c_y = gemm.mx.async in qa_at, qb_at, sa_at, sb_at out y_at deps=[t_qa, t_qb]"]
            program.lines += ["s_y = store.async(dst=y_from, src=y_at, deps=[c_y])"]
            program.outputs["y"] = (40, 24), "f32"
            got = program.run()
            scales = [got[name].view(ml_dtypes.float8_e8m0fnu).astype(np.float64) for name in ("sa", "sb")]
            left = values(elem, got["qa"]) * np.repeat(scales[0], 32, 1)[:, :100]
            right = values(elem, got["qb"]) * np.repeat(scales[1], 32, 0)[:100]
            step = 2.0 ** -ml_dtypes.finfo(dtype).nmant
            self.assertLess(np.abs(left / a - 1).max(), step)  # the greatest of a block may saturate
            self.assertLess(np.abs(right / b - 1)[np.abs(b) > 0.1].max(), step)
            exact = left @ right
            error = np.abs(got["y"] - exact) / (np.abs(left) @ np.abs(right))
            self.assertLess(error.max(), 2.0**-20)

    def test_kernels_have_the_bits(self) -> None:
        """A region in float8 is a buffer of u8; no other buffer takes it."""
        kernel = """kernel widen rules(xla) workgroup(1) (x: read u8[256], y: write f32[256]):
    y[window{256}()] = f32(bitcast{f8_e5m2}(x[window{256}()]))
endkernel
"""
        every = np.arange(256, dtype=np.uint8)
        program = Program()
        program.lines.append("#! kernels widen.kern")
        program.add_input("x", "f8e5m2", every)
        program.region("y", "f32", (256,), "f32")
        program.lines += ['c_y = compute.async in x_at out y_at op="widen" deps=[t_x]']
        program.lines += ["s_y = store.async(dst=y_from, src=y_at, deps=[c_y])"]
        program.outputs["y"] = (256,), "f32"
        exact = every.view(ml_dtypes.float8_e5m2).astype(np.float32)
        np.testing.assert_array_equal(program.run(("widen.kern", kernel))["y"], exact)
        with self.assertRaisesRegex(
            AssertionError, "buffer `x` of `i8` cannot be bound to region `x_at` of f8e5m2"
        ):
            program.run(("widen.kern", kernel.replace("u8[", "i8[")))

    def test_refused_without_rates(self) -> None:
        """A device whose arrays have no float8 says so, with the fix."""
        program = Program()
        for name in ("a", "b"):
            program.add_input(name, "f8e4m3", np.zeros((8, 8), np.uint8))
        program.add("y", "gemm", ["a", "b"], "f8e4m3", (8, 8), {"accum_type": "f32"})
        with tempfile.TemporaryDirectory(prefix="kpusim_float8_") as name:
            path = Path(name) / "p.nem"
            path.write_text("\n".join(program.lines) + "\n")
            command = [KPUSIM, "check", str(path), "--platform", "core128-hbm2"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"`core128-hbm2` does not take gemm with A=f8e4m3.*Fix: ")


if __name__ == "__main__":
    unittest.main()
