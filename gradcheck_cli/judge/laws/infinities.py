"""Formulas that are wrong only where nobody means them (SEMANTICS F).

That is where what stands for infinity is exceeded, an argument of 1e20, scores beyond a mask's -1e9; and where a
loop seeks a solution for what its argument's name denies, a porosity of 2: it need not come to its end there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import STANDS_FOR_INFINITY
from gradcheck_cli.measure.exceeded import exceeds_an_infinity
from gradcheck_cli.measure.integral import iterates
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.unmet import unnatural, why_unnatural

Array = np.ndarray[Any, Any]

_FAR = (
    f"the formula is wrong, but only where an argument is beyond {STANDS_FOR_INFINITY.value:g}: "
    "what stands for infinity is exceeded there"
)
_EXCEEDED = (
    "the formula is wrong, but only where a number that stands for infinity is exceeded: "
    "with one that is farther out it is right"
)


_UNSOUGHT = (
    "the formula leaves the truth of the function's loop only where {}: "
    "the loop need not come to a solution there"
)


def short_of_infinity(m: Measurements, rows: Array, part: slice) -> tuple[Array, str]:
    """The rows at which a formula is wrong and none is exceeded; and what is said if there is no such row."""
    common = rows[~unnatural(m)[rows]] if iterates(m) else rows
    if not len(common):
        return common, _UNSOUGHT.format(why_unnatural(m, int(rows[0])))
    rows = common
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
