"""Digits that floats lose beyond what rounding and the inputs explain."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.precision import PRECISION
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.failure import Ground, Kind
from tests.support import Numbers, measured

POINTS = [0.5, 1.0, 100.0, 2.0]


def slope(x: Any, weight: Any) -> Any:
    return 2 * x * weight


def judged(custom: Any = slope, **measurements: Any) -> Judgement:
    """What the law says of x², where the framework computes this gradient."""
    return judgement(
        PRECISION, measured(POINTS, np.square, slope, floats={"custom": custom}, **measurements)
    )


def off_at_100(relative: float) -> Any:
    return lambda x, weight: slope(x, weight) * np.where(x == 100.0, 1 + relative, 1)


def test_rounded_numbers_pass() -> None:
    result = judged(lambda x, weight: slope(x, weight) * (1 + 2**-23))
    assert (result.outcome, result.failures) == (Outcome.PASS, ())


@pytest.mark.parametrize(
    ("relative", "severity"), [(0.5, Severity.ERROR), (2.0**-14, Severity.WARNING)]
)
def test_the_more_digits_are_lost_the_graver(relative: float, severity: Severity) -> None:
    result = judged(off_at_100(relative))
    [failure] = result.failures
    assert (result.outcome, failure.severity) == (Outcome.FAIL, severity)
    assert failure.rule is RuleName.IMPRECISE_GRADIENT
    assert (POINTS[failure.row], failure.what, failure.component) == (100.0, GRADIENTS, 0)
    assert failure.ground == Ground(Kind.GRADIENT_FLOATS, "digits")
    assert failure.message == "the gradient loses its digits"


def test_a_loss_that_is_small_beside_what_is_near_is_a_note() -> None:
    def power(x: Any, weight: Any) -> Any:
        return 9 * x**8 * weight

    losing = {"custom": lambda x, weight: power(x, weight) * (1 + 2**-11)}
    result = judgement(PRECISION, measured([1.0], lambda x: x**9, power, floats=losing))
    [failure] = result.failures
    assert (result.outcome, failure.severity) == (Outcome.PASS, Severity.NOTE)


def test_the_worst_of_several_losses_is_reported() -> None:
    def losing(x: Any, weight: Any) -> Any:
        return slope(x, weight) * np.select([x == 1.0, x == 2.0], [1 + 2.0**-14, 1.5], 1)

    [failure] = judged(losing).failures
    assert (POINTS[failure.row], failure.severity) == (2.0, Severity.ERROR)


def test_zero_where_the_truth_is_not_has_words_of_its_own() -> None:
    [failure] = judged(lambda x, weight: np.where(x == 2.0, 0, slope(x, weight))).failures
    assert failure.severity is Severity.ERROR
    assert failure.ground == Ground(Kind.GRADIENT_FLOATS, "zero")
    assert failure.message == "the gradient is exactly 0 where the truth is not"


def test_a_value_that_loses_digits_is_a_failure_of_the_value() -> None:
    m = measured(POINTS, np.square, slope, floats={"value": lambda x: np.where(x == 2.0, 6, x * x)})
    [failure] = judgement(PRECISION, m).failures
    assert (failure.rule, failure.what) == (RuleName.IMPRECISE_VALUE, VALUES)
    assert failure.ground == Ground(Kind.VALUE_FLOATS, "digits")
    assert failure.message == "the value loses its digits"


def test_a_loss_where_it_holds_is_told_from_where_it_does_not() -> None:
    m = measured(POINTS, np.square, slope, floats={"custom": off_at_100(0.5)})
    [failure] = judgement(PRECISION, m).failures
    assert failure.holds is not None
    assert (failure.holds(m)[m.base_rows] == (m.points[0][m.base_rows] == 100.0)).all()


def test_a_loss_of_the_batch_alone_is_no_fault_of_the_rule() -> None:
    assert judged(off_at_100(0.5), alone={"custom": slope}).failures == ()


def test_differences_cannot_judge_digits() -> None:
    result = judged(truth=partial(Numbers, judges_digits=False), reason="it calls back to Python")
    assert result.outcome is Outcome.NOT_COVERED
    assert result.reason == "it calls back to Python, and differences cannot judge digits"


def test_a_truth_of_few_digits_cannot_judge_as_many() -> None:
    result = judged(reason="it calls back to Python", digits=30)
    assert result.outcome is Outcome.NOT_COVERED
    assert result.reason == (
        "it calls back to Python, and a truth of 30 bits cannot judge the digits of float32"
    )
    assert judged(reason="it calls back to Python", digits=53).outcome is Outcome.PASS


def test_what_a_surrogate_loses_is_a_note() -> None:
    """The truth of a step is zero; what its stand-in is, no derivative says."""

    def stand_in(x: Any, weight: Any) -> Any:
        return 0.3 * weight + 0 * x

    m = measured(
        POINTS,
        np.sign,
        lambda x, weight: 0 * x * weight,
        rule=stand_in,
        floats={"custom": lambda x, weight: stand_in(x, weight) * np.where(x == 100.0, 0.5, 1)},
    )
    assert [f.severity for f in judgement(PRECISION, m).failures] == [Severity.NOTE]
