"""Tables of which no two integers, or no two pairs of integers, are one: permutations, places that are written to once."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Fixed

Array = np.ndarray[Any, Any]

_MOST_ORDERS = 32  # that are tried
_TURNS = 16  # orders of which each is another one than that before


def leave_room(shape: tuple[int, ...], count: int, axis: int | None = None) -> bool:
    """Are there so many integers below the count, or tuples of them along an axis?"""
    if not math.prod(shape) or not shape:
        return False
    if axis is None:
        return shape[-1] <= count
    members = shape[axis]
    return math.prod(shape) // members <= math.prod([count] * members)


def distinct_places(
    shape: tuple[int, ...],
    count: int,
    source: str,
    axis: int | None = None,
    least: int = 0,
    turn: int = 0,
) -> Fixed:
    """So many different integers from the least on, in no order; with an axis, tuples along it that differ.

    Without one all differ where there are enough, else those of each row. Another `turn` gives another order.
    """
    size = math.prod(shape)
    if axis is not None:
        members = shape[axis]
        whole = _tuples(size // members, members, count, turn)
        rest = tuple(n for a, n in enumerate(shape) if a != axis)
        values = np.moveaxis(whole.reshape(*rest, members), -1, axis)
    elif size <= count:
        values = _order(count, turn)[:size].reshape(shape)
    else:
        rows = size // shape[-1]
        lines = [_order(count, (turn + row) % _TURNS)[: shape[-1]] for row in range(rows)]
        values = np.array(lines, int).reshape(shape)
    return Fixed((least + values).astype(np.int32), f"i32{list(shape)}", source)


def _tuples(number: int, members: int, count: int, turn: int) -> Array:
    """Different tuples; where there are enough integers no two have one at the same place, and none holds one twice."""
    order = _order(count, turn)
    if number <= count:
        steps = (np.arange(number)[:, None] + np.arange(members)) % count
        return np.asarray(order[steps])
    every = [
        tuple(order[list(places)]) for places in itertools.product(range(count), repeat=members)
    ]
    mixed = [every[i] for i in _order(len(every), turn)]
    return np.array(sorted(mixed, key=lambda each: len(set(each)) < members)[:number])


@functools.lru_cache(maxsize=256)
def _order(count: int, turn: int) -> Array:
    """All integers below the count in an order that is not its own inverse, nor undone by the one of the turn before.

    Two that may as well follow each other the other way round would hide which of them comes first.
    """
    before = _order(count, turn - 1) if turn else None
    orders = [
        np.random.default_rng([count, turn, n]).permutation(count) for n in range(_MOST_ORDERS)
    ]
    telling = [o for o in orders if (o[o] != np.arange(count)).any()]
    apart = [o for o in orders if before is None or (o[before] != before[o]).any()]
    both = [o for o in telling if any(o is other for other in apart)]
    return (both or apart or telling or orders)[0]
