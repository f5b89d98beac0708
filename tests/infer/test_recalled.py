"""Recorded calls as signatures of a later run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradcheck_cli.contract.recorded import (
    FloatArg,
    IntArg,
    OpaqueArg,
    PlainArg,
    RecordedCall,
    TreeArg,
)
from gradcheck_cli.infer.recalled import recalled, unkept
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf
from gradcheck_cli.project.input_specs import condition
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


def test_a_plain_number_that_is_differentiated_varies() -> None:
    (leaf,) = (value for name, value in signature(x=PlainArg(value=5.0)).arguments if name == "x")
    assert (leaf.shape, leaf.recorded) == ((), 5.0)
    domain = Domain(condition("x > 0")[1], "a docstring")
    hints = replace(HINTS, domains={"x": domain})
    call = RecordedCall(arguments={"x": PlainArg(value=5.0)})
    recorded: Any = recalled(call, parameters_of(function), hints)
    assert recorded.arguments[0][1].domain == domain
    held = replace(hints, objects_are_held=True)  # of torch a number is none that anybody learns
    constant: Any = recalled(call, parameters_of(function), held)
    assert constant.arguments[0][1] == Fixed(5.0, "5.0", "a recorded call")


def test_an_array_lies_where_the_text_says() -> None:
    domain = Domain(condition("x > 0")[1], "a docstring")
    call = RecordedCall(arguments={"x": FloatArg(dtype="float32", shape=[2])})
    recorded: Any = recalled(call, parameters_of(function), replace(HINTS, domains={"x": domain}))
    assert recorded.arguments[0][1].domain == domain


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


class State(NamedTuple):
    position: Any
    count: Any


def test_an_object_is_made_of_its_fields_again() -> None:
    one = FloatArg(dtype="float32", shape=[2])
    stored = TreeArg(kind="object", names=["position", "count"], items=[one, PlainArg(value=2)])
    call = RecordedCall(arguments={"x": stored})
    hints = replace(HINTS, classes={"x": State})
    made = recalled(call, parameters_of(function), hints)
    assert made is not None
    built = made.arguments[0][1]
    assert [part.path for part in built.parts if isinstance(part, Leaf)] == ["x.position"]
    assert isinstance(built.make([np.ones(2), 2]), State)
    assert recalled(call, parameters_of(function), HINTS) is None  # of which class nobody knows


def test_what_cannot_be_stored_is_named() -> None:
    inner = TreeArg(kind="list", items=[OpaqueArg(type="Model")])
    assert unkept(RecordedCall(arguments={"n": PlainArg(value=3), "x": inner})) == "Model"
    assert unkept(RecordedCall(arguments={"n": PlainArg(value=3)})) == ""
