"""Where a finding holds: the interval of one argument, found by bisection over float ordinals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.measure.engine import Measurements, line

Array = np.ndarray[Any, Any]
Holds = Callable[[Measurements], Array]

_SECTIONS = 15
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """Closed at floats where the finding holds; `open` where it holds as far as anyone looked."""

    leaf: int
    element: int
    start: float
    stop: float
    start_open: bool
    stop_open: bool


def find_boundary(
    m: Measurements, row: int, leaf: int, element: int, values: Array, holds: Holds
) -> Interval | None:
    """The interval around the witness over which `holds` is true, others fixed."""
    here = float(m.points[leaf][row].reshape(-1)[element])
    grid = np.unique(np.append(values, here))
    hit = holds(line(m, row, leaf, element, grid))
    place = int(np.searchsorted(grid, here))
    if not hit[place]:
        return None
    low = high = place
    while low > 0 and hit[low - 1]:
        low -= 1
    while high < len(grid) - 1 and hit[high + 1]:
        high += 1
    edges = m.fmt.ordinals(grid)
    left = (int(edges[low - 1]), int(edges[low])) if low > 0 else None
    right = (int(edges[high + 1]), int(edges[high])) if high < len(grid) - 1 else None
    left, right = _narrow(m, row, leaf, element, holds, left, right)
    start = grid[low] if left is None else float(m.fmt.from_ordinals([left[1]])[0])
    stop = grid[high] if right is None else float(m.fmt.from_ordinals([right[1]])[0])
    return Interval(leaf, element, float(start), float(stop), left is None, right is None)


Bracket = tuple[int, int] | None  # (ordinal where it does not hold, ordinal where it does)


def _narrow(
    m: Measurements, row: int, leaf: int, element: int, holds: Holds, left: Bracket, right: Bracket
) -> tuple[Bracket, Bracket]:
    """Both edges at once: a few new floats inside each bracket, in one batch."""
    for _ in range(_ROUNDS):
        cuts = [_cuts(bracket) for bracket in (left, right)]
        ordinals = np.concatenate([c for c in cuts if len(c)]) if any(map(len, cuts)) else None
        if ordinals is None:
            break
        hit = holds(line(m, row, leaf, element, m.fmt.from_ordinals(ordinals)))
        first = hit[: len(cuts[0])]
        left = _updated(left, cuts[0], first)
        right = _updated(right, cuts[1], hit[len(cuts[0]) :])
    return left, right


def _cuts(bracket: Bracket) -> Array:
    """Ordinals strictly inside, from the side where it does not hold."""
    if bracket is None or abs(bracket[0] - bracket[1]) <= 1:
        return np.zeros(0, np.int64)
    inner = np.linspace(bracket[0], bracket[1], _SECTIONS + 2)[1:-1]
    cuts = np.unique(np.round(inner).astype(np.int64))
    cuts = cuts[(cuts != bracket[0]) & (cuts != bracket[1])]
    return np.asarray(cuts if bracket[0] < bracket[1] else cuts[::-1])


def _updated(bracket: Bracket, cuts: Array, hit: Array) -> Bracket:
    """The part next to where it holds: the last cut that does not, and the one after it."""
    if bracket is None or not len(cuts):
        return bracket
    misses = np.flatnonzero(~hit)
    if not len(misses):
        return bracket[0], int(cuts[0])
    last = int(misses[-1])
    inner = int(cuts[last + 1]) if last + 1 < len(cuts) else bracket[1]
    return int(cuts[last]), inner
