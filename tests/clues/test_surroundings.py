"""Dimensions of the arrays that a function refers to."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.clues.surroundings import sizes

WEIGHT = np.ones((5, 7))


class Layer:
    def __init__(self) -> None:
        self.kernel = np.ones((9, 1))

    def __call__(self, x):
        return x @ self.kernel


def test_globals_closures_and_objects_have_dimensions() -> None:
    bias = np.ones(6)
    assert sizes(lambda x: x @ WEIGHT) == [5, 7]
    assert sizes(lambda x: x + bias) == [6]
    assert sizes(Layer().__call__) == [9]


def test_each_dimension_counts_once_and_only_a_few() -> None:
    many = np.ones((2, 3, 2, 4, 5, 6))
    assert sizes(lambda x: x + many) == [2, 3, 4, 5]


def test_a_function_without_surroundings_has_none() -> None:
    assert sizes(np.tanh) == []
