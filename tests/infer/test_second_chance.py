"""Calls to fall back on where a function has no value at any point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.infer.second_chance import second_chances
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature
from tests.infer.fitted import Fitted, Gradient

X = ("x", Leaf("x", (3,), "test"))


def again(function: Any, signature: Signature, domain: str = "") -> dict[str, Any]:
    subject: Any = Fitted(function, signature, "float32", [(3,)])
    clues = {"ids": [Clue("test", domain=domain)]}
    (other,) = second_chances(Gradient(function), [subject], "float32", clues)
    return dict(other.signature.arguments)


def of_short(x: Any, ids: Any, segments: Any = None) -> Any:
    if len(ids) > 5:
        raise ValueError("too many")
    return x


@pytest.mark.parametrize("domain", ["in 0..2", "in 0..arms", ""])
def test_each_segment_has_several_rows(domain: str) -> None:
    arms, rows = Fixed(np.array([1, 0, 1], np.int32), "i32[3]", "test"), Leaf("x", (3, 2), "test")
    signature = Signature((("x", rows), ("ids", arms), ("arms", Fixed(2, "2", "test"))))
    found = again(lambda x, ids, arms: x, signature, domain)
    assert found["ids"].value.tolist() == [0, 1, 0, 1, 0]
    assert found["x"].shape == (5, 2)


def test_a_table_gets_every_integer_up_to_its_largest() -> None:
    table = Fixed(np.array([2, 0, 2, 0], np.int32), "i32[4]", "test")
    found = again(of_short, Signature((X, ("ids", table))))
    assert found["ids"].value.tolist() == [0, 2, 1, 0]


def test_an_even_number_of_integers_all_come() -> None:
    table = Fixed(np.array([3, 0, 3, 0, 0], np.int32), "i32[5]", "test")
    found = again(lambda x, ids: x, Signature((X, ("ids", table))))
    assert sorted(set(found["ids"].value.tolist())) == [0, 1, 2, 3]


def test_no_segment_is_empty_that_a_number_counts() -> None:
    table = Fixed(np.array([1, 0, 0], np.int32), "i32[3]", "test")
    signature = Signature((X, ("ids", table), ("segments", Fixed(3, "3", "test"))))
    found = again(of_short, signature, "in 0..segments")
    assert sorted(found["ids"].value.tolist()) == [0, 1, 2]
    assert table.value.tolist() == [1, 0, 0]


def test_what_made_it_is_left_as_it_is() -> None:
    def scaled(x: Any, *, rate: float, low: float = 0.0) -> Any:
        return x * rate + low

    rate, low = (Leaf(name, (), "test") for name in ("rate", "low"))
    signature = Signature((X, ("rate", rate), ("low", low)), frozenset({"rate", "low"}))
    found = again(scaled, signature)
    assert (found["rate"].value, found["low"]) == (0.5, OMITTED)


def test_a_place_behind_the_end_of_every_axis_is_brought_within() -> None:
    found = again(lambda x, split: x, Signature((X, ("split", Fixed(80, "80", "test")))))
    assert found["split"].value == 2
