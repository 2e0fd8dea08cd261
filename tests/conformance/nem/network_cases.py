"""Cases of the opcodes that networks need beside the language's own; see cases.py."""

from __future__ import annotations

import arithmetic as ar
import numpy as np
import views
from arithmetic import FLOATS, Quant, Tensor
from cases import BINARY as LANGUAGE_BINARY
from cases import FUNCTIONS as LANGUAGE_FUNCTIONS
from cases import PLAIN as LANGUAGE_PLAIN
from cases import REDUCTIONS, TYPES, Case, add_product, draw, quant_of, rng, specials

PLAIN = (
    "square",
    "floor",
    "ceil",
    "round",
    "sign",
    "fmod",
    "floor_mod",
    "thresholded_relu",
    "prelu",
    "where",
)
FUNCTIONS = (
    "erf sin cos tan asin acos atan sinh cosh asinh acosh atanh reciprocal rsqrt elu celu selu softplus mish "
    "hard_sigmoid hard_swish gelu_tanh"
).split()
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BINARY = ("fmod", "floor_mod", "prelu", "where", *COMPARISONS, *LANGUAGE_BINARY)
UNSIGNED = ("u8", "u16", "u32")
ATTRIBUTES: dict[str, dict] = {
    "celu": {"alpha": 0.75},
    "clamp": {"min_val": -1.5, "max_val": 2.25},
    "leaky_relu": {"alpha": 0.125},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.375},
    "thresholded_relu": {"alpha": 0.5},
}
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 2.5, -0.5]
OTHERS = [-0.0, 0.0, 2.0, -3.0, 1.0, float("nan"), -1.0, 2.5, 0.0]


def condition(random: np.random.Generator) -> Tensor:
    """Zeros, ones, and what counts as one."""
    return Tensor("u8", random.choice([0, 0, 1, 255], (3, 7)))


