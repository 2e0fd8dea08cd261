"""Block formats on a device, by the command, against ml_dtypes: MXFP8, MXFP6, MXFP4, MXINT8 and NVFP4.

usage: test_block_formats.py, with the command in the variable KPUSIM

All pairs of patterns of each element type are multiplied, all patterns of f16 are rounded to them, and
matrices are a million products. Elements and scales are read and rounded by ml_dtypes; f32 sums are NumPy's.
"""

from __future__ import annotations

import unittest

import ml_dtypes
import numpy as np
import numpy.typing as npt
from test_float8 import Array, Program

#: Element, scale, elements of a block.
FORMATS = {
    "mxfp8": ("f8e4m3", "u8", 32),
    "mxfp8_e5m2": ("f8e5m2", "u8", 32),
    "mxfp6": ("f6e2m3", "u8", 32),
    "mxfp6_e3m2": ("f6e3m2", "u8", 32),
    "mxfp4": ("f4e2m1", "u8", 32),
    "mxint8": ("i8", "u8", 32),
    "nvfp4": ("f4e2m1", "f8e4m3", 16),
}
TYPES = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f6e2m3": ml_dtypes.float6_e2m3fn,
    "f6e3m2": ml_dtypes.float6_e3m2fn,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "u8": ml_dtypes.float8_e8m0fnu,
}
NARROW = {"f6e2m3": 64, "f6e3m2": 64, "f4e2m1": 16}
Numbers = npt.NDArray[np.float64]


def values(elem: str, bits: Array) -> Numbers:
    """Return the numbers of patterns; of u8 as scales, of i8 in steps of 1/64."""
    if elem == "i8":
        return bits.astype(np.float64) / 64
    return bits.view(TYPES[elem]).astype(np.float64)


def rounded(elem: str, numbers: Numbers) -> Array:
    """Return the nearest patterns, saturating."""
    if elem == "i8":
        return np.clip(np.rint(numbers * 64), -127, 127).astype(np.int8)
    most = float(ml_dtypes.finfo(TYPES[elem]).max)
    return np.clip(numbers, -most, most).astype(TYPES[elem]).view(np.uint8)


def scale_bits(elem: str, scale: str, largest: Numbers) -> Array:
    """Draw scales of blocks up to some size, which is finite and not 0."""
    most = 127 / 64 if elem == "i8" else float(ml_dtypes.finfo(TYPES[elem]).max)
    if scale == "f8e4m3":
        return np.maximum(rounded(scale, largest / most), 1)
    exponents = np.floor(np.log2(largest)) - np.floor(np.log2(most))
    return (np.clip(exponents, -127, 127) + 127).astype(np.uint8)


