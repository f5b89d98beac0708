"""Shares of a count: a trimmed mean that trims nothing shows nothing."""

from __future__ import annotations

import math

import pytest

from tests.clues.source_text.libraries import values


def trimmed(x, fraction=0.05):
    n = x.shape[-1]
    return x[int(fraction * n) :]


def kept(x, rate=0.1):
    return x[: max(1, math.ceil(len(x) * rate))]


@pytest.mark.parametrize(("function", "name"), [(trimmed, "fraction"), (kept, "rate")])
def test_a_share_that_leaves_something_of_a_few(function, name) -> None:
    *_, share = values(function)[name]
    assert [int(share * n) for n in (3, 5)] == [1, 2]


def test_what_is_no_share_of_a_count() -> None:
    def function(x, rate, seconds, width):
        return x[int(rate * seconds) : int(width * 3)]

    assert values(function) == {}
