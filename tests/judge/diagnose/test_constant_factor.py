"""A formula that is a constant times the truth: the constant in words."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from flint import arb

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.judge.diagnose.constant_factor import (
    describe_factor,
    is_a_share,
    leaves_out_data,
)
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.input_specs import condition

TRUTH = [1.0, -3.0, 0.0, 7.0]


def said_of(formula: list[float], truth: list[float] = TRUTH) -> str | None:
    return describe_factor([arb(t) for t in truth], [arb(f) for f in formula])


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (-1, "its sign is reversed"),
        (2, "it is 2 times the truth"),
        (0.5, "it is 1/2 times the truth"),
        (-0.5, "it is -1/2 times the truth"),
        (0.7, "it is 0.7 times the truth"),
        (-1234567, "it is -1.23457e+06 times the truth"),
    ],
)
def test_a_constant_factor_is_named(factor: float, text: str) -> None:
    truth = [1.0, 2.0, 0.0, 4.0]  # so that the products are exact
    assert said_of([factor * t for t in truth], truth) == text


def test_the_root_of_a_size_is_told() -> None:
    root = arb(3).sqrt()
    truth = [arb(t) for t in TRUTH]
    said = describe_factor(truth, [root * t for t in truth], {3, 4})
    assert (
        said
        == "it is 1.73205 times the truth (the root of 3, a number of elements here: a 1/√n is missing)"
    )
    said = describe_factor(truth, [t / root for t in truth], {3, 4})
    assert said is not None
    assert said.endswith("it has a 1/√n too many)")


def test_a_third_is_named_as_one() -> None:
    thirds = [arb(t) / 3 for t in TRUTH]
    assert describe_factor([arb(t) for t in TRUTH], thirds) == "it is 1/3 times the truth"


def test_a_formula_that_is_zero_is_said_to_be() -> None:
    assert said_of([0.0, 0.0, 0.0, 0.0]) == "it is zero everywhere, the truth is not"


@pytest.mark.parametrize(
    "formula",
    [
        [2.0, -6.0, 0.0, 15.0],  # not the same factor everywhere
        [1.0, -3.0, 1.0, 7.0],  # right wherever the truth is not zero
    ],
)
def test_what_is_no_constant_factor_gets_no_words(formula: list[float]) -> None:
    assert said_of(formula) is None


def test_one_number_is_not_enough() -> None:
    assert said_of([2.0, 5.0], [1.0, 0.0]) is None


@pytest.mark.parametrize(
    ("name", "formula", "left_out"),
    [
        ("labels", [0, 0], True),
        ("soft_targets", [0, 0], True),
        ("labels", [0, 1], False),
        ("logits", [0, 0], False),
        ("label_weights", [0, 0], False),
    ],
)
def test_data_by_its_name_may_be_left_out(name: str, formula: list[int], left_out: bool) -> None:
    leaf = Leaf(name, (3,), "test")
    assert leaves_out_data(leaf, [arb(f) for f in formula]) is left_out


@pytest.mark.parametrize(
    ("domain", "left_out"), [("in binary", True), ("in signs", True), ("> 0", False)]
)
def test_so_may_numbers_that_nobody_learns(domain: str, left_out: bool) -> None:
    leaf = Leaf("y", (3,), "test", domain=Domain(condition(f"x {domain}")[1], "a docstring"))
    assert leaves_out_data(leaf, [arb(0)]) is left_out
    assert not leaves_out_data(leaf, [arb(0), arb(1)])


def test_a_factor_that_is_a_size_of_the_call_is_said_to_be_one() -> None:
    truth = [arb(1), arb(2)]
    many = describe_factor(truth, [6 * t for t in truth], sizes=(3, 6))
    assert many == "it is 6 times the truth (6 is a number of elements here: for a mean, its 1/n is missing)"  # fmt: skip
    share = describe_factor(truth, [t / 3 for t in truth], sizes=(3, 6))
    assert share == "it is 1/3 times the truth (3 is a number of elements here: for a mean, it has a 1/n too many)"  # fmt: skip
    assert describe_factor(truth, [5 * t for t in truth], sizes=(3, 6)) == "it is 5 times the truth"


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2, "it is 2 times the truth (2 is `1/scale` here)"),
        (0.5, "it is 1/2 times the truth (0.5 is `scale` here)"),
        (-7, "it is -7 times the truth (7 is `heads` here)"),
        (3, "it is 3 times the truth"),
    ],
)
def test_a_factor_that_is_a_setting_of_the_call_is_said_to_be_one(factor: float, said: str) -> None:
    truth = [arb(1), arb(2)]
    settings = {"scale": 0.5, "heads": 7.0}
    assert describe_factor(truth, [factor * t for t in truth], settings=settings) == said


def test_shares_are_ratios_of_sizes() -> None:
    assert is_a_share(arb(-0.75), (3, 4))
    assert not is_a_share(arb(0.7), (3, 4))
    assert not is_a_share(arb(1), (3, 4))


def test_what_is_no_number_or_changes_nothing_is_no_setting() -> None:
    given = {"scale": 0.5, "fill": float("nan"), "top": float("inf"), "on": True, "how": "mean"}
    fixed = tuple((name, Fixed(value, repr(value), "test")) for name, value in given.items())
    subject = SimpleNamespace(signature=Signature(fixed), defaults={})
    m: Any = SimpleNamespace(subject=subject)
    m.setting = partial(Measurements.setting, m)
    settings: Any = Measurements.settings
    assert settings.func(m) == {"scale": 0.5}


def test_what_is_no_zero_where_the_truth_is_one_is_no_multiple_of_it() -> None:
    assert said_of([0.0, 0.0, 5.0, 0.0]) is None
