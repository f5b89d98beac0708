"""Whether a function moves as autodiff through it says, and not as its rule does, next to a point."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.measure.integral import SURELY_WRONG, Opinion, third_opinion
from gradcheck_cli.measure.own_slope import moves_by_the_truth
from tests.traced import ruled, traced

HERE = slice(0, 1)
SMALL = 2.0**-14


def fee(x: Any) -> Any:
    return jnp.sin(x) + x / 2


def fee_rule(near_zero: float) -> Any:
    """The rule of `fee`, with a series branch around zero whose first term is this one."""

    def rule(kept: Any, weight: Any) -> Any:
        (x,) = kept
        return (weight * jnp.where(jnp.abs(x) < SMALL, near_zero, jnp.cos(x) + 0.5),)

    return rule


@pytest.mark.parametrize(("first", "wrong"), [(1.0, True), (1.5, False), (1.25, False)])
def test_a_branch_around_zero_is_held_to_the_function_itself(first: float, wrong: bool) -> None:
    m = traced(ruled(fee, fee_rule(first)), np.zeros(1))
    assert moves_by_the_truth(m, 0, HERE) is wrong


def test_the_integral_alone_does_not_see_so_small_a_region() -> None:
    m = traced(ruled(fee, fee_rule(1.0)), np.zeros(1))
    assert third_opinion(m, 0, HERE) is SURELY_WRONG
    whole = third_opinion(m, 0)
    assert whole is not None
    assert whole.opinion is Opinion.RIGHT


def test_between_the_jumps_of_a_step_the_function_says_nothing_of_its_rule() -> None:
    def fine(x: Any) -> Any:
        return x + jnp.floor(1000 * x) / 1000

    m = traced(ruled(fine, lambda kept, weight: (2 * weight,)), np.full(1, 0.2505))
    assert moves_by_the_truth(m, 0, HERE)
    opinion = third_opinion(m, 0, HERE)
    assert opinion is not None
    assert opinion is not SURELY_WRONG
