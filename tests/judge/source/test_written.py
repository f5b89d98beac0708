"""Functions in which a rule is written."""

from __future__ import annotations

import math
from collections.abc import Callable

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


def outer(saved: float) -> Callable[[float], float]:
    def inside(g: float) -> float:
        return g * deep(saved)

    return inside


def test_helpers_of_a_function_inside_are_those_of_the_outer_one() -> None:
    assert list(written(Rule([outer]))) == [outer, deep, deepest, slope]


def test_helpers_follow_the_rule_as_far_as_they_may_be_meant() -> None:
    assert list(written(Rule([rule]))) == [rule, slope, inner]
