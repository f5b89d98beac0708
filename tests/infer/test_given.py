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


def test_axes_of_nothing_else_have_no_size() -> None:
    hints = replace(NO_HINTS, clues={"w": [clue("f32[classes]")]})
    assert list(given_numbers("w", X, hints)) == []
