"""Rows at which no model is: what breaks only there is a note (SEMANTICS A5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import TINY_AT_ONCE
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]


@derived
def tiny_at_once(m: Measurements) -> Array:
    """Rows at which several arguments hold numbers so small that no model meets them together."""
    sizes = [np.abs(p).reshape(len(p), -1) for p in m.points]
    small = [((size > 0) & (size < TINY_AT_ONCE.value)).any(axis=1) for size in sizes]
    return np.asarray(np.sum(small, axis=0) > 1)


def unmet(m: Measurements) -> Array:
    """Rows beyond the reach, or where several arguments are tiny."""
    return np.asarray(m.beyond | tiny_at_once(m))
