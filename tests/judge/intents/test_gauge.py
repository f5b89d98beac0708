"""`expect(gauge)`: right for losses that do not see how columns or rows are scaled or turned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.judge.intents import gauge
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.judge.intents.gauge import _finds_a_basis, _turned_in_pairs
from gradcheck_cli.measure.measurements import Measurements
from tests.support import IN_BALLS, declare, measured, mismatch, texts
from tests.traced import ruled, traced

COLUMNS = [[[1.0, 2.0], [0.5, 1.0]], [[0.0, 1.0], [2.0, -1.0]], [[3.0, 1.0], [1.0, 0.5]]]
TALL = [[[1.0, 0], [0, 1], [0, 0]], [[0, 1.0], [0, 0], [1, 0]], [[0, 0], [-1.0, 0], [0, 1]]]


def transposed(a):
    return np.swapaxes(a, -1, -2)


def antisymmetric(a):
    return (a - transposed(a)) / 2


def off_its_line(a, weight):
    """The gradient of a loss that takes each column's direction alone."""
    return weight - a * ((a * weight).sum(axis=-2, keepdims=True) / (a * a).sum(axis=-2, keepdims=True))  # fmt: skip


def off_turns(a, weight):
    return weight - a @ antisymmetric(transposed(a) @ weight)


def off_turns_of_rows(a, weight):
    return transposed(off_turns(transposed(a), transposed(weight)))


def as_given(points, rule) -> Measurements:
    """A matrix that is handed on: its true gradient is the cotangent."""
    return measured(
        {"a": points}, lambda a: 1 * a, lambda a, weight: 1 * weight, rule=rule, truth=IN_BALLS
    )


def pair(rule) -> Measurements:
    """Two factors that are handed on: u, and vh as rows."""
    return measured(
        {"u": TALL, "vh": np.swapaxes(TALL[::-1], 1, 2)},
        lambda u, vh: (1 * u, 1 * vh),
        lambda u, vh, cu, cv: (1 * cu, 1 * cv),
        rule=rule,
        truth=IN_BALLS,
    )


def off_common_turns(u, vh, cu, cv):
    turn = antisymmetric(transposed(u) @ cu - cv @ transposed(vh)) / 2
    return cu - u @ turn, cv + turn @ vh


@pytest.mark.parametrize(
    ("points", "rule"),
    [
        (COLUMNS, off_its_line),
        (TALL, off_turns),
        (np.swapaxes(TALL, 1, 2), off_turns_of_rows),
    ],
)
def test_what_such_a_loss_does_not_see_may_be_missing(points, rule: Callable[..., object]) -> None:
    assert declare(as_given(points, rule), "gauge") == []


def test_two_factors_turn_together() -> None:
    assert declare(pair(off_common_turns), "gauge") == []
    alone = pair(lambda u, vh, cu, cv: (2 * cu, 1 * cv))
    assert [f.rule for f in declare(alone, "gauge")] == ["gradient-mismatch", "broken-intent"]


def test_twice_the_gradient_is_broken() -> None:
    assert texts(declare(as_given(COLUMNS, lambda a, weight: 2 * weight), "gauge")) == [
        ("gradient-mismatch", "it is wrong"),
        (
            "broken-intent",
            "`expect(gauge)` does not hold: at a = [[1, 2], [0.5, 1]], and for losses that "
            "do not see how columns or rows are turned or scaled, the gradient is still not the "
            "truth's, or they do not see the argument at all",
        ),
    ]


def test_few_points_are_inconclusive() -> None:
    (doubt,) = declare(as_given(COLUMNS[:2], off_its_line), "gauge")
    assert doubt.rule == "inconclusive-gradient"
    assert "could not be told: at only 2 points the gradient is known" in doubt.message


def test_floats_are_inconclusive() -> None:
    m = as_given(COLUMNS, off_its_line)
    of_floats = dataclasses.replace(m, sources=dataclasses.replace(m.sources, reason="no program"))
    (doubt,) = declare(of_floats, "gauge")
    assert "its law is one over the reals, and there the rule was not judged" in doubt.message
    assert comment_for(mismatch(), of_floats) is None


def test_without_a_matrix_nothing_is_explained() -> None:
    m = measured([1.0, 2.0, 3.0], lambda x: x * x, lambda x, weight: 2 * x * weight)
    assert declare(m, "gauge") == [mismatch()]


def test_it_is_offered_where_a_basis_is_found_and_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        comment_for(mismatch(), as_given(COLUMNS, off_its_line)) is None
    )  # a slip may do the same
    frames, squares = (
        traced(ruled(f, lambda a, ct: (ct,)), np.array(COLUMNS), names=("a",))
        for f in (lambda a: jnp.linalg.eigh(a)[1], lambda a: a @ a)
    )
    assert (_finds_a_basis(frames), _finds_a_basis(squares)) == (True, False)
    monkeypatch.setattr(gauge, "_finds_a_basis", lambda m: True)
    assert comment_for(mismatch(), as_given(COLUMNS, off_its_line)) == "expect(gauge)"
    assert comment_for(mismatch(), as_given(COLUMNS, lambda a, weight: 2 * a * weight)) is None


def test_stacks_of_other_lengths_are_no_two_factors() -> None:
    stacks = [np.ones((2, 2, 3, 2)), np.ones((2, 2, 3))]
    turned = _turned_in_pairs(stacks, stacks)
    assert all(np.array_equal(a, b) for a, b in zip(turned, stacks, strict=True))
