"""Limits that are there only because several arguments vanish at once (SEMANTICS E2).

A reflection at a vector of no length is nothing at all; of x = 0 as well, its joint limit is 0. Nobody
who calls the function so expects a number. Likewise a gradient: that of √(charge² · x) at x = 0 is
infinite for every charge but 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.failure import component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, OUTSIDE, POLE, REGULAR

Array = np.ndarray[Any, Any]

_DRAWS = 4  # of ordinary numbers
_MOST_VANISHED = 5  # arguments of which pairs are looked at
_STEP = 64  # short numbers, which are exact in every dtype


def coincidental(m: Measurements, row: int) -> bool:
    """Has the function no value here as soon as one of its arguments, or two that vanish, are ordinary ones?

    Whichever these are: some of them may lie outside of where the function lives, for another reason.
    """
    if (m.reference.states(VALUES)[row] == REGULAR).all():
        return False
    pairs = itertools.combinations(_vanished(m, row)[:_MOST_VANISHED], 2)
    without: list[Sequence[int]] = [*((i,) for i in range(len(m.points))), *pairs]
    for draw in range(_DRAWS):
        there = _with_ordinary(m, row, without, draw)
        # Where nobody can tell, there is no truth to go through, and none is left.
        without = [
            choice for choice, truth in zip(without, there, strict=False) if not _has_value(truth)
        ]
    return bool(without)


def _has_value(truth: Truth) -> bool:
    return all(np.isin(state, (REGULAR, LIMIT)).all() for state in truth.value_states)


def coincidental_slope(m: Measurements, row: int, component: int) -> bool:
    """Has a gradient's component no finite number here as soon as another argument does not vanish?

    Both its own argument and the other one vanish here, each as a whole.
    """
    if m.reference.states(GRADIENTS)[row, component] != LIMIT:
        return False
    own, _ = component_name(m, GRADIENTS, component)
    vanished = _vanished(m, row)
    if own not in vanished:
        return False
    return any(
        columns(there.gradient_states, 1)[0, component] in (POLE, OUTSIDE)
        for there in _with_ordinary(m, row, [(i,) for i in vanished if i != own], 0)
    )


def _vanished(m: Measurements, row: int) -> list[int]:
    """The arguments that are zero as a whole."""
    return [i for i, p in enumerate(m.points) if p[row].size and not p[row].any()]


def _with_ordinary(
    m: Measurements, row: int, moved: Iterable[Sequence[int]], draw: int
) -> Iterator[Truth]:
    """The truth at a row with these arguments, one choice after the other, at ordinary numbers of a draw."""
    if not m.sources.over_reals or len(m.points) < 2:
        return
    rng = np.random.default_rng((m.seed, draw) if draw else m.seed)
    numbers: list[Array] = []
    for leaf, point in zip(m.subject.leaves, m.points, strict=True):
        ordinary = np.round(rng.standard_normal(point[row][None].shape) * _STEP) / _STEP
        numbers.append(leaf.within(ordinary, m.fmt))
    cotangents = [c[row][None] for c in m.cotangents]
    for choice in moved:
        points = [numbers[i] if i in choice else p[row][None] for i, p in enumerate(m.points)]
        yield m.sources.primal.evaluate(points, cotangents, Ask(m.reference.goal, ties=False))
