"""Formulas of x² (and of a few other functions) beside the truth: what each deviation is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from gradcheck_cli.contract.report import Evidence, Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.judge.laws import mismatch
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.judge.laws.singularity import singularities
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import Comparison, comparison
from gradcheck_cli.measure.integral import Opinion, ThirdOpinion
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE
from tests.support import Numbers, measured
from tests.traced import bisected, ruled, traced

POINTS = [0.5, 1.0, 2.0, -3.0, 100.0]


def slope(x: Any, weight: Any) -> Any:
    return 2 * x * weight


def of(rule: Any = slope, points: Sequence[float] = POINTS, **measurements: Any) -> Measurements:
    return measured(points, np.square, slope, rule=rule, **measurements)


def judged(rule: Any = slope, **measurements: Any) -> Judgement:
    return judgement(FORMULA, of(rule, **measurements))


def only(result: Judgement) -> Failure:
    [failure] = result.failures
    return failure


def singular(state: int, place: float = 0.0) -> Callable[..., Numbers]:
    """The truth of x² is said to be singular at a place; the formula is a number there."""

    def truth(value: Any, gradient: Any) -> Numbers:
        return Numbers(value, gradient, states={place: state} if gradient is slope else {})

    return truth


def test_the_derivative_passes() -> None:
    result = judged()
    assert (result.outcome, result.failures, result.reason) == (Outcome.PASS, (), None)


def test_a_wrong_formula_is_an_error_with_what_is_wrong() -> None:
    result = judged(lambda x, weight: -slope(x, weight))
    failure = only(result)
    assert result.outcome is Outcome.FAIL
    assert (failure.rule, failure.severity) == (RuleName.GRADIENT_MISMATCH, Severity.ERROR)
    assert (failure.row, failure.what, failure.component) == (0, GRADIENTS, 0)
    assert failure.ground == Ground(Kind.FORMULA)
    assert failure.message == "the formula is wrong: its sign is reversed"
    assert failure.everywhere and failure.holds is None


@jax.custom_vjp
def gap(x: Any, y: Any) -> Any:
    return (x - y) ** 2


gap.defvjp(lambda x, y: (gap(x, y), x - y), lambda d, g: (2 * g * d, 2 * g * d))


def test_of_several_arguments_what_is_wrong_wherever_there_is_a_gradient_is_wrong_everywhere() -> (
    None
):
    """Of zeros no sign is reversed. Of a single argument, the side on which all is zero is told."""
    x = np.array([1.0] * 9 + [1.5, -2.0])
    assert only(judgement(FORMULA, traced(gap, x, np.ones(11)))).everywhere
    m = of(lambda x, weight: -slope(x, weight), [0.0] * 9 + [1.0, -2.0])
    assert not only(judgement(FORMULA, m)).everywhere


def test_a_formula_that_is_wrong_at_some_inputs_knows_where() -> None:
    m = of(lambda x, weight: np.where(x < 1.5, 3, slope(x, 1)) * weight)
    failure = only(judgement(FORMULA, m))
    assert failure.message == "the formula is wrong at some inputs"
    assert not failure.everywhere
    assert failure.holds is not None and failure.as_grave is not None
    wrong = m.points[0][m.base_rows] < 1.5
    assert (failure.holds(m)[m.base_rows] == wrong).all()
    assert (failure.as_grave(m)[m.base_rows] == wrong).all()


def test_a_formula_that_is_wrong_beyond_what_stands_for_infinity_is_a_note() -> None:
    def masked(x: Any, weight: Any) -> Any:
        return np.where(np.abs(x) > 1e16, 0, slope(x, 1)) * weight

    failure = only(judgement(FORMULA, of(masked, [*POINTS, 1e18])))
    assert (failure.severity, failure.row, failure.ground.kind) == (Severity.NOTE, 5, Kind.FAR)
    nearer = judged(lambda x, weight: np.where(np.abs(x) > 50, 0, slope(x, 1)) * weight)
    assert only(nearer).severity is Severity.ERROR


def test_a_formula_that_is_wrong_at_a_point_is_told_from_its_neighbours() -> None:
    failure = only(judged(lambda x, weight: np.where(x == 2.0, 0, slope(x, weight))))
    assert (failure.rule, POINTS[failure.row]) == (RuleName.GRADIENT_MISMATCH, 2.0)
    assert failure.message.startswith("the formula is wrong at a point")


def test_a_formula_is_not_wrong_where_the_function_only_tends_to_a_value() -> None:
    truth = partial(Numbers, value_states={2.0: LIMIT})
    m = of(lambda x, weight: np.where(x == 2.0, 0, slope(x, weight)), truth=truth)
    failure = only(judgement(FORMULA, m))
    assert (failure.rule, failure.severity) == (RuleName.SAFE_AT_SINGULARITY, Severity.NOTE)


def test_of_several_arguments_the_wrong_one_is_named() -> None:
    def product(x: Any, y: Any, weight: Any) -> Any:
        return y * weight, x * weight

    def wrong(x: Any, y: Any, weight: Any) -> Any:
        return y * weight, -x * weight

    m = measured({"x": POINTS, "y": POINTS}, np.multiply, product, rule=wrong)
    failure = only(judgement(FORMULA, m))
    assert failure.component == 1
    assert failure.ground == Ground(Kind.FORMULA, "y")
    assert failure.message == "d/dy: the formula is wrong: its sign is reversed"


def test_a_plain_function_is_wrong_by_the_rules_that_it_calls() -> None:
    m = of(lambda x, weight: -slope(x, weight))
    plain = {mode: dataclasses.replace(f, custom=None) for mode, f in m.floats.items()}
    failure = only(judgement(FORMULA, dataclasses.replace(m, floats=plain)))
    assert failure.message.startswith("the custom rules that it calls make it wrong: ")


def test_a_formula_that_is_nearly_right_is_an_approximation() -> None:
    failure = only(judged(lambda x, weight: slope(x, weight) * (1 + 2**-14)))
    assert (failure.rule, failure.severity) == (RuleName.APPROXIMATE_RULE, Severity.WARNING)
    assert failure.ground == Ground(Kind.APPROXIMATE)
    assert failure.message.startswith("the formula is an approximation: off by up to ")


def test_a_gap_that_no_float_shows_is_no_failure() -> None:
    assert judged(lambda x, weight: slope(x, weight) * (1 + 2**-23)).outcome is Outcome.PASS


def test_where_autodiff_of_an_iteration_is_nearly_right_the_rule_is() -> None:
    """The value is right to 2⁻²⁰ as a bisection's is; autodiff of its program is a little off."""
    m = measured(
        POINTS, lambda x: np.round(x * x * 2**20 + 0.3) / 2**20,
        lambda x, weight: slope(x, weight) * (1 + 2**-14), rule=slope,
    )  # fmt: skip
    result = judgement(FORMULA, m)
    assert (result.outcome, result.failures) == (Outcome.PASS, ())
    assert result.evidence is Evidence.MULTIPRECISION


