"""Laws on measurements that are made by hand: what each says, and when it says nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.judge.laws.finite import FINITE
from gradcheck_cli.judge.laws.law import Law, judgement
from gradcheck_cli.judge.laws.linearity import LINEARITY
from gradcheck_cli.judge.laws.structure import STRUCTURE
from gradcheck_cli.judge.laws.value import VALUE
from tests.support import measured

POINTS = [0.5, 1.0, 2.0, -3.0, 100.0]


def square(x):
    return x * x


def slope(x, weight):
    return 2 * x * weight


@pytest.mark.parametrize("law", [VALUE, STRUCTURE, LINEARITY, FINITE])
def test_a_right_rule_keeps_the_law(law: Law):
    result = judgement(law, measured(POINTS, square, slope))
    assert (result.outcome, result.failures) == (Outcome.PASS, ())


@pytest.mark.parametrize("law", [VALUE, STRUCTURE, LINEARITY])
def test_a_plain_function_has_no_rule_to_judge(law: Law):
    result = judgement(law, measured(POINTS, square, slope, has_rule=False))
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert result.reason == "there is no custom rule"


@pytest.mark.parametrize("law", [VALUE, LINEARITY])
def test_a_formula_that_is_not_known_is_not_covered(law: Law):
    result = judgement(law, measured(POINTS, square, slope, reason="it has no program"))
    assert (result.outcome, result.reason) == (Outcome.NOT_COVERED, "it has no program")


def test_another_value_of_the_rule_is_a_mismatch():
    m = measured(POINTS, square, slope, rule_value=lambda x: np.where(x < 0, x, x * x))
    [failure] = judgement(VALUE, m).failures
    assert (failure.rule, failure.severity) == ("value-mismatch", Severity.ERROR)
    assert m.points[0][failure.row] == -3.0


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda x, weight: 2 * x * weight + 1, "a zero cotangent gives a gradient that is not"),
        (lambda x, weight: 2 * x * weight**2, "R(a + b) is not R(a) + R(b)"),
        (lambda x, weight: 2 * x * np.clip(weight, -50, 50), "a cotangent 2²⁰ times as large"),
    ],
)
def test_a_rule_that_is_not_linear_says_how(rule, says):
    [failure] = judgement(LINEARITY, measured(POINTS, square, slope, rule=rule)).failures
    assert failure.rule == "nonlinear-cotangent"
    assert says in failure.message


def test_gradients_of_other_shapes_are_an_error():
    shapes = [SimpleNamespace(shape=()), SimpleNamespace(shape=(2,))]
    m = measured(POINTS, square, slope)
    m.subject.program = SimpleNamespace(out_avals=shapes)  # all that the law looks at
    [failure] = judgement(STRUCTURE, m).failures
    assert "shapes [(), (2,)], expected are [(), ()]" in failure.message


def test_nan_where_the_truth_is_finite_is_an_error():
    def nan_at_100(x, weight):
        return np.where(x == 100.0, np.nan, 2 * x * weight)

    [failure] = judgement(FINITE, measured(POINTS, square, slope, floats={"custom": nan_at_100})).failures  # fmt: skip
    assert (failure.rule, failure.severity) == ("non-finite-gradient", Severity.ERROR)
    assert failure.message == "the gradient is NaN where the truth is finite"


def test_nan_of_the_batch_alone_is_no_fault_of_the_rule():
    nan = {"custom": lambda x, weight: np.full_like(x, np.nan)}
    m = measured(POINTS, square, slope, floats=nan, alone={"custom": slope})
    assert judgement(FINITE, m).outcome is Outcome.PASS
