"""Sorts of arguments in words: which integers an array of them holds."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.kinds import (
    array_of_integers,
    element_kind,
    greatest_length,
    integer_range,
    least_integer,
    sort_in_sentence,
    sort_of,
    words,
)
from gradcheck_cli.inputs.clue import Kind


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("in [0, C)", "in 0..C"),
        ("1 for hits, 0 for misses, -1 for neither", "in -1..2"),
        ("-1, 0 or 1", "in -1..2"),
        ("one of {0, 1, 2}", "in 0..3"),
        ("0 (first wins), 1 (second wins) or 2 (tie)", "in 0..3"),
        ("1 for hits, 7 for misses", ""),
        ("1 for first fill, 2 for second fill and so on", ""),
        ("0 for ground, 1 for hits. Used in losses, and so on", "in 0..2"),
        ("one of 0, 1 or 2, used for weights, and so on", "in 0..3"),
        ("-1, 0 or 1 (down, flat, up, etc.)", "in -1..2"),
        ("2 for each row", ""),
    ],
)
def test_ranges_and_listed_integers(text: str, within: str) -> None:
    assert integer_range(text) == within


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torch.long, the ids", "i32"),
        ("(long) class of each row", "i32"),
        ("a long tensor", "i32"),
        ("with 0 (first wins), 1 (second wins) or 2 (tie)", "i32"),
        ("1 for hits, 0 for misses", "f32"),
        ("array, dim 0 (batch), dim 1 (time), dim 2 (features)", "f32"),
        ("array. Axis 0: batch, axis 1: time, axis 2: features", "f32"),
        ("Axes: 0 = batch, 1 = time, 2 = channel", "f32"),
        ("see Eq. 1 (mass), 2 (charge) and 3 (spin)", "f32"),
        ("column 0 is x, 1 is y, 2 is z", "f32"),
        ("its labels: 0 is x, 1 is y, 2 is z", "i32"),
        ("rows made as long as `length`", "f32"),
        ("a long signal", "f32"),
        ("how long each step is", "f32"),
    ],
)
def test_long_is_a_dtype_only_where_a_dtype_stands(text: str, kind: str) -> None:
    assert element_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "is_array"),
    [
        ("integers, 1 for hits", True),
        ("class labels", True),
        ("integer or None", False),
        ("int64, the bag of each crop", True),
        ("int64 scalar", False),
        ("int32, the number of steps", False),
        ("int32, the axis to sum over", False),
        ("int32 seed", False),
        ("int, the bag of each crop", False),
    ],
)
def test_integers_in_the_plural_are_an_array(text: str, is_array: bool) -> None:
    assert array_of_integers(text) is is_array


def test_empty_brackets_behind_a_name_are_a_number() -> None:
    assert sort_in_sentence("rim speeds; track", " () the distance") is Kind.NUMBER
    assert sort_in_sentence("as given by track", "() at each step") is Kind.NOTHING


@pytest.mark.parametrize(
    ("name", "text", "least"),
    [
        ("lengths", "int32 [queries], from 1 to docs", 1),
        ("target_lengths", "(B,) long", 1),
        ("target_lengths", "(B,) long, may be zero", 0),
        ("bond_lengths", "in nm", 0),
        ("counts", "at least 1", 1),
        ("fill", "1 for first fill, 2 for second fill and so on", 1),
        ("fill", "1 for first fill, 2 for second fill", 0),
    ],
)
def test_lengths_of_what_has_a_beginning_are_not_zero(name: str, text: str, least: int) -> None:
    assert least_integer(name, text) == least


def test_lengths_go_up_to_what_they_are_said_to() -> None:
    assert greatest_length("lengths", "from 1 to docs") == "in 1..docs"


def test_words_of_which_each_is_told_what_it_does() -> None:
    said = '"sum" gives the sum; "mean" divides it by n and "sqrtn" by its root'
    assert words(said) == ("sum", "mean", "sqrtn")
    assert words('the keys of "a" give the sum of "b"') == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("index of the first stage that burns", Kind.WHOLE),
        ("index of each row", Kind.NOTHING),
        ("bool, broadcasts to `phase`", Kind.NOTHING),
        ("bool, whether", Kind.FLAG),
    ],
)
def test_single_places_and_marks_that_broadcast(text: str, kind: Kind) -> None:
    assert sort_of(text) is kind
