"""Traces that are not what runs."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.untrue_trace import untrue_primal, untrue_rule
from tests.support import measured
from tests.traced import traced

POINTS = [0.0, 1.0, 2.0, -3.0, 0.5, 100.0]


def slope(x, weight):
    return 2 * x * weight


def other(x, weight):
    return 3 * x * weight


def test_a_wrong_rule_is_what_runs() -> None:
    assert not untrue_rule(measured(POINTS, np.square, slope, rule=other))


def test_a_program_whose_floats_are_right_is_not_what_runs() -> None:
    assert untrue_rule(measured(POINTS, np.square, slope, rule=other, floats={"custom": slope}))


def test_floats_that_are_right_at_some_points_only_prove_nothing() -> None:
    def now_and_then(x, weight):
        return np.where(x == 2, slope(x, weight), other(x, weight))

    m = measured(POINTS, np.square, slope, rule=other, floats={"custom": now_and_then})
    assert not untrue_rule(m)


def test_a_program_of_other_values_is_not_what_runs() -> None:
    assert untrue_primal(measured(POINTS, np.square, slope, floats={"primal": np.abs}))
    assert not untrue_primal(measured(POINTS, np.square, slope))


def test_a_value_that_is_lost_at_some_points_is_what_runs() -> None:
    def lost(x):
        return np.where(np.abs(x) >= 2, 0.0, x * x)

    assert not untrue_primal(measured(POINTS, np.square, slope, floats={"primal": lost}))


def test_one_argument_alone_shows_it() -> None:
    def product(x, y):
        return x * y

    def right(x, y, weight):
        return y * weight, x * weight

    def elsewhere(x, y, weight):  # the second is wrong in what runs, too
        return 2 * y * weight, 0 * x * weight

    def run(x, y, weight):
        return y * weight, 0 * x * weight

    points = {"x": [1.0, 2.0, -3.0, 0.5], "y": [2.0, 3.0, 5.0, 7.0]}
    assert untrue_rule(measured(points, product, right, rule=elsewhere, floats={"custom": run}))
    assert not untrue_rule(measured(points, product, right, rule=elsewhere))


def test_rows_of_zeros_do_not_hide_it() -> None:
    empty, full = np.zeros((9, 3)), np.arange(1.0, 13.0).reshape(4, 3) / 4
    rows = np.concatenate([empty, full])
    turned = measured(rows, lambda x: x, lambda x, w: w, floats={"primal": lambda x: x[:, ::-1]})
    assert untrue_primal(turned)


def test_what_loses_its_digits_is_what_runs_all_the_same() -> None:
    """log(cosh(x)) of small numbers has no digit left in float32, and some in float64."""
    points = np.array([1e-4, -2e-4, 3e-5, 1e-5, 2.0])
    m = traced(lambda x: jnp.log(jnp.cosh(x)), points, ran=True)
    assert not untrue_primal(m)


def test_what_float64_loses_as_well_is_what_runs_all_the_same() -> None:
    """`1 - exp(-x)` of numbers beside which 1 has no digits left, in any float."""
    points = np.array([1.0, 2.0, 3.0, 0.5, 0.75, 1.5])
    m = traced(lambda x: 1 - jnp.exp(-x * 2.0**-60), points, ran=True)
    assert not untrue_primal(m)