def test_where_autodiff_misses_the_function_the_integral_of_the_rule_decides() -> None:
    """A bisection: autodiff through its program gives zero, the rule the derivative."""
    m = measured(POINTS, np.square, lambda x, weight: 0 * x * weight, rule=slope)
    result = judgement(FORMULA, m)
    assert (result.outcome, result.failures) == (Outcome.PASS, ())
    assert result.evidence is Evidence.MULTIPRECISION
    assert result.reason is not None
    assert result.reason.startswith("judged by the integral of the rule")


@pytest.mark.parametrize(
    ("opinion", "failures"), [(Opinion.RIGHT, 0), (Opinion.WRONG, 1), (Opinion.OPEN, 1)]
)
def test_an_argument_that_hardly_moves_what_is_bisected_for_has_no_approximation(
    monkeypatch: pytest.MonkeyPatch, opinion: Opinion, failures: int
) -> None:
    """Its gap is small beside the gradients of all, and what is left of the integral is noise."""

    def root(a: Any, b: Any) -> Any:
        return bisected(a + b / 2**16)

    def rule(inputs: Any, ct: Any) -> Any:
        slope = ct / (2 * root(*inputs))
        return slope, slope / 2**16

    noise = ThirdOpinion(opinion, (1e-13, 1e-12, 5e-12), (1e-9, 1e-8, 1e-7), 3)
    monkeypatch.setattr(mismatch, "third_opinion", lambda *_: noise)
    m = traced(ruled(root, rule), np.array([0.5, 2.0]), np.array([1.0, 3.0]), ran=True)
    of_b = [f for f in judgement(FORMULA, m).failures if f.ground.detail == "y"]
    assert len(of_b) == failures


def test_a_gradient_of_a_step_function_is_a_surrogate() -> None:
    m = measured(
        [0.3, 1.4, 2.7],
        np.floor,
        lambda x, weight: 0 * x * weight,
        rule=lambda x, weight: 1 * weight,
    )
    failure = only(judgement(FORMULA, m))
    assert (failure.rule, failure.severity) == (RuleName.UNDECLARED_SURROGATE, Severity.WARNING)
    assert failure.ground == Ground(Kind.SURROGATE)


