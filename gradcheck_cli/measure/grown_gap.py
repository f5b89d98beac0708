"""Where a small gap between rule and truth is large: what looks like an approximation may be a wrong branch.

An approximation is off by as little everywhere. What is off by little at the points that were tried may
lack a term that matters elsewhere, or the bound of a clamp. So the points with the largest gaps are moved:
each argument scaled alone and with all others, and put beside the others' values of other points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.ends import point_in_order
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.components import as_floats, columns
from gradcheck_cli.measure.formula_gap import gaps
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR

Array = np.ndarray[Any, Any]
Point = list[Array]

RECIPE = "where the gap has grown"

_FACTORS = tuple(2.0**k for k in (-24, -20, -16, -12, -8, -6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8))
_MOST_ROWS = 3  # with a gap, from which the search starts
_MOST_OTHERS = 12  # points that lend an argument
_MOST_FOUND = 4
_MOST_NUMBERS = 40_000  # in the points of one round
_BITS = 64


def grown(m: Measurements, reach: float) -> Points | None:
    """The points at which the largest relative gaps were found, if they are larger than those of the start."""
    if m.rule is None or m.dear or m.in_part:
        return None
    known = gaps(m)
    worst = np.where(np.isfinite(known), known, 0.0).max(axis=1, initial=0.0)
    rows = [int(row) for row in np.argsort(-worst, kind="stable")[:_MOST_ROWS] if worst[row] > 0]
    found: list[tuple[float, Point]] = []
    for row in rows:
        cotangents = [c[row] for c in m.cotangents]
        here = [p[row] for p in m.points]
        start = _relative(m, [here], cotangents)[0]
        best = start, here
        for tries in (_scaled, _crossed, _scaled):
            points = [_at_home(m, point, reach) for point in tries(m, best[1])]
            points = points[: max(1, _MOST_NUMBERS // max(1, sum(p.size for p in here)))]
            sizes = _relative(m, points, cotangents)
            if len(sizes) and sizes.max() > best[0]:
                best = float(sizes.max()), points[int(sizes.argmax())]
        if best[0] > start:
            found.append(best)
    if not found:
        return None
    found.sort(key=lambda each: -each[0])
    chosen = [point for _, point in found[:_MOST_FOUND]]
    leaves = [np.stack(values) for values in zip(*chosen, strict=True)]
    return Points(leaves, [RECIPE] * len(chosen))


def _scaled(m: Measurements, here: Sequence[Array]) -> Iterator[Point]:
    """Each argument times a factor, all together and one by one."""
    count = len(here)
    for factor in _FACTORS:
        yield [p * factor for p in here]
        for i in range(count if count > 1 else 0):
            yield [p * factor if i == j else p for j, p in enumerate(here)]


def _crossed(m: Measurements, here: Sequence[Array]) -> Iterator[Point]:
    """One argument as it is elsewhere, and all others as they are elsewhere."""
    if len(here) == 1:
        return
    rows = m.base_rows
    for row in rows[:: max(1, len(rows) // _MOST_OTHERS)]:
        other = [p[row] for p in m.points]
        for i in range(len(here)):
            yield [other[j] if i == j else p for j, p in enumerate(here)]
            yield [p if i == j else other[j] for j, p in enumerate(here)]


def _at_home(m: Measurements, point: Sequence[Array], reach: float) -> Point:
    """The point in the dtype's own numbers, within reach and domain."""
    moved = []
    for leaf, values in zip(m.subject.leaves, point, strict=True):
        rounded = m.fmt.round(np.clip(values, -reach, reach).reshape(-1)).reshape(leaf.shape)
        moved.append(leaf.within(rounded[None], m.fmt)[0])
    return point_in_order(m.subject.leaves, moved, m.fmt)


def _relative(m: Measurements, points: Sequence[Point], cotangents: Sequence[Array]) -> Array:
    """For each point, how far rule and truth are apart, beside the largest gradient there."""
    if not points or m.rule is None or m.sources.rule is None:
        return np.zeros(0)
    leaves = [np.stack(values) for values in zip(*points, strict=True)]
    weights = [np.repeat(c[None], len(points), axis=0) for c in cotangents]
    ask = Ask(_BITS, ties=False, nudged=False)
    truth, truth_known = _numbers(m.sources.primal.evaluate(leaves, weights, ask), len(points))
    rule, rule_known = _numbers(m.sources.rule.evaluate(leaves, weights, ask), len(points))
    known = truth_known & rule_known
    with np.errstate(all="ignore"):
        apart = np.where(known, np.abs(rule - truth), 0.0).max(axis=1, initial=0.0)
        size = np.where(known, np.maximum(np.abs(truth), np.abs(rule)), 0.0).max(
            axis=1, initial=0.0
        )
        share = np.where((size > m.fmt.tiny) & np.isfinite(size), apart / size, 0.0)
    return np.nan_to_num(share, nan=0.0, posinf=0.0)


def _numbers(truth: Truth, count: int) -> tuple[Array, Array]:
    """The gradients as floats, and where they are regular."""
    states = columns(truth.gradient_states, count)
    return as_floats(columns(truth.gradients, count)), states == REGULAR
