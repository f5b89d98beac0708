"""One run of a rule shows what stands in its places and behind its names, and leaves it as it was."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

import jax
import numpy as np

from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import places_in
from gradcheck_cli.judge.source.seen import Seen, as_numbers, seen


class Kept:
    def __init__(self) -> None:
        self.scale, self.word = 3.0, "mean"


def backward(kept: Any, g: Any) -> Any:
    y = g * kept.scale
    for n in (1.0, 2.0):
        y = y + n
    return y


def watched(run: Any) -> Seen:
    assert isinstance(backward, FunctionType)
    tree = tree_of(backward)
    assert tree is not None
    return seen(backward, tree, tree, places_in(tree), ["kept", "g", "y", "later"], run)


def test_places_and_names_are_seen_with_their_numbers() -> None:
    found = watched(lambda: backward(Kept(), np.array([1.0, 2.0])))
    places = {ast.unparse(place): numbers for place, numbers in found.places.items()}
    np.testing.assert_array_equal(places["g * kept.scale"], [3.0, 6.0])
    assert "y + n" not in places  # run twice: which of them?
    assert set(found.names) == {"kept.scale", "g", "y"}
    np.testing.assert_array_equal(found.names["y"], [6.0, 9.0])
    assert backward(Kept(), 1.0) == 6.0


def test_what_is_only_traced_has_no_numbers() -> None:
    kept: list[Any] = []

    def traced(x: Any) -> Any:
        kept.append(as_numbers(x))
        return x

    jax.make_jaxpr(traced)(1.0)
    assert kept == [None]


def test_true_and_false_stay_what_they_are() -> None:
    flags = as_numbers(np.array([True]))
    assert flags is not None
    assert flags.dtype == bool
    assert as_numbers("mean") is None
