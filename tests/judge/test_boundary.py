"""Over which interval of an argument a failure holds, and that in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Boundary, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge import boundary
from gradcheck_cli.judge.boundary import (
    _of_whole_numbers,
    argument_name,
    as_boundary,
    boundaries,
    held,
    in_words,
)
from gradcheck_cli.measure.boundary import Interval
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.input_specs import Bounds
from tests.support import measured
from tests.traced import failure, traced

EDGE = float(np.float32(88.72284))
TINY = float(np.finfo(np.float32).tiny)


def of_scalar(*points: float) -> Measurements:
    return measured(
        points or (0.0, 1.0, -100.0, 100.0), np.square, lambda x, weight: 2 * x * weight
    )


def of_matrix() -> Measurements:
    m = of_scalar()
    m.subject.signature = Signature((("x", Leaf("x", (3, 2), "test")),))
    return m


@pytest.mark.parametrize(
    ("start", "stop", "is_open", "text"),
    [
        (EDGE, 1e9, (False, True), "for x ≥ 88.72284"),
        (-1e9, -EDGE, (True, False), "for x ≤ -88.72284"),
        (0.0, 0.0, (False, False), "at x = 0"),
        (-TINY, TINY, (False, False), "at x = 0"),  # as much as floats tell
        (TINY, 1e9, (False, True), "for x > 0"),
        (TINY / 2, 2.0, (False, False), "for 0 < x ≤ 2"),
        (-1e9, -TINY, (True, False), "for x < 0"),
        (-2.0, -TINY, (False, False), "for -2 ≤ x < 0"),
        (-1e9, 1e9, (True, True), "for every x that was tried"),
        (3.0, 3.0, (False, False), "at x = 3"),
        (1.5, 2.0, (False, False), "for 1.5 ≤ x ≤ 2"),
    ],
)
def test_an_interval_in_words(
    start: float, stop: float, is_open: tuple[bool, bool], text: str
) -> None:
    assert in_words(Interval(0, 0, start, stop, *is_open), of_scalar()) == text


def test_an_element_of_an_array_has_its_index() -> None:
    m = of_matrix()
    assert argument_name(m, 0, 4) == "x[2, 0]"
    assert in_words(Interval(0, 4, EDGE, 1e9, False, True), m) == "for x[2, 0] from about 88.7 on"
    beside_zero = Interval(0, 4, TINY / 2, 1.76843, False, False)
    assert in_words(beside_zero, m) == "for 0 < x[2, 0] ≤ about 1.77"
    assert as_boundary(Interval(0, 4, EDGE, 1e9, False, True), m) == Boundary(
        argument="x", index=[2, 0], start=88.72284, stop=1e9, from_open=False, to_open=True
    )


def test_the_edge_is_found_to_the_float() -> None:
    wrong = failure(RuleName.NON_FINITE_GRADIENT, row=3, holds=lambda m: m.points[0] >= EDGE)
    assert boundaries(wrong, of_scalar()) == [Interval(0, 0, EDGE, 100.0, False, True)]


def test_a_failure_at_one_point_has_it_for_both_ends() -> None:
    wrong = failure(RuleName.NON_FINITE_GRADIENT, row=0, holds=lambda m: m.points[0] == 0)
    assert boundaries(wrong, of_scalar()) == [Interval(0, 0, 0.0, 0.0, False, False)]


@pytest.mark.parametrize(
    "others",
    [
        {"holds": None},
        {"holds": lambda m: m.points[0] > 0, "everywhere": True},
        {"holds": lambda m: np.full(m.count, True)},  # over all of its only argument
        {"holds": lambda m: np.full(m.count, False)},  # not even at its own point
    ],
)
def test_what_has_no_edge_has_no_boundary(others: dict[str, Any]) -> None:
    assert boundaries(failure(RuleName.GRADIENT_MISMATCH, row=3, **others), of_scalar()) == []


def walked(monkeypatch: pytest.MonkeyPatch, m: Measurements, **others: Any) -> list[Any]:
    """Which arguments are walked along for a failure that holds all over each of them."""
    arguments = []

    def all_over(m: Any, row: int, leaf: int, element: int, values: Any, holds: Any) -> Any:
        arguments.append((leaf, element))
        return [Interval(leaf, element, -1.0, 1.0, True, True)]

    monkeypatch.setattr(boundary, "find_boundaries", all_over)
    wrong = failure(RuleName.GRADIENT_MISMATCH, holds=lambda m: np.ones(m.count, bool), **others)
    assert boundaries(wrong, m) == []
    return arguments


def of_vectors() -> Measurements:
    vectors = np.array([[1.0, 5.0], [2.0, 3.0]])
    return traced(lambda x, y: x * y, vectors, vectors + 10, cotangents=["base"])


def test_the_failing_component_comes_first_and_then_the_other_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert walked(monkeypatch, of_vectors(), component=3) == [(1, 1), (0, 1)]


def test_of_a_value_the_largest_number_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walked(monkeypatch, of_vectors(), what=VALUES) == [(1, 1), (0, 1)]


def test_a_note_about_an_array_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    m = of_vectors()
    wrong = failure(RuleName.GRADIENT_MISMATCH, holds=lambda m: np.ones(m.count, bool))
    monkeypatch.setattr(boundary, "find_boundaries", None)  # it would raise
    assert boundaries(replace(wrong, severity=Severity.NOTE), m) == []


def test_an_argument_whose_elements_depend_on_each_other_is_not_walked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = of_vectors()
    x, y = m.subject.leaves
    sorted_y = replace(y, domain=Domain(Bounds(family="sorted", text="sorted")))
    m.subject.signature = Signature((("x", x), ("y", sorted_y)))
    assert walked(monkeypatch, m, component=3) == [(0, 1)]


@pytest.mark.parametrize(("second", "number"), [(-0.9999, 0), (-0.98, 2)])
def test_stretches_of_an_element_that_meet_in_the_digits_told_are_one(
    monkeypatch: pytest.MonkeyPatch, second: float, number: int
) -> None:
    m = of_vectors()

    def apart(m: Any, row: int, leaf: int, element: int, values: Any, holds: Any) -> Any:
        after = Interval(leaf, element, second, 9.0, False, True)
        return [after, Interval(leaf, element, -9.0, -1.0001, True, False)]

    monkeypatch.setattr(boundary, "find_boundaries", apart)
    wrong = failure(RuleName.GRADIENT_MISMATCH, holds=lambda m: np.ones(m.count, bool))
    assert len(boundaries(wrong, m)) == number


def of_two() -> Measurements:
    return measured(
        {"x": [0.5, 100.0], "beta": [1.0, -1.0]},
        lambda x, beta: x * beta,
        lambda x, beta, weight: (beta * weight, x * weight),
    )


def test_what_was_held_fixed_is_said() -> None:
    along_beta = Interval(1, 0, -1e9, -0.875, True, False)
    assert held([along_beta], of_two(), 1) == ", with x = 100"
    assert held([], of_two(), 1) == ""
    assert held([replace(along_beta, leaf=0)], of_scalar(), 1) == ""
    assert held([along_beta], of_matrix(), 1) == ""


@pytest.mark.parametrize(
    ("start", "stop", "told"),
    [(4.5000005, 9.0, (5, 9)), (-0.5, 0.4, (0, 0)), (0.2, 0.8, (0.2, 0.8))],
)
def test_single_numbers_have_nothing_between_them(
    start: float, stop: float, told: tuple[float, float]
) -> None:
    whole = _of_whole_numbers(Interval(0, 0, start, stop, False, False))
    assert (whole.start, whole.stop) == told
