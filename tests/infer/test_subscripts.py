"""Keys and unpackings in the body of a function."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.infer.subscripts import keys_read, unpacked


def function(params, pair, x):
    a, b = pair
    first, *rest = x
    return params["w"] * a + params["b"] + params["w"] + x[0] + b + params[a] + first + rest[0]


def test_constant_keys_are_read_once_each_in_their_order() -> None:
    assert keys_read(function) == {"params": ["w", "b"]}


def test_an_unpacked_argument_has_as_many_elements() -> None:
    assert unpacked(function) == {"pair": 2, "x": 2}


def test_a_function_without_a_source_has_neither() -> None:
    assert (keys_read(np.tanh), unpacked(np.tanh)) == ({}, {})
