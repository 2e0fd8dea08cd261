"""Cases of the block formats: gemm.mx, quantize.mx and dequantize.mx; see cases.py."""

from __future__ import annotations

import arithmetic as ar
import blocks
import float8
import numpy as np
from arithmetic import Tensor
from cases import Case, draw, rng

NARROW = ("f6e2m3", "f6e3m2", "f4e2m1", "i8")


def factor(random: np.random.Generator, elem: str, shape: tuple[int, ...]) -> Tensor:
    """Return the elements of all sizes."""
    if elem == "i8":
        return Tensor(elem, random.integers(-128, 128, shape))
    if elem in float8.NARROW:
        return Tensor(elem, random.integers(0, 2 * float8.sign_of(elem), shape))
    return draw(random, elem, shape)


def scale_codes(random: np.random.Generator, scale: str, shape: tuple[int, ...], special: bool) -> Tensor:
    """Scales about 1, with a NaN and the least one."""
    codes = random.integers(120, 135, shape) if scale == "u8" else random.integers(40, 72, shape)
    if special:
        codes.flat[0], codes.flat[-1] = (255, 0) if scale == "u8" else (0x7F, 1)
    return Tensor(scale, codes)


def product_cases(family: str, elems: tuple[str, str], scales: tuple[str, str], label: str) -> list[Case]:
    """Blocks of 32, or of the format's 16, and of other sizes; a shorter last one."""
    made = []
    usual = 16 if scales[0] == "f8e4m3" else 32
    for size, depth, addend in ((usual, 64, False), (usual, 40, True), (5, 12, False)):
        name = f"gemm_mx_{label}_of_{size}" + "_addend" * addend
        random = rng(name)
        count = -(-depth // size)
        inputs = [factor(random, elems[0], (3, depth)), factor(random, elems[1], (depth, 4))]
        inputs += [
            scale_codes(random, scale, shape, size == 5)
            for scale, shape in zip(scales, ((3, count), (count, 4)), strict=True)
        ]
        if addend:
            inputs.append(draw(random, "f32", (3, 4)))
        attrs = {} if size == 32 else {"block_size": size}
        variant = f"{family}.{'with' if addend else 'no'}_addend"
        made.append(Case(name, "gemm.mx", variant, inputs, [blocks.product(size, inputs)], attrs))
    return made


def conversion_cases(elem: str, scale: str, families: dict[str, str], label: str) -> list[Case]:
    """Zeros, NaN, infinities and ends of exponents, both ways; `families` by opcode and float."""
    made = []
    usual = 16 if scale == "f8e4m3" else 32
    for other in ("f16", "bf16", "f32"):
        random = rng(f"mx {elem} {other}")
        x = draw(random, other, (3, 70), scale=100.0)
        data = x.real()
        data[0, 32:64], data[1, 3], data[2, 40] = 0, np.nan, np.inf
        data[:, 64:] *= 2.0**-18
        x = ar.to_elem(other, data)
        for suffix, attrs in (("", {"block_size": usual}), ("_rows", {"axis": 0, "block_size": 2})):
            size, axis = attrs["block_size"], attrs.get("axis", -1)
            given = {} if attrs == {"block_size": 32} else attrs
            q, s = blocks.quantized(size, axis, x, elem, scale)
            name, variant = f"quantize_mx_{other}_{label}{suffix}", families[f"quantize {other}"]
            made.append(Case(name, "quantize.mx", variant, [x], [q, s], given))
            y = blocks.widened(size, axis, q, s, other)
            name, variant = f"dequantize_mx_{label}_{other}{suffix}", families[f"dequantize {other}"]
            made.append(Case(name, "dequantize.mx", variant, [q, s], [y], given))
    return made


def families_of(elem: str, prefix: str) -> dict[str, str]:
    """Variants of the conversions of an element type."""
    made = {}
    for other in ("f16", "bf16", "f32"):
        made[f"quantize {other}"] = f"quantize.mx{prefix}<{other},{elem}>.default"
        made[f"dequantize {other}"] = f"dequantize.mx{prefix}<{elem},{other}>.default"
    return made


def block_cases() -> list[Case]:
    """MXFP8, MXFP6, MXFP4, MXINT8; NVFP4; weights of 4 bits with activations in MXFP8."""
    cases = []
    bytes_ = ("u8", "u8")
    for elem in float8.FORMATS:
        cases += product_cases(f"gemm.mx<{elem}>", (elem, elem), bytes_, elem)
        cases += conversion_cases(elem, "u8", families_of(elem, ""), elem)
    for elem in NARROW:
        cases += product_cases(f"gemm.mx.narrow<{elem}>", (elem, elem), bytes_, elem)
        cases += conversion_cases(elem, "u8", families_of(elem, ".narrow"), elem)
    four = ("f4e2m1", "f4e2m1")
    cases += product_cases("gemm.mx.scaled<f4e2m1>", four, ("f8e4m3", "f8e4m3"), "nvfp4")
    of_nvfp4 = {
        f"{way} {other}": f"{way}.mx.scaled<{other}>.default"
        for way in ("quantize", "dequantize")
        for other in ("f16", "bf16", "f32")
    }
    cases += conversion_cases("f4e2m1", "f8e4m3", of_nvfp4, "nvfp4")
    for scale in ("u8", "f8e4m3"):
        mixed = ("f8e4m3", "f4e2m1")
        cases += product_cases(f"gemm.mx.weights<{scale}>", mixed, ("u8", scale), f"weights_{scale}")
    return cases
