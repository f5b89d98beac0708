"""`expect(safe-at: x = 0)`: another number beside one place, the truth elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts


def flattened(near: float) -> Measurements:
    """x² with a gradient of 7 up to a distance of 0."""
    return measured(
        [0.0, 2.0**-10, -(2.0**-11), 0.25, -2.0],
        lambda x: x * x,
        lambda x, weight: 2 * x * weight,
        rule=lambda x, weight: np.where(abs(x) <= near, 7 * weight, 2 * x * weight),
    )


@pytest.mark.parametrize("rule", [RuleName.GRADIENT_MISMATCH, RuleName.SAFE_AT_SINGULARITY])
def test_another_number_beside_the_place_is_explained(rule: RuleName) -> None:
    assert declare(flattened(2.0**-10), "safe-at", "x = 0", mismatch(rule=rule)) == []


def test_another_number_elsewhere_is_broken() -> None:
    assert texts(declare(flattened(0.25), "safe-at", "x = 0"))[1] == (
        "broken-intent",
        "`expect(safe-at: x = 0)` does not hold: at x = 0.25 the rule is not the derivative, and "
        "x = 0 is not near",
    )


def test_an_argument_that_is_not_there_is_broken() -> None:
    (_, broken) = declare(flattened(0.0), "safe-at", "z = 0")
    assert "there is no argument `z`" in broken.message


def test_it_is_not_offered_for_the_place_is_the_authors_to_say() -> None:
    assert comment_for(mismatch(), flattened(0.0)) is None