def operands(opcode: str, elem: str, name: str, quant: Quant | None) -> list[Tensor]:
    """Data operands of one type, special values first; the condition of where."""
    random = rng(name)
    inputs = [draw(random, elem, (3, 7), quant) for _ in range(2 if opcode in BINARY else 1)]
    if elem in FLOATS:
        inputs = [specials(t, v) for t, v in zip(inputs, (SPECIAL, OTHERS), strict=False)]
    elif len(inputs) > 1 and quant is None:  # zeros, small divisors, equal elements
        small = np.where(inputs[1].data % 5 == 0, 0, inputs[1].data // 16)
        inputs[1] = Tensor(elem, np.where(inputs[1].data % 3 == 0, inputs[0].data, small))
    return [condition(random), *inputs] if opcode == "where" else inputs


def elementwise_cases() -> list[Case]:
    """On every type; integers also quantized, the only form of functions."""
    cases = []
    for opcode in (*PLAIN, *FUNCTIONS):
        for elem in TYPES:
            for quantized in (False, True):
                if quantized and elem in FLOATS:
                    continue
                if not quantized and elem not in FLOATS and opcode in FUNCTIONS:
                    continue
                cases.append(elementwise_case(opcode, elem, f"eltwise<{elem}>.default", quantized))
    return cases


def elementwise_case(opcode: str, elem: str, variant: str, quantized: bool) -> Case:
    """Return one opcode on one type."""
    name = f"{opcode}_{elem}" + ("_quant" if quantized else "")
    zero = 100 if elem in UNSIGNED else 3
    quant = quant_of(elem, zero=zero) if quantized else None
    inputs = operands(opcode, elem, name, quant)
    out = Quant([quant.scales[0] * 1.5], [zero - 7]) if quant else None
    given = ATTRIBUTES.get(opcode, {})
    return Case(name, opcode, variant, inputs, [ar.apply_elementwise(opcode, given, inputs, out)], given)


def unsigned_cases() -> list[Case]:
    """Return the opcodes of the language, and those above, on unsigned elements."""
    cases = []
    functions = (*FUNCTIONS, *LANGUAGE_FUNCTIONS)
    for elem in UNSIGNED:
        variant = f"eltwise.ext<{elem}>.default"
        for opcode in (*PLAIN, *LANGUAGE_PLAIN, *functions):
            cases.append(elementwise_case(opcode, elem, variant, opcode in functions))
        x = draw(rng(f"windows {elem}"), elem, (1, 5, 4, 3))
        window = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
        for opcode in ("maxpool", "avgpool"):
            y = ar.pool(opcode, window, x, None)
            cases.append(Case(f"{opcode}_{elem}", opcode, variant, [x], [y], window))
        attrs: dict = {"sizes": [1, 7, 9, 3], "mode": "linear"}
        y = views.resize(attrs, x, None)
        cases.append(Case(f"resize_{elem}", "resize", variant, [x], [y], attrs))
        for opcode in REDUCTIONS:
            attrs = {"axes": [0, 2], "keepdims": False}
            y = ar.reduce(opcode, attrs, x, None)
            cases.append(Case(f"{opcode}_{elem}", opcode, f"reduce.ext<{elem}>.default", [x], [y], attrs))
        for opcode in ("argmax", "argmin"):
            attrs = {"axis": 1, "keepdims": True}
            y = ar.reduce(opcode, attrs, x, None)
            cases.append(Case(f"{opcode}_{elem}", opcode, f"arg_reduce.ext<{elem}>.default", [x], [y], attrs))
    return cases


def condition_cases() -> list[Case]:
    """Comparisons of every type, properties of floats, logic."""
    cases = []
    for opcode in COMPARISONS:
        for elem in (*TYPES, *UNSIGNED):
            inputs = operands(opcode, elem, f"{opcode}_{elem}", None)
            y = ar.apply_elementwise(opcode, {}, inputs, None)
            cases.append(Case(f"{opcode}_{elem}", opcode, f"compare<{elem}>.default", inputs, [y]))
        name = f"{opcode}_i8_quant"
        inputs = [
            Tensor("i8", rng(name + side).integers(-9, 9, (3, 7)), Quant([scale], [zero]))
            for side, scale, zero in (("a", 0.5, 3), ("b", 0.25, -2))
        ]
        y = ar.apply_elementwise(opcode, {}, inputs, None)
        cases.append(Case(name, opcode, "compare<i8>.default", inputs, [y]))
    for elem in FLOATS:
        for opcode, suffix, attrs in (
            ("is_nan", "", {}),
            ("is_inf", "", {}),
            ("is_inf", "_positive", {"detect_negative": False}),
            ("is_inf", "_negative", {"detect_positive": False}),
        ):
            name = f"{opcode}_{elem}{suffix}"
            inputs = operands(opcode, elem, name, None)
            y = ar.apply_elementwise(opcode, attrs, inputs, None)
            cases.append(Case(name, opcode, f"classify<{elem}>.default", inputs, [y], attrs))
    for opcode in ("and", "or", "xor", "not"):
        inputs = [condition(rng(opcode + str(i))) for i in range(1 if opcode == "not" else 2)]
        y = ar.apply_elementwise(opcode, {}, inputs, None)
        cases.append(Case(f"{opcode}_u8", opcode, "logic.default", inputs, [y]))
    return cases


def bit_cases() -> list[Case]:
    """Bits of plain integers, in NumPy's own integers; distances of shifts within the type and beyond."""
    functions = {
        "bit_and": np.bitwise_and,
        "bit_or": np.bitwise_or,
        "bit_xor": np.bitwise_xor,
        "shift_left": np.left_shift,
        "shift_right": np.right_shift,
    }
    cases = []
    for elem in ("i8", "i16", "i32", *UNSIGNED):
        dtype = np.dtype({"i": "int", "u": "uint"}[elem[0]] + elem[1:])
        variant = f"eltwise.ext<{elem}>.default" if elem in UNSIGNED else f"eltwise<{elem}>.default"
        limits = np.iinfo(dtype)
        for opcode, function in functions.items():
            random = rng(f"{opcode} {elem}")
            a, b = (random.integers(limits.min, limits.max, (3, 7), dtype, endpoint=True) for _ in range(2))
            a.flat[:2] = limits.min, limits.max
            if opcode.startswith("shift"):
                b = random.integers(0, limits.bits, (3, 7)).astype(dtype)
                b.flat[:4] = 0, limits.bits - 1, limits.bits, limits.max
                y = function(a, np.minimum(b, limits.bits - 1).astype(dtype))
                # beyond its bits a shift to the right leaves those of the sign
                rest = np.where((opcode == "shift_right") & (a < 0), -1, 0)
                y = np.where(b < limits.bits, y, rest).astype(dtype)
            else:
                y = function(a, b)
            tensors = [Tensor(elem, array.astype(np.int64)) for array in (a, b, y)]
            cases.append(Case(f"{opcode}_{elem}", opcode, variant, tensors[:2], tensors[2:]))
    return cases


def pool_cases() -> list[Case]:
    """Return the options of windows, and windows of one and three dimensions."""
    cases = []
    flat = {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 2]}
    forms = [
        ("_dilated", (1, 6, 5, 3), flat | {"dilations": [2, 3]}),
        ("_ceil", (1, 6, 5, 3), flat | {"ceil_mode": True}),
        ("_1d", (2, 7, 3), {"kernel_shape": [3], "pads": [1, 0], "strides": [2]}),
        (
            "_3d",
            (1, 3, 4, 3, 2),
            {"kernel_shape": [2, 3, 2], "pads": [0, 1, 1, 1, 0, 0], "strides": [1, 2, 1], "ceil_mode": True},
        ),
    ]
    for opcode in ("maxpool", "avgpool"):
        more = (
            []
            if opcode == "maxpool"
            else [("_padding", f[1], f[2] | {"count_include_pad": True}) for f in forms]
        )
        for number, (suffix, shape, attrs) in enumerate(forms + more):
            for elem in ("f32", "f16", "i8"):
                name = f"{opcode}_{elem}{suffix}" + (str(number) if suffix == "_padding" else "")
                x = draw(rng(name), elem, shape)
                y = ar.pool(opcode, attrs, x, None)
                cases.append(Case(name, opcode, f"eltwise<{elem}>.default", [x], [y], attrs))
    return cases


