"""Where a wrong formula counts: short of what stands for infinity (1e20, a mask's -1e9), and where no bounds of a clip cross (SEMANTICS F)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import STANDS_FOR_INFINITY
from gradcheck_cli.measure.crossed import crossed
from gradcheck_cli.measure.exceeded import exceeds_an_infinity
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]

_FAR = (
    f"the formula is wrong, but only where an argument is beyond {STANDS_FOR_INFINITY.value:g}: "
    "what stands for infinity is exceeded there"
)
_EXCEEDED = (
    "the formula is wrong, but only where a number that stands for infinity is exceeded: "
    "with one that is farther out it is right"
)
_CROSSED = (
    "the formula is wrong, but only where the lower bound of a clip of the function does not lie "
    "below the upper one"
)


def meant_rows(m: Measurements, rows: Array, part: slice) -> tuple[Array, str]:
    """Rows among these, at which a formula is wrong, that somebody may mean; and what is said if there is no such row."""
    near = rows[~_is_far(m, rows)]
    if not len(near):
        return near, _FAR
    short = near[~exceeds_an_infinity(m, near, part)]
    if not len(short):
        return short, _EXCEEDED
    return short[~crossed(m, short)], _CROSSED


def _is_far(m: Measurements, rows: Array) -> Array:
    """Rows at which an argument whose domain nobody states exceeds what stands for infinity."""
    far = np.zeros(len(rows), bool)
    for leaf, points in zip(m.subject.leaves, m.points, strict=True):
        if leaf.domain is None or not leaf.domain.states_a_size:
            size = np.abs(points[rows].reshape(len(rows), -1))
            far |= (size > STANDS_FOR_INFINITY.value).any(axis=1)
    return far
