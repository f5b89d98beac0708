"""A term or a factor at the wrong place is named by the expression that it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.judge.diagnose.parts import Part
from gradcheck_cli.judge.diagnose.terms import terms
from tests.judge.diagnose.by_hand import balls, case, fitting

TRUTH = np.array([10.0, 28.0, 45.0])
STEP = np.array([2.0, 7.0, 9.0])
STEPS = [Part("`step(x)` (line 3)", balls(STEP))]


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (TRUTH - STEP, "a term is missing, what comes through `step(x)` (line 3)"),
        (STEP, "it stops at `step(x)` (line 3): the way on from there is missing"),
        (TRUTH - 2 * STEP, "a term is missing or has the wrong sign, what comes through `step(x)` (line 3)"),
        (TRUTH + STEP, "a term is there twice, what comes through `step(x)` (line 3)"),
        (TRUTH / STEP, "a factor is missing: `step(x)` (line 3)"),
        (TRUTH * STEP, "a factor is too much: `step(x)` (line 3)"),
    ],
)  # fmt: skip
def test_the_part_is_named(formula: Any, text: str) -> None:
    sum_of_parts = case(TRUTH)
    assert fitting(terms(sum_of_parts, STEPS), sum_of_parts, formula) == [text]


@pytest.mark.parametrize("formula", [TRUTH, TRUTH + 3 * STEP, TRUTH * STEP * STEP])
def test_what_a_single_part_does_not_explain_gets_no_words(formula: Any) -> None:
    sum_of_parts = case(TRUTH)
    assert fitting(terms(sum_of_parts, STEPS), sum_of_parts, formula) == []


def test_a_constant_is_no_part() -> None:
    assert list(terms(case(TRUTH), [Part("2", balls([2.0, 2.0, 2.0]))])) == []


def test_a_factor_that_is_zero_somewhere_is_not_divided_by() -> None:
    texts = [idea.text for idea in terms(case(TRUTH), [Part("`x`", balls([0.0, 1.0, 2.0]))])]
    assert "a factor is missing: `x`" not in texts
    assert "a factor is too much: `x`" in texts


def test_one_number_a_row_goes_with_each_element_of_a_vector() -> None:
    vectors = case(np.array([[10.0, 20.0], [30.0, 40.0]]))
    per_row = [Part("`norm`", balls([2.0, 5.0]))]
    formula = [[5.0, 10.0], [6.0, 8.0]]
    assert fitting(terms(vectors, per_row), vectors, formula) == ["a factor is missing: `norm`"]


def test_a_part_of_another_shape_is_left_out() -> None:
    assert list(terms(case(TRUTH), [Part("`m`", balls(np.ones((3, 2))))])) == []
