"""The comment to add where no inputs were accepted: one line, for each parameter, that is heard and valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.infer.comment_to_add import comment_to_add
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.project.comments import parse as comments_of
from gradcheck_cli.project.input_specs import parse
from tests.infer.fitted import NO_HINTS, parameters_of


def comment(function: Callable[..., Any], hints: Hints = NO_HINTS, **clues: Clue) -> str:
    listed = {**hints.clues, **{name: [clue] for name, clue in clues.items()}}
    text = comment_to_add(parameters_of(function), replace(hints, clues=listed))
    assert parse(text)
    (heard,) = comments_of(f"# cgcheck: {text}\ndef f(): ...\n").inputs
    assert (heard.text, heard.applies_to) == (text, 2)
    return text


def said(spec: str = "", kind: Kind = Kind.NOTHING, **fields: Any) -> Clue:
    return Clue("test", spec, kind=kind, **fields)


def test_an_array_for_each_parameter_of_which_nothing_is_said() -> None:
    assert comment(lambda x, w: x) == "x=f32[n], w=f32[n]"


def test_the_ranks_kinds_and_domains_that_sources_state() -> None:
    text = comment(
        lambda x, w, ids, keep, axis, how: x,
        x=said("f32[batch dim] > 0"), w=said(rank=2, kind=Kind.ARRAY, domain="in [0, 1]"),
        ids=said(kind=Kind.INTEGERS), keep=said(kind=Kind.BOOLS, rank=2), axis=said(kind=Kind.AXIS),
        how=said(kind=Kind.WORD, values=("mean", "sum")),
    )  # fmt: skip
    assert text == (
        "x=f32[batch dim] > 0, w=f32[m n] in [0, 1], ids=i32[n], keep=bool[m n], axis=-1, how='mean'"
    )


def test_trees_by_the_keys_that_the_body_reads() -> None:
    hints = replace(NO_HINTS, keys={"params": ["w", "b"]}, unpacked={"pair": 2})
    clues = {"params['w']": [said(rank=2)], "pair[1]": [said(rank=0)]}
    text = comment(lambda params, pair: pair, replace(hints, clues=clues))
    assert text == "params={w: f32[m n], b: f32[n]}, pair=(f32[n], f32[])"


def test_defaults_and_functions_are_left_out() -> None:
    assert comment(lambda x, f, eps=1e-5: x, f=said(kind=Kind.FUNCTION)) == "x=f32[n]"
    assert comment_to_add(parameters_of(lambda *xs: xs), NO_HINTS) == ""


def test_what_is_not_differentiated_is_a_plain_value() -> None:
    parameters = declared(lambda x, n: x, 0, lambda index, parameter: index == 0)
    assert comment_to_add(parameters, NO_HINTS) == "x=f32[n], n=0.5"


@pytest.mark.parametrize("spec", ["f32[n", "Array", "f32[n] in the unit ball", "z64[n]"])
def test_a_spec_that_is_not_valid_gives_way(spec: str) -> None:
    assert comment(lambda x, w: x, x=said(spec, rank=2), w=said("f32[d]")) == "x=f32[m n], w=f32[d]"


CLUES: Sequence[Mapping[str, Any]] = [{"kind": kind} for kind in Kind] + [
    {"kind": kind, "rank": rank} for kind in Kind for rank in (0, 2, 5, 9)
]


@pytest.mark.parametrize("fields", CLUES, ids=str)
def test_every_line_is_valid(fields: Mapping[str, Any]) -> None:
    assert comment(lambda first, x: x, x=said(**fields)).startswith("first=f32[n]")