def resize_cases() -> list[Case]:
    """Return every mode up and down, with scales that the sizes do not tell."""
    cases = []
    modes = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
    forms: list[tuple[str, dict]] = []
    for coordinates in modes:
        for name, more in (
            ("up", {"sizes": [1, 7, 9, 2]}),
            ("down", {"sizes": [1, 2, 1, 2]}),
            ("scaled", {"sizes": [1, 2, 10, 2], "scales": [1.0, 0.6, 2.5, 1.0]}),
        ):
            forms.append((f"_{coordinates}_{name}", {"mode": "linear", "coordinates": coordinates} | more))
            for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                attrs = {"mode": "nearest", "coordinates": coordinates, "nearest_mode": rounding}
                forms.append((f"_{coordinates}_{rounding}_{name}", attrs | more))
    for suffix, attrs in forms:
        name = f"resize_f32{suffix}"
        x = draw(rng(name), "f32", (1, 4, 4, 2))
        cases.append(Case(name, "resize", "eltwise<f32>.default", [x], [views.resize(attrs, x, None)], attrs))
    for elem in TYPES:
        for quantized in (False, True):
            if quantized and elem in FLOATS:
                continue
            for mode in ("nearest", "linear"):
                name = f"resize_{elem}_{mode}" + ("_quant" if quantized else "")
                quant = quant_of(elem) if quantized else None
                x = draw(rng(name), elem, (2, 3, 4), quant)
                attrs = {"sizes": [2, 5, 6], "mode": mode}
                y = views.resize(attrs, x, Quant([quant.scales[0] * 1.5], [-4]) if quant else None)
                cases.append(Case(name, "resize", f"eltwise<{elem}>.default", [x], [y], attrs))
    return cases


