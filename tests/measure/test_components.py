"""Components of a row side by side, and balls as floats."""

from __future__ import annotations

import numpy as np
from flint import arb

from gradcheck_cli.measure.components import as_floats, columns, radii


def test_all_components_of_a_row_stand_in_one_line() -> None:
    arrays = [np.arange(4.0).reshape(2, 2), np.array([8.0, 9.0])]
    assert columns(arrays, 2).tolist() == [[0, 1, 8], [2, 3, 9]]
    assert columns([], 3).shape == (3, 0)


def test_balls_as_floats() -> None:
    balls = np.array([arb(2, 0.5), arb("inf"), arb("nan"), arb(10) ** 400], object)
    assert np.array_equal(as_floats(balls), [2.0, np.inf, np.nan, np.inf], equal_nan=True)
    assert radii(balls)[0] >= 0.5
    assert radii(balls)[1:3].tolist() == [0.0, 0.0]
