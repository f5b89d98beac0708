"""Grades of single floats: what is fine, a note, a warning, an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO, Grades, grade
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from tests.measure.by_hand import reference
from tests.support import Numbers

EPS = 2.0**-23


def slope(x, weight):
    return 2 * x * weight


def bell(x, weight):
    """The derivative of a sigmoid: 2e-9 at 20."""
    return weight / (1 + np.exp(-x)) / (1 + np.exp(x))


def graded(x: float, gradient: float) -> Grades:
    return grade(reference([x], np.square, slope), [np.array([gradient])], GRADIENTS)


@pytest.mark.parametrize(
    ("gradient", "severity", "cause"),
    [
        (np.nan, Severity.ERROR, NAN),
        (np.inf, Severity.ERROR, INFINITE),
        (6 + 12 * 2 * EPS**0.5, Severity.ERROR, DIGITS),  # 12 is the local scale at 3
        (6 + 12 * 100 * EPS, Severity.WARNING, DIGITS),
        (0.0, Severity.ERROR, ZERO),
    ],
)
def test_what_a_float_deserves(gradient: float, severity: Severity, cause: str) -> None:
    grades = graded(3.0, gradient)
    assert (grades.severity[0], grades.cause[0]) == (severity.rank, cause)
    assert grades.rows(severity).tolist() == [0]


@pytest.mark.parametrize("gradient", [6.0, 6 * (1 + 3 * EPS), 6 * (1 - 4 * EPS)])
def test_rounding_is_fine(gradient: float) -> None:
    assert graded(3.0, gradient).fine.all()


def test_a_tail_that_is_lost_is_a_note() -> None:
    grades = grade(reference([20.0], np.tanh, bell), [np.array([0.0])], GRADIENTS)
    assert (grades.severity[0], grades.cause[0]) == (Severity.NOTE.rank, ZERO)


def test_float16_keeps_subnormals_so_a_lost_number_is_no_underflow() -> None:
    """`exp(x) - 1` at 4e-4, which is above the smallest normal number of float16, is 0 there."""
    x = float(np.float16(4e-4))
    near = reference([x], np.expm1, lambda x, weight: np.exp(x) * weight, "float16")
    assert grade(near, [np.array([0.0])], VALUES).cause[0] == ZERO
    assert grade(near, [np.array([np.float64(np.float16(np.expm1(x)))])], VALUES).fine.all()


def test_what_the_rounding_of_the_input_explains_is_forgiven() -> None:
    """An ulp at 1e8 is 8: any sine is that of a number nearby, and 3 is none."""
    near = reference([1e8], np.sin, lambda x, weight: np.cos(x) * weight)
    assert grade(near, [np.array([0.3])], VALUES).fine.all()
    assert not grade(near, [np.array([3.0])], VALUES).fine.all()


def test_a_truth_beyond_the_range_may_be_infinite() -> None:
    huge = reference([100.0], np.exp, lambda x, weight: np.exp(x) * weight)
    for overflow in (np.inf, -np.inf, np.nan):
        assert grade(huge, [np.array([overflow])], VALUES).fine.all()
    assert not grade(huge, [np.array([1.0])], VALUES).fine.all()


def test_a_truth_near_the_end_of_the_range_may_be_infinite() -> None:
    """What it is made of is beyond the range somewhere: |r|**19 of a truth of 2e37."""
    large = reference([2e37, 1e30], lambda x: x, lambda x, weight: weight * x)
    grades = grade(large, [np.array([np.inf, np.inf])], VALUES)
    assert grades.fine.tolist() == [True, False]


def test_digits_that_the_neighbours_lose_too_are_a_note() -> None:
    """Of sums: a mean that is off by a rounding shifts all components, as no move of the inputs does."""

    def pair(x):
        return np.stack([np.sin(x), np.ones_like(x)], axis=1)

    alone = reference([1e8], pair, slope)
    mixed = replace(alone, source=replace(alone.source, mixed=True))
    got = [np.array([[np.sin(1e8), 1.001]])]
    assert grade(alone, got, VALUES).severity[0] == Severity.ERROR.rank
    assert grade(mixed, got, VALUES).severity[0] == Severity.NOTE.rank


def test_a_rest_of_large_terms_behind_an_unresolved_exponential_is_a_note() -> None:
    class Saturated(Numbers):
        def exponents(self, points, cotangents):
            return np.full(len(points[0]), 1e8)

    flat = reference([2.0], lambda x: 5 + 0 * x, lambda x, weight: 0 * x)
    saturated = replace(flat, source=Saturated(flat.source.value, flat.source.gradient))
    rest = [np.array([1.2])]
    assert grade(flat, rest, GRADIENTS).severity[0] == Severity.ERROR.rank
    assert grade(saturated, rest, GRADIENTS).severity[0] == Severity.NOTE.rank


@pytest.mark.parametrize(
    ("rest", "severity"), [(2 * EPS / 1e-4, Severity.NOTE), (0.3, Severity.ERROR)]
)
def test_a_rest_of_two_equal_terms_is_a_note(rest: float, severity: Severity) -> None:
    """A loss from a peak that is its own trough: 1/x − x/x², each as large as where there is a loss."""
    losses = reference([1e-4, 2.0], lambda x: np.where(x > 1, 1 - 1 / x, 0), lambda x, w: 0 * x)
    grades = grade(losses, [np.array([rest, 0.0])], GRADIENTS)
    assert grades.severity.tolist() == [severity.rank, -1]


@pytest.mark.parametrize(("rest", "severity"), [(EPS, Severity.NOTE), (0.3, Severity.ERROR)])
def test_rounding_where_the_truth_is_0_all_around_stands_beside_what_is_usual(
    rest: float, severity: Severity
) -> None:
    """An index of inequality among equal incomes: 1 − 1."""
    index = reference([1e-4, 2.0], lambda x: np.where(x > 1, 1 - 1 / x, 0), lambda x, w: 0 * x)
    grades = grade(index, [np.array([rest, 0.5])], VALUES)
    assert grades.severity.tolist() == [severity.rank, -1]
