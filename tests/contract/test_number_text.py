"""Numbers as people read them: shorter, and the same number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.contract.number_text import tidy


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("100.0", "100"),
        ("-0.0", "-0"),
        ("1e+09", "1e9"),
        ("1e-05", "1e-5"),
        ("1.00000000000", "1"),
        ("2.06115361819e-9", "2.06115361819e-9"),
        ("2.50e+20", "2.5e20"),
        ("100", "100"),
        ("inf", "inf"),
        ("nan", "nan"),
    ],
)
def test_what_says_nothing_is_left_out(text: str, tidied: str) -> None:
    assert tidy(text) == tidied


@given(st.floats())
def test_it_stays_the_same_number(value: float) -> None:
    again = tidy(repr(value))
    assert repr(float(again)) == repr(value)
    assert not again.endswith(".0")
