"""Several parameters that one entry tells of in their order."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.clues.prose.in_order import own_words

NAMES = "mean, sigma, alpha, order"


def domains(text: str, *names: str) -> list[str]:
    found = read_text(Text("here", text, near=True), names)
    return [found[name].domain if name in found else "" for name in names]


@pytest.mark.parametrize(
    "text",
    [
        "mean, sigma and order: position, width (> 0) and exponent (> 1).",
        "mean, sigma, order : tensor\n    Position, width (> 0), and exponent (> 1). Each broadcasts.\n",
    ],
)
def test_each_has_the_bounds_of_its_own_words(text: str) -> None:
    assert domains(text, "mean", "sigma", "order") == ["", "> 0", "> 1"]


def test_what_does_not_go_one_by_one_is_of_all() -> None:
    assert domains("low, high: two numbers, positive", "low", "high") == ["> 0", "> 0"]
    assert own_words(NAMES, "position, width (> 0)", "alpha") == ""
    assert own_words("sigma", "a width (> 0)", "sigma") == ""


def test_a_bound_behind_what_it_is_of() -> None:
    assert domains("mu: friction coefficients > 0, broadcastable", "mu") == ["> 0"]
    assert domains("wealth: (..., S) positive outcomes.", "wealth") == ["> 0"]
    assert domains("mu: what is kept for sizes > 0", "mu") == [""]


def test_a_name_within_another_noun_cuts_nothing() -> None:
    text = "Snap `pitch` (n,) to a scale; `scale` is a float vector of pitch classes in [0, 12)."
    assert domains(text, "pitch", "scale") == ["", "in [0, 12)"]


def test_commas_in_brackets_part_nothing() -> None:
    assert own_words("a, b", "one (of 1, 2), the other (> 0)", "b") == "the other (> 0)"


def test_the_upper_end_of_what_begins_at_zero_is_positive() -> None:
    text = "The level is limited to [0, capacity].\n\npower: [homes, T]\ncapacity: [homes].\n"
    assert domains(text, "power", "capacity") == ["", "> 0"]


def test_a_float_with_a_shape_behind_it_is_an_array() -> None:
    text = Text("here", "grades: float (..., docs)\nmask: bool (..., docs)\nk: int (n,)", near=True)
    specs = {name: clue.spec for name, clue in read_text(text, ["grades", "mask", "k"]).items()}
    assert specs == {"grades": "f32[lead docs]", "mask": "bool[lead docs]", "k": "i32[n]"}


def test_each_may_be_told_of_by_its_name() -> None:
    text = "p, y (n,): p a probability, y binary"
    assert domains(text, "p", "y") == ["in [0, 1]", "in binary"]


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("x log x for x >= 0.", ">= 0"),
        ("x for x > 0.", ""),
        ("Equal to x for x > 0", ""),
    ],
)
def test_the_end_of_a_formula_is_no_case(text: str, domain: str) -> None:
    assert domains(text, "x") == [domain]
