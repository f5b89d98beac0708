"""The third opinion: the change of a value against the integral of its rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.measure.integral import (
    SURELY_WRONG,
    Opinion,
    ThirdOpinion,
    _opinion,
    by_integral,
    third_opinion,
)
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.subject.results import Sample
from tests.support import Function, Numbers, Rule, measured
from tests.traced import bisected, ruled, traced


def of(value: Function, rule: Rule, x: float = 1.3) -> Opinion:
    source = Numbers(value, rule)
    third = by_integral(source, source, [np.array(x)], [np.array(1.0)], 2.0**-23, seed=0)
    return third.opinion


def halved(x):
    """√x by bisection of [0, 4]: autodiff of this program is 0."""
    low, high = np.zeros_like(x), np.full_like(x, 4.0)
    for _ in range(50):
        middle = (low + high) / 2
        low = np.where(middle * middle > x, low, middle)
        high = np.where(middle * middle > x, middle, high)
    return low


@pytest.mark.parametrize("value", [np.sqrt, halved])
def test_the_derivative_of_the_function_is_right_whatever_the_program(value: Function) -> None:
    assert of(value, lambda x, weight: weight / (2 * np.sqrt(x))) is Opinion.RIGHT


@pytest.mark.parametrize("factor", [0.9, -1.0, 1.01])
def test_a_rule_that_is_off_by_a_factor_is_wrong(factor: float) -> None:
    assert of(np.sqrt, lambda x, weight: factor * weight / (2 * np.sqrt(x))) is Opinion.WRONG


def test_what_no_float_holds_is_wrong_where_the_function_changes_by_a_number() -> None:
    """As an exponential of a cost of ways that are not there, of which a wrong sign makes them likely."""
    assert of(np.sin, lambda x, weight: weight * exact(np.full(x.shape, 1e300)) * exact(np.full(x.shape, 1e300))) is Opinion.WRONG  # fmt: skip


def test_what_no_float_holds_on_some_segments_alone_is_left_open() -> None:
    for residuals in ([math.inf, math.inf, 5.0], [math.inf, 3.0, 3.0], [1.0, 1.0, math.inf]):
        assert _opinion(residuals, [1.0] * 3, 2.0**-23) is Opinion.OPEN
        assert not ThirdOpinion(Opinion.OPEN, tuple(residuals)).settles
    assert _opinion([1.0, 8.0, 64.0, math.inf], [1.0] * 4, 2.0**-23) is Opinion.WRONG


def test_a_step_function_is_told_from_a_wrong_rule() -> None:
    """Off by up to a step at every scale, which on the largest is more than √eps of the change."""
    step = 2.0**-9
    stairs = of(lambda x: np.floor(x / step) * step, lambda x, weight: weight + 0 * x)
    assert stairs is Opinion.STEP


def test_nothing_is_asked_without_a_formula() -> None:
    m = measured([1.0], np.square, lambda x, weight: 2 * x * weight, reason="it has no program")
    assert third_opinion(m, 0) is None


def test_a_residual_that_does_not_grow_settles() -> None:
    source = Numbers(np.square, lambda x, weight: 2 * x * weight)
    third = by_integral(source, source, [np.array(1.0)], [np.array(1.0)], 2.0**-23, seed=0)
    assert len(third.residuals) == len(third.changes) == 3, "the nearest say enough"
    assert not SURELY_WRONG.settles


def test_of_a_part_only_that_part_moves() -> None:
    """The rule is right in the judged element, and wrong in the other one."""
    sample = Sample(outputs=(np.array([0]),), leaves=(np.array([0]),))

    def part(right: float) -> Opinion:
        source = Numbers(lambda x: x[:, :1] ** 2, lambda x, w: right * 2 * x[:, :1] * w[:, :1])
        point, cotangent = [np.array([1.5, 7.0])], [np.array([1.0, 3.0])]
        return by_integral(source, source, point, cotangent, 2.0**-23, 0, sample).opinion

    assert part(1.0) is Opinion.RIGHT
    assert part(0.9) is Opinion.WRONG


def test_one_component_moves_alone_and_the_others_say_nothing() -> None:
    """√ by halving of [0, 10]: at a negative number, beside a good one, the rule is another thing."""

    def rule(inputs: Any, ct: Any) -> Any:
        (a,) = inputs
        return (ct / (2 * bisected(a)),)

    m = traced(ruled(bisected, rule), [np.array([0.5, -0.125])], ran=True)
    row = int(m.base_rows[0])
    assert third_opinion(m, row, slice(0, 1)) == third_opinion(m, row, slice(0, 1))
    alone, at_its_end = third_opinion(m, row, slice(0, 1)), third_opinion(m, row, slice(1, 2))
    assert alone is not None
    assert at_its_end is not None
    assert (alone.opinion, alone.smooth, alone.constant) == (Opinion.RIGHT, True, False)
    assert at_its_end.constant


def test_what_bends_far_from_a_point_says_nothing_of_the_rule_there() -> None:
    """A corner within the longest segments, where the nodes do not add up."""
    assert (
        of(
            lambda x: np.where(x < 1.5, x, 1e6 * (x - 1.5) + 1.5),
            lambda x, weight: weight * np.where(x < 1.5, 1.0, 1e6),
        )
        is Opinion.RIGHT
    )


def test_what_another_argument_is_denied_says_nothing_of_this_one() -> None:
    """A joint step also moves what the rule gives no gradient."""

    def rule(inputs: Any, ct: Any) -> Any:
        _, b = inputs
        return b * ct, 0 * b

    m = traced(ruled(lambda a, b: a * b, rule), np.array([1.25]), np.array([2.75]))
    row = int(m.base_rows[0])
    both, alone = third_opinion(m, row), third_opinion(m, row, slice(0, 1))
    assert both is not None
    assert alone is not None
    assert (both.opinion, alone.opinion) == (Opinion.WRONG, Opinion.RIGHT)
