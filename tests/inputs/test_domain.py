"""Numbers moved into families of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.project.input_specs import condition

F32 = format_of("float32")


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [3.0, 1.0, 3.0], [-1e3, 5.0, 5.0]])
def test_increasing_numbers_have_no_ties(row: list[float]) -> None:
    (moved,) = Domain(condition("x in increasing")[1]).into(np.array([row]), F32)
    assert (np.diff(moved) > 0).all()


def test_sorted_numbers_may_have_ties() -> None:
    (moved,) = Domain(condition("x in sorted")[1]).into(np.array([[3.0, 1.0, 3.0]]), F32)
    assert moved.tolist() == [1.0, 3.0, 3.0]


def test_the_first_corner_of_a_box_lies_below_the_second() -> None:
    rows = np.array([[3.0, 1.0, -2.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    moved = Domain(condition("x in boxes")[1]).into(rows, F32)
    assert moved[0].tolist() == [-2.0, 1.0, 3.0, 4.0]
    assert (moved[1, :2] < moved[1, 2:]).all()


def test_a_nonzero_number_is_one_where_it_was_zero() -> None:
    moved = Domain(condition("x in nonzero")[1]).into(np.array([0.0, -2.0]), F32)
    assert moved.tolist() == [1.0, -2.0]
