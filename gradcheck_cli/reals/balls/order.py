"""Order among balls: what is decided, what is a tie, and what only more bits can tell."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import acb, arb

from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES

Array = np.ndarray[Any, Any]


def compare(op: str, a: Array, b: Array) -> tuple[Array, Array]:
    """Three-valued truth, and where two different balls are exactly equal (a tie)."""
    out = np.empty(a.size, np.int8)
    tie = np.zeros(a.size, bool)
    decide = _DECIDE[op]
    complex_ = bool(a.size) and isinstance(a.reshape(-1)[0], acb)
    for i, (x, y) in enumerate(zip(a.reshape(-1), b.reshape(-1), strict=True)):
        if x is y:
            out[i] = _EQUAL[op]
        elif complex_:
            out[i] = _decide_complex(op, x, y)
        elif x.is_exact() and y.is_exact() and x == y:
            out[i], tie[i] = _EQUAL[op], x.is_finite()
        else:
            out[i] = decide(x, y)
    return out.reshape(a.shape), tie.reshape(a.shape)


def _decide_complex(op: str, x: acb, y: acb) -> int:
    """Complex numbers are equal or not; they have no order."""
    if x.overlaps(y):
        same = bool(x.is_exact() and y.is_exact())
        return _EQUAL[op] if same else UNKNOWN
    return YES if op == "ne" else NO


def extreme(x: Array, axis: int, sign: int) -> tuple[Array, Array, Array]:
    """First place of the largest (sign 1) or smallest (-1) along an axis; doubts and ties."""
    moved = np.moveaxis(x, axis, -1)
    lines = moved.reshape(-1, moved.shape[-1])
    place = np.zeros(len(lines), np.int64)
    doubt, tie = np.zeros(len(lines), bool), np.zeros(len(lines), bool)
    for i, line in enumerate(lines):
        for j in range(1, len(line)):
            best = line[place[i]]
            difference = _sign(line[j], best) * sign
            doubt[i] |= math.isnan(difference)
            tie[i] |= difference == 0 and line[j] is not best
            if difference > 0:
                place[i] = j
    shape = moved.shape[:-1]
    return place.reshape(shape), doubt.reshape(shape), tie.reshape(shape)


def sort(
    values: Sequence[Array], axis: int, keys: int, kinds: Sequence[str]
) -> tuple[list[Array], Array, Array]:
    """All operands in the order of the first ones, stable; doubts and ties by line."""
    moved = [np.moveaxis(v, axis, -1) for v in values]
    shape = moved[0].shape
    operands = [m.reshape(-1, shape[-1]) for m in moved]
    count = len(operands[0])
    doubt, tie = np.zeros(count, bool), np.zeros(count, bool)
    orders = np.empty((count, shape[-1]), np.int64)
    for i in range(count):
        line = _Line([operand[i] for operand in operands[:keys]], kinds)
        orders[i] = sorted(range(shape[-1]), key=functools.cmp_to_key(line.compare))
        doubt[i], tie[i] = line.doubt, line.tie
    done = [
        np.moveaxis(np.take_along_axis(operand, orders, 1).reshape(shape), -1, axis)
        for operand in operands
    ]
    return done, doubt.reshape(shape[:-1]), tie.reshape(shape[:-1])


class _Line:
    """One line to sort by several keys; remembers what it could not decide."""

    def __init__(self, keys: Sequence[Array], kinds: Sequence[str]) -> None:
        self._keys = list(zip(keys, kinds, strict=False))
        self.doubt = self.tie = False

    def compare(self, p: int, q: int) -> int:
        for key, kind in self._keys:
            if kind == "f":
                difference = _sign(key[p], key[q])
                self.doubt |= math.isnan(difference)
                self.tie |= difference == 0 and key[p] is not key[q]
            else:
                difference = float(key[p] > key[q]) - float(key[p] < key[q])
            if difference:
                return 1 if difference > 0 else -1
        return 0


def _sign(x: arb, y: arb) -> float:
    """Sign of x - y, nan if undecided."""
    if x is y:
        return 0.0
    if x > y:
        return 1.0
    if x < y:
        return -1.0
    return 0.0 if x.is_exact() and y.is_exact() and x == y else math.nan


def _tri(yes: bool, no: bool) -> int:
    return YES if yes else NO if no else UNKNOWN


def _apart(x: arb, y: arb) -> bool:
    return bool(x < y or x > y)


_DECIDE: dict[str, Callable[[arb, arb], int]] = {
    "eq": lambda x, y: _tri(x == y, _apart(x, y)),
    "ne": lambda x, y: _tri(_apart(x, y), x == y),
    "lt": lambda x, y: _tri(x < y, x >= y),
    "le": lambda x, y: _tri(x <= y, x > y),
    "gt": lambda x, y: _tri(x > y, x <= y),
    "ge": lambda x, y: _tri(x >= y, x < y),
}
_EQUAL = {"eq": YES, "ne": NO, "lt": NO, "le": YES, "gt": NO, "ge": YES}

# The same for integers, which are always known.
EXACT: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
