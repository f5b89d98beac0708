"""A truth in numpy, with its range and scale around some numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.reference import Reference
from tests.support import Function, Numbers, Rule


def reference(
    points: Sequence[float], value: Function, gradient: Rule, dtype: str = "float32"
) -> Reference:
    """The truth of a function of one number, at cotangent 1."""
    source = Numbers(value, gradient)
    args = [np.array(points, np.float64)], [np.ones(len(points))]
    truth = source.evaluate(*args, Ask(40, ties=False))
    return Reference(source, format_of(dtype), *args, truth, 0)
