"""Is a rule that is only known in float64 apart from autodiff in float64, too? Else what differs is rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.float64_truth import Wide
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]


def differs_in_the_same_floats(m: Measurements, apart: Array, formula: Array) -> Array:
    """The components that are apart, but those where autodiff in the rule's own floats says what the rule says.

    `formula` are the rule's gradients as balls. A factor e^100 makes of a sum that is 0 whatever its
    rounding leaves, in the rule and in autodiff alike.
    """
    rule, rows = m.sources.rule, np.flatnonzero(apart.any(axis=1))
    by_hand = isinstance(rule, Wide) and rule.who == "custom" and rule.subject.differentiable
    if not by_hand or isinstance(m.sources.primal, Wide) or not len(rows):
        return apart
    assert isinstance(rule, Wide)
    auto = Wide(rule.subject, "auto", rule.digits)
    ask = Ask(m.reference.goal, ties=False, nudged=True)
    truth = auto.evaluate([p[rows] for p in m.points], [c[rows] for c in m.cotangents], ask)
    gradients = columns(truth.gradients, len(rows))
    kept = apart.copy()
    for i, row in enumerate(rows):
        for k in np.flatnonzero(apart[row]):
            kept[row, k] = not gradients[i, k].overlaps(formula[row, k])
    return kept
