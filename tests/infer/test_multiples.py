"""Axes that are divided into parts."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.infer.multiples import with_multiples
from gradcheck_cli.infer.template import Hole, Template
from gradcheck_cli.inputs.clue import Clue, Entry, Kind
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Signature
from tests.infer.fitted import NO_HINTS

HINTS = replace(
    NO_HINTS,
    clues={
        "x": [Clue("a comment", "f32[B C]"), Clue("the body", "f32[b c]")],
        "groups": [Clue("the body", kind=Kind.WHOLE, divides=("c",))],
    },
)
HOLES = (Hole("x", "float", ("B", "C")), Hole("scale", "float", ("C",)), Hole("y", "float"))


def dims(groups: object, default: object = OMITTED) -> list[tuple[str, ...] | None]:
    opened = Template(Signature((("groups", groups),)), HOLES)
    return [hole.dims for hole in with_multiples(opened, HINTS, {"groups": default}).holes]


def test_what_is_divided_is_a_multiple_by_whatever_name() -> None:
    assert dims(Fixed(3, "3", "test")) == [("B", "3*C"), ("3*C",), None]
    assert dims(OMITTED, default=8) == [("B", "8*C"), ("8*C",), None]


def test_one_part_and_too_many_say_nothing() -> None:
    for number in (1, 32, 2.0):
        assert dims(Fixed(number, str(number), "test")) == [("B", "C"), ("C",), None]


def test_what_another_source_cuts_into_parts_is_a_multiple_wherever_it_stands() -> None:
    said = {"x": [Clue("a docstring", "f32[T D]"), Clue("the body", last=("2*part",))]}
    holes = (Hole("x", "float", ("T", "D")), Hole("scale", "float", ("D",)))
    opened = Template(Signature(()), holes)
    found = with_multiples(opened, replace(NO_HINTS, clues=said), {})
    assert [hole.dims for hole in found.holes] == [("T", "2*D"), ("2*D",)]


def test_half_of_a_window_is_its_centre_and_no_part() -> None:
    said = {"w": [Clue("a docstring", "f32[kh D]"), Clue("the body", first=("2*part", "2*part"))]}
    opened = Template(Signature(()), (Hole("w", "float", ("kh", "D")),))
    assert [hole.dims for hole in with_multiples(opened, replace(NO_HINTS, clues=said), {}).holes] == [("kh", "2*D")]  # fmt: skip


def test_a_letter_is_the_axis_that_a_text_writes_in_capitals() -> None:
    sides = Clue("the body", kind=Kind.SHAPE, entries=(Entry("", divides=("n",)),) * 2)
    hints = replace(NO_HINTS, clues={"box": [sides]})
    opened = Template(
        Signature((("box", Fixed((2, 3), "", "")),)), (Hole("x", "float", ("N", "D")),)
    )
    assert [hole.dims for hole in with_multiples(opened, hints, {}).holes] == [("6*N", "D")]
