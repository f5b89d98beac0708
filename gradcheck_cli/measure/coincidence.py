"""Limits that are there only because several arguments vanish at once (SEMANTICS E2).

A reflection at a vector of no length is nothing at all; of x = 0 as well, its joint limit is 0. Nobody
who calls the function so expects a number.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR

_STEP = 64  # short numbers, which are exact in every dtype


def coincidental(m: Measurements, row: int) -> bool:
    """Has the function no value here as soon as one of its arguments is an ordinary one?"""
    if not m.sources.over_reals or len(m.points) < 2:
        return False
    if (m.reference.states(VALUES)[row] == REGULAR).all():
        return False
    rng = np.random.default_rng(m.seed)
    cotangents = [c[row][None] for c in m.cotangents]
    for i, leaf in enumerate(m.subject.leaves):
        moved = [p[row][None] for p in m.points]
        ordinary = np.round(rng.standard_normal(moved[i].shape) * _STEP) / _STEP
        moved[i] = ordinary if leaf.domain is None else leaf.domain.into(ordinary, m.fmt)
        there = m.sources.primal.evaluate(moved, cotangents, Ask(m.reference.goal, ties=False))
        if not all(np.isin(state, (REGULAR, LIMIT)).all() for state in there.value_states):
            return True
    return False
