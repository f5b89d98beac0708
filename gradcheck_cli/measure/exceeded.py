"""Where the formula is right but for a number that stands for infinity, and is exceeded: scores beyond a mask's -1e9 (SEMANTICS F)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask, Reals
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.farther_infinities import with_farther_infinities

Array = np.ndarray[Any, Any]


def exceeds_an_infinity(m: Measurements, rows: Array, part: slice) -> Array:
    """Which of the rows are right if all such numbers are farther out, where that can be told."""
    none = np.zeros(len(rows), bool)
    traces = m.subject.traces()
    if traces.primal is None or traces.rule is None or m.in_part or m.dear:
        return none
    primal, rule = map(with_farther_infinities, (traces.primal, traces.rule))
    if primal is None or rule is None:
        return none
    points, cotangents = ([each[rows] for each in given] for given in (m.points, m.cotangents))
    ask = Ask(m.reference.goal, ties=True, nudged=False)
    true, ours = (Reals(each).evaluate(points, cotangents, ask) for each in (primal, rule))
    both = zip(
        columns(true.gradients, len(rows))[:, part], columns(ours.gradients, len(rows))[:, part],
        strict=True,
    )  # fmt: skip
    return np.array([all(map(_meet, a, b)) for a, b in both], bool)


def _meet(a: Any, b: Any) -> bool:
    return bool(a.overlaps(b) and a.is_finite() and b.is_finite())
