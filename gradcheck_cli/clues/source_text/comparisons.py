"""Comparisons: assertions, checks that raise, and the words and numbers that a parameter is compared with."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.values import (
    Constant,
    Dim,
    Fresh,
    Many,
    Part,
    Rank,
    Rest,
    Scalar,
    Shape,
    Value,
    whole,
)
from gradcheck_cli.inputs.clue import Kind

Evaluate = Callable[[ast.expr], Value]
Comparison = tuple[Value, str, Value]

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_OPPOSITE = {"==": "!=", "<": ">=", ">": "<=", "in": "not in", "is": "is not"}
_OPPOSITE |= {other: sign for sign, other in _OPPOSITE.items()}
# What asks whether two numbers are close, and what a size is of.
_CLOSE, _SIZES = frozenset({"isclose", "allclose"}), frozenset({"abs", "fabs"})
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def required(test: ast.expr, truth: bool, value: Evaluate, facts: Facts) -> None:
    """What is so wherever the test has this truth: an assertion, or the end of a check that raises."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        required(test.operand, not truth, value, facts)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is truth:
        for part in test.values:
            required(part, truth, value, facts)
    elif isinstance(test, ast.Compare) and (truth or len(test.ops) == 1):
        for comparison in _comparisons(test, truth, value):
            _state(comparison, facts)
    elif not truth:
        _divided(value(test), facts)
    else:
        value(test)


def rejected(test: ast.expr, value: Evaluate, facts: Facts) -> None:
    """The words that pass `if mode != "a" and mode != "b": raise`."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, sign, right = next(_comparisons(node, False, value))
            if sign in ("==", "in"):
                _words(left, right, facts)


def compared(test: ast.Compare, value: Evaluate, facts: Facts) -> None:
    """The words that a parameter is compared with, whole numbers, places that are counted, and None."""
    for left, sign, right in _comparisons(test, True, value):
        for counter, beside in ((left, right), (right, left)):
            if _counts(counter):
                facts.stands_beside_counts(beside)
        if sign in ("<=", ">") and _counts_up(left):
            facts.is_a_last_place(right)
        if sign in ("<", ">="):
            facts.counts_along(right, _counted(left), below=sign == "<")
        elif sign in (">", "<="):
            facts.counts_along(left, _counted(right), below=sign == ">")
        if (number := whole(right)) is not None:
            facts.compared(left, sign, number)
        if sign in ("is", "is not") and right == Constant(None):
            facts.may_be(left, None)
        elif sign in ("==", "!=", "in", "not in"):
            _words(left, right, facts)
            _words(right, left, facts)


def _counts(found: Value) -> bool:
    """Does it hold 0, 1, 2 and so on, with whatever axes: `arange(n)[None, :]`, `positions.unsqueeze(0)`?"""
    return isinstance(found, Fresh) and found.counts


def _counts_up(found: Value) -> bool:
    """Are these places along an axis, or the number of a turn?"""
    return isinstance(_counted(found), Dim)


def _counted(found: Value) -> Value:
    """How far it counts, which may be an array of places or the number of a turn: `arange(n)`, `t` of `for t in range(n)`."""
    if isinstance(found, Fresh):
        return found.along
    return found.below if isinstance(found, Scalar) else None


def chosen(test: ast.expr, value: Evaluate, facts: Facts) -> None:
    """A parameter that a branch hangs on: a flag, or a number that it is compared with."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            chosen(part, value, facts)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        chosen(test.operand, value, facts)
    elif isinstance(test, ast.Name):
        facts.kind(value(test), Kind.FLAG)
    elif (exact := _exact(test)) is not None:
        left, sign, right = next(_comparisons(exact, True, value))
        numbers = [n for n in _plain(right) if isinstance(n, (int, float))]
        flags = [n for n in numbers if isinstance(n, bool)]
        if flags and sign in ("is", "is not", "==", "!="):
            facts.kind(left, Kind.FLAG)
        elif numbers and sign in ("==", "!=", "in", "not in"):
            facts.kind(left, Kind.NUMBER, numbers)


