"""`expect(manifold: q)`: the gradient projected on unit vectors, or on symmetric matrices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import POLE
from tests.support import IN_BALLS, Numbers, declare, measured, mismatch, texts

UNIT = [[1.0, 0, 0], [0, -1.0, 0], [0, 0, 1.0], [0.5, 0.5, 0.5], [3.0, -4.0, 2.0]]
SYMMETRIC = [[[1.0, 2.0], [2.0, 3.0]], [[0, 0.5], [0.5, 1]], [[2.0, -1], [-1, 4]]]
WEIGHTS = np.array([2.0, 3.0, 5.0])
MATRIX = np.array([[1.0, 2.0], [5.0, 3.0]])


def linear(points, factors, rule) -> Measurements:
    """Each element times a factor; the rule is one of the point and the true gradient."""
    return measured(
        {"q": points},
        lambda q: q * factors,
        lambda q, weight: factors * weight,
        rule=lambda q, weight: rule(q, factors * weight),
        truth=IN_BALLS,
    )


def tangential(q, truth):
    return truth - (q * truth).sum(axis=-1, keepdims=True) * q


def symmetric(q, truth):
    return (truth + np.swapaxes(truth, -1, -2)) / 2


def doubled(q, truth):
    return 2 * truth


def off_the_sphere(q, truth):
    """What is taken away points outwards, and is not all of what does."""
    return truth - (q * truth).sum(axis=-1, keepdims=True) * q / 2


def test_a_projection_on_unit_vectors_is_explained() -> None:
    assert declare(linear(UNIT, WEIGHTS, tangential), "manifold", "q") == []


def test_a_projection_on_symmetric_matrices_is_explained() -> None:
    assert declare(linear(SYMMETRIC, MATRIX, symmetric), "manifold", "q") == []


@pytest.mark.parametrize("rule", [doubled, off_the_sphere])
def test_what_is_no_projection_is_broken(rule) -> None:
    left = declare(linear(UNIT, WEIGHTS, rule), "manifold", "q")
    assert texts(left) == [
        ("gradient-mismatch", "it is wrong"),
        (
            "broken-intent",
            "`expect(manifold: q)` does not hold: at q = [1, 0, 0] the gradient is no projection "
            "of the truth (on unit vectors, or on symmetric matrices)",
        ),
    ]


def test_where_the_gradient_is_known_at_too_few_points_it_is_inconclusive() -> None:
    m = measured(
        {"q": UNIT}, lambda q: q, lambda q, weight: weight, truth=partial(Numbers, states=dict.fromkeys((0.0, 0.5, 1.0, 3.0), POLE))
    )  # fmt: skip
    assert texts(declare(m, "manifold", "q")) == [
        (
            "inconclusive-gradient",
            "whether `expect(manifold: q)` holds could not be told: at only 0 probes the gradient "
            "of `q` is known",
        )
    ]


def test_a_number_has_nothing_to_project_and_nothing_is_explained() -> None:
    m = measured([1.0, 2.0, 3.0], lambda x: x * x, lambda x, weight: 2 * x * weight)
    assert declare(m, "manifold", "x") == [mismatch()]


def test_an_argument_that_is_not_differentiated_is_broken() -> None:
    (_, broken) = declare(linear(UNIT, WEIGHTS, tangential), "manifold", "p")
    assert "there is no argument `p` that is differentiated" in broken.message


def test_the_argument_is_offered() -> None:
    assert comment_for(mismatch(), linear(UNIT, WEIGHTS, tangential)) == "expect(manifold: q)"
    assert comment_for(mismatch(), linear(UNIT, WEIGHTS, off_the_sphere)) is None
