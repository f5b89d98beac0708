"""How many leading bits of a float are right."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format

Array = np.ndarray[Any, Any]


def correct_bits(floats: Array, truth: Array, fmt: Format) -> Array:
    """Correct bits of each float, between 0 and the format's digits.

    NaN has none; any other float has all of them where there is no truth to compare it with.
    """
    with np.errstate(all="ignore"):
        error = np.abs(floats - truth) / np.abs(truth)
        bits = np.where(error > 0, -np.log2(error), fmt.digits)
    return np.clip(np.where(np.isnan(floats), 0.0, bits), 0.0, float(fmt.digits))
