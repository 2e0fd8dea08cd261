"""Formulas over names with dots: ``64KiB * engine.count``, ``power.average_w < 2``."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kpusim.errors import UserError
from kpusim.sweeps.quantity import QUANTITY, Quantity, number_of, whole

_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor, "ceil": math.ceil, "round": round, "sqrt": math.sqrt, "log2": math.log2,
}  # fmt: skip
_CHOICES: dict[str, Callable[..., float]] = {"min": min, "max": max}
_LONGEST = 1000  # characters: what Python's parser nests safely


class NoValueError(UserError):
    """A formula has no number for some values: it divides by zero, or takes the root of a negative one."""


@dataclass(frozen=True)
class Formula:
    """An arithmetic expression, or a comparison of two.

    Attributes
    ----------
    text : str
        As it was written.
    names : frozenset of str
        What it needs the values of.
    compares : bool
        Whether it is true or false rather than a number.
    """

    text: str
    names: frozenset[str]
    compares: bool
    _tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Read one; a UserError says where it is none."""
        if len(text) > _LONGEST:
            raise UserError(f"a formula of {len(text)} characters. Fix: at most {_LONGEST}.")
        try:
            tree = ast.parse(_python_text(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            detail = error.msg if isinstance(error, SyntaxError) else str(error)
            raise UserError(
                f"`{text}` is not a formula: {detail}. Fix: write such as 64KiB * engine.count, with + - * "
                f"/ // %, "
                "min, max, floor, ceil, sqrt, log2."
            ) from None
        names: set[str] = set()
        _check(tree, names, text)
        return cls(text, frozenset(names), isinstance(tree, ast.Compare), tree)

    def value(self, values: Mapping[str, Quantity]) -> Quantity:
        """Return the number that it is for these values of its names."""
        try:
            result = _value(self._tree, values)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise self._no_value(error) from None
        if not math.isfinite(result.value):
            raise UserError(f"`{self.text}` is {result.value}. Fix: change it, or the values it is for.")
        return Quantity(whole(result.value), result.unit)

    def holds(self, values: Mapping[str, Quantity]) -> bool:
        """Return whether the comparison holds for these values of its names."""
        try:
            return self._holds(values)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise self._no_value(error) from None

    def _no_value(self, why: Exception) -> UserError:
        if isinstance(why, UserError):
            return why
        return NoValueError(f"`{self.text}`: {why}. Fix: change it, or the values it is for.")

    def _holds(self, values: Mapping[str, Quantity]) -> bool:
        assert isinstance(self._tree, ast.Compare)
        left = _value(self._tree.left, values)
        for kind, node in zip(self._tree.ops, self._tree.comparators, strict=True):
            right = _value(node, values)
            if not _COMPARISONS[type(kind)](left.value, _alike(left, right).value):
                return False
            left = right
        return True

    def __reduce__(self) -> tuple[Callable[[str], Formula], tuple[str]]:
        """Pickle as text."""
        return Formula.parse, (self.text,)


def _python_text(text: str) -> str:
    """Numbers with units as calls, which Python can parse; names keep their dots, and may hold any index."""

    def call(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        return f"_of({number_of(match[1])}, {match[2]!r})"

    # after a letter, a digit or a dot it is part of a name or number: l2, x.1
    return re.sub(rf"(?<![\w.]){QUANTITY.pattern}", call, text)


def _check(node: ast.expr, names: set[str], text: str) -> None:
    """Collects names; refuses what is no arithmetic."""
    children: list[ast.expr]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        children = []
    elif isinstance(node, (ast.Name, ast.Attribute)):
        names.add(_dotted(node, text))
        children = []
    elif isinstance(node, ast.Compare) and all(type(kind) in _COMPARISONS for kind in node.ops):
        children = [node.left, *node.comparators]
        if any(isinstance(child, ast.Compare) for child in children):
            raise UserError(f"`{text}` compares a comparison. Fix: write two formulas.")
    elif isinstance(node, ast.BinOp) and isinstance(
        node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
    ):
        children = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        children = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        name = node.func.id
        if name == "_of":
            children = []
        elif (name in _ROUNDINGS and len(node.args) == 1) or (name in _CHOICES and len(node.args) > 1):
            children = node.args
        else:
            known = ", ".join([*_CHOICES, *_ROUNDINGS])
            raise UserError(f"`{text}`: there is no function {name} of {len(node.args)}. Fix: {known}.")
    else:
        raise UserError(
            f"`{text}` is more than a formula. Fix: use + - * / // %, < <= > >=, and names such as "
            f"engine.count."
        )
    for child in children:
        _check(child, names, text)


def _dotted(node: ast.expr, text: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, text)}.{node.attr}"
    raise UserError(f"`{text}` has a dot after no name. Fix: write names such as engine.count.")


def _value(node: ast.expr, values: Mapping[str, Quantity]) -> Quantity:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, (int, float))
        return Quantity(node.value)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return values[_dotted(node, "")]
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand, values)
        return Quantity(-operand.value, operand.unit) if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        return _combined(node.op, _value(node.left, values), _value(node.right, values))
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if node.func.id == "_of":
        number, unit = (ast.literal_eval(argument) for argument in node.args)
        return Quantity(number, unit)
    operands = [_value(argument, values) for argument in node.args]
    if node.func.id in _ROUNDINGS:
        return Quantity(_ROUNDINGS[node.func.id](operands[0].value), operands[0].unit)
    unit = next((operand.unit for operand in operands if operand.unit), "")
    alike = [operand.in_unit(unit).value for operand in operands]
    return Quantity(_CHOICES[node.func.id](alike), unit)


def _alike(left: Quantity, right: Quantity) -> Quantity:
    """Return the right one in the unit of the left one."""
    return right.in_unit(left.unit) if left.unit else right


def _combined(kind: ast.operator, left: Quantity, right: Quantity) -> Quantity:
    if isinstance(kind, (ast.Add, ast.Sub, ast.Mod)):
        unit = left.unit or right.unit
        a, b = left.in_unit(unit).value, right.in_unit(unit).value
        sums = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mod: operator.mod}
        return Quantity(sums[type(kind)](a, b), unit)
    if isinstance(kind, ast.Mult):
        if left.unit and right.unit:
            return Quantity(left.value * right.value, f"{left.unit}*{right.unit}")
        return Quantity(left.value * right.value, left.unit or right.unit)
    divide = operator.floordiv if isinstance(kind, ast.FloorDiv) else operator.truediv
    if not right.unit:
        return Quantity(divide(left.value, right.value), left.unit)
    try:  # of one kind: a plain ratio
        return Quantity(divide(left.value, right.in_unit(left.unit).value) if left.unit else 0)
    except UserError:
        return Quantity(divide(left.value, right.value), f"{left.unit or 1}/{right.unit}")
