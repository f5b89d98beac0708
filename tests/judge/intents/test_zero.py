"""`expect(zero: alpha)`: no gradient for one argument."""

from __future__ import annotations

from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts


def product(rule) -> Measurements:
    return measured(
        {"x": [1.0, 2.0, -3.0], "alpha": [0.5, 4.0, 2.0]},
        lambda x, alpha: x * alpha,
        lambda x, alpha, weight: (alpha * weight, x * weight),
        rule=rule,
    )


FROZEN = product(lambda x, alpha, weight: (alpha * weight, 0 * weight))
LEAKING = product(lambda x, alpha, weight: (alpha * weight, 0.5 * weight))


def test_no_gradient_is_explained_and_that_of_the_other_argument_is_not() -> None:
    assert declare(FROZEN, "zero", "alpha", mismatch(0), mismatch(1)) == [mismatch(0)]


def test_a_gradient_is_broken() -> None:
    assert texts(declare(LEAKING, "zero", "alpha", mismatch(1))) == [
        ("gradient-mismatch", "it is wrong"),
        (
            "broken-intent",
            "`expect(zero: alpha)` does not hold: at x = 1, alpha = 0.5 the gradient of alpha is "
            "0.500000",
        ),
    ]


def test_an_argument_that_is_not_differentiated_is_broken() -> None:
    (_, broken) = declare(FROZEN, "zero", "beta")
    assert "there is no argument `beta` that is differentiated" in broken.message


def test_the_argument_is_offered() -> None:
    assert comment_for(mismatch(1), FROZEN) == "expect(zero: alpha)"
    assert comment_for(mismatch(1), LEAKING) is None
