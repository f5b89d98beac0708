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
        ("a > b > 0", "0 < b <= 1, a > 1"),
        ("0 < a <= b < 1", "0 < a <= 0.5, 0.5 <= b < 1"),
        ("a ≥ b ≥ c > 0.5", "0.5 < c <= 1.5, 1.5 <= b <= 2.5, a >= 2.5"),
        ("a < b < 3", "a <= 2, 2 < b < 3"),
    ],
)
def test_each_gets_a_stretch_in_which_all_holds(chain: str, each: str) -> None:
    assert without_chains(f"here {chain}.", NAMES) == f"here {each}."


@pytest.mark.parametrize("text", ["0 < a < 1", "0 <= a < n", "a < b", "a > b < 3", "0 < a < 2 < b"])
def test_what_is_no_such_chain_stays(text: str) -> None:
    assert without_chains(text, NAMES) == text


@pytest.mark.parametrize("near", [True, False])
def test_bounds_in_signs_are_heard_wherever_they_stand(near: bool) -> None:
    told = read_text(Text("here", "volts throughout; c > 0, a > b > 0", near=near), NAMES)
    domains = {name: clue.domain for name, clue in told.items()}
    assert domains == {"a": "> 1", "b": "in (0, 1]", "c": "> 0"}


@pytest.mark.parametrize("text", ["c is positive", "For c > 0 the series is used", "if c > 0"])
def test_a_text_about_more_than_the_function_has_to_say_it_in_signs(text: str) -> None:
    assert read_text(Text("here", text, near=False), NAMES) == {}
