"""The truth around a point: its range and its scale."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.reference import _jumps, _scaled
from gradcheck_cli.reals.balls.balls import exact
from tests.measure.by_hand import reference

ROW = np.array([0])


def test_the_scale_is_the_largest_number_nearby() -> None:
    square = reference([3.0], np.square, lambda x, weight: 2 * x * weight)
    assert square.scale(ROW, VALUES).tolist() == [36.0]
    assert square.scale(ROW, GRADIENTS).tolist() == [12.0]


def test_at_zero_the_neighbourhood_is_not_zero() -> None:
    line = reference([0.0], lambda x: 3 * x, lambda x, weight: 3 * weight)
    assert line.scale(ROW, VALUES)[0] > 0


def test_the_elements_of_what_is_zero_go_different_ways() -> None:
    difference = reference(np.zeros((1, 2)), lambda x: x[:, :1] - x[:, 1:], lambda x, weight: 0 * x)
    assert difference.scale(ROW, VALUES)[0] > 0.01


def test_beside_one_tiny_element_zeros_go_their_own_way_only_where_all_are_summed() -> None:
    tiny = np.array([[1e-6, 0.0, 0.0]])
    assert _scaled(tiny, 2.0, mixed=False).tolist() == [[2e-6, 0.0, 0.0]]
    assert (np.abs(_scaled(tiny, 2.0, mixed=True)[0, 1:]) > 0.1).all()
    assert _scaled(tiny, 1.0, mixed=True).tolist() == tiny.tolist()


def test_a_gradient_that_is_always_zero_is_measured_beside_the_value() -> None:
    constant = reference([2.0], lambda x: 5 + 0 * x, lambda x, weight: 0 * x)
    assert constant.scale(ROW, GRADIENTS).tolist() == [2.5]


def test_at_zero_a_gradient_that_is_always_zero_is_measured_beside_the_value_too() -> None:
    constant = reference([0.0], lambda x: 5 + 0 * x, lambda x, weight: 0 * x)
    assert constant.scale(ROW, GRADIENTS).tolist() == [5.0]


def test_one_large_number_of_many_is_not_the_size_of_the_others() -> None:
    many = np.array([[1e9, *np.linspace(1.5, 2.5, 8)]])
    kept = reference(many, lambda x: 1e9 + 0 * x, lambda x, weight: 0 * x)
    assert 4e8 < kept.scale(ROW, GRADIENTS)[0] < 1e9
    two = reference(many[:, :2], lambda x: 1e9 + 0 * x, lambda x, weight: 0 * x)
    assert two.scale(ROW, GRADIENTS).tolist() == [1.0]


def test_the_range_is_that_of_inputs_a_few_roundings_away() -> None:
    sine = reference([1.0, 1e8], np.sin, lambda x, weight: np.cos(x) * weight)
    low, high = sine.hull(np.array([0, 1]), VALUES, 0)
    assert 0 < high[0] - low[0] < 1e-6
    assert high[1] - low[1] > 1


def test_more_moves_never_make_the_range_narrower() -> None:
    sine = reference([1e4], np.sin, lambda x, weight: np.cos(x) * weight)
    few, many = (sine.hull(ROW, VALUES, level) for level in (0, 1))
    assert many[0] <= few[0] <= few[1] <= many[1]


def test_a_jump_between_the_moves_has_gradients_as_large_as_itself() -> None:
    def step(x):
        return np.sign(x - 1)

    jump = reference([1.0, 3.0], step, lambda x, weight: 0 * x * weight)
    low, high = jump.hull(np.array([0, 1]), GRADIENTS, 0)
    assert high[0] > 1e5  # two, over a few roundings of one
    assert low[0] < -1e5
    assert (low[1], high[1]) == (0, 0)


def test_a_change_that_the_gradients_explain_is_no_jump() -> None:
    steep = reference([1.0], lambda x: 1e9 * x, lambda x, weight: 1e9 * weight)
    low, high = steep.hull(ROW, GRADIENTS, 0)
    assert high[0] - low[0] < 1e-3


def test_of_a_sample_of_the_components_no_jump_is_known() -> None:
    shape, moves = (8, 2), 8
    few = Truth([exact(np.zeros(shape))], [exact(np.zeros((8, 1)))], [], [])
    room = _jumps(few, [np.ones((8, 40_000))], [np.ones((8, 1))], moves)
    assert room.tolist() == [[0.0]]
