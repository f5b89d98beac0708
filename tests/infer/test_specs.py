"""Specs of the user as arguments."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.signature import Fixed, Leaf
from gradcheck_cli.project.input_specs import SpecError, parse


def argument(text: str):
    ((name, spec),) = parse(text).items()
    return specified(name, spec, "a comment")


def test_floats_vary_in_their_domain() -> None:
    p = argument("p=f32[n] in simplex")
    assert isinstance(p, Leaf)
    assert (p.path, p.shape, p.source, p.domain.text) == ("p", (3,), "a comment", "simplex")
    assert argument("p=f32[]").domain is None


def test_integers_repeat_are_not_in_order_and_stay_within_their_bounds() -> None:
    rows = argument("rows=i32[7] in 0..5")
    assert isinstance(rows, Fixed)
    assert rows.value.dtype == np.int32
    assert rows.value.tolist() == [0, 2, 4, 1, 3, 0, 2]
    assert set(argument("rows=i32[5]").value) == {0, 1, 2}


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("in 0..4", [0, 1, 2, 3]),
        ("in 1..3", [1, 2]),
        (">= 1", [1, 2, 3]),
        ("> 1", [2, 3, 4]),
        ("< 0", [-3, -2, -1]),
        ("in binary", [0, 1]),
        ("in signs", [-1, 1]),
        ("in positive", [1, 2, 3]),
    ],
)
def test_each_integer_of_a_range_comes_and_an_open_end_is_near_the_other(
    where: str, values: list[int]
) -> None:
    assert sorted(set(argument(f"rows=i32[8] {where}").value)) == values


def test_a_row_of_as_many_as_there_are_has_some_twice_and_what_is_sorted_is_in_order() -> None:
    assert argument("ids=i32[4] in 0..4").value.tolist() == [0, 3, 0, 3]
    assert argument("ids=i32[5] in 0..5").value.tolist() == [0, 2, 4, 0, 2]
    assert argument("ids=i32[4] in sorted").value.tolist() == [0, 0, 1, 2]
    assert argument("ids=i32[4] in increasing").value.tolist() == [0, 1, 2, 3]


def test_an_interval_without_a_whole_number_is_refused() -> None:
    for text, why in (
        ("in (0, 1)", "no whole number"),
        ("> inf", "no whole number"),
        ("> 3000000000", "32 bits"),
        ("in simplex", "a family of floats"),
    ):
        with pytest.raises(SpecError, match=why):
            parse(f"ids=i32[4] {text}")


def test_booleans_are_of_both_kinds() -> None:
    assert argument("mask=bool[4]").value.tolist() == [True, False, True, True]


def test_a_plain_value_stays() -> None:
    assert argument("power=3") == Fixed(3, "3", "a comment")


def test_trees_are_trees_of_leaves_with_paths_as_in_python() -> None:
    params = argument("params={layer: {w: f32[n k], b: f32[k] > 0}, steps: 3}")
    assert params["layer"]["w"] == Leaf("params['layer']['w']", (4, 3), "a comment")
    assert params["layer"]["b"].domain.text == "> 0"
    assert params["steps"] == Fixed(3, "3", "a comment")
    pair = argument("pair=(f32[n], [i32[n] in 0..2, f32[]])")
    assert (type(pair), type(pair[1])) == (tuple, list)
    assert (pair[0].path, pair[1][1].path) == ("pair[0]", "pair[1][1]")
