"""Where a finding holds: intervals of one argument, found by bisection over float ordinals.

Of a number, to the last bit. Of an element of an array, where each look costs a walk over all of it
and the others are held at what they happen to be, to a twelfth bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.measure.engine import line
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]
Holds = Callable[[Measurements], Array]

_SECTIONS, _FEW_SECTIONS = 15, 3
_ROUNDS = 40
_COARSE_BITS = 12
_MOST_INTERVALS = 4


@dataclass(frozen=True, slots=True)
class Interval:
    """Closed at floats where the finding holds; `open` where it holds as far as anyone looked."""

    leaf: int
    element: int
    start: float
    stop: float
    start_open: bool
    stop_open: bool


def find_boundaries(
    m: Measurements, row: int, leaf: int, element: int, values: Array, holds: Holds
) -> list[Interval]:
    """The intervals over which `holds` is true, others fixed: the witness's own, and others apart."""
    here = float(m.points[leaf][row].reshape(-1)[element])
    grid = np.unique(np.append(values, here))
    hit = holds(line(m, row, leaf, element, grid))
    place = int(np.searchsorted(grid, here))
    if not hit[place]:
        return []
    runs = _runs(hit, place)
    edges = m.fmt.ordinals(grid)
    brackets: list[Bracket] = []
    for low, high in runs:
        brackets.append((int(edges[low - 1]), int(edges[low])) if low > 0 else None)
        last = high == len(grid) - 1
        brackets.append(None if last else (int(edges[high + 1]), int(edges[high])))
    coarse = m.points[leaf][row].size > 1
    search = _Search(m, row, leaf, element, holds, coarse)
    narrow = search.narrowed(brackets)
    intervals = []
    for (low, high), left, right in zip(runs, narrow[::2], narrow[1::2], strict=True):
        start = grid[low] if left is None else float(m.fmt.from_ordinals([left[1]])[0])
        stop = grid[high] if right is None else float(m.fmt.from_ordinals([right[1]])[0])
        intervals.append(
            Interval(leaf, element, float(start), float(stop), left is None, right is None)
        )
    return sorted(intervals, key=lambda i: i.start)


def _runs(hit: Array, place: int) -> list[tuple[int, int]]:
    """First and last of each run of hits: that around the place, then the longest others."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], hit.astype(np.int8), [0]])))
    runs = [(int(a), int(b) - 1) for a, b in zip(steps[::2], steps[1::2], strict=True)]
    own = next(run for run in runs if run[0] <= place <= run[1])
    others = sorted((r for r in runs if r != own), key=lambda r: (r[0] - r[1], r))
    return [own, *others[: _MOST_INTERVALS - 1]]


Bracket = tuple[int, int] | None  # (ordinal where it does not hold, ordinal where it does)


@dataclass(frozen=True, slots=True)
class _Search:
    """For edges along one element of an argument, the others held at a row's."""

    m: Measurements
    row: int
    leaf: int
    element: int
    holds: Holds
    coarse: bool

    def narrowed(self, brackets: list[Bracket]) -> list[Bracket]:
        """All edges at once: a few new floats inside each bracket, in one batch."""
        for _ in range(_ROUNDS):
            cuts = [self._cuts(bracket) for bracket in brackets]
            ordinals = np.concatenate(cuts)
            if not len(ordinals):
                break
            values = self.m.fmt.from_ordinals(ordinals)
            hit = self.holds(line(self.m, self.row, self.leaf, self.element, values))
            parts = np.split(hit, np.cumsum([len(c) for c in cuts])[:-1])
            brackets = [_updated(*each) for each in zip(brackets, cuts, parts, strict=True)]
        return brackets

    def _cuts(self, bracket: Bracket) -> Array:
        """Ordinals strictly inside, from the side where it does not hold."""
        close = 2 ** (self.m.fmt.digits - _COARSE_BITS) if self.coarse else 1
        if bracket is None or abs(bracket[0] - bracket[1]) <= close:
            return np.zeros(0, np.int64)
        sections = _FEW_SECTIONS if self.coarse else _SECTIONS
        inner = np.linspace(bracket[0], bracket[1], sections + 2)[1:-1]
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
