"""What floats are graded against: the truth, or a wrong formula, so that one fault is told once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.grading import grades, shared
from gradcheck_cli.measure.measurements import Probe
from gradcheck_cli.subject.results import AUTO, CUSTOM, EAGER, VALUE
from tests.support import measured

POINTS = [0.5, 2.0, 3.0]


def slope(x, weight):
    return 2 * x * weight


def test_right_floats_are_fine() -> None:
    m = measured(POINTS, np.square, slope)
    assert all(grades(m, EAGER, who).fine.all() for who in (VALUE, CUSTOM, AUTO))


def test_floats_of_a_wrong_formula_are_graded_against_the_formula() -> None:
    m = measured(POINTS, np.square, slope, rule=lambda x, weight: 3 * x * weight)
    assert grades(m, EAGER, CUSTOM).fine.all()


def test_floats_that_lose_their_digits_are_seen_at_the_row() -> None:
    m = measured(
        POINTS, np.square, slope,
        floats={CUSTOM: lambda x, weight: np.where(x == 2, 1.01, 1.0) * slope(x, weight)},
    )  # fmt: skip
    graded = grades(m, EAGER, CUSTOM)
    assert graded.severity[m.row(Probe(1, BASE))] == Severity.ERROR.rank
    assert graded.severity[m.row(Probe(0, BASE))] == -1


def test_what_the_rule_alone_loses_is_not_shared_and_of_a_function_without_one_all_is() -> None:
    def lossy(x, weight):
        return np.where(x == 2, 1.01, 1.0) * slope(x, weight)

    m = measured(POINTS, np.square, slope, floats={CUSTOM: lossy})
    assert not shared(m, EAGER, CUSTOM)[m.row(Probe(1, BASE))]
    both = measured(POINTS, np.square, slope, floats={CUSTOM: lossy, AUTO: lossy})
    assert shared(both, EAGER, CUSTOM)[both.row(Probe(1, BASE))]
    floats = {EAGER: replace(both.floats[EAGER], custom=None)}
    assert shared(replace(both, floats=floats), EAGER, AUTO).all()


def test_without_a_right_digit_none_is_better() -> None:
    """However far off the rule is; but autodiff that has some digits left is."""
    far, farther, near = (
        lambda x, weight, f=factor: np.where(x == 2, f, 1.0) * slope(x, weight)
        for factor in (1.75, 5.0, 1.25)
    )
    neither = measured(POINTS, np.square, slope, floats={CUSTOM: farther, AUTO: far})
    row = neither.row(Probe(1, BASE))
    assert shared(neither, EAGER, CUSTOM)[row]
    much = measured(POINTS, np.square, slope, floats={CUSTOM: lambda x, w: np.where(x == 2, 1e6, 1.0) * slope(x, w), AUTO: far})  # fmt: skip
    assert not shared(much, EAGER, CUSTOM)[row]
    better = measured(POINTS, np.square, slope, floats={CUSTOM: farther, AUTO: near})
    assert not shared(better, EAGER, CUSTOM)[row]


def test_a_grade_is_made_once() -> None:
    m = measured(POINTS, np.square, slope)
    assert grades(m, EAGER, CUSTOM) is grades(m, EAGER, CUSTOM)
    assert grades(m, EAGER, CUSTOM) is not grades(m, EAGER, AUTO)
