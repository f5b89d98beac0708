"""The truth at other points, or with other cotangents, as hypotheses ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.judge.diagnose.case import Array, Elsewhere
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import START_BITS, working


def truth_elsewhere(
    m: Measurements, leaf: int, ideas: Sequence[Elsewhere], count: int
) -> list[Array]:
    """The gradient of one argument for each idea, all in one walk; each has `count` rows."""
    if not ideas:
        return []
    with working(START_BITS):
        points = [
            np.concatenate([_balls(i.points[k]) for i in ideas]) for k in range(len(m.points))
        ]
    weights = [np.concatenate([i.cotangents[k] for i in ideas]) for k in range(len(m.cotangents))]
    truth = m.sources.primal.evaluate(
        points, weights, Ask(m.reference.goal, ties=False, nudged=False)
    )
    return [truth.gradients[leaf][n * count : (n + 1) * count] for n in range(len(ideas))]


def _balls(values: Array) -> Array:
    """Floats are exact; what are balls already stay what they are."""
    return values if values.dtype == object else np.asarray(exact(values))
