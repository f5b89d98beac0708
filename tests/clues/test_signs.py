"""Texts that speak of negative numbers, and texts that say there are none."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.clues.signs import speaks_of_signs


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("strain: positive in tension, negative in compression", True),
        ("amplitude: signed, one for each mode", True),
        ("Lengths may have either sign.", True),
        ("A length below zero is one to the left.", True),
        ("Lengths are non-negative.", False),
        ("Lengths, never negative.", False),
        ("The negative log likelihood of lengths.", False),
        ("An unsigned length.", False),
        ("", False),
    ],
)
def test_what_a_text_says_of_signs(text: str, speaks: bool) -> None:
    known: dict[str, Any] = {}
    exec("def function(length): return length", known)
    known["function"].__doc__ = text
    assert speaks_of_signs(known["function"]) is speaks
