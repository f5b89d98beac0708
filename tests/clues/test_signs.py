"""Texts that speak of negative numbers, and texts that say there are none."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.clues.signs import speaks_beyond


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
        ("Lengths must not be negative.", False),
        ("Negative binomial counts.", False),
        ("The porosity may exceed one where the ground swells.", True),
        ("A heat pump has an efficiency above 1.", True),
        ("In per cent.", True),
        ("For length < 0 it points left.", True),
        ("", False),
    ],
)
def test_what_a_text_says_of_signs(text: str, speaks: bool) -> None:
    known: dict[str, Any] = {}
    exec("def function(length): return length", known)
    known["function"].__doc__ = text
    assert speaks_beyond(known["function"]) is speaks
