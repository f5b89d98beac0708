"""`expect(subgradient)`: another number where the primal has no derivative."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR
from tests.support import Numbers, declare, measured, mismatch, texts


def absolute(place: float, state: int) -> Measurements:
    """|x| with a rule that gives 5 at a place, where the derivative is of this state."""
    return measured(
        [0.0, 1.0, -2.0],
        np.abs,
        lambda x, weight: np.sign(x) * weight,
        rule=lambda x, weight: np.where(x == place, 5 * weight, np.sign(x) * weight),
        truth=partial(Numbers, states={place: state}),
    )


@pytest.mark.parametrize("state", [KINK, LIMIT])
@pytest.mark.parametrize("rule", [RuleName.GRADIENT_MISMATCH, RuleName.SAFE_AT_SINGULARITY])
def test_another_convention_at_a_kink_is_explained(state: int, rule: RuleName) -> None:
    assert declare(absolute(0.0, state), "subgradient", None, mismatch(rule=rule)) == []


def test_another_derivative_where_there_is_one_is_broken() -> None:
    assert texts(declare(absolute(1.0, REGULAR), "subgradient"))[1] == (
        "broken-intent",
        "`expect(subgradient)` does not hold: at x = 1 the primal has a derivative, and the rule "
        "gives another one",
    )


def test_it_is_not_offered() -> None:
    assert comment_for(mismatch(), absolute(0.0, LIMIT)) is None
