"""`expect(scaled=…)`: the true gradient times a number, or times an argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.measure.measurements import Measurements
from tests.support import declare, measured, mismatch, texts

POINTS = [0.5, 1.0, 2.0, -3.0]


def square(factor: float) -> Measurements:
    """x² with so many times its gradient."""
    return measured(
        POINTS,
        lambda x: x * x,
        lambda x, weight: 2 * x * weight,
        rule=lambda x, weight: factor * 2 * x * weight,
    )


def reversal(rule, alpha=(0.5, 2.0, 4.0, 0.25)) -> Measurements:
    """x² with an argument that the gradient of x may be multiplied with."""
    return measured(
        {"x": POINTS, "alpha": alpha},
        lambda x, alpha: x * x,
        lambda x, alpha, weight: (2 * x * weight, 0 * alpha),
        rule=rule,
    )


def reversing(x, alpha, weight):
    return -alpha * 2 * x * weight, 0 * alpha


@pytest.mark.parametrize(("factor", "text"), [(-0.5, "-0.5"), (0.1, "0.1"), (3.0, "3")])
def test_the_declared_factor_is_explained(factor: float, text: str) -> None:
    assert declare(square(float(np.float32(factor))), "scaled", text) == []


def test_another_factor_is_broken() -> None:
    assert texts(declare(square(-1.0), "scaled", "-2")) == [
        ("gradient-mismatch", "it is wrong"),
        (
            "broken-intent",
            "`expect(scaled=-2)` does not hold: at x = 0.5 the gradient is -1.00000, the truth 1.00000",
        ),
    ]


def test_an_argument_is_a_factor_with_its_sign() -> None:
    assert declare(reversal(reversing), "scaled", "-alpha") == []
    assert [f.rule for f in declare(reversal(reversing), "scaled", "alpha")] == [
        "gradient-mismatch",
        "broken-intent",
    ]


def test_an_array_is_a_factor_element_by_element() -> None:
    a = np.array([[1.0, 2.0], [3.0, 0.5], [-1.0, 4.0]])
    m = measured(
        {"x": a, "scale": a[::-1]},
        lambda x, scale: x * x,
        lambda x, scale, weight: (2 * x * weight, 0 * scale),
        rule=lambda x, scale, weight: (scale * 2 * x * weight, 0 * scale),
    )
    assert declare(m, "scaled", "scale") == []


@pytest.mark.parametrize("text", ["beta", "wide"])
def test_what_is_no_factor_is_broken(text: str) -> None:
    m = measured(
        {"x": np.ones((3, 2)), "wide": np.ones((3, 5))},
        lambda x, wide: 3 * x,
        lambda x, wide, weight: (3 * weight, 0 * wide),
    )
    (_, broken) = declare(m, "scaled", text)
    assert f"`{text}` is neither a number nor an argument that fits" in broken.message


def test_the_one_factor_of_all_gradients_is_offered() -> None:
    assert comment_for(mismatch(), square(0.5)) == "expect(scaled=0.5)"
    assert comment_for(mismatch(), square(2.0)) == "expect(scaled=2)"
    assert comment_for(mismatch(), reversal(reversing)) == "expect(scaled=-alpha)"


def test_a_sign_in_one_of_two_arguments_is_not_offered() -> None:
    m = measured(
        {"x": POINTS, "y": POINTS[::-1]},
        lambda x, y: x * y,
        lambda x, y, weight: (y * weight, x * weight),
        rule=lambda x, y, weight: (y * weight, -x * weight),
    )
    assert comment_for(mismatch(1), m) is None


def test_a_size_that_was_chosen_for_an_array_is_not_offered() -> None:
    rows = np.array([[0.5, 1.0, 4.0], [1.5, -2.0, 3.0], [2.0, 0.25, -1.0]])

    def scaled(factor: float) -> Measurements:
        return measured(rows, lambda x: x * x, lambda x, w: 2 * x * w, rule=lambda x, w: factor * 2 * x * w)  # fmt: skip

    assert comment_for(mismatch(), scaled(5.0)) == "expect(scaled=5)"
    assert comment_for(mismatch(), scaled(3.0)) is None
    assert comment_for(mismatch(), scaled(-1 / 3)) is None


def with_a_setting(factor: float) -> Measurements:
    """What hands its input on, and a number beside it that is not differentiated."""
    m = measured(
        POINTS, lambda x: x, lambda x, weight: weight, rule=lambda x, weight: factor * weight
    )
    given = m.subject.signature.arguments
    signature = Signature((*given, ("alpha", Fixed(0.5, "0.5", "test"))))
    subject: Any = m.subject
    return replace(m, subject=replace(subject, signature=signature))


def test_a_number_that_is_not_differentiated_is_a_factor_too() -> None:
    assert declare(with_a_setting(-0.5), "scaled", "-alpha") == []
    assert declare(with_a_setting(-0.25), "scaled", "-alpha")[-1].rule == "broken-intent"
    assert comment_for(mismatch(), with_a_setting(-0.5)) == "expect(scaled=-alpha)"