def view_cases() -> list[Case]:
    """Make cases of pixels and single elements; all views of u8."""
    cases = []
    table: dict[str, list[tuple[str, tuple[int, ...], dict]]] = {
        "gather_elements": [("", (3, 4, 5), {"axis": 1})],
        "depth_to_space": [
            ("", (1, 2, 3, 12), {"block": 2}),
            ("_crd", (2, 3, 1, 9), {"block": 3, "mode": "CRD"}),
        ],
        "space_to_depth": [
            ("", (1, 4, 6, 3), {"block": 2}),
            ("_crd", (2, 3, 3, 2), {"block": 3, "mode": "CRD"}),
        ],
    }
    plain: dict[str, tuple[tuple[int, ...], dict]] = {
        "transpose": ((3, 4, 5), {"perm": [2, 0, 1]}),
        "reshape": ((3, 4, 5), {"target_shape": [6, -1]}),
        "slice": ((3, 4, 5), {"starts": [1, -3], "ends": [100, -1], "axes": [0, -1], "steps": [1, 1]}),
        "concat": ((3, 4, 5), {"axis": -2}),
        "choose": ((3, 4, 5), {"index": 1}),
        "insert_rows": ((3, 4, 5), {"axis": -2, "start": 1}),
        "split": ((3, 4, 5), {"axis": -1, "split_sizes": [1, 3, 1]}),
        "pad": ((3, 4, 5), {"pads": [1, 0, 2, 0, 1, 1], "mode": "constant", "constant_value": 1.5}),
        "gather": ((3, 4, 5), {"axis": 1}),
    }
    jobs = [
        (opcode, elem, form)
        for opcode, forms in table.items()
        for elem in (*TYPES, *UNSIGNED)
        for form in forms
    ]
    jobs += [(opcode, elem, ("", *form)) for opcode, form in plain.items() for elem in UNSIGNED]
    for opcode, elem, (suffix, shape, attrs) in jobs:
        name = f"{opcode}_{elem}{suffix}"
        random = rng(name)
        inputs = [draw(random, elem, shape)]
        if opcode in ("concat", "insert_rows"):
            inputs.append(draw(random, elem, (3, 2, 5)))
        if opcode == "choose":
            inputs.append(draw(random, elem, (3, 4, 5)))
        if opcode == "gather":
            inputs.append(Tensor("i32", np.array([[3, 0], [-1, 2], [1, -4]])))
        if opcode == "gather_elements":
            inputs.append(Tensor("i8" if elem == "i8" else "i32", random.integers(-4, 4, (3, 6, 5))))
        variant = f"view.ext<{elem}>.default" if elem in UNSIGNED else f"view<{elem}>.default"
        cases.append(Case(name, opcode, variant, inputs, views.view(opcode, attrs, inputs), attrs))
    return cases


def sum_cases() -> list[Case]:
    """cumsum and group_norm."""
    cases = []
    for elem in TYPES:
        for suffix, attrs in (
            ("", {"axis": 1}),
            ("_exclusive", {"axis": -1, "exclusive": True}),
            ("_reverse", {"axis": 0, "reverse": True}),
            ("_both", {"axis": 2, "exclusive": True, "reverse": True}),
        ):
            name = f"cumsum_{elem}{suffix}"
            x = draw(rng(name), elem, (3, 4, 5))
            y = ar.cumsum(attrs, x, None)
            cases.append(Case(name, "cumsum", f"scan<{elem}>.default", [x], [y], attrs))
    for elem in FLOATS:
        for groups in (1, 2, 6):
            for count in (0, 1, 2):
                name = f"group_norm_{elem}_{groups}" + ("_scale" * (count > 0)) + ("_bias" * (count > 1))
                random = rng(name)
                inputs = [draw(random, elem, (2, 3, 2, 6))]
                inputs += [draw(random, elem, (6,), scale=1.0) for _ in range(count)]
                attrs = {"groups": groups, "epsilon": 0.001}
                y = ar.group_norm(attrs, inputs)
                cases.append(Case(name, "group_norm", f"norm<{elem}>.default", inputs, [y], attrs))
    return cases


def product_cases() -> list[Case]:
    """Return every variant of conv_transpose2d."""
    cases: list[Case] = []
    family = "conv_transpose2d"
    for t in FLOATS:
        add_product(cases, family, f"{family}<{t}>.no_bias", (t, t, t), "", "")
        add_product(cases, family, f"{family}<{t}>.no_bias", (t, t, t), "", "", "_groups")
        add_product(cases, family, f"{family}<{t}>.with_bias", (t, t, t), t, "")
    for form in ("tensor", "channel", "channel_group"):
        add_product(cases, family, f"{family}.int8<i8>.no_bias", ("i8", "i8", "i8"), "", form)
        add_product(cases, family, f"{family}.int8<i8>.with_bias", ("i8", "i8", "i8"), "i32", form)
        add_product(cases, family, f"{family}.int8<i16>.with_bias", ("i8", "i8", "i16"), "i32", form)
    for form in ("tensor", "channel", "channel_group", "group"):
        add_product(cases, family, f"{family}.int4.no_bias", ("i8", "i4", "i8"), "", form)
        add_product(cases, family, f"{family}.int4.with_bias", ("i8", "i4", "i8"), "i32", form)
    return cases


def all_cases() -> list[Case]:
    """Return every case, in order of their groups."""
    cases = elementwise_cases() + condition_cases() + bit_cases() + pool_cases() + resize_cases()
    return cases + unsigned_cases() + view_cases() + sum_cases() + product_cases()
