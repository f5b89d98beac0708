"""Where the function has a value and the rule has numbers, whatever autodiff has."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.measure.components import VALUES, as_floats, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR

Array = np.ndarray[Any, Any]

_EVERY = slice(None)


def valued(m: Measurements, part: slice = _EVERY) -> Array:
    """A flag for each row: is its value regular, and is the rule's gradient (or this part of it) finite?"""
    if m.rule is None:
        return np.zeros(m.count, bool)
    inside = (m.reference.states(VALUES) == REGULAR).all(axis=1)
    formula = as_floats(columns(m.rule.gradients, m.count)[:, part])
    return np.asarray(inside & np.isfinite(formula).all(axis=1))
