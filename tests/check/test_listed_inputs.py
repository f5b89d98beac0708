"""The inputs that a report lists: every argument, and every part of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from gradcheck_cli.check.listed_inputs import listed_inputs
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import Input
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Signature
from gradcheck_cli.project.input_specs import Bounds
from gradcheck_cli.subject.protocol import Shaped
from tests.check.test_checked import reported
from tests.infer.fitted import Gradient


def listed(function: Any, points: Points | None = None, **arguments: Any) -> dict[str, Input]:
    gradient = Gradient(function)
    subject = gradient.fit(Signature(tuple(arguments.items())), "float32")
    inputs = listed_inputs(subject, gradient.parameters(), points)
    return {item.path: item for item in inputs}


def test_arguments_stand_in_their_order_and_defaults_are_told() -> None:
    def function(axis, x, scale=None, eps=1e-5, how=np.add):
        return np.sum(x, axis)

    inputs = listed(
        function, axis=Fixed(0, "0", "test"), x=Leaf("x", (2, 3), "test"), scale=OMITTED,
        eps=OMITTED, how=OMITTED,
    )  # fmt: skip
    assert list(inputs) == ["axis", "x", "scale", "eps", "how"]
    assert [i.domain for i in inputs.values()] == ["0", "", "None", "1e-05", "a ufunc"]
    assert inputs["eps"].source == "its default"


def test_every_part_of_a_tree_is_listed() -> None:
    tree = {
        "w": Leaf("tree['w']", (3,), "test"),
        "n": Fixed(2, "2", "test"),
        "pair": (Fixed(True, "True", "test"), Leaf("tree['pair'][1]", (), "test")),
    }
    made = Built("State", list, (Leaf("state.a", (2,), "test"), Fixed(1, "1", "test")), ("a", "n"))
    inputs = listed(lambda tree, state: tree["w"], tree=tree, state=made)
    paths = ["tree['n']", "tree['pair'][0]", "tree['pair'][1]", "tree['w']", "state.a", "state.n"]
    assert list(inputs) == paths


def test_a_variable_that_is_no_argument_is_listed_last() -> None:
    gradient = Gradient(lambda x: x)
    subject = gradient.fit(Signature((("x", Leaf("x", (2,), "test")),)), "float32")
    scale = Leaf("scale", (), "a variable that it uses")
    whole = SimpleNamespace(signature=subject.signature, leaves=[*subject.leaves, scale], dtype="f")
    inputs = listed_inputs(cast(Shaped, whole), gradient.parameters(), None)
    assert [i.path for i in inputs] == ["x", "scale"]


def test_the_range_of_the_values_takes_the_place_of_the_domain() -> None:
    points = Points([np.array([[1.0, -2.0], [0.0, 5.0]])], ["plain", "plain"])
    inputs = listed(lambda x: x, points, x=Leaf("x", (2,), "test"))
    assert inputs["x"].domain == "[-2, 5]"


def test_a_domain_that_another_source_says_names_it() -> None:
    positive = Bounds(low=0.0, low_open=True, text="> 0")
    for source, text in (("the docstring", "a call; `> 0` by the docstring"), ("a call", "a call")):
        inputs = listed(lambda x: x, x=Leaf("x", (2,), "a call", domain=Domain(positive, source)))
        assert (inputs["x"].source, inputs["x"].domain) == (text, "> 0")


def test_inputs_of_one_signature_have_one_number() -> None:
    item = Input(path="x", dtype="float32", shape=[], domain="", source="test")
    one = GradientOutcome(checked=True, points=1, inputs=((item, item),))
    two = one + GradientOutcome(inputs=((item,),))
    assert [i.signature for i in reported(two).gradient.inputs] == [1, 1, 2]
