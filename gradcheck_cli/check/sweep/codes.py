"""Codes and correct bits of single points, as they are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.classes import DIGITS
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.correct_bits import correct_bits

Array = np.ndarray[Any, Any]


def joined(parts: Sequence[tuple[list[Array], list[Array]]]) -> tuple[list[Array], list[Array]]:
    """Codes and bits of parts that follow each other, for each result."""
    codes, bits = (zip(*part, strict=True) for part in zip(*parts, strict=True))
    return [np.concatenate(c) for c in codes], [np.concatenate(b) for b in bits]


def bits_of(results: Array, mid: Array, codes: Array, fmt: Format) -> Array:
    """Correct bits of each result, where some are lost."""
    lost = np.isin(codes, DIGITS)
    return np.where(lost, correct_bits(results, mid, fmt) + 0.0, fmt.digits)  # no −0
