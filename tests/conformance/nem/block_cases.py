"""Cases of the block formats: gemm.mx, quantize.mx and dequantize.mx; see cases.py."""

from __future__ import annotations

import arithmetic as ar
import blocks
import float8
import numpy as np
from arithmetic import Tensor
from cases import Case, draw, rng


def block_cases() -> list[Case]:
    """Blocks of 32 and of other sizes, a shorter last one; NaN, infinities, zeros, ends of exponents."""
    cases = []
    for elem in float8.FORMATS:
        for size, depth, addend in ((32, 64, False), (32, 40, True), (5, 12, False)):
            name = f"gemm_mx_{elem}_of_{size}" + "_addend" * addend
            random = rng(name)
            count = -(-depth // size)
            inputs = [draw(random, elem, (3, depth)), draw(random, elem, (depth, 4))]
            exponents = [random.integers(120, 135, shape) for shape in ((3, count), (count, 4))]
            if size == 5:
                exponents[0][1, 0], exponents[1][1, 2] = 255, 0
            inputs += [Tensor("u8", codes) for codes in exponents]
            if addend:
                inputs.append(draw(random, "f32", (3, 4)))
            attrs = {} if size == 32 else {"block_size": size}
            variant = f"gemm.mx<{elem}>.{'with' if addend else 'no'}_addend"
            cases.append(Case(name, "gemm.mx", variant, inputs, [blocks.product(size, inputs)], attrs))
        for other in ("f16", "bf16", "f32"):
            random = rng(f"mx {elem} {other}")
            x = draw(random, other, (3, 70), scale=100.0)
            data = x.real()
            data[0, 32:64], data[1, 3], data[2, 40] = 0, np.nan, np.inf
            data[:, 64:] *= 2.0**-18
            x = ar.to_elem(other, data)
            q, s = blocks.quantized(32, -1, x, elem)
            variant = f"quantize.mx<{other},{elem}>.default"
            cases.append(Case(f"quantize_mx_{other}_{elem}", "quantize.mx", variant, [x], [q, s]))
            attrs = {"axis": 0, "block_size": 2}
            parts = blocks.quantized(2, 0, x, elem)
            cases.append(Case(f"quantize_mx_{other}_{elem}_rows", "quantize.mx", variant, [x], parts, attrs))
            variant = f"dequantize.mx<{elem},{other}>.default"
            for suffix, of, given, size, axis in (("", [q, s], {}, 32, -1), ("_rows", parts, attrs, 2, 0)):
                y = blocks.widened(size, axis, *of, other)
                cases.append(
                    Case(f"dequantize_mx_{elem}_{other}{suffix}", "dequantize.mx", variant, of, [y], given)
                )
    return cases
