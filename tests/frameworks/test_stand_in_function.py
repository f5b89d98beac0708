"""What stands for a function that a factory takes."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.frameworks.shared.stand_in_function import stand_in_function

made_up = stand_in_function(np.tanh, np.mean)
X = np.array([0.5, -1.0])


def test_of_one_argument_it_is_tanh_itself() -> None:
    assert made_up.__name__ == "tanh"
    assert np.array_equal(made_up(X), np.tanh(X))


def test_of_several_it_gives_back_what_has_axes() -> None:
    time, parameters = np.array(0.25), {"w": np.ones((3, 2)), "b": np.zeros(())}
    assert made_up(time, X, parameters).shape == X.shape
    assert made_up(X, parameters).shape == X.shape


def test_it_is_a_contraction_that_increases_and_depends_on_the_others() -> None:
    step = (made_up(X + 1e-6, np.array(2.0)) - made_up(X, np.array(2.0))) / 1e-6
    assert ((step > 0) & (step < 1)).all()
    assert (made_up(X, np.array(2.0)) != made_up(X, np.array(2.5))).all()


def test_a_state_may_be_a_tree() -> None:
    first, second = made_up((X, X[:1]), np.array(1.0))
    assert (first.shape, second.shape) == ((2,), (1,))
