"""The family that recorded numbers are of, where that is no accident."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.record.encode import structure_of


@pytest.mark.parametrize(
    ("numbers", "family"),
    [
        (np.full((3, 4), 0.25), "simplex"),
        (np.array([0.0, 1, 1, 0, 1, 0, 0, 1]), "binary"),
        (np.eye(3)[[1, 2, 0]] * -1.0, "orthogonal"),
        (np.eye(3) + 0.5, "spd"),
        (np.array([[0.6, -0.8]] * 4), "unit"),
        (np.linspace(-1, 1, 12), None),
        (np.array([1.0, 0.0]), None),
        (np.ones(16), "binary"),
    ],
)
def test_structure_that_is_no_accident(numbers: np.ndarray, family: str | None) -> None:
    assert structure_of(numbers) == family
