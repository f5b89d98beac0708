"""Sorts of arguments in words: which integers an array of them holds."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.kinds import array_of_integers, integer_range


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("in [0, C)", "in 0..C"),
        ("1 for hits, 0 for misses, -1 for neither", "in -1..2"),
        ("-1, 0 or 1", "in -1..2"),
        ("one of {0, 1, 2}", "in 0..3"),
        ("1 for hits, 7 for misses", ""),
        ("2 for each row", ""),
    ],
)
def test_ranges_and_listed_integers(text: str, within: str) -> None:
    assert integer_range(text) == within


@pytest.mark.parametrize(
    ("text", "is_array"),
    [("integers, 1 for hits", True), ("class labels", True), ("integer or None", False)],
)
def test_integers_in_the_plural_are_an_array(text: str, is_array: bool) -> None:
    assert array_of_integers(text) is is_array
