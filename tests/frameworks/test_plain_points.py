"""The points at which eager frameworks try a call first."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.frameworks.shared.plain_points import other_turn, plain
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.project.input_specs import Bounds
from gradcheck_cli.subject.results import Array


def numbers(*shape: int) -> Array:
    return plain(Leaf("x", shape, "test"))


@pytest.mark.parametrize("size", [2, 3, 4, 6, 12, 24])
def test_a_square_matrix_of_plain_numbers_has_an_inverse(size: int) -> None:
    assert np.linalg.cond(numbers(size, size)) < 1e5


def test_plain_numbers_are_small_positive_and_all_different() -> None:
    plain_ones = numbers(3, 4)
    assert len(np.unique(plain_ones)) == 12
    assert plain_ones.min() >= 0.25
    assert plain_ones.max() < 2
    assert numbers().shape == ()


def test_other_turns_have_both_signs_or_one_and_keep_to_the_domain() -> None:
    positive = Domain(Bounds(low=0.0, low_open=True, text="> 0"))
    free = [plain(Leaf("x", (20,), "test"), turn) for turn in range(1, 9)]
    bound = [plain(Leaf("x", (20,), "test", domain=positive), turn) for turn in range(1, 9)]
    assert {bool((row < 0).any()) for row in free} == {True, False}
    assert all((row > 0).all() for row in bound)


def test_only_what_is_said_of_numbers_asks_for_others() -> None:
    assert other_turn(RuntimeError("Input matrix is not invertible."), 0) == 1
    assert other_turn(RuntimeError("Input matrix is not invertible."), 8) is None
    assert other_turn(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), 0) is None
