"""The right formula of the wrong number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from flint import arb

from gradcheck_cli.judge.diagnose.residuals import residuals
from tests.judge.diagnose.by_hand import Array, balls, case, fitting

X, Y = np.array([-2.0, 3.0, -5.0]), np.array([7.0, -11.0, 13.0])
VALUES = X * X * Y


def of_x(points: Sequence[Array], weights: Sequence[Array]) -> Any:
    """The truth for d/dx of x²·y + x."""
    return 2 * points[0] * points[1] + 1


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ((np.abs(X), Y), "it is the truth at |x|"),
        ((X, np.abs(Y)), "it is the truth at |y|"),
        ((VALUES, Y), "it is the truth at the output instead of x"),
        ((X, VALUES), "it is the truth at the output instead of y"),
    ],
)
def test_the_wrong_number_is_named(points: Sequence[Array], text: str) -> None:
    product = case(of_x([X, Y], []), X, points=[X, Y], values=[VALUES])
    assert fitting(residuals(product), product, of_x(points, []), of_x) == [text]


def test_arguments_that_are_exchanged_are_named() -> None:
    def truth(points: Sequence[Array], weights: Sequence[Array]) -> Any:
        return points[0] - 3 * points[1]

    product = case(truth([X, Y], []), X, points=[X, Y], values=[VALUES])
    text = "it is the truth with x and y exchanged"
    assert fitting(residuals(product), product, truth([Y, X], []), truth) == [text]


@pytest.mark.parametrize("points", [(X, Y), (-X, Y), (X, 2 * Y)])
def test_the_right_number_and_others_say_nothing(points: Sequence[Array]) -> None:
    product = case(of_x([X, Y], []), X, points=[X, Y], values=[VALUES])
    assert fitting(residuals(product), product, of_x(points, []), of_x) == []


def test_an_output_without_a_number_is_no_candidate() -> None:
    infinite = balls(VALUES)
    infinite[0] = arb("inf")
    product = case(of_x([X, Y], []), X, points=[X, Y], values=[infinite])
    assert not [idea.text for idea in residuals(product) if "output" in idea.text]
