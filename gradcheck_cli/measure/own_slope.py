"""Whether a function moves as autodiff through it says, and not as its rule does, next to a point.

Along segments that are long beside a small region a rule may be right, though it is wrong all over that
region (the series branch around zero): the integral does not see it. The function itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import OWN_SLOPE, OWN_STEPS
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.components import GRADIENTS, as_floats, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]

_BITS = 512
_ASK = Ask(goal=240, ties=False, nudged=False, most_bits=1024)


def moves_by_the_truth(m: Measurements, row: int, part: slice) -> bool:
    """Is it so at two sizes of a step, along these components, at a row where truth and rule are numbers?"""
    states = m.reference.states(GRADIENTS)[row, part]
    if m.rule is None or not m.sources.over_reals or m.in_part or not (states == REGULAR).all():
        return False
    truth = as_floats(m.reference.balls(GRADIENTS)[row : row + 1, part])[0]
    rule = as_floats(columns(m.rule.gradients, m.count)[row : row + 1, part])[0]
    direction = np.where(np.sign(truth) == 0, 1.0, np.sign(truth))
    wanted, given = float(truth @ direction), float(rule @ direction)
    if not abs(given - wanted) > OWN_SLOPE.value * abs(wanted) > 0:
        return False
    slopes = [_slope(m, row, part, direction, step) for step in OWN_STEPS.value]
    return all(abs(slope - wanted) < OWN_SLOPE.value**2 * abs(wanted) for slope in slopes)


def _slope(m: Measurements, row: int, part: slice, direction: Array, step: float) -> float:
    """The change of ȳ·f over a step along these components, by the step; nan where there is none."""
    sizes = [p[row].size for p in m.points]
    whole = np.zeros(sum(sizes))
    whole[part] = direction
    ends = [np.split(whole * s, np.cumsum(sizes)[:-1]) for s in (0.0, step)]
    with working(_BITS):
        args = [
            np.concatenate(
                [exact(p[row])[None] + exact(end[k].reshape(p[row].shape))[None] for end in ends]
            )
            for k, p in enumerate(m.points)
        ]
        cotangents = [np.repeat(c[row][None], len(ends), axis=0) for c in m.cotangents]
        try:
            found = m.sources.primal.evaluate(args, cotangents, _ASK)
        except NoRealMeaning:
            return float("nan")
        values = columns(found.values, len(ends))
        weights = exact(_line(m.cotangents, row))
        change = sum(((values[1] - values[0]) * weights).tolist())
        return float(as_floats(np.array([change / exact(np.array(step)).item()], object))[0])


def _line(cotangents: Sequence[Array], row: int) -> Array:
    return np.concatenate([c[row].reshape(-1) for c in cotangents])
