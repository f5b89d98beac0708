"""Correct bits over one argument: the numbers behind the one-line plot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Profile
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.profile import profile_of
from gradcheck_cli.measure.components import VALUES
from tests.support import measured
from tests.traced import failure, traced

IMPRECISE = failure(RuleName.IMPRECISE_GRADIENT, modes=())


def square(x):
    return x * x


def slope(x, weight):
    return 2 * x * weight


def off_above_two(x, weight):
    return np.where(x > 2, 1 + 2.0**-8, 1.0) * slope(x, weight)


def test_bits_are_in_the_order_of_the_argument() -> None:
    m = measured([8.0, -1.0, 2.0, 4.0], square, slope, floats={"custom": off_above_two})
    assert profile_of(IMPRECISE, m) == Profile(
        argument="x", at=[-1.0, 2.0, 4.0, 8.0], bits=[24.0, 24.0, 8.0, 8.0], full=24.0
    )


def test_of_an_imprecise_value_the_value_is_shown() -> None:
    m = measured([2.0], square, slope, floats={"value": lambda x: x * x * 1.25})
    profile = profile_of(failure(RuleName.IMPRECISE_VALUE, what=VALUES, modes=()), m)
    assert profile is not None
    assert profile.bits == [2.0]


def test_where_the_truth_is_no_float_nothing_is_lost() -> None:
    """2⁻¹⁴⁰ is below all normal floats, 2¹⁴⁰ beyond them; at −3 there is no truth."""

    def steep(x, weight):
        return np.where(x == -3, np.nan, 2.0**x) * weight

    zero = {"custom": lambda x, weight: np.zeros_like(x)}
    profile = profile_of(
        IMPRECISE, measured([-3.0, -140.0, 1.0, 140.0], square, steep, floats=zero)
    )
    assert profile is not None
    assert (profile.at, profile.bits) == ([-140.0, 1.0, 140.0], [24.0, 0.0, 24.0])


@pytest.mark.parametrize(
    "wrong",
    [
        failure(RuleName.GRADIENT_MISMATCH, modes=()),  # a wrong formula loses no digits
        failure(RuleName.IMPRECISE_GRADIENT, modes=(), component=1),
    ],
)
def test_what_no_line_shows_has_no_profile(wrong: Any) -> None:
    assert profile_of(wrong, measured([2.0], square, slope)) is None


def test_an_array_has_no_profile() -> None:
    assert profile_of(IMPRECISE, traced(lambda x: x * x, np.ones((1, 2)))) is None
