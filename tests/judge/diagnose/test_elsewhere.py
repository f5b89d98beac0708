"""The truth at other points, or with other cotangents: for all hypotheses in one walk."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.judge.diagnose.case import Elsewhere
from gradcheck_cli.judge.diagnose.elsewhere import truth_elsewhere
from gradcheck_cli.measure.measurements import Measurements
from tests.judge.diagnose.by_hand import balls
from tests.support import measured


def of_square() -> Measurements:
    return measured([2.0, 3.0], lambda x: x * x, lambda x, weight: 2 * x * weight)


def idea(points: Any, cotangents: Any) -> Elsewhere:
    return Elsewhere("", [balls(points)], [balls(cotangents)])


def test_each_idea_gets_the_gradient_at_its_own_points_and_cotangents() -> None:
    ideas = [idea([4.0, 5.0], [1.0, 1.0]), idea([2.0, 3.0], [10.0, 100.0])]
    first, second = truth_elsewhere(of_square(), 0, ideas, 2)
    assert [float(ball) for ball in first] == [8.0, 10.0]
    assert [float(ball) for ball in second] == [40.0, 600.0]


def test_without_an_idea_nothing_is_walked() -> None:
    assert truth_elsewhere(of_square(), 0, [], 2) == []
