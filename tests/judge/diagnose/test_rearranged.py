"""The right numbers in the wrong places."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.judge.diagnose.rearranged import rearranged
from tests.judge.diagnose.by_hand import Array, case, fitting

MATRICES = np.array([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]] * 2)
VECTORS = np.array([[1.0, 2.0, 3.0, 5.0], [2.0, 3.0, 5.0, 9.0]])


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (MATRICES.swapaxes(1, 2), "it is the truth transposed"),
        (MATRICES[:, ::-1], "it is the truth in reversed order along axis 0"),
        (MATRICES[:, :, ::-1], "it is the truth in reversed order along axis 1"),
        (np.roll(MATRICES, 1, 2), "it is the truth shifted by one along axis 1"),
        (MATRICES.sum(1, keepdims=True) + 0 * MATRICES, "it is the truth summed along axis 0 and spread again"),
    ],
)  # fmt: skip
def test_a_matrix_that_is_rearranged_is_told_how(formula: Array, text: str) -> None:
    of_matrix = case(MATRICES)
    assert fitting(rearranged(of_matrix), of_matrix, formula) == [text]


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (VECTORS[:, ::-1], "it is the truth in reversed order"),
        (np.roll(VECTORS, 1, 1), "it is the truth shifted by one"),
        (np.roll(VECTORS, -1, 1), "it is the truth shifted by one"),
        (VECTORS.sum(1, keepdims=True) + 0 * VECTORS, "it is the truth summed and spread again"),
    ],
)
def test_of_a_vector_no_axis_is_named(formula: Array, text: str) -> None:
    of_vector = case(VECTORS)
    assert fitting(rearranged(of_vector), of_vector, formula) == [text]


@pytest.mark.parametrize("formula", [VECTORS, 2 * VECTORS, VECTORS[:, [1, 0, 3, 2]]])
def test_other_numbers_or_another_order_are_another_fault(formula: Array) -> None:
    of_vector = case(VECTORS)
    assert fitting(rearranged(of_vector), of_vector, formula) == []


def test_a_scalar_cannot_be_rearranged() -> None:
    assert list(rearranged(case([1.0, 2.0, 3.0]))) == []


def test_a_matrix_that_is_not_square_is_not_transposed() -> None:
    texts = [idea.text for idea in rearranged(case(MATRICES[:, :2]))]
    assert "it is the truth transposed" not in texts
