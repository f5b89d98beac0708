"""Numbers that mark places."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.zero_or_one import is_zero_or_one


@pytest.mark.parametrize(
    "text",
    [
        " (homes, hours) is 1 where the meter sent nothing; such hours are left out.",
        " (homes, hours) is 1\n where nothing was sent",
        ": (n, c), 1 where nothing was sent",
        ", 1 where nothing was sent, 0 elsewhere",
        " are ones where a token is real, else zeros",
    ],
)
def test_what_is_1_somewhere_is_0_elsewhere(text: str) -> None:
    assert is_zero_or_one(text)


@pytest.mark.parametrize(
    "text",
    [
        " (n, c) is 1 where nothing was sent and 0.5 where half was",
        " (n, c) is 1 where it is silent, 2 where it is dead",
        " (n, c) is 1 where it rains, otherwise what was measured",
        " is 1 where it rains",
        " (n,) is 1 for all",
        ": 1 for no scaling",
        " is 1 where x > 0, else 0",
        " is where it rains",
        " is 1 for an ideal gas and larger for a real one.",
        " is 1 at the critical temperature.",
        " is one at the boundary and decays away from it.",
        " (n,) are 1 where the data are trusted and smaller where they are not.",
        " (n,) is 1 where trusted, a tenth in other places.",
        " (n) is 1 where valid. Soft masks are allowed.",
        " (n,) is 1 where it is full; it falls to the right.",
        " is one when not annealed.",
    ],
)
def test_what_has_other_numbers_or_degrees_is_no_mark(text: str) -> None:
    assert not is_zero_or_one(text)
