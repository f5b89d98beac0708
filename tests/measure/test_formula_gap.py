"""Formula beside truth: where they are apart, by how much, and whether only at points."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb

from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.formula_gap import comparison, gaps, only_at_points, ratio, value_differs
from gradcheck_cli.measure.measurements import Probe
from tests.support import measured
from tests.traced import ruled, traced

POINTS = [0.0, 1.0, 2.0, -3.0]
ALL = slice(0, 1)


def slope(x, weight):
    return 2 * x * weight


def test_a_right_formula_differs_nowhere() -> None:
    m = measured(POINTS, np.square, slope)
    assert not comparison(m).differs.any()
    assert not gaps(m).any()


def test_a_wrong_formula_differs_by_its_share_of_the_scale() -> None:
    m = measured(POINTS, np.square, slope, rule=lambda x, weight: 3 * x * weight)
    facts = comparison(m)
    row = m.row(Probe(2, BASE))
    assert facts.differs[row, 0]
    assert gaps(m)[row, 0] == pytest.approx(
        4 / 9
    )  # x beside 2.25x: between 1.5x at ¾ and 3x at 3/2
    assert not facts.differs[m.row(Probe(0, BASE)), 0], "at 0 both are 0"


def test_a_steep_neighbourhood_hides_no_fault() -> None:
    """At a sixteenth of x the gradient of x⁻¹² is 16¹³ as large: beside that, all of it is rounding."""
    points = np.array([0.5, 1.0, 2.0])
    m = measured(
        points, lambda x: x**-12, lambda x, weight: -12 * x**-13 * weight,
        rule=lambda x, weight: -6 * x**-13 * weight,
    )  # fmt: skip
    assert (gaps(m)[m.base_rows, 0] > 0.01).all()


def test_an_argument_of_small_gradients_is_measured_by_these() -> None:
    """A volume hangs on a temperature by 1, on a pressure by 2⁻⁴⁰: half of that is no rounding of the other."""

    def volume(t, p):
        return t - 2.0**-40 * p

    def rule(held, g):
        return g, -(2.0**-41) * g

    m = traced(ruled(volume, rule), np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert gaps(m)[m.base_rows].max(axis=0).tolist() == [0.0, 0.5]


def test_one_of_nearly_their_size_is_not() -> None:
    def both(t, p):
        return t - 0.125 * p

    def rule(held, g):
        return g, -0.0625 * g

    m = traced(ruled(both, rule), np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert 0 < gaps(m)[m.base_rows, 1].max() < 0.25


def test_a_derivative_that_is_zero_wherever_it_was_compared() -> None:
    m = measured(POINTS, np.ones_like, lambda x, weight: 0 * weight, rule=slope)
    assert comparison(m).zero_truth.all()


def test_a_fault_of_one_point_is_told_from_one_of_many() -> None:
    def patched(x, weight):
        return np.where(x == 0, 7.0, slope(x, weight))

    for rule, only in ((patched, True), (lambda x, weight: slope(x, weight) + 7, False)):
        m = measured(POINTS, np.square, slope, rule=rule)
        assert only_at_points(m, [m.row(Probe(0, BASE))], ALL) is only


def test_the_first_row_with_another_value() -> None:
    m = measured(POINTS, np.square, slope, rule_value=lambda x: np.where(x < 0, 8.0, x * x))
    row, component = value_differs(m) or (-1, -1)
    assert (m.points[0][row], component) == (-3.0, 0)
    assert value_differs(measured(POINTS, np.square, slope)) is None


def test_a_constant_factor_is_the_ratio() -> None:
    truth = [arb(1), arb(0), arb(-3)]
    assert ratio(truth, [arb(2), arb(0), arb(-6)]) == 2
    assert ratio(truth, [arb(2), arb(5), arb(-6)]) is None
    assert ratio(truth, [arb(2), arb(0), arb(-7)]) is None
    assert ratio(truth[:1], [arb(2)]) is None, "one number has a ratio by accident"


def test_what_is_wrong_at_a_number_of_its_own_beside_arrays_is_compared_there() -> None:
    """A power that is a logarithm at 0: the rule forgets what the other branch has."""

    def mean(x, q):
        safe = jnp.where(q == 0, 1.0, q)
        powers = jnp.where(q == 0, jnp.log(x), (x**safe - 1) / safe)
        return powers.sum()

    def rule(inputs, ct):
        x, q = inputs
        _, back = jax.vjp(mean, x, q)
        by_x, by_q = back(ct)
        half_log = 0.5 * jnp.sum(jnp.log(x) ** 2)
        return jnp.where(q == 0, 2.0, 1.0) * by_x, jnp.where(q == 0, half_log, by_q)

    points = np.array([[1.0, 2.0, 3.0, 5.0, 0.5]] * 2), np.array([0.0, 0.5])
    facts = comparison(traced(ruled(mean, rule), *points, kinks=True, ran=True))
    assert facts.differs[0, :5].all()  # twice the derivative, at 0 alone
    assert not facts.differs[0, 5]  # where autodiff of the branch is 0, and the limit is not
    assert not facts.differs[1].any()
