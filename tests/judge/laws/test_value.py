"""The value that a rule's forward pass returns, beside the primal's."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.value import VALUE
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Ground, Kind
from tests.support import measured

POINTS = [0.5, 1.0, 2.0, -3.0, -4.0]


def judged(value_of_rule: Any = None, **measurements: Any) -> Judgement:
    """What the law says of x², where the rule's forward pass returns this."""
    m = measured(
        POINTS,
        np.square,
        lambda x, weight: 2 * x * weight,
        rule_value=value_of_rule,
        **measurements,
    )
    return judgement(VALUE, m)


def test_the_primal_value_passes_at_every_point() -> None:
    result = judged()
    assert (result.outcome, result.failures, result.points) == (Outcome.PASS, (), len(POINTS))


def test_another_value_is_an_error_at_the_first_point_where_it_is_returned() -> None:
    result = judged(lambda x: np.where(x < 0, x, x * x))
    [failure] = result.failures
    assert result.outcome is Outcome.FAIL
    assert (failure.rule, failure.severity) == (RuleName.VALUE_MISMATCH, Severity.ERROR)
    assert (failure.row, failure.what, failure.component) == (3, VALUES, 0)
    assert failure.ground == Ground(Kind.VALUE)
    assert failure.message == (
        "the rule's forward pass returns a different value than the function itself"
    )


def test_what_is_apart_by_less_than_rounding_passes() -> None:
    assert judged(lambda x: x * x * (1 + 2**-23)).outcome is Outcome.PASS
    assert judged(lambda x: x * x * (1 + 2**-17)).outcome is Outcome.FAIL


def test_points_beyond_the_reach_are_not_judged() -> None:
    assert judged(lambda x: np.where(x == -4, x, x * x), beyond=1).outcome is Outcome.PASS


def test_a_plain_function_has_no_forward_pass_of_a_rule() -> None:
    result = judged(has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_a_formula_that_is_not_known_is_not_covered() -> None:
    result = judged(reason="it has no program")
    assert (result.outcome, result.reason) == (Outcome.NOT_COVERED, "it has no program")
