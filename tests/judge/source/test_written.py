"""Functions in which a rule is written."""

from __future__ import annotations

import math

from gradcheck_cli.judge.source.written import written
from tests.judge.by_text import Rule


def slope(x: float) -> float:
    return inner(x) * math.exp(x)


def inner(x: float) -> float:
    return deep(x)


def deep(x: float) -> float:
    return deepest(x) + slope(x)


def deepest(x: float) -> float:
    return x


def rule(saved: float, g: float) -> float:
    return g * slope(saved)


def test_helpers_follow_the_rule_as_far_as_they_may_be_meant() -> None:
    assert list(written(Rule([rule]))) == [rule, slope, inner]
