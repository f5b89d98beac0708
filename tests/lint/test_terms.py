"""Neutral terms, and what they can be at all."""

from __future__ import annotations

import math

import pytest

from gradcheck_cli.lint.matching import matches, pattern
from gradcheck_cli.lint.ranges import Range, range_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a - b", "-b + a"),
        ("a / b", "a * b ** -1"),
        ("x * x * x", "x ** 3"),
        ("1 / sqrt(x)", "rsqrt(x)"),
        ("-(a - b)", "b - a"),
        ("2 * (3 * x)", "x * 6"),
        ("clip(x, 0, 1)", "minimum(maximum(x, 0), 1)"),
        ("square(x)", "x ** 2"),
        ("divide(a, sqrt(b))", "a * b ** -0.5"),
    ],
)
def test_spellings_of_one_thing_are_one_term(one: str, other: str) -> None:
    forms = pattern(one), pattern(other)
    assert next(matches(*forms), None) == next(matches(*reversed(forms)), None)
    assert next(matches(*forms), None) is not None


def test_a_quotient_by_itself_stays_for_it_may_be_zero() -> None:
    assert pattern("x / x").number is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("sigmoid(x)", 0, 1),
        ("1 - sigmoid(x)", 0, 1),
        ("sum(x ** 2) + 1e-6", 1e-6, math.inf),
        ("sum(exp(x - max(x)))", 1, math.inf),
        ("x - max(x)", -math.inf, 0),
        ("a + b - max(a + b)", -math.inf, 0),
        ("tanh(x) / 2", -0.5, 0.5),
        ("exp(-abs(x))", 0, 1),
        ("where(c, 1, relu(x))", 0, math.inf),
        ("maximum(norm(x), 1e-3)", 1e-3, math.inf),
        ("x", -math.inf, math.inf),
        ("matmul(normalize(a), normalize(b))", -1, 1),
    ],
)
def test_ranges(text: str, low: float, high: float) -> None:
    assert range_of(pattern(text)) == Range(low, high)


@pytest.mark.parametrize(
    ("form", "text", "fits"),
    [
        ("log(1 + exp(x))", "log(exp(a * b) + 1)", True),
        ("log(1 + exp(x))", "log(2 + exp(x))", False),
        ("log(1 + exp(x))", "log(1 + exp(x) + exp(y))", False),
        ("log(exp(a) + exp(b) + _more)", "log(1 + exp(x) + exp(y))", True),
        ("p * log(p)", "q * w * log(q)", True),
        ("p * log(p)", "q * log(w)", False),
        ("exp(x) - 1", "exp(x) - 1 + y", False),
        ("mean(x ** 2) - mean(x) ** 2 + _more", "mean(y * y) - mean(y) ** 2", True),
        ("sin(x) / x", "sin(2 * t) / (2 * t)", False),
    ],
)
def test_patterns_match_in_any_order_and_a_name_is_one_thing(
    form: str, text: str, fits: bool
) -> None:
    assert (next(matches(pattern(form), pattern(text)), None) is not None) is fits
