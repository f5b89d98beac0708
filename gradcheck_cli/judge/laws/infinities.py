"""Formulas that are wrong only where what stands for infinity is exceeded: an argument of 1e20, scores beyond a mask's -1e9 (SEMANTICS F)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import STANDS_FOR_INFINITY
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


def short_of_infinity(m: Measurements, rows: Array, part: slice) -> tuple[Array, str]:
    """The rows at which a formula is wrong and none is exceeded; and what is said if there is no such row."""
    near = rows[~_is_far(m, rows)]
    if not len(near):
        return near, _FAR
    return near[~exceeds_an_infinity(m, near, part)], _EXCEEDED


def _is_far(m: Measurements, rows: Array) -> Array:
    """Rows at which an argument whose domain nobody states exceeds what stands for infinity."""
    far = np.zeros(len(rows), bool)
    for leaf, points in zip(m.subject.leaves, m.points, strict=True):
        if leaf.domain is None or not leaf.domain.states_a_size:
            size = np.abs(points[rows].reshape(len(rows), -1))
            far |= (size > STANDS_FOR_INFINITY.value).any(axis=1)
    return far
