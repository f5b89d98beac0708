"""Calls at which windows overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.overlap import overlapping, slides
from gradcheck_cli.infer.variants import varied
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Parameter, Signature
from tests.infer.fitted import NO_HINTS, Gradient, fixed, shapes


def total(x, width, every=None):
    every = width if every is None else every
    count = (len(x) - width) // every + 1
    return np.stack([x[i * every : i * every + width].sum() for i in range(count)])


def calls(length: Any, step: Any) -> list[dict[str, Any]]:
    signature = Signature((("x", Leaf("x", (6,), "test")), ("k", length), ("s", step)))
    parameters = [Parameter("s", 2, False, False, default=None)]
    found = overlapping(signature, parameters, ("k", "s"))
    return [{name: value.value for name, value in changed.items()} for changed in found]


def whole(value: Any) -> Fixed:
    return Fixed(value, repr(value), "test")


def test_steps_are_shorter_than_windows() -> None:
    assert calls(whole(2), OMITTED) == [{"k": 3, "s": 2}, {"k": 2, "s": 1}]
    assert calls(whole((2, 2)), whole((2, 2))) == [{"k": (3, 2), "s": (2, 1)}]
    assert calls(whole((2, 2)), whole(2)) == [{"k": (3, 2), "s": 1}]
    assert calls(Leaf("k", (4,), "test"), whole(4)) == [{"s": 3}]
    assert calls(whole(2), whole(0.5)) == []


def test_several_windows_are_told_from_one() -> None:
    told = slides(Gradient(total), "float32", ("width", "every"))

    def call(size: int) -> Signature:
        return Signature(
            (("x", Leaf("x", (size,), "test")), ("width", whole(3)), ("every", whole(2)))
        )

    assert (told(call(4)), told(call(5))) == (False, True)


def test_a_variant_has_several_windows_that_overlap() -> None:
    names = ["x", "width", "every"]
    clue = Clue("the docstring", "2", values=(2,), kind=Kind.WHOLE)
    hints = replace(NO_HINTS, windows=[("width", "every")], clues={"width": [clue]})
    arguments = zip(names, (Leaf("x", (3,), "test"), whole(2), OMITTED), strict=True)
    gradient = Gradient(total)
    signature = Signature(tuple(arguments))
    subjects = varied(gradient, gradient.parameters(), [signature], "float32", hints).subjects
    assert fixed(subjects[0].signature) == {"width": 3, "every": 2}
    assert shapes(subjects[0])["x"][0] >= 5
