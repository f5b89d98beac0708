"""A signature again with one of its sizes doubled."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.infer.richer import (
    in_pieces,
    is_longer,
    larger,
    longer,
    odd,
    over_blocks,
    past_bounds,
    past_slices,
    wider,
    with_other_entries,
)
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Fixed, Hints, Leaf, Signature
from gradcheck_cli.subject.results import Cut

NOTHING = Hints({}, {}, [])
DEVICES = Path(__file__).parents[2] / "docs" / "devices.md"


def test_all_axes_of_one_size_are_doubled_together() -> None:
    signature = Signature((("x", Leaf("x", (2, 4), "")), ("scale", Leaf("scale", (4,), ""))))
    shapes = [[leaf.shape for leaf in s.leaves] for s in larger(signature, NOTHING)]
    assert shapes == [[(2, 8), (8,)], [(4, 4), (4,)]]


def test_three_coordinates_stay_three() -> None:
    hints = replace(NOTHING, clues={"x": [Clue("test", "f32[n 3]")]})
    signature = Signature((("x", Leaf("x", (4, 3), "")), ("w", Leaf("w", (3,), ""))))
    shapes = [[leaf.shape for leaf in s.leaves] for s in larger(signature, hints)]
    assert shapes == [[(8, 3), (3,)], [(4, 3), (6,)]]


def test_a_table_grows_with_its_rows_and_keeps_its_range() -> None:
    ids = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "")
    signature = Signature((("x", Leaf("x", (3, 5), "")), ("ids", ids)))
    rows = next(s for s in larger(signature, NOTHING) if s.leaves[0].shape == (6, 5))
    table = dict(rows.arguments)["ids"].value
    assert table.shape == (6,)
    assert table.max() == 2


def test_what_grows_too_large_is_left_out() -> None:
    signature = Signature((("x", Leaf("x", (300,), "")),))
    assert list(larger(signature, NOTHING)) == []


@pytest.mark.parametrize(("outside", "expected"), [(["ids"], [4, 5, -1, 0, 1, -100]), ([], [0, 1])])
def test_a_table_ends_with_a_size_or_with_a_mark_where_such_may_be(
    outside: list[str], expected: list[int]
) -> None:
    hints = replace(NOTHING, outside=frozenset(outside))
    ids = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "")
    signature = Signature((("x", Leaf("x", (4, 5), "")), ("ids", ids)))
    ends = [dict(s.arguments)["ids"].value[-1] for s in with_other_entries(signature, "ids", hints)]
    assert ends == expected
    assert ids.value.tolist() == [2, 0, 2]
    assert list(with_other_entries(signature, "x", NOTHING)) == []


def test_what_is_below_zero_where_it_names_no_place_is_no_size() -> None:
    clues = {"ids": [Clue("the body", kind=Kind.INTEGERS, domain="in -1..classes")]}
    hints = replace(NOTHING, outside=frozenset(["ids"]), clues=clues)
    ids = Fixed(np.array([2, -1, 2], np.int32), "i32[3]", "")
    signature = Signature((("x", Leaf("x", (4, 5), "")), ("ids", ids)))
    ends = [dict(s.arguments)["ids"].value[-1] for s in with_other_entries(signature, "ids", hints)]
    assert ends == [-1, 0, 1, -100]


def test_axes_reach_past_late_slices_one_after_the_other() -> None:
    signature = Signature((("x", Leaf("x", (4, 3), "")), ("w", Leaf("w", (3,), ""))))
    tried = list(past_slices(signature, NOTHING))
    assert [[leaf.shape for leaf in s.leaves] for s in tried] == [
        [(2, 24), (24,)], [(24, 2), (2,)], [(2, 96), (96,)], [(96, 2), (2,)], [(2, 384), (384,)], [(384, 2), (2,)],
    ]  # fmt: skip
    assert all(map(is_longer, tried))
    assert not is_longer(signature)


def test_an_axis_is_three_pieces_long_else_two() -> None:
    signature = Signature((("x", Leaf("x", (4, 3), "")),))
    tried = list(in_pieces(signature, NOTHING, 8))
    shapes = [[leaf.shape for leaf in s.leaves] for s in tried]
    assert shapes == [[(17, 2)], [(2, 17)], [(16, 2)], [(2, 16)]]
    assert all(map(is_longer, tried))
    assert list(in_pieces(signature, NOTHING, 4096)) == []


def test_a_text_that_gives_other_axes_says_nothing_of_the_sizes() -> None:
    hints = replace(NOTHING, clues={"x": [Clue("test", "f32[n 3]")]})
    signature = Signature((("x", Leaf("x", (3,), "")),))
    assert [[leaf.shape for leaf in s.leaves] for s in larger(signature, hints)] == [[(6,)]]


def test_all_are_made_odd_first_then_the_axis_of_which_half_is_there() -> None:
    signature = Signature((("x", Leaf("x", (2, 6), "")), ("bank", Leaf("bank", (5, 4), ""))))
    shapes = [[leaf.shape for leaf in s.leaves] for s in odd(signature, NOTHING)]
    assert shapes[0] == [(3, 7), (5, 5)]
    assert [(2, 7), (5, 4)] in shapes


def test_an_odd_axis_stays() -> None:
    signature = Signature((("x", Leaf("x", (3, 5), "")),))
    assert list(odd(signature, NOTHING)) == []


def test_short_axes_are_made_a_few_longer() -> None:
    signature = Signature((("x", Leaf("x", (2, 7), "")), ("w", Leaf("w", (2,), ""))))
    shapes = [[leaf.shape for leaf in s.leaves] for s in longer(signature, NOTHING)]
    assert shapes == [[(5, 7), (5,)]]


def test_the_axis_that_the_body_counts_is_made_longer_first_and_no_number_divides_it() -> None:
    clue = Clue("the body `steps = x.shape[1]`", first=("", "steps"))
    hints = replace(NOTHING, clues={"x": [clue]})
    signature = Signature((("x", Leaf("x", (2, 4, 3), "")),))
    first, *rest = ([leaf.shape for leaf in s.leaves] for s in longer(signature, hints))
    assert first == [(2, 7, 3)]
    assert rest == [[(2, 4, 7)], [(5, 4, 3)]]


def test_arrays_of_more_than_the_page_of_devices_says_are_not_tried_over_blocks() -> None:
    def tried(columns: int) -> list[list[tuple[int, ...]]]:
        signature = Signature((("x", Leaf("x", (3, 2), "")),))
        found = over_blocks(signature, NOTHING, Cut(2, columns))
        return [[leaf.shape for leaf in each.leaves] for each in found]

    assert tried(499) == [[(2, 999)], [(2, 998)]]  # of three rows it would be too large
    assert tried(500) == [[(2, 1000)]]
    assert "Arrays of more than 2,000 numbers" in DEVICES.read_text(encoding="utf-8")


def test_a_bound_that_a_condition_names_is_moved_far() -> None:
    kept = Leaf("x", (4, 3), "")
    here = Signature(
        (("x", kept), ("cap", Fixed(10.0, "10.0", "its default")), ("n", Fixed(3, "3", "")))
    )
    hints = Hints({}, {}, [], cut_off_by=frozenset({"cap"}))
    moved = [dict(there.arguments)["cap"] for there in past_bounds(here, "weights < cap", hints)]
    assert [bound.value for bound in moved] == [0.625, 160.0]
    assert "`weights < cap`" in moved[0].source
    assert not list(past_bounds(here, "weights < caps * n", hints))
    assert not list(past_bounds(here, "weights < cap", Hints({}, {}, [])))  # a threshold


def test_wider_rows_come_with_tables_that_count_further_then_without() -> None:
    lengths = Fixed(np.array([2, 0, 2, 1]), "i32[4]", "test")
    signature = Signature((("x", Leaf("x", (4, 3), "")), ("lengths", lengths)))
    first, second = itertools.islice(wider(signature, NOTHING), 2)
    assert [leaf.shape for leaf in first.leaves] == [(6, 5)]
    largest = [dict(s.arguments)["lengths"].value.max() for s in (first, second)]
    assert largest == [5, 2]
