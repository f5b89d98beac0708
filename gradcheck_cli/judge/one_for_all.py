"""Gradients that are one number for all elements of an array: of rules that are written for single numbers."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.measurements import Measurements


def gives_one_number(m: Measurements, path: str) -> bool:
    """Does the rule give every element of the argument the same gradient, at all points, and not zero at all?"""
    rule = m.floats[m.mode].custom
    start = 0
    for leaf, (_, elements) in zip(m.subject.leaves, m.components(GRADIENTS), strict=True):
        stop = start + len(elements)
        if leaf.path == path and rule is not None:
            own = columns(rule, m.count)[:, start:stop]
            own = own[np.isfinite(own).all(axis=1)]
            return bool(own.size and own.any() and (own == own[:, :1]).all())
        start = stop
    return False
