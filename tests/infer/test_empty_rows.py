"""Masks with an empty row."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.infer.empty_rows import with_an_empty_row
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from tests.traced import gradient_of, ruled

pytestmark = pytest.mark.needs("jax")

MASK = np.array([[True, False, True], [False, True, True]])


def guarded(x: Any, mask: Any) -> Any:
    return jnp.where(mask, x, 0.0).sum(-1) / jnp.maximum(mask.sum(-1), 1)


def unguarded(x: Any, mask: Any) -> Any:
    return jnp.where(mask, x, 0.0).sum(-1) / mask.sum(-1)


def emptied(function: Any, mask: Any) -> list[list[bool]]:
    rule = ruled(function, lambda inputs, ct: (jnp.zeros_like(inputs[0]), None))
    table = Fixed(mask, "bool", "here")
    signature = Signature((("x", Leaf("x", mask.shape, "")), ("mask", table)))
    made = with_an_empty_row(gradient_of(rule), signature, "mask", "float32")
    return [fixed.value.any(axis=-1).tolist() for fixed in made]


def test_the_last_row_of_a_mask_is_left_out_where_the_function_has_a_number_there() -> None:
    assert emptied(guarded, MASK) == [[True, False]]
    assert emptied(unguarded, MASK) == []


def test_the_last_row_of_a_table_with_a_mark_below_zero_is_all_marks() -> None:
    def known(x: Any, labels: Any) -> Any:
        return guarded(x, labels != -1)

    labels = np.array([[0, -1, 1], [1, 0, -1]])
    assert emptied(known, labels) == [[True, True]]
    assert emptied(known, labels + 1) == []
    full = np.array([[True, True], [True, True]])
    assert emptied(guarded, full) == [[True, False]]


def test_one_row_is_never_empty() -> None:
    assert emptied(guarded, MASK[:1]) == []
    assert emptied(guarded, MASK[0]) == []
