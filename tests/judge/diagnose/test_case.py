"""When balls that a hypothesis gives are the formula, and when that says something."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.judge.diagnose.case import fits
from tests.judge.diagnose.by_hand import balls

FORMULA, TRUTH = [2.0, -3.0, 5.0, 0.0], [1.0, 1.0, 1.0, 0.0]


def test_equal_numbers_that_are_not_the_truth_fit() -> None:
    assert fits(balls(FORMULA), balls(FORMULA), balls(TRUTH))


@pytest.mark.parametrize(
    ("candidate", "formula", "truth"),
    [
        ([2.0, -3.0, 5.0, 1.0], FORMULA, TRUTH),  # one number is another
        ([2.0, -3.0, 5.0, float("nan")], [2.0, -3.0, 5.0, float("nan")], TRUTH),
        (FORMULA[:3], FORMULA, TRUTH),  # another shape
        (FORMULA, FORMULA, FORMULA),  # the truth's own
        ([2.0, 3.0, 0.0], [2.0, 3.0, 0.0], [1.0, 1.0, 1.0]),  # too few that tell anything
        ([2.0], [2.0], [1.0]),
    ],
)
def test_what_fits_by_chance_or_not_at_all_does_not(
    candidate: Any, formula: Any, truth: Any
) -> None:
    assert not fits(balls(candidate), balls(formula), balls(truth))


def test_of_two_numbers_both_must_tell() -> None:
    assert fits(balls([2.0, 3.0]), balls([2.0, 3.0]), balls([1.0, 1.0]))
    assert not fits(balls([2.0, 0.0]), balls([2.0, 0.0]), balls([1.0, 1.0]))
