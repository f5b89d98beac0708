"""Axes that a text names by arguments: as many as these are."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.infer.multiples import with_multiples
from gradcheck_cli.infer.template import Hole, Template
from gradcheck_cli.inputs.clue import Clue, Entry, Kind
from gradcheck_cli.inputs.signature import Fixed, Signature
from tests.infer.fitted import NO_HINTS

PATCH = Clue("the body", kind=Kind.SHAPE, entries=(Entry("ph", ("h",)), Entry("pw", ("w",))))
HINTS = replace(
    NO_HINTS,
    clues={
        "x": [Clue("a docstring", "f32[C H W]"), Clue("the body", "f32[c h w]")],
        "patch": [PATCH],
        "heads": [Clue("a docstring", kind=Kind.WHOLE)],
    },
)


def dims(*holes: tuple[str, ...], **given: object) -> list[tuple[str, ...] | None]:
    fixed = tuple((name, Fixed(value, repr(value), "test")) for name, value in given.items())
    opened = Template(
        Signature(fixed), tuple(Hole("xyz"[i], "float", d) for i, d in enumerate(holes))
    )
    return [hole.dims for hole in with_multiples(opened, HINTS, {"heads": 4}).holes]


def test_entries_of_a_tuple_of_sizes_go_by_what_the_body_calls_them() -> None:
    found = dims(("C", "H", "W"), ("D", "C*ph*pw"), ("ph*pw",), patch=(3, 2))
    assert found == [("C", "3*H", "2*W"), ("D", "6*C"), ("6",)]


def test_arguments_go_by_their_names_and_their_defaults() -> None:
    assert dims(("T", "heads*d"), heads=3) == [("T", "3*d")]
    assert dims(("T", "2*heads*d")) == [("T", "8*d")]


def test_an_axis_of_the_name_of_an_argument_is_as_long_as_that_says() -> None:
    assert dims(("T", "heads"), heads=3) == [("T", "3")]
    assert dims(("T", "heads"), heads=64) == [("T", "heads")]


def test_an_axis_is_as_long_as_a_number_counts() -> None:
    assert dims(("T", "nodes"), n_nodes=5) == [("T", "5")]
    assert dims(("T", "12*years"), num_years=2) == [("T", "24")]
    assert dims(("T", "stops"), stop_count=3) == [("T", "3")]
    assert dims(("T", "nodes"), nodes=4, n_nodes=5) == [("T", "4")]
    assert dims(("T", "nodes"), n_nodes=1) == [("T", "nodes")]  # a size by which nothing is told


def test_what_has_a_default_may_count_something_else() -> None:
    fixed = (("num_samples", Fixed(2, "2", "test")),)
    opened = Template(Signature(fixed), (Hole("x", "float", ("channels", "samples")),))
    (hole,) = with_multiples(opened, HINTS, {"num_samples": 1}).holes
    assert hole.dims == ("channels", "samples")


def test_another_number_of_entries_says_nothing() -> None:
    assert dims(("C", "H", "W"), ("D", "C*ph"), patch=(3, 2, 2)) == [("C", "H", "W"), ("D", "C*ph")]
