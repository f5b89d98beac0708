"""Limits that are there only because several arguments vanish at once (SEMANTICS E2).

A reflection at a vector of no length is nothing at all; of x = 0 as well, its joint limit is 0. Nobody
who calls the function so expects a number. Likewise a gradient: that of √(charge² · x) at x = 0 is
infinite for every charge but 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.failure import component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, OUTSIDE, POLE, REGULAR

Array = np.ndarray[Any, Any]

_STEP = 64  # short numbers, which are exact in every dtype


def coincidental(m: Measurements, row: int) -> bool:
    """Has the function no value here as soon as one of its arguments is an ordinary one?"""
    if (m.reference.states(VALUES)[row] == REGULAR).all():
        return False
    return any(
        not all(np.isin(state, (REGULAR, LIMIT)).all() for state in there.value_states)
        for there in _with_one_ordinary(m, row, range(len(m.points)))
    )


def coincidental_slope(m: Measurements, row: int, component: int) -> bool:
    """Has a gradient's component no finite number here as soon as another argument does not vanish?

    Both its own argument and the other one vanish here, each as a whole.
    """
    if m.reference.states(GRADIENTS)[row, component] != LIMIT:
        return False
    own, _ = component_name(m, GRADIENTS, component)
    vanished = [i for i, p in enumerate(m.points) if p[row].size and not p[row].any()]
    if own not in vanished:
        return False
    others = [i for i in vanished if i != own]
    return any(
        columns(there.gradient_states, 1)[0, component] in (POLE, OUTSIDE)
        for there in _with_one_ordinary(m, row, others)
    )


def _with_one_ordinary(m: Measurements, row: int, movable: Iterable[int]) -> Iterator[Truth]:
    """The truth at a row with each of these arguments in turn at ordinary numbers."""
    if not m.sources.over_reals or len(m.points) < 2:
        return
    rng = np.random.default_rng(m.seed)
    cotangents = [c[row][None] for c in m.cotangents]
    for i, leaf in enumerate(m.subject.leaves):
        moved = [p[row][None] for p in m.points]
        ordinary = np.round(rng.standard_normal(moved[i].shape) * _STEP) / _STEP
        if i not in movable:
            continue
        moved[i] = ordinary if leaf.domain is None else leaf.domain.into(ordinary, m.fmt)
        ask = Ask(m.reference.goal, ties=False)
        yield m.sources.primal.evaluate(moved, cotangents, ask)
