"""`expect(clipped)`: never larger than the truth, and never of the other sign."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts

POINTS = [0.125, 0.25, -0.25, 1.0, 2.0, -3.0]
NONLINEAR = mismatch(rule=RuleName.NONLINEAR_COTANGENT)


def square(rule) -> Measurements:
    return measured(POINTS, lambda x: x * x, lambda x, weight: 2 * x * weight, rule=rule)


def clipped(x, weight):
    return np.clip(2 * x * weight, -1, 1)


def test_a_gradient_that_is_cut_off_is_explained() -> None:
    assert declare(square(clipped), "clipped", None, mismatch(), NONLINEAR) == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x, weight: 2.5 * x * weight, "the gradient is 0.312500, the truth 0.250000"),
        (lambda x, weight: -x * weight, "the gradient is -0.125000, the truth 0.250000"),
    ],
    ids=["larger", "turned"],
)
def test_a_gradient_that_is_larger_or_turned_is_broken(rule, message: str) -> None:
    left = texts(declare(square(rule), "clipped"))
    assert left[0] == ("gradient-mismatch", "it is wrong")
    assert left[1] == ("broken-intent", f"`expect(clipped)` does not hold: at x = 0.125 {message}")


def test_rounding_does_not_make_it_larger() -> None:
    just_above = square(lambda x, weight: 2 * x * weight * (1 + 2.0**-24))
    assert declare(just_above, "clipped") == []


def test_it_is_offered_for_what_is_right_somewhere() -> None:
    never_right = square(lambda x, weight: x * weight / np.where(abs(x) < 1, 1, 2))
    assert comment_for(mismatch(), square(clipped)) == "expect(clipped)"
    assert comment_for(mismatch(), never_right) is None
    assert comment_for(NONLINEAR, never_right) == "expect(clipped)"


def test_it_is_not_offered_where_small_gradients_are_cut_and_large_ones_kept() -> None:
    below = square(lambda x, weight: np.where(abs(x) < 0.5, x * weight, 2 * x * weight))
    assert comment_for(mismatch(), below) is None


def test_it_is_not_offered_for_single_points() -> None:
    masked = square(lambda x, weight: np.where((x == 2.0) & (weight == 1), 0.0, 2 * x * weight))
    assert comment_for(mismatch(), masked) is None
