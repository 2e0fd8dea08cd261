"""Posits on a device, by the command, against exact fractions: every pair of posit8, every posit16.

usage: test_posits.py, with the command in the variable KPUSIM

The oracle is posits.py.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
import unittest
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
from posits import FORMATS, decoded, encoded, ties

KPUSIM = os.environ.get("KPUSIM", "")
BYTES = {elem: bits // 8 for elem, (bits, _) in FORMATS.items()} | {"f32": 4}
HOST = {1: np.uint8, 2: np.uint16, 4: np.float32}
BYTE_POSITS = [elem for elem in FORMATS if BYTES[elem] == 1]
Array = npt.NDArray[np.generic]


def program(opcode: str, inputs: Sequence[str], output: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """Return one operation on whole arrays, from L2 through L1 and back."""
    lines = ['device "swkpu-v2"', "program posits:"]
    names = [f"x{i}" for i in range(len(inputs))]
    for name, elem, shape in zip([*names, "y"], [*inputs, output], shapes, strict=True):
        size = int(np.prod(shape)) * BYTES[elem]
        lines += [f"buffer {name} : L2 (size = {size}, align = 64)"]
        lines += [f"buffer {name}_l1 : L1[0] (size = {size}, align = 64)"]
        typed = (
            f"elem={elem}, shape=[{', '.join(map(str, shape))}], layout={'MN' if len(shape) == 2 else 'C'}"
        )
        lines += [f"let {name}_from = region({name}, 0, {size}) {typed}"]
        lines += [f"let {name}_at = region({name}_l1, 0, {size}) {typed}"]
    lines += [f"t{i} = transfer.async(dst={name}_at, src={name}_from)" for i, name in enumerate(names)]
    operands, waits = ", ".join(f"{n}_at" for n in names), ", ".join(f"t{i}" for i in range(len(names)))
    accum = " accum_type=f32" if opcode == "gemm" else ""
    lines += [f"c = {opcode}.async in {operands} out y_at{accum} deps=[{waits}]"]
    lines += ["s = store.async(dst=y_from, src=y_at, deps=[c])"]
    return "\n".join(lines) + "\n"


def run(
    opcode: str, arrays: Sequence[Array], elems: Sequence[str], output: str, shape: tuple[int, ...]
) -> Array:
    """Return what the device makes of the arrays."""
    with tempfile.TemporaryDirectory(prefix="kpusim_posits_") as name:
        folder = Path(name)
        shapes = [*(a.shape for a in arrays), shape]
        (folder / "p.nem").write_text(program(opcode, elems, output, shapes))
        command = [KPUSIM, "run", "p.nem", "--quiet", "-o", "out"]
        for i, array in enumerate(arrays):
            np.save(folder / f"x{i}.npy", array)
            command += ["--input", f"x{i}=x{i}.npy"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        result = np.load(folder / "out" / "outputs" / "y.npy").reshape(shape)
        assert result.dtype == HOST[BYTES[output]], result.dtype
        return np.asarray(result)


def pairs8() -> tuple[Array, Array]:
    """Return every pair of patterns of 8 bits."""
    every = np.arange(256, dtype=np.uint8)
    return np.repeat(every, 256), np.tile(every, 256)


class Posits(unittest.TestCase):
    """One rounding of the exact result, in every case."""

    def compare(self, opcode: str, elem: str, a: Array, b: Array) -> None:
        """The device's results are the rounded exact ones."""
        bits, es = FORMATS[elem]
        got = run(opcode, [a, b], [elem, elem], elem, a.shape)
        exact = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__}[opcode]
        values = functools.cache(lambda pattern: decoded(pattern, bits, es))
        for left, right, pattern in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
            x, y = values(left), values(right)
            want = encoded(None if x is None or y is None else exact(x, y), bits, es)
            self.assertEqual(pattern, want, f"{opcode} of {elem} {left:#x} and {right:#x}")

    def test_every_pair_of_posit8(self) -> None:
        """Sums, differences and products of all 65,536 pairs, of every es."""
        for opcode in ("add", "sub", "mul"):
            for elem in BYTE_POSITS:
                with self.subTest(opcode=opcode, elem=elem):
                    self.compare(opcode, elem, *pairs8())

    def test_quotients_of_posit8(self) -> None:
        """All quotients; by zero there is none."""
        a, b = pairs8()
        for elem in BYTE_POSITS:
            got = run("div", [a, b], [elem, elem], elem, a.shape)
            values = [decoded(pattern, *FORMATS[elem]) for pattern in range(256)]
            for left, right, pattern in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
                x, y = values[left], values[right]
                want = encoded(None if x is None or y is None or y == 0 else x / y, *FORMATS[elem])
                self.assertEqual(pattern, want, f"{elem} {left:#x} / {right:#x}")

    def test_random_pairs_of_posit16(self) -> None:
        """Sums and products of 16,384 pairs: any patterns, and neighbours, which cancel."""
        random = np.random.default_rng(3)
        a, b = random.integers(0, 65536, (2, 16384), dtype=np.uint16)
        b[::4] = -a[::4] + random.integers(0, 3, 4096, dtype=np.uint16)
        for opcode in ("add", "sub", "mul"):
            for elem in (elem for elem in FORMATS if BYTES[elem] == 2):
                with self.subTest(opcode=opcode, elem=elem):
                    self.compare(opcode, elem, a, b)

    def test_every_pattern_as_f32_and_back(self) -> None:
        """All posits are exact in f32, and come back as they were."""
        for elem, (bits, es) in FORMATS.items():
            for part in np.array_split(np.arange(1 << bits, dtype=HOST[BYTES[elem]]), bits // 8):
                wide = run("cast", [part], [elem], "f32", part.shape)
                for pattern, value in zip(part.tolist(), wide.tolist(), strict=True):
                    want = decoded(pattern, bits, es)
                    self.assertTrue(value != value if want is None else Fraction(value) == want, hex(pattern))
                back = run("cast", [wide], ["f32"], elem, part.shape)
                np.testing.assert_array_equal(back, part)

    def test_from_one_es_to_another(self) -> None:
        """A cast decodes by the one and rounds to the other."""
        every = np.arange(256, dtype=np.uint8)
        got = run("cast", [every], ["posit8_es2"], "posit8", every.shape)
        want = [encoded(decoded(pattern, 8, 2), 8, 0) for pattern in range(256)]
        self.assertEqual(got.tolist(), want)

    def test_rounding_of_f32(self) -> None:
        """Ties between all neighbours that f32 holds, the f32 next to them, and the ends of f32."""
        for elem, (bits, es) in FORMATS.items():
            middle = np.array([float(tie) for tie in ties(bits, es)], np.float32)
            ends = np.array([0, 1e-45, 1e-30, 3e38, np.inf, np.nan], np.float32)
            for values in (
                middle,
                np.nextafter(middle, np.float32(0)),
                np.nextafter(middle, np.float32(9e30)),
                ends,
            ):
                for signed in (values, -values):
                    got = run("cast", [signed], ["f32"], elem, signed.shape)
                    for value, pattern in zip(signed.tolist(), got.tolist(), strict=True):
                        exact = Fraction(value) if np.isfinite(value) else None
                        self.assertEqual(pattern, encoded(exact, bits, es), (elem, value))

    def test_products_of_matrices(self) -> None:
        """The f32 accumulator takes one fused multiply-add a step, in order of k, and is rounded once."""
        random = np.random.default_rng(4)
        for elem, (bits, _) in FORMATS.items():
            half = 1 << (bits - 1)
            a, b = (random.integers(0, 1 << bits, s).astype(HOST[BYTES[elem]]) for s in ((24, 40), (40, 20)))
            a[a == half], b[b == half] = 1, 1  # no NaR but one
            a[5, 7] = half
            got = run("gemm", [a, b], [elem, elem], elem, (24, 20))
            for row in range(24):
                for column in range(20):
                    self.assertEqual(got[row, column], dot(a[row].tolist(), b[:, column].tolist(), elem))

    def test_elementwise(self) -> None:
        """relu keeps NaR; exp is rounded once and never reaches zero."""
        every = np.arange(256, dtype=np.uint8)
        for elem in BYTE_POSITS:
            relu = run("relu", [every], [elem], elem, every.shape)
            np.testing.assert_array_equal(relu, np.where(every <= 128, every, 0))
            values = [decoded(pattern, *FORMATS[elem]) for pattern in range(256)]
            exp = run("exp", [every], [elem], elem, every.shape)
            for pattern, value in enumerate(values):
                if value is not None and abs(value) > 700:
                    continue  # beyond binary64, by which this test computes
                exact = None if value is None else Fraction(float(np.exp(float(value))))
                self.assertEqual(exp[pattern], encoded(exact, *FORMATS[elem]), (elem, hex(pattern)))

    def test_one_es_in_a_task(self) -> None:
        """A product of two es has no variant."""
        with tempfile.TemporaryDirectory(prefix="kpusim_posits_") as name:
            path = Path(name) / "p.nem"
            path.write_text(program("gemm", ["posit8", "posit8_es2"], "posit8", [(8, 8)] * 3))
            command = [KPUSIM, "check", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"does not take gemm with A=posit8 B=posit8_es2 .*Fix: ")

    def test_refused_without_rates(self) -> None:
        """A device whose arrays have no posits says so, with the fix."""
        with tempfile.TemporaryDirectory(prefix="kpusim_posits_") as name:
            path = Path(name) / "p.nem"
            path.write_text(program("gemm", ["posit8"] * 2, "posit8", [(8, 8)] * 3))
            command = [KPUSIM, "check", str(path), "--platform", "swkpu-v1"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"`swkpu-v1` does not take gemm with A=posit8.*Fix: ")


def dot(left: list[int], right: list[int], elem: str) -> int:
    """A sum of products in f32, each step rounded once by fractions; then one rounding to the posit."""
    bits, es = FORMATS[elem]
    total: Fraction | None = Fraction(0)
    for a, b in zip(left, right, strict=True):
        x, y = decoded(a, bits, es), decoded(b, bits, es)
        if total is None or x is None or y is None:
            return 1 << (bits - 1)
        total = as_f32(total + x * y)
    return encoded(total, bits, es)


def as_f32(value: Fraction) -> Fraction:
    """Return the nearest f32, ties to even; these are neither too large nor subnormal."""
    if value == 0:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


if __name__ == "__main__":
    unittest.main()
