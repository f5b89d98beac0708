"""Integers that a table never holds."""

from __future__ import annotations

from gradcheck_cli.clues.apart import kept_apart
from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter

BLANK = Parameter("blank", 2, differentiable=False, keyword_only=False, default=0)
TARGETS = Parameter("targets", 1, differentiable=False, keyword_only=False)


def test_a_table_begins_above_the_zero_that_it_never_holds() -> None:
    said = {"targets": [Clue("here", "i32[n] in 0..c", kind=Kind.INTEGERS, avoids="blank")]}
    found = kept_apart(said, [TARGETS, BLANK])
    assert found["targets"][0].spec == "i32[n] in 1..c"
    assert found["blank"][0].values == (0,)


def test_without_a_range_the_least_is_one() -> None:
    said = {"targets": [Clue("here", "i32[n]", kind=Kind.INTEGERS, avoids="blank")]}
    assert kept_apart(said, [TARGETS, BLANK])["targets"][0].domain == ">= 1"


def test_what_is_not_zero_stays() -> None:
    last = Parameter("blank", 2, differentiable=False, keyword_only=False, default=7)
    said = {"targets": [Clue("here", "i32[n]", kind=Kind.INTEGERS, avoids="blank")]}
    assert kept_apart(said, [TARGETS, last]) == said


def test_prose_says_what_is_never_there_and_how_long_what_is_padded_may_be() -> None:
    text = "targets: (n, s) labels, never blank\ninput_lengths: (n,) int, frames in use, <= s\n"
    said = read_text(Text("here", text, near=True), ["targets", "input_lengths", "blank"])
    assert said["targets"].avoids == "blank"
    assert said["input_lengths"].spec == "i32[n] in 1..s"
