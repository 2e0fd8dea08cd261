"""Random cases of elementwise operators, products, reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drafts import Const, Draft, case
from graph_run import Case

Generator = Callable[[Draft], Case]

UNARY = {  # operator: first opset, range of operands
    "Relu": (7, -3, 3),
    "Sigmoid": (7, -8, 8),
    "Tanh": (7, -4, 4),
    "Exp": (7, -5, 5),
    "Log": (7, 0.01, 9),
    "Sqrt": (7, 0, 9),
    "Abs": (7, -3, 3),
    "Neg": (7, -3, 3),
    "Erf": (9, -3, 3),
    "Sin": (7, -9, 9),
    "Cos": (7, -9, 9),
    "Tan": (7, -1.4, 1.4),
    "Asin": (7, -1, 1),
    "Acos": (7, -1, 1),
    "Atan": (7, -9, 9),
    "Sinh": (9, -4, 4),
    "Cosh": (9, -4, 4),
    "Asinh": (9, -9, 9),
    "Acosh": (9, 1, 9),
    "Atanh": (9, -0.99, 0.99),
    "Floor": (7, -9, 9),
    "Ceil": (7, -9, 9),
    "Round": (11, -9, 9),
    "Sign": (9, -3, 3),
    "Reciprocal": (7, 0.1, 3),
    "Softplus": (7, -9, 9),
    "Softsign": (7, -9, 9),
    "Mish": (18, -9, 9),
    "HardSwish": (14, -5, 5),
    "Identity": (7, -3, 3),
}

PARAMETERS = {  # operator: first opset, attributes with their ranges
    "LeakyRelu": (7, {"alpha": (0, 0.9)}),
    "Elu": (7, {"alpha": (0.1, 2)}),
    "Celu": (12, {"alpha": (0.1, 2)}),
    "Selu": (7, {"alpha": (0.5, 2), "gamma": (0.5, 2)}),
    "HardSigmoid": (7, {"alpha": (0.1, 0.5), "beta": (0.1, 0.9)}),
    "ThresholdedRelu": (10, {"alpha": (0.1, 2)}),
    "Shrink": (9, {"bias": (0, 1), "lambd": (0.1, 1)}),
}


def unary(name: str) -> Generator:
    """A function of each element."""
    first, low, high = UNARY[name]

    def make(d: Draft) -> Case:
        return case(name, d.opset(first), [d.floats(d.shape(), low, high)])

    return make


def with_parameters(name: str) -> Generator:
    """A function with attributes, some of them left out."""
    first, ranges = PARAMETERS[name]

    def make(d: Draft) -> Case:
        given = {key: float(d.rng.uniform(*limits)) for key, limits in ranges.items() if d.chance(0.7)}
        return case(name, d.opset(first), [d.floats(d.shape())], **given)

    return make


def binary(name: str) -> Generator:
    """Two operands that broadcast, either of them a constant or not."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        a = d.numbers(shape)
        b = (
            d.floats(d.partner(shape), 0.5, 3)
            if a.dtype == np.float32
            else d.ints(d.partner(shape), 1, 20, a.dtype)
        )
        operands = [a, d.weight(b)]
        if d.chance(0.3):
            operands = [d.weight(b), a]
        return case(name, d.opset(7), operands)

    return make


def power(d: Draft) -> Case:
    """Floats to any power of positive ones, or small whole ones."""
    shape = d.shape()
    if d.chance():
        return case("Pow", d.opset(12), [d.floats(shape, 0.1, 3), d.weight(d.floats(d.partner(shape)))])
    return case("Pow", d.opset(7), [d.floats(shape), Const(np.float32(d.integer(1, 4)))])


def modulo(d: Draft) -> Case:
    """Make a case of integers with the sign of the divisor, or fmod of floats."""
    shape = d.shape()
    if d.chance():
        divisor = d.ints(d.partner(shape), 1, 9, np.int32) * d.pick([1, -1])
        return case("Mod", d.opset(10), [d.ints(shape, -40, 40, np.int32), divisor.astype(np.int32)])
    return case("Mod", d.opset(10), [d.floats(shape), d.floats(d.partner(shape), 0.5, 2)], fmod=1)


def many(name: str) -> Generator:
    """One to four operands."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        operands = [d.floats(shape)] + [d.weight(d.floats(d.partner(shape))) for _ in range(d.integer(0, 3))]
        return case(name, d.opset(8), operands)

    return make


def comparison(name: str, first: int) -> Generator:
    """Compare floats or integers, equal ones among them."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        dtype = d.pick([np.float32, np.int32, np.int64])
        return case(
            name,
            d.opset(first),
            [d.ints(shape, -2, 2, dtype), d.weight(d.ints(d.partner(shape), -2, 2, dtype))],
        )

    return make


