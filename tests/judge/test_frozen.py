"""Rules that give nothing for some elements, on measurements that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.frozen import as_frozen
from gradcheck_cli.measure.measurements import Measurements
from tests.support import measured, mismatch

POINTS = np.array([[0.5, 1.0, 4.0], [1.5, -2.0, 3.0], [2.0, 0.25, -1.0], [-3.0, 8.0, 5.0]])
PADDING = np.array([1.0, 0.0, 1.0])


def squares(rule: Any) -> Measurements:
    return measured(POINTS, lambda x: x * x, lambda x, weight: 2 * x * weight, rule=rule)


def test_elements_that_get_nothing_are_meant_where_the_text_says_so() -> None:
    frozen = squares(lambda x, w: 2 * x * w * PADDING)
    (told,) = as_frozen([mismatch()], frozen, "frozen")
    assert (told.rule, told.severity) == (RuleName.UNDECLARED_DEVIATION, Severity.NOTE)
    assert told.message.startswith("the rule gives zero for some elements of x and the derivative")
    assert as_frozen([mismatch()], frozen, "") == [mismatch()]


@pytest.mark.parametrize(
    "rule",
    [
        lambda x, w: 3 * x * w * PADDING,  # what it gives is wrong
        lambda x, w: 0 * x * w,  # it gives nothing at all
        lambda x, w: (
            2 * x * w * np.where(x > 2, 0, 1)
        ),  # nothing for some values, not for some elements
    ],
)
def test_all_else_must_be_the_derivative(rule: Any) -> None:
    assert as_frozen([mismatch()], squares(rule), "frozen") == [mismatch()]


def test_an_argument_that_gets_nothing_is_forgotten_and_not_frozen() -> None:
    points = {"x": POINTS, "y": POINTS + 1}
    forgotten = measured(
        points,
        lambda x, y: x * y,
        lambda x, y, weight: (y * weight, x * weight),
        rule=lambda x, y, weight: (y * weight, 0 * x * weight),
    )
    assert as_frozen([mismatch()], forgotten, "frozen") == [mismatch()]
