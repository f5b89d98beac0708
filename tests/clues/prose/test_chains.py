"""Several parameters compared in one go."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.clues.prose.chains import without_chains

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("chain", "each"),
    [
        ("a > b > 0", "b > 0, a > 0"),
        ("0 < a <= b < 1", "0 < a < 1, 0 < b < 1"),
        ("a ≥ b ≥ c > 0.5", "c > 0.5, b > 0.5, a > 0.5"),
        ("a < b < 3", "a < 3, b < 3"),
    ],
)
def test_each_has_the_numbers_at_the_ends(chain: str, each: str) -> None:
    assert without_chains(f"here {chain}.", NAMES) == f"here {each}."


@pytest.mark.parametrize(
    "text",
    [
        "0 < a < 1", "0 <= a < n", "a < b", "a > b < 3", "0 < a < 2 < b", "0 unless a > b > 0.", "a > b > 0 gives nan",
        "for a > b > 0 the root is real",
    ],
)  # fmt: skip
def test_what_is_no_such_chain_stays(text: str) -> None:
    assert without_chains(text, NAMES) == text


def test_the_bounds_are_the_parameters() -> None:
    told = read_text(Text("here", "c in volts; a > b > 0.", near=True), NAMES)
    assert {name: clue.domain for name, clue in told.items() if clue.domain} == {
        "a": "> 0",
        "b": "> 0",
    }
