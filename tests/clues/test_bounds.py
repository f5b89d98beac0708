"""Arguments that are the ends of a range by their names."""

from __future__ import annotations

from gradcheck_cli.clues.bounds import clues, with_ends
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter


def test_every_lower_end_is_below_every_upper_one() -> None:
    for low, high in (("lo", "hi"), ("qmin", "qmax"), ("min_val", "max_val"), ("lower", "upper")):
        found = clues([low, "x", high], {})
        assert set(found) == {low, high}
        assert max(found[low].values) < min(found[high].values)


def test_whole_numbers_where_a_source_says_so() -> None:
    found = clues(["qmin", "qmax"], {"qmin": [Clue("a docstring", kind=Kind.WHOLE)]})
    assert all(type(value) is int for clue in found.values() for value in clue.values)


def test_a_word_within_a_word_and_an_end_alone_are_none() -> None:
    assert clues(["domain", "domaxx"], {}) == {}
    assert clues(["minimum"], {}) == {}
    assert clues(["low", "x"], {}) == {}


def test_numbers_that_a_source_chooses_stay() -> None:
    chosen = {"low": [Clue("a call", values=(0.1,))]}
    assert clues(["low", "high"], chosen) == {}


def test_they_come_before_the_usual_numbers_of_their_kind() -> None:
    usual = Clue("the docstring `qmin: (int)`", spec="3", values=(3, 2), kind=Kind.WHOLE)
    parameters = [Parameter(name, i, False, False) for i, name in enumerate(("qmin", "qmax"))]
    merged, ends = with_ends({"qmin": [usual]}, parameters)
    assert merged["qmin"][0] == ends["qmin"]
    assert merged["qmin"][1].values == ()
    assert merged["qmin"][1].kind is Kind.WHOLE
