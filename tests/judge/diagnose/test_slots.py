"""The gradient of another argument stands in an argument's place."""

from __future__ import annotations

from gradcheck_cli.judge.diagnose.slots import slots
from tests.judge.diagnose.by_hand import case, fitting

OF_X, OF_Y, OF_Z = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [[7.0, 8.0]] * 3


def test_the_other_argument_is_named() -> None:
    swapped = case(OF_X, OF_Y)
    assert fitting(slots(swapped), swapped, OF_Y) == ["it is the gradient of y"]
    other = case(OF_X, OF_Y, leaf=1)
    assert fitting(slots(other), other, OF_X) == ["it is the gradient of x"]


def test_a_gradient_of_another_shape_is_no_candidate() -> None:
    assert [idea.text for idea in slots(case(OF_X, OF_Y, OF_Z))] == ["it is the gradient of y"]


def test_twice_the_gradient_of_the_other_is_another_fault() -> None:
    swapped = case(OF_X, OF_Y)
    assert fitting(slots(swapped), swapped, [8.0, 10.0, 12.0]) == []


def test_a_single_argument_has_no_other() -> None:
    assert list(slots(case(OF_X))) == []
