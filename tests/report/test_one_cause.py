"""One fault that shows in value and gradient is one block, with what else it does in a line."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import Cause, Edit, Severity, Witness, WitnessInput
from gradcheck_cli.report.one_cause import with_followers
from tests.reports import finding


def at(value: float) -> Witness:
    inputs = [WitnessInput(path="x", dtype="float32", shape=[], value=value, recipe=None)]
    return Witness(inputs=inputs, cotangent=1.0, argument="x", index=[])


def overflow(line: int) -> Cause:
    return Cause(line=line, column=1, expression="exp(x)", text="overflows", path="a.py")


EDITS = [Edit(line=3, column=1, end_line=3, end_column=4, text="y")]


def rules(*blocks: Any) -> list[tuple[str, list[str]]]:
    return [(leader.rule, [f.rule for f in too]) for leader, too in with_followers(blocks)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cause": overflow(3)}, {"cause": overflow(3), "witness": at(7.0)}),
        ({"witness": at(100.0)}, {"witness": at(100.0)}),
        ({"fix": "jax.nn.softplus(x)"}, {"fix": "jax.nn.softplus(x)"}),
        ({"cause": overflow(3), "edits": EDITS}, {"cause": overflow(3), "edits": EDITS}),
    ],
)
def test_value_and_gradient_of_one_cause(one: dict[str, Any], other: dict[str, Any]) -> None:
    gradient, value = finding("non-finite-gradient", **one), finding("non-finite-value", **other)
    assert rules(gradient, value) == [("non-finite-gradient", ["non-finite-value"])]
    assert rules(value, gradient) == [("non-finite-gradient", ["non-finite-value"])]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cause": overflow(3)}, {"cause": overflow(4)}),
        ({"witness": at(100.0)}, {"witness": at(-100.0)}),
        ({}, {}),
        ({"cause": overflow(3)}, {"cause": overflow(3), "fix": "jax.nn.softplus(x)"}),
        ({"witness": at(1.0), "severity": Severity.WARNING}, {"witness": at(1.0)}),
    ],
)
def test_others_have_a_block_each(one: dict[str, Any], other: dict[str, Any]) -> None:
    gradient, value = finding("non-finite-gradient", **one), finding("non-finite-value", **other)
    assert rules(gradient, value) == [("non-finite-gradient", []), ("non-finite-value", [])]


def test_what_one_change_mends_is_told_in_one_block_whatever_rule_it_breaks() -> None:
    infinite, digits = (
        finding(f"{rule}-value", edits=EDITS, severity=Severity.ERROR)
        for rule in ("non-finite", "imprecise")
    )
    assert rules(infinite, digits) == [("non-finite-value", ["imprecise-value"])]


def test_other_rules_are_never_one() -> None:
    both = [finding("non-finite-gradient", witness=at(1.0)), finding("imprecise-value", witness=at(1.0))]  # fmt: skip
    assert rules(*both) == [("non-finite-gradient", []), ("imprecise-value", [])]


def test_gradients_of_two_arguments_that_one_change_mends_are_one_block() -> None:
    change = [Edit(line=3, column=1, end_line=3, end_column=4, text="x")]
    one, other = (finding("gradient-mismatch", edits=change, message=f"d/d{x}") for x in "ab")
    assert with_followers([one, other]) == [(one, [other])]
    elsewhere = finding("gradient-mismatch", edits=[replace(change[0], text="y")])
    assert with_followers([one, elsewhere]) == [(one, []), (elsewhere, [])]


def test_what_follows_a_follower_is_told_with_the_first() -> None:
    change = [Edit(line=3, column=1, end_line=3, end_column=4, text="x")]
    first = finding("gradient-mismatch", fix="x")
    both = [finding("nonlinear-cotangent", fix="x", edits=change, message=m) for m in "ab"]
    assert with_followers([first, *both]) == [(first, both)]
