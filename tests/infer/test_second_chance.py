"""Calls to fall back on where a function has no value at any point."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.infer.second_chance import second_chances
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature
from tests.infer.fitted import Fitted, Gradient

X = ("x", Leaf("x", (3,), "test"))


def again(function: Any, signature: Signature) -> dict[str, Any]:
    subject: Any = Fitted(function, signature, "float32", [(3,)])
    (other,) = second_chances(Gradient(function), [subject], "float32")
    return dict(other.signature.arguments)


def test_a_table_gets_every_integer_up_to_its_largest() -> None:
    table = Fixed(np.array([2, 0, 2, 0], np.int32), "i32[4]", "test")
    found = again(lambda x, ids: x, Signature((X, ("ids", table))))
    assert found["ids"].value.tolist() == [0, 2, 1, 0]


def test_what_made_it_is_left_as_it_is() -> None:
    def scaled(x: Any, *, rate: float, low: float = 0.0) -> Any:
        return x * rate + low

    rate, low = (Leaf(name, (), "test") for name in ("rate", "low"))
    signature = Signature((X, ("rate", rate), ("low", low)), frozenset({"rate", "low"}))
    found = again(scaled, signature)
    assert (found["rate"].value, found["low"]) == (0.5, OMITTED)
