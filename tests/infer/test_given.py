"""Numbers for arguments that may be left out."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.infer.given import given_numbers
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Leaf, Signature
from tests.infer.fitted import NO_HINTS

X = Signature((("x", Leaf("x", (4, 3), "test")),))


def clue(spec: str) -> Clue:
    return Clue("the docstring", spec, kind=Kind.ARRAY)


def test_there_is_one_number_for_each_place_of_a_named_axis() -> None:
    clues = {"x": [clue("f32[n k]")], "w": [clue("f32[k]")], "table": [clue("f32[k 2]")]}
    hints = replace(NO_HINTS, clues=clues)
    row, array = given_numbers("w", X, hints)
    assert row.value == (0.5, 0.75, 1.0)
    assert array.value.tolist() == [0.5, 0.75, 1.0]
    assert [each.value.shape for each in given_numbers("table", X, hints)] == [(3, 2)]


def test_an_axis_of_nothing_else_may_be_any_of_the_arrays() -> None:
    hints = replace(NO_HINTS, clues={"w": [clue("f32[classes]")]})
    assert [len(each.value) for each in given_numbers("w", X, hints)] == [3, 3, 4, 4]


def test_several_axes_of_nothing_else_have_no_size() -> None:
    hints = replace(NO_HINTS, clues={"w": [clue("f32[classes 2]")]})
    assert list(given_numbers("w", X, hints)) == []


def test_weights_are_given_whatever_the_text_says() -> None:
    assert [each.text for each in given_numbers("class_weights", X, NO_HINTS)][1] == "f32[3]"
    assert list(given_numbers("name", X, NO_HINTS)) == []
