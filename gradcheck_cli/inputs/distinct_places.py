"""Tables of which no two integers, or no two pairs of integers, are one: permutations, places that are written to once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Fixed

Array = np.ndarray[Any, Any]

_STRIDES = (2, 3, 5, 7, 11, 13, 1)  # from one integer to the next; by ones each is its neighbour
_FIRSTS = 4  # first integers that are tried


def leave_room(shape: tuple[int, ...], count: int, axis: int | None = None) -> bool:
    """Are there so many integers below the count, or tuples of them along an axis?"""
    if not shape:
        return False
    if axis is None:
        return shape[-1] <= count
    members = shape[axis]
    return math.prod(shape) // max(members, 1) <= math.prod([count] * members)


def distinct_places(
    shape: tuple[int, ...],
    count: int,
    source: str,
    axis: int | None = None,
    least: int = 0,
    turn: int = 0,
) -> Fixed:
    """So many different integers from the least on, in no order; with an axis, tuples along it that differ.

    Along the last axis otherwise: each row is another order. One that uses all integers is not its own inverse
    where that can be.
    """
    if axis is None:
        rows = math.prod(shape[:-1])
        lines = [_order(shape[-1], count, turn + row) for row in range(rows)]
        values = np.array(lines, int).reshape(shape)
    else:
        members = shape[axis]
        others = math.prod(shape) // members
        whole = _tuples(others, members, count, turn)
        rest = tuple(n for a, n in enumerate(shape) if a != axis)
        values = np.moveaxis(whole.reshape(*rest, members), -1, axis)
    return Fixed((least + values).astype(np.int32), f"i32{list(shape)}", source)


def _tuples(number: int, members: int, count: int, turn: int) -> Array:
    """Different tuples; where there are enough integers, no two have one of them at one place."""
    if number <= count:
        return np.stack([_order(number, count, turn + member) for member in range(members)], axis=1)
    places = _order(number, count**members, turn)
    return np.stack([places // count**member % count for member in range(members)], axis=1)


def _order(size: int, count: int, turn: int) -> Array:
    """The first of the orders that are tried; another one for another turn."""
    strides = [n for n in _STRIDES if math.gcd(n, count) == 1]
    orders = [
        (np.arange(size) * stride + first) % count
        for stride in strides
        for first in range(1, 1 + min(count, _FIRSTS))
    ]
    every = list({tuple(order): order for order in orders if size}.values())
    telling = [o for o in every if size < count or (o[o] != np.arange(size)).any()]
    usable = telling or every
    return usable[turn % len(usable)] if usable else np.zeros(0, int)
