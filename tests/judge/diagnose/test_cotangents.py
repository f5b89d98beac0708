"""A cotangent that is used in part, or in another form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.judge.diagnose.cotangents import cotangents
from tests.judge.diagnose.by_hand import Array, case, fitting

POINTS = np.array([[2.0, 3.0], [5.0, 7.0], [11.0, 13.0]])
WEIGHTS = np.array([[3.0, -0.5], [-2.0, 4.0], [0.25, -8.0]])


def of_square(points: Sequence[Array], weights: Sequence[Array]) -> Any:
    """The truth for x², element by element."""
    return 2 * points[0] * weights[0]


def of_pair(points: Sequence[Array], weights: Sequence[Array]) -> Any:
    """The truth for the outputs x² and 3x."""
    return 2 * points[0] * weights[0] + 3 * weights[1]


def row_wise(numbers: Array) -> Array:
    return numbers + 0 * WEIGHTS


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (np.ones_like, "the cotangent is not used: it is taken as 1"),
        (np.square, "the cotangent is squared"),
        (np.abs, "only the size of the cotangent is used, not its sign"),
        (np.sign, "only the sign of the cotangent is used"),
        (lambda ct: np.clip(ct, -1, 1), "the cotangent is clipped to [-1, 1]"),
        (lambda ct: row_wise(ct[:, :1]), "only the first element of the cotangent is used"),
        (lambda ct: row_wise(ct.sum(1, keepdims=True)), "the sum of the cotangent is used for each of its elements"),
        (lambda ct: row_wise(ct.mean(1, keepdims=True)), "the mean of the cotangent is used for each of its elements"),
    ],
)  # fmt: skip
def test_another_form_of_the_cotangent_is_named(form: Callable[[Array], Array], text: str) -> None:
    square = case(of_square([POINTS], [WEIGHTS]), points=[POINTS], cotangents=[WEIGHTS])
    formula = of_square([POINTS], [form(WEIGHTS)])
    assert fitting(cotangents(square), square, formula, of_square) == [text]


@pytest.mark.parametrize(
    ("used", "text"),
    [
        ((0, 1), "the cotangent of output 0 is ignored"),
        ((1, 0), "the cotangent of output 1 is ignored"),
    ],
)
def test_an_output_without_its_cotangent_is_named(used: tuple[int, int], text: str) -> None:
    weights = [WEIGHTS, WEIGHTS[::-1] + 1]
    pair = case(of_pair([POINTS], weights), points=[POINTS], cotangents=weights)
    formula = of_pair([POINTS], [w * u for w, u in zip(weights, used, strict=True)])
    assert fitting(cotangents(pair), pair, formula, of_pair) == [text]


def test_cotangents_that_are_exchanged_are_named() -> None:
    weights = [WEIGHTS, WEIGHTS[::-1] + 1]
    pair = case(of_pair([POINTS], weights), points=[POINTS], cotangents=weights)
    formula = of_pair([POINTS], weights[::-1])
    text = "the cotangents of the two outputs are exchanged"
    assert fitting(cotangents(pair), pair, formula, of_pair) == [text]


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_cotangent_that_is_used_as_it_is_says_nothing(factor: float) -> None:
    square = case(of_square([POINTS], [WEIGHTS]), points=[POINTS], cotangents=[WEIGHTS])
    formula = factor * of_square([POINTS], [WEIGHTS])
    assert fitting(cotangents(square), square, formula, of_square) == []


def test_of_a_single_output_none_can_be_ignored() -> None:
    texts = [idea.text for idea in cotangents(case(POINTS, points=[POINTS], cotangents=[WEIGHTS]))]
    assert not [text for text in texts if "ignored" in text or "exchanged" in text]