def product(size: int, a: Numbers, b: Numbers, of_a: Numbers, of_b: Numbers) -> npt.NDArray[np.float32]:
    """f32 sums of each block, scaled and added in f32."""
    left, right = a.astype(np.float32), b.astype(np.float32)
    y = np.zeros((a.shape[0], b.shape[1]), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for block in range(of_a.shape[1]):
            part = np.zeros_like(y)
            for k in range(block * size, min(a.shape[1], (block + 1) * size)):
                part += left[:, k, None] * right[k]  # exact products
            scale = of_a[:, block, None] * of_b[block]
            y = (y.astype(np.float64) + part.astype(np.float64) * scale).astype(np.float32)
    return y


def patterns(elem: str) -> Array:
    """Return all of a type."""
    if elem == "i8":
        return np.arange(-128, 128).astype(np.int8)
    return np.arange(NARROW.get(elem, 256)).astype(np.uint8)


class BlockFormats(unittest.TestCase):
    """Each test is a program on core128-mx."""

    def same(self, got: Array, wanted: Array) -> None:
        """Bit by bit; any NaN is one."""
        if wanted.dtype == np.float32:
            np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
            wanted, got = np.nan_to_num(wanted, nan=0), np.nan_to_num(got, nan=0)
            np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))
        else:
            np.testing.assert_array_equal(got, wanted)

    def test_casts(self) -> None:
        """All f16 to each narrow type, and all its patterns to f32; NaN become -0."""
        every = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(np.float16)
        for elem, count in NARROW.items():
            program = Program("core128-mx")
            program.add_input("x", "f16", every)
            program.add_input("q", elem, patterns(elem))
            program.add("y", "cast", ["x"], elem, every.shape, {})
            program.add("z", "cast", ["q"], "f32", (count,), {})
            got = program.run()
            with np.errstate(over="ignore", invalid="ignore"):
                wanted = every.astype(np.float32).astype(TYPES[elem]).view(np.uint8)
            self.same(got["y"], np.where(np.isnan(every), count // 2, wanted).astype(np.uint8))
            self.same(got["z"], values(elem, patterns(elem)).astype(np.float32))

    def test_all_pairs(self) -> None:
        """Every pattern times every other, with scales of all sizes: blocks of one element."""
        random = np.random.default_rng(3)
        for name, (elem, scale, _) in FORMATS.items():
            every = patterns(elem)
            of_a = random.integers(0, 255, (len(every), 1)).astype(np.uint8)
            of_b = random.integers(0, 255, (1, len(every))).astype(np.uint8)
            of_a[3], of_b[0, 5] = (0x7F if scale == "f8e4m3" else 0xFF), 0
            program = Program("core128-mx")
            given = {"a": every[:, None], "b": every[None], "sa": of_a, "sb": of_b}
            for key, kind in zip(given, (elem, elem, scale, scale), strict=True):
                program.add_input(key, kind, np.ascontiguousarray(given[key]))
            shape = (len(every), len(every))
            program.add("y", "gemm.mx", [*given], "f32", shape, {"block_size": 1})
            wanted = product(
                1,
                *(values(elem, np.ascontiguousarray(given[k])) for k in "ab"),
                *(values(scale, given[k]) for k in ("sa", "sb")),
            )
            with self.subTest(name):
                self.same(program.run()["y"], wanted)

    def test_a_million_products(self) -> None:
        """Matrices of f32 are rounded to blocks, multiplied, and read back."""
        random = np.random.default_rng(11)
        shapes = {"a": (100, 100), "b": (100, 100)}
        for name, (elem, scale, size) in FORMATS.items():
            program = Program("core128-mx")
            bits: dict[str, Array] = {}
            count = -(-100 // size)
            for key, axis in (("a", 1), ("b", 0)):
                x = random.normal(size=shapes[key]).astype(np.float32)
                x *= np.exp2(random.integers(-6, 6, (100, 1) if axis else (1, 100))).astype(np.float32)
                program.add_input(key, "f32", x)
                blocks = (100, count) if axis else (count, 100)
                program.add_two(f"q{key}", f"s{key}", "quantize.mx", key, (elem, scale), shapes[key], blocks)
                program.lines[-3] = program.lines[-3].replace(
                    " deps=", f" axis={axis} block_size={size} deps="
                )
                padded = np.abs(np.moveaxis(x, axis, 1).astype(np.float64))
                padded = np.pad(padded, ((0, 0), (0, count * size - 100))).reshape(100, count, size)
                codes = scale_bits(elem, scale, padded.max(2))
                wide = np.repeat(values(scale, codes), size, 1)[:, :100]
                wanted = rounded(elem, np.moveaxis(x, axis, 1) / wide)
                bits[f"q{key}"] = np.ascontiguousarray(np.moveaxis(wanted, 1, axis))
                bits[f"s{key}"] = np.ascontiguousarray(np.moveaxis(codes, 1, axis))
            program.add("y", "gemm.mx", ["qa", "qb", "sa", "sb"], "f32", (100, 100), {"block_size": size})
            program.lines[-2] = program.lines[-2].replace(", t_sa, t_sb", "")  # made with the elements
            got = program.run()
            with self.subTest(name):
                for key, wanted in bits.items():
                    self.same(got[key], wanted)
                numbers = [values(elem, bits["qa"]), values(elem, bits["qb"])]
                scales = [values(scale, bits["sa"]), values(scale, bits["sb"])]
                self.same(got["y"], product(size, *numbers, *scales))


if __name__ == "__main__":
    unittest.main()
