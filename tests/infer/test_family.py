"""The family that is judged: small signatures beside the richest one, where they show as much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.infer.explore import Exploration
from gradcheck_cli.infer.family import _broken, family
from gradcheck_cli.infer.template import Hole, Template
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.subject.refusals import RuleError
from tests.infer.fitted import NO_HINTS, Gradient, shapes


def judged(gradient: Gradient, **arguments: Leaf | Fixed) -> list[dict[str, tuple[int, ...]]]:
    small = [gradient.fit(Signature(tuple(arguments.items())), "float32")]
    found = family(gradient, gradient.parameters(), "float32", NO_HINTS, small)
    return [shapes(subject) for subject in found.subjects]


def test_where_no_program_is_known_vectors_alone_stand_for_all() -> None:
    assert judged(Gradient(lambda x: x * x), x=Leaf("x", (3,), "test")) == [{"x": (3,)}]


def test_what_reads_a_table_is_judged_by_its_richest_shapes_too() -> None:
    ids = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "test")
    table = Gradient(lambda weight, ids: weight[ids])
    found = judged(table, weight=Leaf("weight", (3,), "test"), ids=ids)
    assert max(len(each["weight"]) for each in found) > 1


def test_a_single_integer_stands_for_no_table_of_which_the_axes_are_stated() -> None:
    gradient = Gradient(lambda current, flash: current * np.ones_like(flash))
    clues = {
        "current": [Clue("a docstring", "f32[n]", least_rank=1)],
        "flash": [Clue("a docstring", "i32[n]", least_rank=1, kind=Kind.INTEGERS)],
    }
    one = Fixed(np.array(1, np.int32), "i32[]", "test")
    small = [
        gradient.fit(
            Signature((("current", Leaf("current", (3,), "test")), ("flash", one))), "float32"
        )
    ]
    found = family(
        gradient, gradient.parameters(), "float32", replace(NO_HINTS, clues=clues), small
    )
    tables = [dict(each.signature.arguments)["flash"].value for each in found.subjects]
    assert all(np.ndim(table) == 1 for table in tables)


@pytest.mark.parametrize(("other", "kept"), [("f32[d]", False), ("f32[n d]", True)])
def test_one_shape_stands_for_no_two_that_are_stated(other: str, kept: bool) -> None:
    gradient = Gradient(lambda x, scale: x * scale)
    clues = {"x": [Clue("a comment", "f32[n d]")], "scale": [Clue("a comment", other)]}
    small = [gradient.fit(Signature(tuple((n, Leaf(n, (3,), "test")) for n in clues)), "float32")]
    hints = replace(NO_HINTS, clues=clues)
    found = family(gradient, gradient.parameters(), "float32", hints, small)
    assert ((3,) in [shapes(subject)["x"] for subject in found.subjects]) is kept


def test_a_single_number_stands_for_no_array_of_which_the_axes_are_stated() -> None:
    gradient = Gradient(lambda x, scale: x * scale)
    clues = {
        "x": [Clue("a comment", "f32[lead d]", least_rank=1)],
        "scale": [Clue("a comment", "f32[d]")],
    }
    arguments = (("x", Leaf("x", (), "test")), ("scale", Leaf("scale", (4,), "test")))
    small = [gradient.fit(Signature(arguments), "float32")]
    hints = replace(NO_HINTS, clues=clues)
    found = family(gradient, gradient.parameters(), "float32", hints, small)
    assert () not in [shapes(subject)["x"] for subject in found.subjects]


def integrated(x, taper=None):
    held = 2.0 if taper is None else taper
    return np.einsum("pr,p->r", x, held)


def test_what_is_left_out_is_given_where_nothing_fits_without() -> None:
    gradient = Gradient(integrated)
    found = family(gradient, gradient.parameters(), "float32", NO_HINTS, [])
    (subject,) = (shapes(each) for each in found.subjects)
    assert subject["taper"] == subject["x"][:1]


@pytest.mark.parametrize(("stated", "surely"), [(0, False), (1, False), (2, True)])
def test_a_rule_that_takes_nothing_is_surely_wrong_where_half_of_its_arrays_have_stated_shapes(
    stated: int, surely: bool
) -> None:
    free = [Hole(f"x{i}", "float", dims=("n",) if i < stated else None) for i in range(4)]
    ids = Hole("ids", "int", dims=("n",))  # a table alone says nothing of the others
    signature = Signature(())
    refused = [(signature, RuleError("shape", "of another shape"))]
    opened = Template(signature, (*free, ids))
    assert (_broken(opened, Exploration(refused=refused)) is not None) is surely
    shaped = [(f"x{i}", Leaf(f"x{i}", (3,), "test")) for i in range(4)]
    small = Gradient(lambda **x: x["x0"]).fit(Signature(tuple(shaped)), "float32")
    assert _broken(opened, Exploration(refused=refused), [small]) is None  # it takes as many axes
    square = (("x0", Leaf("x0", (3, 3), "test")),)
    accidental = Gradient(lambda **x: x["x0"]).fit(Signature(square), "float32")
    named = Template(signature, (Hole("x0", "float", dims=("n", "m")), Hole("x1", "float")))
    assert _broken(named, Exploration(refused=refused), [accidental]) is not None
