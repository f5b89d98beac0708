"""The point at which eager frameworks try a call first."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.frameworks.shared.eager_subject import plain


@pytest.mark.parametrize("size", [2, 3, 4, 6, 12, 24])
def test_a_square_matrix_of_plain_numbers_has_an_inverse(size: int) -> None:
    assert np.linalg.cond(plain((size, size))) < 1e5


def test_plain_numbers_are_small_positive_and_all_different() -> None:
    numbers = plain((3, 4))
    assert len(np.unique(numbers)) == 12
    assert numbers.min() >= 0.25
    assert numbers.max() < 2
    assert plain(()).shape == ()
