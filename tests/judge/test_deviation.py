"""Deviations over functions that hand their input on, on measurements that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.deviation import as_meant
from gradcheck_cli.judge.unexplained import on_purpose, unexplained
from gradcheck_cli.measure.handed_on import in_place, origins
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import HELD, ON_PURPOSE, Declared
from tests.support import measured, mismatch

POINTS = np.array([[0.5, 1.0, 4.0], [1.5, -2.0, 3.0], [2.0, 0.25, -1.0], [-3.0, 8.0, 5.0]])


def identity(rule: Any) -> Measurements:
    return measured(POINTS, lambda x: x, lambda x, weight: weight, rule=rule)


def reversal(rule: Any) -> Measurements:
    return measured(POINTS, lambda x: x[:, ::-1], lambda x, weight: weight[:, ::-1], rule=rule)


@pytest.mark.parametrize(
    ("rule", "says", "expect"),
    [
        (lambda x, w: w / 16, "gives 0.0625 times the gradient", "expect(scaled=0.0625)"),
        (lambda x, w: -w, "reverses the gradient", "expect(scaled=-1)"),
        (lambda x, w: 0 * w, "stops the gradient", "expect(zero: x)"),
        (lambda x, w: np.clip(w, -0.5, 0.5), "clips the gradient", "expect(clipped)"),
    ],
)
def test_what_becomes_of_the_gradient_is_named(rule: Any, says: str, expect: str) -> None:
    failures = [mismatch(rule=RuleName.NONLINEAR_COTANGENT), mismatch()]
    (told,) = as_meant(failures, identity(rule), "")
    assert told.rule == RuleName.UNDECLARED_DEVIATION
    assert told.message.startswith("the function hands its input on as it is, and the rule " + says)
    assert told.expect == expect


def test_it_is_a_note_where_something_shows_that_it_is_meant() -> None:
    scaled = identity(lambda x, w: w / 16)
    severities = [as_meant([mismatch()], scaled, word)[0].severity for word in ("", "scale")]
    assert severities == [Severity.WARNING, Severity.NOTE]
    (turned,) = as_meant([mismatch()], identity(lambda x, w: -w), "")
    assert turned.severity is Severity.NOTE


def test_what_moves_is_held_to_its_own_transpose() -> None:
    (told,) = as_meant([mismatch()], reversal(lambda x, w: 0.5 * w[:, ::-1]), "")
    assert told.message.startswith("the function only moves its input")
    for wrong in (lambda x, w: w, lambda x, w: 0 * w):
        assert as_meant([mismatch()], reversal(wrong), "stop") == [mismatch()]


def test_all_failures_of_the_formula_are_one() -> None:
    nonlinear = mismatch(rule=RuleName.NONLINEAR_COTANGENT)
    other = mismatch(rule=RuleName.VALUE_MISMATCH)
    clipped = identity(lambda x, w: np.clip(w, -0.5, 0.5))
    told = as_meant([mismatch(), other, nonlinear], clipped, "")
    assert [f.rule for f in told] == [RuleName.UNDECLARED_DEVIATION, RuleName.VALUE_MISMATCH]


def test_what_computes_something_hands_nothing_on() -> None:
    square = measured(POINTS, np.square, lambda x, w: 2 * x * w, rule=lambda x, w: x * w)
    assert origins(square) is None
    assert as_meant([mismatch()], square, "scale") == [mismatch()]


def test_where_elements_come_from() -> None:
    assert origins(identity(lambda x, w: w)).tolist() == [0, 1, 2]
    turned = reversal(lambda x, w: w[:, ::-1])
    assert origins(turned).tolist() == [2, 1, 0]
    assert in_place(np.array([0, 1, 2]), turned)
    assert not in_place(np.array([2, 1, 0]), turned)
    padded = measured(
        POINTS,
        lambda x: np.pad(x, [(0, 0), (1, 0)]),
        lambda x, w: w[:, 1:],
    )
    assert origins(padded).tolist() == [-1, 0, 1, 2]


def test_what_a_text_says_outright_makes_a_question_of_an_error() -> None:
    square = measured(POINTS, np.square, lambda x, w: 2 * x * w, rule=lambda x, w: x * w)
    assert on_purpose([mismatch()], square, "") == [mismatch()]
    (told,) = on_purpose([mismatch()], square, "deliberately")
    assert (told.rule, told.severity) == (RuleName.INCONCLUSIVE_GRADIENT, Severity.WARNING)


@pytest.mark.parametrize(
    ("held", "rule"),
    [([], RuleName.INCONCLUSIVE_GRADIENT), (["x"], RuleName.INCONCLUSIVE_GRADIENT), (["times"], RuleName.GRADIENT_MISMATCH)],
)  # fmt: skip
def test_what_is_said_of_an_argument_that_is_not_differentiated_excuses_no_other(
    held: list[str], rule: RuleName
) -> None:
    square = measured(POINTS, np.square, lambda x, w: 2 * x * w, rule=lambda x, w: x * w)
    words = Declared(ON_PURPOSE, "no gradient flows", in_prose=True)
    declared = [words, *(Declared(HELD, name, in_prose=True) for name in held)]
    ((left,), _) = unexplained([mismatch()], square, declared)
    assert left.rule == rule
