"""Ties of two numbers: conventions are left alone, two whole winners are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.measure.tied_pairs import torn
from tests.traced import ruled, traced

TIED = np.array([[[1.0, 3.0, 3.0], [2.0, 5.0, 4.0]]])


def largest(x: Any) -> Any:
    return x.max(axis=-1)


def winners(x: Any) -> Any:
    return x == x.max(-1, keepdims=True)


def each_whole(held: Any, g: Any) -> Any:
    return (jnp.where(winners(held[0]), g[:, None], 0.0),)


def shared(held: Any, g: Any) -> Any:
    won = winners(held[0])
    return (jnp.where(won, g[:, None], 0.0) / won.sum(-1, keepdims=True),)


def the_first(held: Any, g: Any) -> Any:
    (x,) = held
    return (jax.nn.one_hot(x.argmax(-1), x.shape[-1]) * g[:, None],)


def nobody(held: Any, g: Any) -> Any:
    (x,) = held
    alone = winners(x).sum(-1, keepdims=True) == 1
    return (jnp.where(winners(x) & alone, g[:, None], 0.0),)


@pytest.mark.parametrize(
    ("rule", "is_torn"), [(each_whole, True), (nobody, True), (shared, False), (the_first, False)]
)
def test_what_a_rule_may_give_the_winners_of_a_tie(
    rule: Callable[[Any, Any], Any], is_torn: bool
) -> None:
    m = traced(ruled(largest, rule), TIED)
    assert (torn(m) is not None) is is_torn
    if is_torn:
        assert torn(m).component in (1, 2)


def test_where_more_than_two_tie_nothing_is_said() -> None:
    every = np.array([[[1.0, 3.0, 3.0], [5.0, 5.0, 4.0]]])
    assert torn(traced(ruled(largest, each_whole), every)) is None


def test_a_jump_is_no_tie_of_two_pieces() -> None:
    def rank(x: Any) -> Any:
        return x * (x[..., :1] > x)

    m = traced(ruled(rank, lambda held, g: (g * (held[0][..., :1] >= held[0]),)), TIED)
    assert torn(m) is None


def test_a_smooth_function_of_equal_numbers_has_no_kink() -> None:
    m = traced(ruled(lambda x: (x * x).sum(-1), lambda held, g: (3 * held[0] * g[:, None],)), TIED)
    assert torn(m) is None


def test_what_autodiff_gives_as_well_is_left_alone() -> None:
    """The larger and the smaller of two, by comparisons that both choose the first."""

    def span(x: Any) -> Any:
        a, b = x[:, 1], x[:, 2]
        return 2 * jnp.where(a >= b, a, b) + jnp.where(a <= b, a, b)

    def rule(held: Any, g: Any) -> Any:
        return jax.vjp(span, *held)[1](g)

    assert torn(traced(ruled(span, rule), TIED)) is None


@pytest.mark.parametrize(
    ("other", "is_torn"), [([0.25, 0.5], True), ([0.5, 0.5], False), ([0.0, 0.5], False)]
)
def test_where_another_argument_has_equals_or_zeros_nothing_is_said(
    other: list[float], is_torn: bool
) -> None:
    def scaled(x: Any, y: Any) -> Any:
        return largest(x) * y

    def rule(held: Any, g: Any) -> Any:
        x, y = held
        return (*each_whole([x], g * y), g * largest(x))

    m = traced(ruled(scaled, rule), TIED, np.array([other]))
    assert (torn(m) is not None) is is_torn
