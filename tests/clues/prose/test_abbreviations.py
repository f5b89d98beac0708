"""Words that names of parameters are short for."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.abbreviations import in_one_word, shortened


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        (
            "Read (B, C, H, W) at points (B, P, 2).",
            ["fmap", "pts"],
            "Read (B, C, H, W) at pts (B, P, 2).",
        ),
        ("of features of shape (n, d)", ["feat"], "of feat of shape (n, d)"),
        ("moves points that are near", ["pts"], "moves points that are near"),
        ("pts at points (n, 2)", ["pts"], "pts at points (n, 2)"),
        ("points (n, 2)", ["pts", "points"], "points (n, 2)"),
        ("points (n, 2), pivots (n, 1)", ["p", "ps"], "points (n, 2), pivots (n, 1)"),
    ],
)
def test_a_word_with_a_shape_stands_for_the_name_that_is_short_for_it(
    text: str, names: list[str], said: str
) -> None:
    assert shortened(text, names) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rounds] hill ids, the Hill-ID of each", "[rounds] hill_id, the hill_id of each"),
        ("hill_id: (n,), the hill ids", "hill_id: (n,), the hill ids"),
        ("an uphill idea", "an uphill idea"),
    ],
)
def test_a_name_of_several_words_may_be_written_as_these(text: str, said: str) -> None:
    assert in_one_word(text, ["x", "hill_id"]) == said
