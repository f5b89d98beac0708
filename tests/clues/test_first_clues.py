"""Of several sources that speak of one argument, which is heard first."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.first_clues import by_strength
from gradcheck_cli.inputs.clue import Clue, Kind

MARKS = Clue("the body", domain="in 0..2", kind=Kind.INTEGERS, declined=True)


def test_shares_that_are_compared_with_zero_are_no_integers() -> None:
    said = Clue("the docstring", domain="in [0, 1]")
    _, body = by_strength([said], MARKS)
    assert (body.kind, body.domain) == (Kind.ARRAY, "")


@pytest.mark.parametrize("domain", ["", "in 0..2", "in [0, 4]", "in binary"])
def test_other_marks_are_integers(domain: str) -> None:
    said = Clue("the docstring", spec="f32[n]", kind=Kind.ARRAY, domain=domain)
    first, body = by_strength([said], MARKS)
    assert (first.kind, body.kind) == (Kind.INTEGERS, Kind.INTEGERS)
