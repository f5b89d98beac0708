"""An error of arrays is shown at the simplest point at which it still holds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge import simplest
from gradcheck_cli.judge.simplest import simplified
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.input_specs import Bounds
from gradcheck_cli.subject.refusals import Rejected
from tests.traced import failure, traced

POINT = [3.25, 0.125, 7.5]


def second_is_positive(m: Any) -> Any:
    return np.array([bool(m.points[0][0, 1] > 0)])


WRONG = failure(RuleName.GRADIENT_MISMATCH, row=1, holds=second_is_positive)


@pytest.fixture
def m(monkeypatch: pytest.MonkeyPatch) -> Measurements:
    """Measurements of a vector; moved ones have their point alone, so that nothing runs."""

    def only_a_point(m: Measurements, row: int, point: Any) -> Any:
        return SimpleNamespace(points=[np.asarray(p)[None] for p in point])

    monkeypatch.setattr(simplest, "moved", only_a_point)
    return traced(lambda x: x * x, np.array([[9.5, 8.5, 7.5], POINT]), cotangents=["base"])


def point_of(m: Measurements) -> Any:
    return m.points[0][0].tolist()


def test_numbers_that_do_not_matter_become_plain(m: Measurements) -> None:
    wrong, at = simplified(WRONG, m)
    assert wrong.row == 0
    assert point_of(at) == [0.0, 1.0, 0.0]


def test_one_that_must_stay_as_grave_is_held_to_that(m: Measurements) -> None:
    as_grave = replace(WRONG, as_grave=lambda m: np.array([bool(m.points[0][0, 1] == POINT[1])]))
    assert point_of(simplified(as_grave, m)[1]) == [0.0, POINT[1], 0.0]


@pytest.mark.parametrize("others", [{"severity": Severity.WARNING}, {"holds": None}])
def test_only_an_error_that_can_be_looked_for_elsewhere_is_moved(
    m: Measurements, others: dict[str, Any]
) -> None:
    wrong = replace(WRONG, **others)
    assert simplified(wrong, m) == (wrong, m)


def test_what_holds_nowhere_else_stays_where_it_is(m: Measurements) -> None:
    alone = replace(WRONG, holds=lambda m: np.array([m.points[0][0].tolist() == POINT]))
    assert simplified(alone, m) == (alone, m)


def within(m: Measurements, bounds: Bounds) -> Measurements:
    (leaf,) = m.subject.leaves
    m.subject.signature = Signature((("x", replace(leaf, domain=Domain(bounds))),))
    return m


def test_the_point_stays_in_its_domain(m: Measurements) -> None:
    at = simplified(WRONG, within(m, Bounds(low=2.0, text="x ≥ 2")))[1]
    assert point_of(at) == [2.0, 2.0, 2.0]


def test_elements_that_depend_on_each_other_are_not_changed(m: Measurements) -> None:
    assert simplified(WRONG, within(m, Bounds(family="sorted", text="sorted"))) == (WRONG, m)


def test_points_at_which_the_function_raises_are_none(
    m: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = simplest.moved

    def raising_at_zero(m: Measurements, row: int, point: Any) -> Any:
        if not np.asarray(point[0]).all():
            raise Rejected("it raises")
        return moved(m, row, point)

    monkeypatch.setattr(simplest, "moved", raising_at_zero)
    assert point_of(simplified(WRONG, m)[1]) == [1.0, 1.0, 1.0]
