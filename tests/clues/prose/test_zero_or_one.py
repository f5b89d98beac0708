"""Numbers that mark places."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.zero_or_one import is_zero_or_one


@pytest.mark.parametrize(
    "text",
    [
        " is 1 where the meter sent nothing; such hours get no weight.",
        " (homes, hours) is 1\n where nothing was sent",
        ": (n, c), 1 for a silent one",
        ", 1 where nothing was sent, 0 elsewhere",
        " are ones where a token is real, else zeros",
    ],
)
def test_what_is_1_somewhere_is_0_elsewhere(text: str) -> None:
    assert is_zero_or_one(text)


@pytest.mark.parametrize(
    "text",
    [
        " is 1 where nothing was sent and 0.5 where half was",
        " is 1 for a silent one, 2 for a dead one",
        " is 1 where it rains, otherwise its share",
        " is 1 for all",
        ": 1 for no scaling",
        " is 1 if x > 0",
        " is where it rains",
        " is 1 for an ideal gas and larger for a real one.",
        " is 1 for an ideal gas.",
        " (n,) is 1 where it rains and less where it drizzles",
    ],
)
def test_what_has_other_numbers_is_no_mark(text: str) -> None:
    assert not is_zero_or_one(text)
