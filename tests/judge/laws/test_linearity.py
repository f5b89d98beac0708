"""Linearity in the cotangent, on rules of small integers: every number below is exact."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import HUGE, NEGATED, SUM, TINY, ZERO
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.linearity import LINEARITY
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Ground, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import KINK
from gradcheck_cli.reals.program import build
from tests.support import Numbers, measured

POINTS = [0.5, 1.0, 2.0, -3.0, 100.0]
COEFFICIENT = st.integers(-8, 8)


def slope(x: Any, weight: Any) -> Any:
    return 2 * x * weight


def of(rule: Any, **measurements: Any) -> Measurements:
    return measured(POINTS, np.square, slope, rule=rule, **measurements)


def judged(rule: Any, **measurements: Any) -> Judgement:
    return judgement(LINEARITY, of(rule, **measurements))


def test_a_linear_rule_passes_wherever_all_cotangents_were_tried() -> None:
    result = judged(slope)
    assert (result.outcome, result.failures, result.points) == (Outcome.PASS, (), len(POINTS))


@given(COEFFICIENT, COEFFICIENT, COEFFICIENT, COEFFICIENT)
@settings(max_examples=40, deadline=None)
def test_a_rule_passes_if_and_only_if_it_is_linear(a: int, b: int, c: int, d: int) -> None:
    """a·w + b·x·w is linear in w whatever it is worth as a derivative; c·w² and d are not."""

    def rule(x: Any, weight: Any) -> Any:
        return a * weight + b * x * weight + c * weight**2 + d

    linear = c == 0 and d == 0
    assert judged(rule).outcome is (Outcome.PASS if linear else Outcome.FAIL)


@pytest.mark.parametrize(
    ("rule", "cotangent", "message"),
    [
        (lambda x, w: 2 * x * w + 1, ZERO, "a zero cotangent gives a gradient that is not zero"),
        (lambda x, w: 2 * x * w**2, SUM, "R(a + b) is not R(a) + R(b)"),
        (lambda x, w: x * (w + np.abs(w)), NEGATED, "R(-a) is not -R(a)"),
        (lambda x, w: 2 * x * np.clip(w, -50, 50), HUGE, "a cotangent 2²⁰ times as large"),
        (lambda x, w: x * np.where(np.abs(w) < 1e-3, 0, w), TINY, "a cotangent 2⁻²⁰ times as"),
    ],
)
def test_the_first_form_that_fails_names_itself(rule: Any, cotangent: str, message: str) -> None:
    m = of(rule)
    [failure] = judgement(LINEARITY, m).failures
    assert (failure.rule, failure.severity) == (RuleName.NONLINEAR_COTANGENT, Severity.ERROR)
    assert (failure.what, failure.component) == (GRADIENTS, 0)
    assert failure.ground == Ground(Kind.LINEARITY)
    assert (m.probes[failure.row].point, m.probes[failure.row].cotangent) == (0, cotangent)
    assert message in failure.message


def test_only_the_argument_that_is_not_linear_is_blamed() -> None:
    def rule(x: Any, y: Any, weight: Any) -> Any:
        return y * weight, x * weight**2

    m = measured({"x": POINTS, "y": POINTS}, np.multiply, lambda x, y, w: (y * w, x * w), rule=rule)
    [failure] = judgement(LINEARITY, m).failures
    assert failure.component == 1


def test_a_kink_is_not_asked_to_be_linear() -> None:
    def rule(x: Any, weight: Any) -> Any:
        return np.where(x == 2.0, np.abs(weight), slope(x, weight))

    def truth(*functions: Any) -> Numbers:
        return Numbers(*functions, states={2.0: KINK})

    assert judged(rule).outcome is Outcome.FAIL
    assert judged(rule, truth=truth).outcome is Outcome.PASS


def test_a_plain_function_has_no_rule_to_judge() -> None:
    result = judged(slope, has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_a_formula_that_is_not_known_is_not_covered() -> None:
    result = judged(slope, reason="it has no program")
    assert (result.outcome, result.reason) == (Outcome.NOT_COVERED, "it has no program")


LOOP = build(
    jax.make_jaxpr(lambda x: jax.lax.while_loop(lambda y: y > 1.0, lambda y: y / 2, x))(1.0)
)


def test_an_iteration_is_linear_within_its_tolerance() -> None:
    def nearly(x: Any, weight: Any) -> Any:
        return slope(x, weight) + np.float32(1e-6) * np.abs(weight)

    assert judged(nearly).outcome is Outcome.FAIL
    assert judged(nearly, program=LOOP).outcome is Outcome.PASS


def test_an_iteration_that_stops_early_for_small_cotangents_is_a_warning() -> None:
    def stopped(x: Any, weight: Any) -> Any:
        return np.where(np.abs(weight) < 1e-3, 0.5, 1.0) * slope(x, weight)

    (failure,) = judged(stopped, program=LOOP).failures
    assert failure.severity is Severity.WARNING
    assert "stops too early" in failure.message


def test_an_iteration_with_a_clipped_cotangent_is_an_error() -> None:
    def clipped(x: Any, weight: Any) -> Any:
        return slope(x, np.clip(weight, -1e3, 1e3))

    (failure,) = judged(clipped, program=LOOP).failures
    assert failure.severity is Severity.ERROR