def _exact(test: ast.expr) -> ast.Compare | None:
    """The one comparison of a test; an equality, where floats are asked for what is close: `abs(q - 1) < tol`."""
    if isinstance(test, ast.Call) and _called(test) in _CLOSE and len(test.args) > 1:
        return ast.Compare(test.args[0], [ast.Eq()], [test.args[1]])
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    size = test.left
    if not isinstance(test.ops[0], (ast.Lt, ast.LtE)) or not isinstance(size, ast.Call):
        return test
    if _called(size) not in _SIZES or len(size.args) != 1:
        return test
    (gap,) = size.args
    if isinstance(gap, ast.BinOp) and isinstance(gap.op, ast.Sub):
        return ast.Compare(gap.left, [ast.Eq()], [gap.right])
    return ast.Compare(gap, [ast.Eq()], [ast.Constant(0.0)])


def _called(call: ast.Call) -> str:
    """The last part of what is called: `isclose` of `math.isclose`."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def on_shapes(test: ast.expr, value: Evaluate) -> bool:
    """Does the test ask for a rank, a shape, or the type of a value?"""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "callable",
            "hasattr",
        ):
            return True
        if isinstance(node, ast.Attribute) and node.attr in (
            "shape",
            "ndim",
            "size",
            "dim",
            "rank",
        ):
            return True
        if isinstance(node, ast.Name) and isinstance(value(node), (Dim, Rank, Shape, Rest)):
            return True
    return False


def ends_in_raise(statements: Sequence[ast.stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], ast.Raise)


def _comparisons(test: ast.Compare, truth: bool, value: Evaluate) -> Iterator[Comparison]:
    sides = [value(side) for side in (test.left, *test.comparators)]
    for left, operator, right in zip(sides, test.ops, sides[1:], strict=False):
        sign = _SIGNS[type(operator)]
        yield left, sign if truth else _OPPOSITE[sign], right


def _state(comparison: Comparison, facts: Facts) -> None:
    left, sign, right = comparison
    if isinstance(left, Constant) and sign in _TURNED:
        left, sign, right = right, _TURNED[sign], left
    number = whole(right)
    if isinstance(left, Rank):
        _rank(left.part, sign, right, facts)
    elif isinstance(left, Dim) and number is not None:
        if sign == "==":
            facts.size(left, number)
        elif sign in (">", ">="):
            facts.least_size(left, number + (sign == ">"))
    elif isinstance(left, Dim) and isinstance(right, Dim) and sign == "==":
        facts.equal(left, right)
    elif isinstance(left, Shape) and sign == "==":
        _shape(left, right, facts)
    elif isinstance(left, Rest) and number == 0 and sign == "==":
        _divided(left, facts)
    elif sign in ("==", "in"):
        _words(left, right, facts)
    else:
        _limit(left, sign, right, facts)


def _rank(part: Part, sign: str, value: Value, facts: Facts) -> None:
    number = whole(value)
    if number is not None and sign == "==":
        facts.rank(part, number)
    elif number is not None and sign in (">", ">="):
        facts.least_rank(part, number + (sign == ">"))
    elif sign == "in" and isinstance(value, Many):
        numbers = [whole(item) for item in value.items]
        if numbers and None not in numbers:
            facts.least_rank(part, min(n for n in numbers if n is not None))


def _shape(shape: Shape, other: Value, facts: Facts) -> None:
    if isinstance(other, Shape) and shape.whole and other.whole:
        facts.alike(shape.part, other.part)
    elif isinstance(other, Many) and shape.whole:
        facts.rank(shape.part, len(other.items))
        for axis, item in enumerate(other.items):
            if isinstance(item, Dim):
                facts.equal(facts.axis(shape.part, axis), item)
            elif (number := whole(item)) is not None:
                facts.size(facts.axis(shape.part, axis), number)


def _limit(left: Value, sign: str, right: Value, facts: Facts) -> None:
    """`assert 0 <= p < 1` and `assert eps > 0`: where a plain number lies."""
    number = right.value if isinstance(right, Constant) else None
    if sign in ("<", "<=", ">", ">=") and isinstance(number, (int, float)):
        facts.limit(left, sign, number)


def _divided(value: Value, facts: Facts) -> None:
    if isinstance(value, Rest):
        facts.divides(value.divisor, value.dim)


def _words(value: Value, other: Value, facts: Facts) -> None:
    words = [item for item in _plain(other) if isinstance(item, str)]
    if words:
        facts.kind(value, Kind.WORD, words)


def _plain(value: Value) -> list[object]:
    items = value.items if isinstance(value, Many) else (value,)
    return [item.value for item in items if isinstance(item, Constant)]