def logic(name: str) -> Generator:
    """Combine booleans."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        return case(name, d.opset(7), [d.ints(shape, 0, 1, bool), d.ints(d.partner(shape), 0, 1, bool)])

    return make


def negation(d: Draft) -> Case:
    """Negate booleans."""
    return case("Not", d.opset(7), [d.ints(d.shape(), 0, 1, bool)])


def special(name: str, first: int) -> Generator:
    """NaN and infinities among numbers."""

    def make(d: Draft) -> Case:
        x = d.floats(d.shape())
        kind = d.rng.integers(0, 4, x.shape)
        x = np.choose(kind, [x, np.float32(np.nan), np.float32(np.inf), np.float32(-np.inf)]).astype(
            np.float32
        )
        signs = {}
        if name == "IsInf":
            signs = {"detect_positive": d.integer(0, 1), "detect_negative": d.integer(0, 1)}
        return case(name, d.opset(first), [x], **signs)

    return make


def where(d: Draft) -> Case:
    """Three operands that broadcast."""
    shape = d.shape()
    a = d.numbers(d.partner(shape))
    b = d.floats(d.partner(shape)) if a.dtype == np.float32 else d.ints(d.partner(shape), -9, 9, a.dtype)
    return case("Where", d.opset(9), [d.ints(shape, 0, 1, bool), a, d.weight(b)])


def clip(d: Draft) -> Case:
    """Bounds as attributes, constants, operands, or none."""
    x, low, high = d.floats(d.shape()), np.float32(d.rng.uniform(-2, 0)), np.float32(d.rng.uniform(0, 2))
    if d.chance(0.3):
        return case("Clip", d.opset(7, 10), [x], min=float(low), max=float(high))
    bounds = [d.weight(low) if d.chance(0.8) else None, d.weight(high) if d.chance(0.8) else None]
    return case("Clip", d.opset(12), [x, *bounds])


def prelu(d: Draft) -> Case:
    """Return a slope that broadcasts to the operand."""
    shape = d.shape(2)
    slope = [shape[1]] + [1] * (len(shape) - 2) if d.chance() else [1]
    return case("PRelu", d.opset(9), [d.floats(shape), d.weight(d.floats(slope, 0, 1))])


def gelu(d: Draft) -> Case:
    """Both forms."""
    return case("Gelu", 20, [d.floats(d.shape())], approximate=d.pick(["none", "tanh"]))


def cast(d: Draft) -> Case:
    """Between numbers, where all runtimes agree."""
    pairs = [(np.float32, 6), (np.float32, 7), (np.int32, 1), (np.int64, 1), (np.int32, 7), (np.uint8, 1)]
    pairs += [(bool, 1), (np.float32, 9), (np.int64, 9), (np.int8, 6), (np.float32, 10), (bool, 7)]
    dtype, to = d.pick(pairs)
    x = (
        d.floats(d.shape(), -90, 90)
        if dtype is np.float32
        else d.ints(d.shape(), 0, 1 if dtype is bool else 100, dtype)
    )
    return case("Cast", d.opset(9), [x], to=to)


def matmul(d: Draft) -> Case:
    """Return all that NumPy multiplies."""
    m, k, n = d.integer(1, 9), d.integer(1, 20), d.integer(1, 9)
    lead = d.shape(0, 2, 4)
    a, b = d.pick(
        [
            ([m, k], [k, n]),
            ([k], [k, n]),
            ([*lead, m, k], [k]),
            ([*lead, m, k], [k, n]),
            ([m, k], [*lead, k, n]),
            ([*lead, m, k], [*lead, k, n]),
            ([*d.partner(lead), m, k], [*lead, k, n]),
            ([*lead, m, k], [*d.partner(lead), k, n]),
            ([k], [k]),
        ]
    )
    return case("MatMul", d.opset(9), [d.floats(a), d.weight(d.floats(b))])


def gemm(d: Draft) -> Case:
    """Transposed operands, factors, addends of all shapes."""
    m, k, n = d.integer(1, 12), d.integer(1, 30), d.integer(1, 12)
    ta, tb = d.integer(0, 1), d.integer(0, 1)
    c = d.pick([None, [m, n], [n], [1, n], [m, 1], [1], []])
    opset = d.opset(11 if c is None else 9)
    operands = [d.floats([k, m] if ta else [m, k]), d.weight(d.floats([n, k] if tb else [k, n]))]
    if c is not None:
        operands.append(d.weight(d.floats(c)))
    factors = {name: float(d.rng.uniform(0.2, 2)) for name in ("alpha", "beta") if d.chance(0.4)}
    return case("Gemm", opset, operands, transA=ta, transB=tb, **factors)


def einsum(d: Draft) -> Case:
    """Products, outer ones, sums, transposes, diagonals, any dimensions, several operands."""
    equation = d.pick(
        ["ij,jk->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij,kj", "i,j->ij", "ij->ji", "ij->", "ij->j"]
        + ["bij,bij->bi", "...ij,...jk->...ik", "bijk,jl->bikl", "...i->i...", "ijk,ilk->jl"]
        + ["ii->i", "bii->b", "iji,ij->j", "ij,jk,kl->il", "blnh,nhc,bln->blc", "i,j,k,i->kj"]
        + ["...i,...j,ij->...", "abcd,defg,dhf->abcegh", ",".join(["ij"] * 40) + "->ij"]
    )
    sizes: dict[str, int] = {}
    operands = []
    for term in equation.split("->")[0].split(","):
        letters = term.replace("...", "XY")
        shape = [sizes.setdefault(letter, d.integer(1, 5)) for letter in letters]
        if d.chance(0.3):
            shape[shape.index(max(shape))] = 1
        operands.append(d.floats(shape))
    operands[1:] = [d.weight(array) for array in operands[1:]]
    return case("Einsum", d.opset(12), operands, equation=equation)


REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


def reduction(name: str) -> Generator:
    """Axes as attribute or operand, or none."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        opset = d.opset(11)
        x = d.floats(shape, 0.1, 2) if name in ("LogSum", "Prod") else d.floats(shape)
        count = d.integer(1, len(shape))
        axes = [int(a) - len(shape) * d.integer(0, 1) for a in d.rng.permutation(len(shape))[:count]]
        attributes: dict[str, object] = {"keepdims": d.integer(0, 1)} if d.chance(0.8) else {}
        if d.chance(0.25):
            return case(f"Reduce{name}", opset, [x], **attributes)
        if opset < (13 if name == "Sum" else 18):
            return case(f"Reduce{name}", opset, [x], axes=axes, **attributes)
        if d.chance(0.2):
            axes, attributes["noop_with_empty_axes"] = [], 1
            # two readings exist of what an operator without axes makes of elements
            if name not in ("Sum", "Mean", "Max", "Min", "Prod"):
                axes = [0]
        return case(f"Reduce{name}", opset, [x, Const(np.array(axes, np.int64))], **attributes)

    return make


