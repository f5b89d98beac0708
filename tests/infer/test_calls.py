"""Real calls as signatures: arrays vary, everything else stays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradcheck_cli.infer.calls import argument, by_name, kind_of, signature_of
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf
from tests.infer.fitted import parameters_of


def function(x: Any, n: int = 3, *, scale: float = 1.0) -> None: ...


PARAMETERS = parameters_of(function)


def test_arguments_have_the_names_of_their_parameters() -> None:
    assert by_name(PARAMETERS, (1, 2), {"scale": 3}) == {"x": 1, "n": 2, "scale": 3}


def test_a_call_of_another_function_has_no_signature() -> None:
    assert by_name(PARAMETERS, (1, 2, 3), {}) is None
    assert by_name(PARAMETERS, (1,), {"width": 3}) is None
    assert signature_of(PARAMETERS, (1, 2, 3), {}, "test") is None


def test_what_was_left_out_is_left_out_again() -> None:
    signature = signature_of(PARAMETERS, (np.ones((2, 3), np.float32),), {"scale": 0.5}, "a call")
    assert signature is not None
    x, n, scale = (value for _, value in signature.arguments)
    assert x == Leaf("x", (2, 3), "a call")
    assert n is OMITTED
    assert scale == Fixed(0.5, "0.5", "a call")
    assert signature.keywords == {"scale"}


def test_integers_keep_their_numbers() -> None:
    rows = argument("rows", np.array([4, 1]), "a call")
    assert (rows.value.tolist(), rows.text) == ([4, 1], "int64[2]")


def test_integers_without_numbers_get_small_ones() -> None:
    class Abstract:
        shape, dtype = (3,), np.dtype(np.int32)

        def __array__(self, *args: Any) -> Any:
            raise TypeError("a trace has no numbers")

    assert argument("rows", Abstract(), "a call").value.tolist() == [0, 1, 0]


class Pair(NamedTuple):
    weight: Any
    n: int


def test_arrays_inside_of_trees_and_objects_have_paths() -> None:
    ones = np.ones(2)
    tree = argument("p", {"w": [ones, 3]}, "")
    assert tree["w"][0] == Leaf("p['w'][0]", (2,), "")
    built = argument("p", Pair(ones, 3), "")
    assert isinstance(built, Built)
    assert built.parts[0] == Leaf("p.weight", (2,), "")


def test_only_arrays_have_a_kind() -> None:
    assert (kind_of(np.ones(2, np.float16)), kind_of(3.0), kind_of("x")) == ("float16", "", "")
