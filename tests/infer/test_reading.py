"""Hints from a function's own text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.infer.reading import read
from tests.infer.fitted import parameters_of

WEIGHT = np.ones((5, 7))


def function(x, y, params, n: int):
    """Adds.

    Args:
        x: array of shape (a, b)
        y: labels of shape [n]
    """
    first, second = params
    return x @ WEIGHT + params["w"] + first + second


function.__annotations__["x"] = 'Float[Array, "n k"]'  # as jaxtyping has it


def hints() -> Any:
    return read(function, parameters_of(function), [("tanh", np.tanh)], lambda: "a key")


def test_annotations_come_before_docstrings_and_share_dimensions() -> None:
    guesses = hints().guesses
    (x, x_source), (y, y_source) = guesses["x"], guesses["y"]
    assert (x_source, y_source) == ("its annotation `f32[n k]`", "the docstring `i32[n]`")
    assert x.shape[0] == y.shape[0]
    assert guesses["n"][0].value == 3


def test_the_body_and_what_it_refers_to_are_read() -> None:
    read_from = hints()
    assert (read_from.keys, read_from.unpacked) == ({"params": ["w"]}, {"params": 2})
    assert read_from.sizes == [5, 7]
    assert read_from.functions == [("tanh", np.tanh)]
    assert read_from.make_key() == "a key"


def test_texts_that_are_no_specs_give_no_guess() -> None:
    def reserved(x):
        """Args:
        x: array of shape (1_, 2)
        """

    assert read(reserved, parameters_of(reserved), []).guesses == {}
