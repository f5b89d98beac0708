"""Recorded calls as signatures of a later run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.recorded import (
    FloatArg,
    IntArg,
    OpaqueArg,
    PlainArg,
    RecordedCall,
    TreeArg,
)
from gradcheck_cli.infer.recalled import recalled
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf
from tests.infer.fitted import NO_HINTS, parameters_of


def function(x: Any, n: int = 3) -> None: ...


HINTS = replace(NO_HINTS, functions=[("tanh", np.tanh)])


def signature(**arguments: Any) -> Any:
    return recalled(RecordedCall(arguments=arguments), parameters_of(function), HINTS)


def first(argument: Any) -> Any:
    return signature(x=argument).arguments[0][1]


def test_floats_keep_their_numbers_and_their_family() -> None:
    leaf = first(FloatArg(dtype="float32", shape=[2], values=[1.0, 3.0], structure="simplex"))
    assert (leaf.path, leaf.shape, leaf.source) == ("x", (2,), "a recorded call")
    assert (leaf.recorded.tolist(), leaf.domain.bounds.family) == ([1.0, 3.0], "simplex")
    assert first(FloatArg(dtype="float32", shape=[])) == Leaf("x", (), "a recorded call")


def test_integers_without_numbers_lie_in_their_range() -> None:
    assert first(IntArg(dtype="int32", shape=[2], values=[4, 9])).value.tolist() == [4, 9]
    rows = first(IntArg(dtype="int32", shape=[6], low=2, high=4))
    assert (set(rows.value.tolist()), rows.value.dtype) == ({2, 3, 4}, np.int32)


def test_trees_have_paths() -> None:
    one = FloatArg(dtype="float32", shape=[])
    assert first(TreeArg(kind="dict", items=[one], names=["w"]))["w"].path == "x['w']"
    pair = first(TreeArg(kind="tuple", items=[one, PlainArg(value=2)]))
    assert (pair[0].path, pair[1].value) == ("x[0]", 2)


def test_what_was_left_out_is_left_out_again() -> None:
    one = FloatArg(dtype="float32", shape=[])
    assert dict(signature(x=one).arguments)["n"] is OMITTED


def test_a_function_of_today_stands_for_one_of_then() -> None:
    stand_in = Fixed(np.tanh, "tanh", "a recorded call gave a function", invented=True)
    assert first(OpaqueArg(type="function")) == stand_in


def test_what_does_not_fit_any_more_is_no_signature() -> None:
    one = FloatArg(dtype="float32", shape=[])
    assert signature(x=one, gone=one) is None  # another parameter
    assert signature(n=PlainArg(value=3)) is None  # x has no default
    assert signature(x=OpaqueArg(type="Model")) is None
    assert signature(x=TreeArg(kind="list", items=[OpaqueArg(type="Model")])) is None
