"""What the integers of tables are below."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.infer.table_counts import counts, up_to_whole_axes
from gradcheck_cli.infer.template import template
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.inputs.stand_ins import integers


def below(*clues_of_table: Clue) -> int:
    """What places in `table`, of five rows, are below."""
    clues = {
        "table": clues_of_table,
        "ids": [Clue("the body", "i32[n]", domain="in -1..table_0", kind=Kind.INTEGERS)],
    }
    arguments = (("table", Leaf("table", (3, 3), "test")), ("ids", integers((3,), "test")))
    holes = template(Signature(arguments), clues, []).holes
    by_path = dict(
        zip([hole.path for hole in holes], counts(holes, [(5, 2), (4,)], 2), strict=True)
    )
    return by_path["ids"]


def test_an_axis_goes_by_the_names_of_all_sources() -> None:
    text, body = Clue("a docstring", "f32[rows dim]"), Clue("the body", first=("table_0",))
    assert below(text, body) == 6  # and the least of them is -1
    assert below(text) == 2  # nothing says what they are places of


def test_what_counts_the_items_of_an_axis_goes_as_far_as_it_is_long() -> None:
    clues = {
        "x": [Clue("a docstring", "f32[rows times]")],
        "lengths": [Clue("the body", "i32[n]", domain="in 1..times+1", kind=Kind.INTEGERS)],
    }
    arguments = (("x", Leaf("x", (3, 3), "test")), ("lengths", integers((3,), "test")))
    holes = template(Signature(arguments), clues, []).holes
    assert counts(holes, [(4, 6), (4,)], 3) == [3, 6]  # from 1 on: up to 6
    assert up_to_whole_axes(holes, [(4, 9), (4,)], [3, 6]) == [3, 9]


def of_quantities(*clues: Clue) -> int:
    fills = Signature((("fill", integers((3,), "test")),))
    return counts(template(fills, {"fill": clues}, []).holes, [(3,)], 3)[0]


def test_numbers_to_count_with_are_not_all_one_beside_zero() -> None:
    clue = Clue("the body", kind=Kind.INTEGERS)
    assert of_quantities(clue) == 3
    assert of_quantities(replace(clue, quantity=True)) == 5
    assert of_quantities(replace(clue, quantity=True, domain="in 0..2")) == 2


def test_an_axis_without_a_name_bounds_nothing() -> None:
    named = Clue("a docstring", "f32[rows dim]"), Clue("the body", first=("", "table_1"))
    assert below(*named) == 2
