"""Rows at ordinary numbers: neither 0 nor 1, nor huge."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]

_HUGE = 20.0


def ordinary_first(m: Measurements, rows: Array) -> Array:
    """The rows with those first that tell most."""
    values = columns(m.points, m.count)[rows]
    special = np.isin(values, (0.0, 1.0, -1.0)).any(axis=1)
    huge = (np.abs(values) > _HUGE).any(axis=1)
    return np.asarray(rows[np.lexsort((rows, huge, special))])
