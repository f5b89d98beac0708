"""The components of values or of gradients: all of a row side by side, as balls, floats or radii."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

Array = np.ndarray[Any, Any]

VALUES, GRADIENTS = "values", "gradients"


def columns(arrays: Sequence[Array], count: int) -> Array:
    """All components of a row side by side."""
    if not arrays or not count:
        return np.zeros((count, 0))
    return np.concatenate([a.reshape(count, -1) for a in arrays], axis=1)


def as_floats(balls: Array) -> Array:
    """Midpoints as float64; nan where undefined, ±inf beyond float64."""
    flat = [_float(ball) for ball in balls.reshape(-1)]
    return np.array(flat, np.float64).reshape(balls.shape)


def radii(balls: Array) -> Array:
    """Radii as float64: next to nothing where certified, what is doubted elsewhere."""
    flat = [float(b.rad()) if b.is_finite() else 0.0 for b in balls.reshape(-1)]
    return np.array(flat, np.float64).reshape(balls.shape)


def _float(ball: arb) -> float:
    return math.nan if ball.is_nan() else float(ball.mid()) if ball.is_finite() else float(ball)
