"""Operators on what is interpreted: plain numbers are computed, arrays broadcast."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

from gradcheck_cli.clues.interpreted import shapes
from gradcheck_cli.clues.interpreted.ranges import ANYWHERE, NOT_NEGATIVE, Range
from gradcheck_cli.clues.interpreted.sums import sized
from gradcheck_cli.clues.interpreted.values import (
    A_FLOAT,
    BOOL,
    FLOAT,
    INT,
    UNKNOWN,
    Array,
    Shape,
    Sum,
    Symbol,
    Value,
)

_MOST = 1e12  # a whole number beyond that is no size
_PLAIN: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def plain_number(value: Value) -> float | None:
    """A plain number; a flag is none."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def combined(sign: str, left: Value, right: Value) -> Value:
    """`left sign right`."""
    one, other = plain_number(left), plain_number(right)
    if one is not None and other is not None:
        return _numbers(sign, one, other)
    if isinstance(left, (tuple, list)) or isinstance(right, (tuple, list)):
        return _sequences(sign, left, right)
    of_array = isinstance(left, Array) or isinstance(right, Array)
    a, b = (_operand(value, of_array) for value in (left, right))
    if a is None or b is None:
        return _sizes(sign, left, right)
    if sign == "@":
        return _made(_kind(sign, a, b), shapes.product(a.shape, b.shape))
    shape = shapes.broadcast(a.shape, b.shape)
    if shape is None:
        return UNKNOWN
    kind = _kind(sign, a, b)
    if kind != FLOAT:
        return Array(kind, shape)
    if one is not None or other is not None:
        return _with_number(sign, a if one is None else b, one, other, shape)
    return _with_array(sign, a, b, shape)


def _sizes(sign: str, left: Value, right: Value) -> Value:
    """A size that is made of named ones, or a number that is: `width**0.5`."""
    if sign in ("/", "**") and _is_number(left) and _is_number(right):
        return A_FLOAT
    return sized(sign, left, right) or UNKNOWN


def _is_number(value: Value) -> bool:
    if isinstance(value, (Symbol, Sum)):
        return all(s.plain for s in (value.symbols if isinstance(value, Sum) else (value,)))
    return value is A_FLOAT or plain_number(value) is not None


def _operand(value: Value, of_array: bool) -> Array | None:
    """A size that nothing fills is a whole number, where it meets an array."""
    if of_array and isinstance(value, (Symbol, Sum)):
        return Array(INT, ())
    return shapes.literal(value)


def compared(left: Value, right: Value) -> Value:
    """A comparison of arrays: booleans."""
    a, b = shapes.literal(left), shapes.literal(right)
    if a is None or b is None or not (isinstance(left, Array) or isinstance(right, Array)):
        return UNKNOWN
    return _made(BOOL, shapes.broadcast(a.shape, b.shape))


def negated(value: Value) -> Value:
    """`-value`."""
    number = plain_number(value)
    if number is not None:
        return -number
    if not isinstance(value, Array):
        return UNKNOWN
    return Array(value.kind, value.shape, value.range.scaled(-1))


def _made(kind: str, shape: Shape | None) -> Value:
    return UNKNOWN if shape is None else Array(kind, shape)


def _kind(sign: str, a: Array, b: Array) -> str:
    kinds = {a.kind, b.kind}
    if FLOAT in kinds or sign == "/":
        return FLOAT
    return INT if INT in kinds else BOOL


def _numbers(sign: str, one: float, other: float) -> Value:
    try:
        if sign == "**":
            out = one**other if abs(other) <= 64 and abs(one) <= 1e6 else math.nan
        elif sign in _PLAIN:
            out = _PLAIN[sign](one, other)
        else:
            return UNKNOWN
    except (ZeroDivisionError, OverflowError, ValueError):
        return UNKNOWN
    usable = isinstance(out, (int, float)) and abs(out) <= _MOST
    return out if usable else UNKNOWN


def _sequences(sign: str, left: Value, right: Value) -> Value:
    """`(3,) + (4,)`, and `[0] * 3`."""
    if sign == "+" and isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    if sign == "*" and isinstance(left, (tuple, list)) and type(right) is int and 0 <= right <= 64:
        return left * right if len(left) * right <= 64 else UNKNOWN
    a, b = shapes.literal(left), shapes.literal(right)
    if isinstance(left, Array) or isinstance(right, Array):
        return UNKNOWN if a is None or b is None else combined(sign, a, b)
    return UNKNOWN


def _with_number(
    sign: str, x: Array, one: float | None, other: float | None, shape: Shape
) -> Array:
    """An array and a number, whichever stands first."""
    number = other if one is None else one
    assert number is not None
    if sign == "+":
        return _moved(x, x.range.shifted(number), shape)
    if sign == "-":
        span = x.range.shifted(-number) if one is None else x.range.scaled(-1).shifted(number)
        return _moved(x, span, shape)
    if sign == "*" or (sign == "/" and one is None and number):
        factor = number if sign == "*" else 1 / number
        return replace(
            _moved(x, x.range.scaled(factor), shape),
            family=x.family if x.family in ("gram", "identity", "spd") and factor > 0 else "",
        )
    if sign == "**" and one is None and number in (2, 4):
        return Array(FLOAT, shape, NOT_NEGATIVE)
    return Array(FLOAT, shape)


def _moved(x: Array, span: Range, shape: Shape) -> Array:
    """The numbers of the array, somewhere else; numbers that were nowhere stay there."""
    return Array(FLOAT, shape, ANYWHERE if x.kind != FLOAT else span)


def _with_array(sign: str, a: Array, b: Array, shape: Shape) -> Array:
    families = {a.family, b.family}
    definite = families in ({"gram", "identity"}, {"spd", "identity"}, {"spd"}, {"spd", "gram"})
    if sign == "+" and definite and a.shape == b.shape:
        return Array(FLOAT, shape, family="spd")
    if sign == "+":
        return Array(FLOAT, shape, a.range.plus(b.range))
    if sign == "*":
        return Array(FLOAT, shape, a.range.times(b.range))
    return Array(FLOAT, shape)