def test_where_the_integral_cannot_decide_it_is_inconclusive() -> None:
    """The function has no value between the points that were tried."""
    m = measured(
        POINTS, lambda x: np.where(np.isin(x, POINTS), x * x, np.nan), slope,
        rule=lambda x, weight: 3 * x * weight,
    )  # fmt: skip
    failure = only(judgement(FORMULA, m))
    assert (failure.rule, failure.severity) == (RuleName.INCONCLUSIVE_GRADIENT, Severity.WARNING)
    assert failure.ground == Ground(Kind.INCONCLUSIVE)


@pytest.mark.parametrize(("radius", "rule"), [
    (2.0**-12, RuleName.SAFE_AT_SINGULARITY), (0.25, RuleName.GRADIENT_MISMATCH),
])  # fmt: skip
def test_a_formula_that_is_other_only_near_a_singularity_is_a_note(
    radius: float, rule: RuleName
) -> None:
    m = of(
        lambda x, weight: np.where(abs(x) < 1.5 * radius, 1, slope(x, 1)) * weight,
        points=[0.0, radius, 1.0, 2.0], truth=singular(KINK),
    )  # fmt: skip
    failure = only(judgement(FORMULA, m))
    assert failure.rule is rule
    if rule is RuleName.SAFE_AT_SINGULARITY:
        assert (failure.severity, failure.ground) == (Severity.NOTE, Ground(Kind.SINGULARITY))
        assert failure.message == (
            "the formula leaves the truth only within 2.4e-04 of a singularity"
        )


def test_a_number_at_a_pole_is_a_note() -> None:
    m = of(lambda x, weight: slope(x, weight) + 0, points=[1.0, 0.0, 2.0], truth=singular(POLE))
    result = judgement(FORMULA, m)
    failure = only(result)
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.SAFE_AT_SINGULARITY, Severity.NOTE)
    assert (failure.row, failure.component, failure.ground) == (1, 0, Ground(Kind.POLE))


def test_where_all_points_are_kinks_the_integral_of_the_rule_decides() -> None:
    right = judged(points=[0.0], truth=singular(KINK))
    assert (right.outcome, right.evidence) == (Outcome.PASS, Evidence.MULTIPRECISION)
    wrong = judged(lambda x, weight: 3 * x * weight, points=[0.0], truth=singular(KINK))
    assert only(wrong).message.startswith(
        "the formula is wrong: the function does not change as it"
    )


def test_where_neither_truth_nor_value_is_there_nothing_is_right() -> None:
    outside = partial(Numbers, states={0.0: OUTSIDE}, value_states={0.0: OUTSIDE})
    result = judged(points=[0.0], truth=outside)
    assert result.outcome is Outcome.NOT_COVERED
    assert result.reason is not None
    assert "all are kinks, poles or undecided" in result.reason


def of_facts(m: Measurements, **facts: Any) -> Comparison:
    return dataclasses.replace(comparison(m), **facts)


def test_a_number_beside_both_sides_of_a_kink_is_a_note() -> None:
    m = of()
    [failure] = singularities(of_facts(m, outside_kink=np.arange(m.count) == 2))
    assert (failure.rule, failure.severity) == (RuleName.SAFE_AT_SINGULARITY, Severity.NOTE)
    assert (failure.row, failure.ground) == (2, Ground(Kind.KINK))


def test_a_rule_that_trusts_the_rules_inside_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    m = of()
    facts = of_facts(m, trusts=(np.arange(m.count) == 3)[:, None])
    monkeypatch.setattr("gradcheck_cli.judge.laws.formula.comparison", lambda m: facts)
    result = judgement(FORMULA, m)
    failure = only(result)
    assert result.outcome is Outcome.PASS
    assert (failure.rule, failure.severity) == (RuleName.TRUSTS_INNER_RULE, Severity.NOTE)
    assert (failure.row, failure.component, failure.ground) == (3, 0, Ground(Kind.INNER_RULE))


def test_the_base_cotangent_is_tried_everywhere_and_each_output_alone_at_a_few_points() -> None:
    assert FORMULA.plan(3, [()]) == [Probe(i, BASE) for i in range(3)]
    names = [probe.cotangent for probe in FORMULA.plan(10, [(2,)])]
    assert (names.count(BASE), names.count("one-hot 0"), names.count("one-hot 1")) == (10, 6, 6)


def test_a_plain_function_without_inner_rules_is_not_judged() -> None:
    result = judged(has_rule=False)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, "there is no custom rule")


def test_a_formula_that_is_not_known_is_not_covered() -> None:
    result = judged(reason="it has no program")
    assert (result.outcome, result.reason) == (Outcome.NOT_COVERED, "it has no program")
