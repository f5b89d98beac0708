"""Axes of arrays as unknowns, by what a source calls them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradcheck_cli.infer.sizes import Size
from gradcheck_cli.infer.template import (
    Hole,
    Template,
    agree,
    as_called,
    template,
    unknown_shapes,
    unlike_fields,
    with_columns,
)
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.inputs.stand_ins import integers


def holes(*dims: tuple[str, ...]) -> list[Hole]:
    return [Hole(f"x{i}", "float", names) for i, names in enumerate(dims)]


def test_axes_of_one_name_are_one_unknown_and_multiples_are_multiples() -> None:
    gates, state, more = unknown_shapes(holes(("n", "4*h"), ("n", "h"), ("h+1", "3")), [2, 2, 2])
    assert gates[0] == state[0]
    assert gates[1] == Size().plus(state[1], 4)
    assert more == (state[1].plus(Size(constant=1)), Size(constant=3))


def test_of_a_product_of_two_names_the_first_is_a_number() -> None:
    flat, heads = unknown_shapes(holes(("n", "k*p"), ("k", "p")), [2, 2])
    assert heads[0] == Size(constant=3)
    assert flat[1] == Size().plus(heads[1], 3)


def test_fields_of_one_object_mostly_have_as_many_axes() -> None:
    fields = [Hole(f"couple.{name}", "float", None) for name in ("i0", "slope")]
    assert unlike_fields([*fields, Hole("x", "float", None)], (1, 1, 2)) == 0
    assert unlike_fields(fields, (2, 1)) == 1
    assert unlike_fields([Hole("a", "float", None), Hole("b", "float", None)], (2, 1)) == 0


def test_sizes_of_a_call_are_its_numbers() -> None:
    (called,) = as_called(holes(("d4", "n", "2*d")))
    assert called.dims == ("4", "n", "2*d")


def test_integers_begin_where_a_source_says() -> None:
    y = Fixed(np.zeros(4, np.int32), "i32[4]", "test")
    clue = Clue("the docstring `y`", "i32[n] in -1..2", kind=Kind.INTEGERS)
    opened = template(Signature((("y", y),)), {"y": [clue]}, ())
    (hole,) = opened.holes
    assert (hole.below, hole.least) == ("2", -1)
    ((_, filled),) = opened.at([(5,)], [3], ascending=False).arguments
    assert filled.value.tolist() == [0, -1, 1, 0, -1]


def test_axes_are_named_from_both_ends_where_their_number_is_open() -> None:
    open_ = Hole("x", "float", first=("n",), last=("2*d",))
    (rows, _, columns), (row, width) = unknown_shapes(
        [open_, Hole("y", "float", ("n", "d"))], [3, 2]
    )
    assert rows == row
    assert columns == Size().plus(width, 2)


def test_all_axes_are_multiples_where_one_of_them_is_divided() -> None:
    ((one, other),) = unknown_shapes([Hole("x", "float", factor=2)], [2])
    assert (one.terms[0][1], other.terms[0][1]) == (2, 2)


def test_columns_that_seem_to_be_all_are_first_taken_for_all() -> None:
    pairs = Hole("pairs", "int", first=("", "2?"))
    (sure,) = with_columns(Template(Signature(()), (pairs,))).holes
    ((_, open_),) = unknown_shapes([pairs], [2])
    ((_, two),) = unknown_shapes([sure], [2])
    assert (open_ != Size(constant=2), two) == (True, Size(constant=2))
    assert (pairs.members(2), sure.members(2)) == (None, 1)


def test_a_likely_number_of_axes_comes_first_and_forbids_no_other() -> None:
    assert Hole("v", "float", likely_rank=4).ranks((1, 2)) == [4, 2, 1]


def test_a_sum_of_names_is_the_sum_of_their_sizes() -> None:
    holes = [
        Hole("kernel", "float", ("I+H", "4*H")),
        Hole("bias", "float", ("4*H",)),
        Hole("peephole", "float", ("3", "H")),
    ]
    kernel, bias, peephole = unknown_shapes(holes, [2, 1, 2])
    assert kernel[1] == bias[0] == Size().plus(peephole[1], 4)
    rest = kernel[0].plus(peephole[1], -1)
    assert len(rest.terms) == 1


def test_integers_that_others_do_not_exceed_are_theirs_place_by_place() -> None:
    whole = integers((3,), "test")
    signature = Signature((("tokens", whole), ("frames", whole)))
    clues = {
        "tokens": [Clue("the docstring", spec="i32[b]", domain=">= 1", kind=Kind.INTEGERS)],
        "frames": [Clue("the docstring", spec="i32[b]", kind=Kind.INTEGERS, least_of="tokens")],
    }
    opened = template(signature, clues, [])
    filled = dict(opened.at([(4,), (4,)], [3, 3], False).arguments)
    assert (filled["tokens"].value <= filled["frames"].value).all()
    assert (filled["tokens"].value < filled["frames"].value).any()
    assert filled["tokens"].value.min() == 1


def test_axes_of_one_name_leave_the_lowest_unknowns_to_the_others() -> None:
    holes = [Hole(name, "float", ("B", "T", "D")) for name in "qkv"]
    shapes = unknown_shapes([*holes, Hole("w", "float")], [3, 3, 3, 1])
    used = {u for shape in shapes for size in shape for u, _ in size.terms}
    assert used == {0, 1, 2, 3}
    assert shapes[0] == shapes[1] == shapes[2]


def test_splits_begin_at_nothing_and_end_with_all_items() -> None:
    ids = Fixed(np.zeros(3, np.int32), "i32[3]", "", path="ids")
    row_splits = Fixed(np.zeros(3, np.int32), "i32[3]", "", path="row_splits")
    opened = template(Signature((("ids", ids), ("row_splits", row_splits))), {}, [])
    arguments = dict(opened.at([(5,), (4,)], [3, 5], ascending=False).arguments)
    assert arguments["row_splits"].value.tolist() == [0, 1, 1, 5]


def test_a_tuple_of_any_number_of_integers_is_as_long_as_an_axis_may_be() -> None:
    said = Clue("its annotation `tuple[int, ...]`", kind=Kind.SHAPE)
    signature = Signature((("charges", Fixed((3,), "(3,)", "test")),))
    opened = template(signature, {"charges": [said]}, ())
    assert [(hole.kind, hole.ranks(range(5))) for hole in opened.holes] == [("row", [1])]
    ((_, filled),) = opened.at([(5,)], [3], ascending=False).arguments
    assert filled.value == (2, 1, 3, 4, 2)


def test_the_shape_of_something_is_no_such_tuple() -> None:
    said = Clue("its annotation `tuple[int, ...]`", kind=Kind.SHAPE)
    signature = Signature((("out_shape", Fixed((3,), "(3,)", "test")),))
    assert not template(signature, {"out_shape": [said]}, ()).holes


def test_arrays_of_one_shape_share_their_axes() -> None:
    pair = [Hole("lon", "float"), Hole("lat", "float", alike="lon")]
    lon, lat = unknown_shapes(pair, [2, 2])
    assert lon == lat
    assert len(set(lon)) == 2
    assert agree(pair, [1, 1])
    assert not agree(pair, [2, 1])
    assert agree([Hole("lat", "float", alike="gone")], [1])


def test_arrays_that_are_like_each_other_or_like_one_that_is_like_a_third() -> None:
    mutual = [Hole("u", "float", alike="v"), Hole("v", "float", alike="u")]
    u, v = unknown_shapes(mutual, [2, 2])
    assert u == v
    chain = [Hole("u", "float", alike="v"), Hole("v", "float"), Hole("w", "float", alike="u")]
    assert len({tuple(row) for row in unknown_shapes(chain, [2, 2, 2])}) == 1


@dataclass(slots=True, frozen=True)
class Grades:
    count: int
    strict: bool = True


def test_numbers_of_objects() -> None:
    made = Fixed(Grades(3), "Grades", "test")
    kinds = Fixed(Grades, "Grades", "test")
    call = Signature((("made", made), ("kind", kinds)))
    assert template(call, {}, []).numbers_of_objects == [3]


def test_distinct_places_are_sorted_where_that_is_asked() -> None:
    hole = Hole("ids", "int", dims=("k",), distinct=True)
    assert hole.integers((3,), 5, "here", True, ["ids"]).value.tolist() == sorted(
        hole.integers((3,), 5, "here", False, ["ids"]).value.tolist()
    )


def test_masks_of_one_call_differ_and_the_first_beside_a_table_is_not_that_table() -> None:
    masks = tuple((n, Fixed(np.ones((4, 3), bool), "bool[4, 3]", "test")) for n in ("one", "two"))
    labels = ("labels", integers((4, 3), "test"))
    for arguments in (masks, (*masks, labels)):
        opened = template(Signature(arguments), {}, [])
        filled = dict(opened.at([(4, 3)] * len(arguments), [3] * len(arguments), False).arguments)
        assert (filled["one"].value != filled["two"].value).any()
    alone = dict(template(Signature(masks), {}, []).at([(4, 3)] * 2, [3] * 2, False).arguments)
    assert (alone["one"].value != filled["one"].value).any()
