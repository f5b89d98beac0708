"""`expect(surrogate)`: another slope where the derivative is zero, and only there."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts

SURROGATE = mismatch(rule=RuleName.UNDECLARED_SURROGATE)


def smooth(x, weight):
    return weight / (1 + abs(x)) ** 2


def step() -> Measurements:
    def zero(x, weight):
        return 0 * weight

    return measured([-3.0, -1.0, 1.0, 3.0], lambda x: np.where(x > 0, 1.0, 0.0), zero, rule=smooth)


def test_a_slope_for_a_step_is_explained() -> None:
    assert declare(step(), "surrogate", None, SURROGATE) == []


def test_a_wrong_gradient_is_not_explained() -> None:
    assert declare(step(), "surrogate", None, mismatch()) == [mismatch()]


def test_a_slope_for_a_function_that_has_one_is_broken() -> None:
    m = measured(
        [-3.0, -1.0, 1.0, 3.0],
        lambda x: np.maximum(x, 0),
        lambda x, weight: np.where(x > 0, weight, 0.0),
        rule=smooth,
    )
    left = declare(m, "surrogate", None, SURROGATE)
    assert texts(left)[1] == (
        "broken-intent",
        "`expect(surrogate)` does not hold: at x = 1 the derivative of the primal is 1.00000, not 0",
    )


def test_it_is_not_offered_for_the_finding_says_it() -> None:
    assert comment_for(SURROGATE, step()) is None
