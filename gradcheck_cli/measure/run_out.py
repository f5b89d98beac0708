"""Rows at which a loop of the function has run out: what it gives there is no solution yet, and no truth (SEMANTICS B6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Source, Truth
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.measurements import Rows
from gradcheck_cli.measure.states import OUTSIDE, REGULAR

Array = np.ndarray[Any, Any]

_MOST = 256  # rows that are looked at again
_FEW = 8  # ordinary ones, at which loops end by themselves if they ever do


def leave_run_out(source: Source, rows: Rows, truth: Truth, rule: Truth) -> tuple[int, ...]:
    """Put those rows outside of the domain at which truth and rule are apart and a loop ran out; say which.

    A function whose loops run out at ordinary points, too, is meant so.
    """
    if source.over_reals:
        return ()  # its loops are part of the program
    apart = _apart(truth, rule, rows.count)[:_MOST]
    usual = rows.base_rows[:_FEW]
    if not len(apart) or not len(usual):
        return ()
    ordinary = source.run_out([p[usual] for p in rows.points], [c[usual] for c in rows.cotangents])
    if 2 * ordinary.sum() >= len(usual):
        return ()
    gone = apart[
        source.run_out([p[apart] for p in rows.points], [c[apart] for c in rows.cotangents])
    ]
    for each in (truth, rule):
        for state in (*each.value_states, *each.gradient_states):
            state[gone] = OUTSIDE
    return tuple(gone.tolist())


def _apart(truth: Truth, rule: Truth, count: int) -> Array:
    """Rows at which both have a gradient, and not the same."""
    ours, theirs = columns(truth.gradients, count), columns(rule.gradients, count)
    states = (columns(each.gradient_states, count) == REGULAR for each in (truth, rule))
    both = np.logical_and(*states)
    return np.array(
        [
            row
            for row in range(count)
            if any(not ours[row, k].overlaps(theirs[row, k]) for k in np.flatnonzero(both[row]))
        ],
        int,
    )
