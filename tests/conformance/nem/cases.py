"""The tasks of the execution cases: opcode, variant, operands, and outputs computed by arithmetic.py."""

from __future__ import annotations

from dataclasses import dataclass, field

import arithmetic as ar
import float8
import numpy as np
import views
from arithmetic import Quant, Tensor
from group_products import group_product

TYPES = ("i8", "i16", "i32", "f16", "bf16", "f32", "posit8", "posit16", "f8e4m3", "f8e5m2")
FLOATS = ar.FLOATS
PLAIN = ("relu", "abs", "neg", "leaky_relu", "clamp", "add", "sub", "mul", "div", "min", "max")
FUNCTIONS = ("sigmoid", "tanh", "exp", "log", "sqrt", "gelu", "silu", "pow")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_mean", "reduce_prod", "reduce_l2")
BINARY = ("add", "sub", "mul", "div", "min", "max", "pow")


@dataclass
class Case:
    """One task and its operands."""

    name: str
    opcode: str
    variant: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    attrs: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Posits and float8 have families of their own, but for sums in f32."""
        family, parameters, types = self.variant.partition("<")
        if types.startswith("posit") and not family.endswith(".acc"):
            base = family.removesuffix(".float").removesuffix(".float_bias")
            self.variant = f"{base}.posit{parameters}{types}"
        if types.startswith("f8") and not family.endswith(".acc") and ".mx" not in family:
            base = family.removesuffix(".float").removesuffix(".float_bias")
            self.variant = f"{base}.float8{parameters}{types}"


def rng(name: str) -> np.random.Generator:
    """Return the generator of one case: independent of all others."""
    return np.random.default_rng([ord(c) for c in name])


def draw(
    random: np.random.Generator,
    elem: str,
    shape: tuple[int, ...],
    quant: Quant | None = None,
    scale: float = 2.0,
) -> Tensor:
    """Return random elements: normal floats, integers over their whole range."""
    if elem in FLOATS:
        return ar.to_elem(elem, random.normal(0, scale, shape))
    low, high = ar.RANGES[elem]
    return Tensor(elem, random.integers(low, high + 1, shape, dtype=np.int64), quant)


def specials(tensor: Tensor, values: list[float]) -> Tensor:
    """Return the first elements replaced."""
    data = tensor.real().ravel()
    data[: len(values)] = values
    return ar.to_elem(tensor.elem, data.reshape(tensor.shape))


def quant_of(elem: str, scale: float = 0.05, zero: int = 3) -> Quant:
    """Per tensor, wide types with finer steps."""
    return Quant([scale / 2 ** (8 * (ar.BITS[elem] // 8 - 1))], [zero])


def elementwise_cases() -> list[Case]:
    """Return every elementwise opcode on every type; integers also quantized, the only form of functions."""
    cases = []
    attrs = {"leaky_relu": {"alpha": 0.125}, "clamp": {"min_val": -1.5, "max_val": 2.25}}
    for opcode in PLAIN + FUNCTIONS:
        for elem in TYPES:
            for quantized in (False, True):
                if (quantized and elem in FLOATS) or (
                    not quantized and elem not in FLOATS and opcode in FUNCTIONS
                ):
                    continue
                name = f"{opcode}_{elem}" + ("_quant" if quantized else "")
                random = rng(name)
                quant = quant_of(elem) if quantized else None
                inputs = [draw(random, elem, (3, 7), quant) for _ in range(2 if opcode in BINARY else 1)]
                if elem in FLOATS:
                    first = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0]
                    inputs[0] = specials(inputs[0], first)
                    if len(inputs) > 1:
                        inputs[1] = specials(inputs[1], [-0.0, 0.0, 2.0, -3.0, 1.0, float("nan"), 0.5])
                elif opcode in ("div", "min", "max") and not quantized:
                    inputs[1] = Tensor(elem, np.where(inputs[1].data % 5 == 0, 0, inputs[1].data // 16))
                out = Quant([quant.scales[0] * 1.5], [-4]) if quant else None
                given = attrs.get(opcode, {})
                y = ar.apply_elementwise(opcode, given, inputs, out)
                cases.append(Case(name, opcode, f"eltwise<{elem}>.default", inputs, [y], given))
    return cases


def pool_cases() -> list[Case]:
    """Windows with padding and strides; the padding counts for nothing."""
    cases = []
    attrs = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
    for opcode in ("maxpool", "avgpool"):
        for elem in TYPES:
            for quantized in (False, True):
                if quantized and elem != "i8":
                    continue
                name = f"{opcode}_{elem}" + ("_quant" if quantized else "")
                quant = quant_of(elem) if quantized else None
                x = draw(rng(name), elem, (1, 5, 4, 3), quant)
                y = ar.pool(opcode, attrs, x, Quant([0.04], [-2]) if quant else None)
                cases.append(Case(name, opcode, f"eltwise<{elem}>.default", [x], [y], attrs))
    return cases


def norm_cases() -> list[Case]:
    """Make norms along the last and an inner axis, with and without scale and bias."""
    cases = []
    for elem in FLOATS:
        for opcode, vectors in (("layernorm", 2), ("rmsnorm", 1), ("softmax", 0), ("log_softmax", 0)):
            for count in range(vectors + 1):
                for axis in (-1, 1) if count == vectors else (-1,):
                    name = f"{opcode}_{elem}" + ("_scale" * (count > 0)) + ("_bias" * (count > 1))
                    name += "" if axis == -1 else "_axis1"
                    random = rng(name)
                    shape = (2, 5, 6)
                    inputs = [draw(random, elem, shape)]
                    inputs += [draw(random, elem, (shape[axis],), scale=1.0) for _ in range(count)]
                    attrs = {"axis": axis} | ({"epsilon": 0.001} if "norm" in opcode else {})
                    y = ar.norm(opcode, attrs, inputs)
                    family = "norm" if "norm" in opcode else "softmax"
                    cases.append(Case(name, opcode, f"{family}<{elem}>.default", inputs, [y], attrs))
    return cases


def view_cases() -> list[Case]:
    """Return every view on every type, negative axes and steps among them."""
    table = {
        "transpose": [("", {"perm": [2, 0, 1]})],
        "reshape": [("", {"target_shape": [6, -1]})],
        "slice": [
            ("", {"starts": [1, -3], "ends": [100, -1], "axes": [0, -1], "steps": [1, 1]}),
            ("_back", {"starts": [-1, 3], "ends": [-100, 0], "axes": [1, 2], "steps": [-1, -2]}),
        ],
        "concat": [("", {"axis": -2})],
        "choose": [("", {"index": 1})],
        "insert_rows": [("", {"axis": -2, "start": 2})],
        "split": [("", {"axis": -1, "split_sizes": [1, 3, 1]})],
        "pad": [
            ("", {"pads": [1, 0, 2, 0, 1, 1], "mode": "constant", "constant_value": 1.5}),
            ("_edge", {"pads": [1, 0, 2, 0, 1, 1], "mode": "edge"}),
            ("_reflect", {"pads": [1, 0, 2, 0, 1, 1], "mode": "reflect"}),
        ],
        "gather": [("", {"axis": 1})],
    }
    cases = []
    for opcode, forms in table.items():
        for elem in TYPES:
            for suffix, attrs in forms:
                name = f"{opcode}_{elem}{suffix}"
                random = rng(name)
                inputs = [draw(random, elem, (3, 4, 5))]
                if opcode == "concat":
                    inputs += [draw(random, elem, (3, n, 5)) for n in (1, 2)]
                if opcode == "choose":
                    inputs += [draw(random, elem, (3, 4, 5)) for _ in range(2)]
                if opcode == "insert_rows":
                    inputs.append(draw(random, elem, (3, 2, 5)))
                if opcode == "gather":
                    inputs.append(
                        Tensor("i32" if elem != "i8" else "i8", np.array([[3, 0], [-1, 2], [1, -4]]))
                    )
                cases.append(
                    Case(
                        name,
                        opcode,
                        f"view<{elem}>.default",
                        inputs,
                        views.view(opcode, attrs, inputs),
                        attrs,
                    )
                )
    name = "pad_i8_quant"
    x = draw(rng(name), "i8", (3, 4), Quant([0.5], [7]))
    attrs = {"pads": [0, 1, 1, 0], "mode": "constant"}
    cases.append(Case(name, "pad", "view<i8>.default", [x], views.view("pad", attrs, [x]), attrs))
    return cases


def reduction_cases() -> list[Case]:
    """Sums, extremes and searches on every type."""
    cases = []
    forms = [("", {"axes": [-1], "keepdims": True}), ("_outer", {"axes": [0, 2], "keepdims": False})]
    forms.append(("_all", {"axes": [0, 1, 2], "keepdims": False}))
    for elem in TYPES:
        for opcode in REDUCTIONS:
            for suffix, attrs in forms:
                name = f"{opcode}_{elem}{suffix}"
                x = draw(rng(name), elem, (3, 4, 5))
                y = ar.reduce(opcode, attrs, x, None)
                cases.append(Case(name, opcode, f"reduce<{elem}>.default", [x], [y], attrs))
        for opcode in ("argmax", "argmin"):
            for suffix, attrs in (
                ("", {"axis": -1, "keepdims": False}),
                ("_first", {"axis": 0, "keepdims": True}),
                ("_last", {"axis": 1, "keepdims": False, "select_last_index": True}),
            ):
                name = f"{opcode}_{elem}{suffix}"
                x = draw(rng(name), elem, (3, 4, 5))
                if elem in FLOATS:  # ties and NaN
                    x = specials(x, [9.0, 9.0, 0.0, 0.0, float("nan"), -9.0, -9.0])
                y = ar.reduce(opcode, attrs, x, None)
                cases.append(Case(name, opcode, f"arg_reduce<{elem}>.default", [x], [y], attrs))
    return cases


def weight_quant(
    random: np.random.Generator, form: str, count: int, axis: int, depth: int, zeros: bool
) -> Quant:
    """Per tensor, per output channel, per group of output channels, or per group along the summed axis."""
    scale = 0.02

    def lists(n: int) -> tuple[list[float], list[int]]:
        scales = [round(scale * (0.5 + random.random()), 5) for _ in range(n)]
        return scales, [int(random.integers(-2, 3)) if zeros else 0 for _ in range(n)]

    if form == "tensor":
        return Quant(*lists(1))
    if form == "channel":
        return Quant(*lists(count), axis=axis)
    if form == "channel_group":
        return Quant(*lists((count + 1) // 2), axis=axis, group=2)
    return Quant(*lists((depth + 3) // 4), axis=axis - 1, group=4)


def add_product(
    cases: list[Case],
    opcode: str,
    variant: str,
    types: tuple[str, str, str],
    bias: str,
    form: str,
    suffix: str = "",
) -> None:
    """One gemm or convolution. types: of A, B, Y; bias: its type or empty; form: of the weights' quant."""
    a, b, y = types
    name = "_".join([opcode.replace(".", "_"), *dict.fromkeys(types)])
    name += ("_bias" if bias else "") + (f"_{form}" if form else "") + suffix
    random = rng(name)
    convolution = opcode.startswith(("conv", "depthwise"))
    accumulates = opcode.endswith(".acc")
    attrs: dict = {}
    if convolution:
        rank = {"conv1d": 1, "conv3d": 3}.get(opcode, 2)
        groups = 2 if suffix == "_groups" else 1
        cin, cout = (8, 4) if b == "i4" else (4, 6)
        x_shape = (1, *{1: (7,), 2: (5, 4), 3: (3, 4, 3)}[rank], cin)
        w_shape = (*{1: (3,), 2: (2, 3), 3: (2, 2, 2)}[rank], cin // groups, cout)
        if opcode == "depthwise_conv2d":
            w_shape = (2, 3, 1, 8)
        attrs["pads"] = {1: [1, 0], 2: [1, 0, 0, 2], 3: [0, 1, 0, 1, 0, 1]}[rank]
        attrs["strides"] = {1: [2], 2: [1, 2], 3: [1, 2, 1]}[rank]
        attrs["dilations"] = {1: [2], 2: [2, 1], 3: [1, 1, 1]}[rank]
        if groups > 1:
            attrs["groups"] = groups
    else:
        x_shape, w_shape = ((2, 3, 5), (2, 5, 4)) if suffix == "_batch" else ((3, 12), (12, 4))
    zeros = form != ""
    qx = Quant([0.03], [5]) if form and not accumulates else None
    depth = w_shape[-2]
    qw = (
        weight_quant(random, form, w_shape[-1], len(w_shape) - 1, depth, zeros)
        if form and not accumulates
        else None
    )
    qy = Quant([0.3], [-3]) if form and not accumulates else None
    if accumulates and a == "i8":
        qx, qw = Quant([0.03], [5]), Quant([0.02], [1])
    inputs = [draw(random, a, x_shape, qx, 1.0), draw(random, b, w_shape, qw, 1.0)]
    if bias:
        along = w_shape[-1:]
        if bias == "i32":
            qc = Quant([0.0006], [0]) if form == "group" else None
            inputs.append(Tensor("i32", random.integers(-3000, 3000, along), qc))
        else:
            inputs.append(draw(random, bias, along))
    attrs["accum_type"] = "f32" if a in FLOATS else "i32"
    if convolution:
        spread = opcode == "conv_transpose2d"
        if spread:
            attrs["output_padding"] = [0, 1]
        result = (
            ar.conv_transpose(attrs, inputs, y, qy)
            if spread
            else ar.conv(opcode, attrs, inputs, y, qy, accumulates)
        )
    else:
        result = ar.gemm(inputs, y, qy, accumulates)
    if accumulates:
        del attrs["accum_type"]
    cases.append(Case(name, opcode, variant, inputs, [result], attrs))


def group_cases() -> list[Case]:
    """int4 weights with a scale for each group of K: whole groups, a shorter last one, zero points."""
    cases = []
    convolution = {"pads": [1, 0, 0, 2], "strides": [1, 2], "dilations": [2, 1]}
    for family, x_shape, w_shape, attrs in (
        ("gemm", (3, 12), (12, 4), {}),
        ("conv2d", (1, 5, 4, 12), (2, 3, 12, 4), convolution),
    ):
        for scales in ("f16", "f32"):
            for size, zeros, bias in (
                (4, False, ""),
                (5, True, ""),
                (6, True, "bias"),
                (12, False, "addend"),
            ):
                opcode = f"{family}.group"
                name = (
                    f"{family}_group_{scales}_of_{size}"
                    + ("_zeros" if zeros else "")
                    + ("_" + bias) * bool(bias)
                )
                random = rng(name)
                groups = -(-12 // size)
                steps = np.exp(random.normal(-3, 1, (groups, 4)))
                if zeros:
                    steps = np.stack([steps, random.integers(-8, 8, (groups, 4))])
                inputs = [draw(random, "i8", x_shape, Quant([0.03], [5])), draw(random, "i4", w_shape)]
                inputs.append(ar.to_elem(scales, steps))
                all_attrs = {**attrs, "group_size": size}
                if bias:
                    y = group_product(all_attrs, inputs)
                    inputs.append(draw(random, "f32", y.shape if bias == "addend" else (4,)))
                variant = f"{opcode}<{scales}>.{'with' if bias else 'no'}_addend"
                cases.append(
                    Case(name, opcode, variant, inputs, [group_product(all_attrs, inputs)], all_attrs)
                )
    return cases


def product_cases() -> list[Case]:
    """Return every variant of the matrix and convolution families."""
    cases: list[Case] = []
    for family, extra in (("gemm", "_batch"), ("conv2d", "_groups")):
        for t in FLOATS:
            add_product(cases, family, f"{family}.float<{t}>.no_bias", (t, t, t), "", "")
            add_product(cases, family, f"{family}.float<{t}>.no_bias", (t, t, t), "", "", extra)
            biased = f"{family}.float_bias<{t}>.with_bias" if family == "gemm" and t != "f16" else ""
            add_product(cases, family, biased or f"{family}.float<{t}>.with_bias", (t, t, t), t, "")
        for form in ("tensor", "channel", "channel_group"):
            add_product(cases, family, f"{family}.int8<i8>.no_bias", ("i8", "i8", "i8"), "", form)
            add_product(cases, family, f"{family}.int8<i8>.with_bias", ("i8", "i8", "i8"), "i32", form)
            add_product(cases, family, f"{family}.int8<i16>.with_bias", ("i8", "i8", "i16"), "i32", form)
        add_product(
            cases, family, f"{family}.int8<i8>.with_bias", ("i8", "i8", "i8"), "i32", "channel", extra
        )
        for form in ("tensor", "channel", "channel_group", "group"):
            add_product(cases, family, f"{family}.int4.no_bias", ("i8", "i4", "i8"), "", form)
            add_product(cases, family, f"{family}.int4.with_bias", ("i8", "i4", "i8"), "i32", form)
        for a, b, acc in (("i8", "i8", "i32"), ("i8", "i4", "i32"), *((t, t, "f32") for t in FLOATS)):
            variant = f"{family}.acc<{a},{b},{acc}>"
            add_product(cases, f"{family}.acc", f"{variant}.no_addend", (a, b, acc), "", "")
            add_product(cases, f"{family}.acc", f"{variant}.with_addend", (a, b, acc), acc, "")
    for t in FLOATS:
        add_product(cases, "matmul", f"gemm.float<{t}>.no_bias", (t, t, t), "", "")
    add_product(cases, "matmul", "gemm.int8<i8>.no_bias", ("i8", "i8", "i8"), "", "tensor")
    add_product(cases, "matmul", "gemm.int4.no_bias", ("i8", "i4", "i8"), "", "group")
    for opcode in ("conv1d", "conv3d", "depthwise_conv2d"):
        for t in FLOATS:
            add_product(cases, opcode, f"{opcode}<{t}>.no_bias", (t, t, t), "", "")
            add_product(cases, opcode, f"{opcode}<{t}>.with_bias", (t, t, t), t, "")
        add_product(cases, opcode, f"{opcode}.int8<i8>.no_bias", ("i8", "i8", "i8"), "", "channel")
        add_product(cases, opcode, f"{opcode}.int8<i8>.with_bias", ("i8", "i8", "i8"), "i32", "tensor")
        add_product(cases, opcode, f"{opcode}.int8<i16>.with_bias", ("i8", "i8", "i16"), "i32", "channel")
        for form in ("tensor", "channel", "channel_group", "group"):
            add_product(cases, opcode, f"{opcode}.int4.no_bias", ("i8", "i4", "i8"), "", form)
            add_product(cases, opcode, f"{opcode}.int4.with_bias", ("i8", "i4", "i8"), "i32", form)
    return cases


def conversion_cases() -> list[Case]:
    """cast between all types; quantize, dequantize and requant between all that families list."""
    cases = []

    def add(opcode: str, variant: str, x: Tensor, elem: str, quant: Quant | None, suffix: str = "") -> None:
        # infinities become the greatest number of float8, which other opcodes keep
        if elem in float8.FORMATS:
            most = float8.finite(elem)[-1]
            y = ar.to_elem(elem, np.clip(x.real(), -most, most))
        else:
            y = ar.convert(opcode, x, elem, quant)
        cases.append(Case(f"{opcode}_{x.elem}_{elem}{suffix}", opcode, variant, [x], [y]))

    rare = ("i4", "u8", "u16", "u32")
    for a in TYPES + rare:
        for b in TYPES + rare:
            if (a in rare or b in rare) and not {a, b} & {"i8", "i32", "f32"}:
                continue
            x = draw(rng(f"cast {a} {b}"), a, (4, 6), scale=100.0)
            if a in FLOATS:
                x = specials(x, [float("nan"), float("inf"), float("-inf"), -0.0, 2.5, -2.5, 40000.0])
            add("cast", "cast.default", x, b, None)
    listed = {("f16", "i8"), ("f32", "i8")}
    pairs = [
        ("f16", "i8"),
        ("f32", "i8"),
        ("bf16", "i8"),
        ("f16", "i16"),
        ("f32", "i16"),
        ("f16", "u8"),
        ("f32", "u8"),
        ("f16", "u16"),
        ("f32", "u16"),
    ]
    for a, b in pairs:
        family = "quantize" if (a, b) in listed else "quantize.ext"
        x = specials(draw(rng(f"quantize {a} {b}"), a, (4, 6), scale=3.0), [float("nan"), float("inf"), -1e3])
        zero = 128 if b in ("u8", "u16") else -3
        add("quantize", f"{family}<{a},{b}>.default", x, b, Quant([0.03], [zero]))
    add(
        "quantize",
        "quantize<f16,i8>.default",
        x := draw(rng("qc"), "f16", (4, 3)),
        "i8",
        Quant([0.02, 0.05, 0.01], [1, 0, -9], axis=1),
        "_channel",
    )
    listed = {("i8", "f16"), ("i8", "f32")}
    pairs = [
        ("i8", "f16"),
        ("i8", "f32"),
        ("i8", "bf16"),
        ("i16", "f16"),
        ("i16", "f32"),
        ("i32", "f16"),
        ("i32", "f32"),
        ("u8", "f16"),
        ("u8", "f32"),
        ("u16", "f16"),
        ("u16", "f32"),
    ]
    for a, b in pairs:
        family = "dequantize" if (a, b) in listed else "dequantize.ext"
        add(
            "dequantize",
            f"{family}<{a},{b}>.default",
            draw(rng(f"dequantize {a} {b}"), a, (4, 6), Quant([0.037], [3])),
            b,
            None,
        )
    per_channel = Quant([0.02, 0.05, 0.01], [1, 0, -9], axis=1)
    add(
        "dequantize",
        "dequantize<i8,f16>.default",
        draw(rng("dc"), "i8", (4, 3), per_channel),
        "f16",
        None,
        "_channel",
    )
    for elem in ("i8", "i16"):
        x = Tensor("i32", rng(f"requant {elem}").integers(-60000, 60000, (4, 6)), Quant([0.0009], [0]))
        add("requant", f"requant<{elem}>.default", x, elem, Quant([0.31 if elem == "i8" else 0.002], [4]))
    x = Tensor(
        "i32", rng("rc").integers(-60000, 60000, (4, 3)), Quant([0.001, 0.002, 0.0005], [0, 0, 0], axis=1)
    )
    add("requant", "requant<i8>.default", x, "i8", Quant([0.4], [0]), "_channel")
    return cases


def tie_cases() -> list[Case]:
    """Numbers half way between two steps: the order of factors and the width of a quotient decide."""
    cases = []

    def single(number: float) -> float:
        return float(np.float32(number))

    pixels = Tensor("f32", np.arange(256, dtype=np.float32) / 255)  # odd ones are ties for f32 only
    for elem, zero in (("i8", -128), ("i8", -127), ("u8", 0), ("u8", 1), ("i16", -3)):
        family = "quantize" if elem == "i8" else "quantize.ext"
        y = ar.convert("quantize", pixels, elem, Quant([single(2 / 255)], [zero]))
        name = f"tie_f32_{elem}_{zero % 256}"
        cases.append(Case(name, "quantize", f"{family}<f32,{elem}>.default", [pixels], [y]))
    scales = ((0.1, 0.2), (0.05, 0.3), (0.007, 0.014), (0.3, 0.4), (1.1, 2.2))
    for i, (sx, sy) in enumerate(scales):
        out = Quant([single(sy)], [(-1) ** i * i])
        sums = Tensor("i32", np.arange(-400, 400, dtype=np.int32), Quant([single(sx)], [0]))
        y = ar.convert("requant", sums, "i8", out)
        cases.append(Case(f"tie_i32_i8_{i}", "requant", "requant<i8>.default", [sums], [y]))
        steps = Tensor("i8", np.arange(-128, 128, dtype=np.int8), Quant([single(sx)], [i]))
        bounds = {"min_val": -1e9, "max_val": 1e9}
        y = ar.apply_elementwise("clamp", bounds, [steps], out)
        cases.append(Case(f"tie_clamp_i8_quant_{i}", "clamp", "eltwise<i8>.default", [steps], [y], bounds))
        column = Tensor("i8", steps.data[:, None], steps.quant)
        row = Tensor("i8", np.array([[1, -1, 3]], np.int8), Quant([single(0.7)], [0]))
        out = Quant([single(sx) * single(0.7) * 2], [i])  # half of a sum is a tie
        y = ar.gemm([column, row], "i8", out, False)
        attrs = {"accum_type": "i32"}
        cases.append(Case(f"tie_gemm_i8_{i}", "gemm", "gemm.int8<i8>.no_bias", [column, row], [y], attrs))
    return cases


def all_cases() -> list[Case]:
    """Return every case, in order of their groups."""
    cases = elementwise_cases() + pool_cases() + norm_cases() + view_cases()
    cases += reduction_cases() + product_cases() + group_cases()
    return cases + conversion_cases() + tie_cases()