def search(name: str) -> Generator:
    """Equal elements among them."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        attributes = {"axis": d.integer(-len(shape), len(shape) - 1), "keepdims": d.integer(0, 1)}
        if d.chance():
            attributes["select_last_index"] = d.integer(0, 1)
        return case(name, d.opset(12), [d.ints(shape, -3, 3, np.float32)], **attributes)

    return make


def cumulative(name: str, since: int) -> Generator:
    """Forwards, backwards, with and without the element."""

    def make(d: Draft) -> Case:
        shape = d.shape()
        axis = np.array(d.integer(-len(shape), len(shape) - 1), np.int64)
        return case(
            name,
            d.opset(since, max(since, 22)),
            [d.floats(shape), Const(axis)],
            exclusive=d.integer(0, 1),
            reverse=d.integer(0, 1),
        )

    return make


GENERATORS: dict[str, Generator] = {
    **{name: unary(name) for name in UNARY},
    **{name: with_parameters(name) for name in PARAMETERS},
    **{name: binary(name) for name in ("Add", "Sub", "Mul", "Div")},
    **{name: many(name) for name in ("Max", "Min", "Sum", "Mean")},
    **{name: comparison(name, 11) for name in ("Equal", "Less", "Greater")},
    **{name: comparison(name, 16) for name in ("LessOrEqual", "GreaterOrEqual")},
    **{name: logic(name) for name in ("And", "Or", "Xor")},
    "Not": negation,
    "IsNaN": special("IsNaN", 9),
    "IsInf": special("IsInf", 10),
    "Where": where,
    "Pow": power,
    "Mod": modulo,
    "Clip": clip,
    "PRelu": prelu,
    "Gelu": gelu,
    "Cast": cast,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    **{f"Reduce{name}": reduction(name) for name in REDUCTIONS},
    "ArgMax": search("ArgMax"),
    "ArgMin": search("ArgMin"),
    "CumSum": cumulative("CumSum", 11),
    "CumProd": cumulative("CumProd", 26),
}
