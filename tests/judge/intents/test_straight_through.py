"""`expect(straight-through)`: the cotangent is the gradient, whatever the function is."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts

POINTS = [0.5, 1.0, 2.5, -3.0]
SURROGATE = mismatch(rule=RuleName.UNDECLARED_SURROGATE)


def rounding(rule) -> Measurements:
    return measured(POINTS, np.round, lambda x, weight: 0 * weight, rule=rule)


def of_two(rule) -> Measurements:
    """The second argument is rounded, the first has a gradient."""
    return measured(
        {"x": POINTS, "y": POINTS},
        lambda x, y: x * np.round(y),
        lambda x, y, weight: (weight * np.round(y), 0 * weight),
        rule=rule,
    )


def test_the_cotangent_itself_is_explained() -> None:
    m = rounding(lambda x, weight: weight)
    assert declare(m, "straight-through", None, SURROGATE, mismatch()) == []


def test_twice_the_cotangent_is_broken() -> None:
    m = rounding(lambda x, weight: 2 * weight)
    assert texts(declare(m, "straight-through", None, SURROGATE)) == [
        ("undeclared-surrogate", "it is wrong"),
        (
            "broken-intent",
            "`expect(straight-through)` does not hold: at x = 0.5 the cotangent is 1 and the "
            "gradient 2.00000",
        ),
    ]


def test_an_argument_is_named_and_no_other_is_explained() -> None:
    m = of_two(lambda x, y, weight: (weight * np.round(y), weight))
    first, second = mismatch(0), mismatch(1)
    assert declare(m, "straight-through", "y", first, second) == [first]


def test_an_argument_that_is_not_there_is_broken() -> None:
    (_, broken) = declare(rounding(lambda x, weight: weight), "straight-through", "z")
    assert "there is no argument `z`" in broken.message


def test_more_elements_than_the_output_are_broken() -> None:
    m = measured(
        np.ones((4, 3)),
        lambda x: x.sum(axis=1),
        lambda x, weight: weight[:, None] * np.ones_like(x),
    )
    (_, broken) = declare(m, "straight-through")
    assert "`x` has more elements than the output" in broken.message


def test_the_argument_is_offered_unless_it_is_the_first() -> None:
    assert comment_for(SURROGATE, rounding(lambda x, w: w)) == "expect(straight-through)"
    assert comment_for(SURROGATE, rounding(lambda x, w: 2 * w)) is None
    both = of_two(lambda x, y, weight: (weight * np.round(y), weight))
    second = mismatch(1, RuleName.UNDECLARED_SURROGATE)
    assert comment_for(second, both) == "expect(straight-through: y)"
