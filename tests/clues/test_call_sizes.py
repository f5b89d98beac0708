"""What a call says beside what a docstring says: the same sizes by the same names."""

from __future__ import annotations

from gradcheck_cli.clues.call_sizes import read_arguments, with_names_of
from gradcheck_cli.clues.interpreted.values import FLOAT, INT, Array, Range
from gradcheck_cli.inputs.clue import Clue


def named(calls: dict[str, str], said: dict[str, str]) -> dict[str, str]:
    found = with_names_of(
        {name: Clue("a call", spec=spec) for name, spec in calls.items()},
        [(name, [Clue("the docstring", spec=spec)]) for name, spec in said.items()],
    )
    return {name: clue.spec for name, clue in found.items()}


def test_a_size_of_a_call_gets_the_name_that_the_docstring_has() -> None:
    assert named({"x": "f32[d7 d3]", "w": "f32[d3]"}, {"x": "f32[batch dim]"}) == {
        "x": "f32[batch dim]",
        "w": "f32[dim]",
    }


def test_so_does_a_size_that_the_call_has_by_a_name() -> None:
    calls = {
        "start": "f32[num_tags]",
        "moves": "f32[num_tags num_tags]",
        "ids": "i32[n] in 0..num_tags",
    }
    assert named(calls, {"start": "f32[tags]"}) == {
        "start": "f32[tags]",
        "moves": "f32[tags tags]",
        "ids": "i32[n] in 0..tags",
    }


def test_keys_and_types_keep_their_names() -> None:
    calls = {"p": "{w: f32[w b], b: f32[b]}", "p['w']": "f32[w b]"}
    assert (
        named(calls, {"p['w']": "f32[rows columns]"})["p"]
        == "{w: f32[rows columns], b: f32[columns]}"
    )


def test_two_sizes_that_would_get_one_name_stay_apart() -> None:
    calls = {"x": "f32[d7]", "y": "f32[d3]"}
    assert named(calls, {"x": "f32[n]", "y": "f32[n]"}) == calls


def said(**arrays: tuple[int, ...]) -> dict[str, str]:
    values = {name: Array(FLOAT, shape) for name, shape in arrays.items()}
    return {n: clue.spec for n, clue in read_arguments(values, "a call", list(arrays)).items()}


def test_an_example_of_one_item_says_no_size() -> None:
    assert said(x=(1,), w=(1,), scale=()) == {"x": "f32[d1]", "w": "f32[d1]", "scale": "f32[]"}
    assert said(x=(4,), w=(1,)) == {"x": "f32[d4]", "w": "f32[1]"}
    assert said(x=(1,)) == {"x": "f32[1]"}
    ids = {"x": Array(FLOAT, (1,)), "w": Array(FLOAT, (1,)), "ids": Array(INT, (1,), Range(0, 0))}
    assert read_arguments(ids, "a call", ["x", "w"])["ids"].spec == "i32[d1] in 0..1"
    assert said(x=(1, 1), w=(1,)) == {"x": "f32[1 1]", "w": "f32[1]"}
