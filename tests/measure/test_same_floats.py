"""What a rule known in float64 alone is held to: autodiff in the same floats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.float64_truth import Wide, balls_of
from gradcheck_cli.measure.same_floats import differs_in_the_same_floats
from gradcheck_cli.subject.results import AUTO, CUSTOM, VALUE
from tests.support import NumpySubject

POINTS, ONES = np.array([1.0, 2.0, 3.0]), np.ones(3)


def asked(rule: Any, auto: Any, primal: Any = None) -> list[bool]:
    subject: Any = NumpySubject(
        {"primal": np.square, VALUE: np.square, CUSTOM: rule, AUTO: auto}, [()],
        Signature((("x", Leaf("x", (), "test")),)), dtype="float64",
    )  # fmt: skip
    subject.differentiable = True
    formula, _ = balls_of(rule(POINTS, ONES)[None, None], 53)
    m: Any = SimpleNamespace(
        sources=SimpleNamespace(rule=Wide(subject, "custom", 53), primal=primal),
        points=[POINTS], cotangents=[ONES], reference=SimpleNamespace(goal=30), count=3,
    )  # fmt: skip
    apart = np.array([[False], [True], [True]])
    return list(differs_in_the_same_floats(m, apart, formula[:, None])[:, 0])


def test_below_the_normal_numbers_of_a_dtype_nothing_is_known() -> None:
    """Of 2⁻¹⁴⁵ a float32 has four bits; a cotangent of 2²⁰ does not make more of them."""

    def rule(x: Any, g: Any) -> Any:
        return (np.exp(-100 * x).astype(np.float32) * np.float32(1)).astype(np.float64) * g

    subject: Any = NumpySubject(
        {"primal": np.square, VALUE: np.square, CUSTOM: rule, AUTO: rule}, [()],
        Signature((("x", Leaf("x", (), "test")),)), dtype="float64",
    )  # fmt: skip
    subject.differentiable = True
    large = 2.0**20
    truth = Wide(subject, "custom", 24).evaluate(
        [np.ones(1)], [np.full(1, large)], Ask(False, False)
    )
    assert truth.gradients[0][0].overlaps(arb(np.exp(-100.0)) * large)


def test_what_autodiff_rounds_to_as_well_is_no_difference() -> None:
    def rule(x: Any, g: Any) -> Any:
        return 2 * x * g + np.where(np.resize(POINTS, np.shape(x)) == 2.0, 1e20, 0.0)

    assert asked(rule, rule) == [False, False, False]


def test_what_autodiff_does_not_give_stays_one() -> None:
    assert asked(lambda x, g: 3 * x * g, lambda x, g: 2 * x * g) == [False, True, True]


def test_where_autodiff_is_the_truth_itself_nothing_is_asked_again() -> None:
    primal: Any = Wide(SimpleNamespace(), "auto", 53)  # type: ignore[arg-type]
    assert asked(lambda x, g: 2 * x * g, lambda x, g: 2 * x * g, primal) == [False, True, True]
