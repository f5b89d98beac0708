"""Rows that no ball decides."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.enclose import Enclosed, enclose
from gradcheck_cli.reals.program import build

GOAL = 40  # bits


def growth(x: Any, up: Any, down: Any) -> Any:
    """Nowhere below zero: a difference of numbers that no ball says are equal."""
    return jnp.maximum(jax.nn.sigmoid(up * x) - jax.nn.sigmoid(down * x), 0.0)


def gradient_at(*numbers: float) -> Enclosed:
    aval = jax.ShapeDtypeStruct((), jnp.float32)
    program = build(jax.make_jaxpr(jax.grad(growth, (0, 1, 2)))(aval, aval, aval))
    return enclose(program, [np.array([number]) for number in numbers], goal=GOAL)


def test_what_is_tied_at_two_precisions_is_a_tie() -> None:
    tied = gradient_at(1.0, 3.0, 3.0)
    assert tied.estimated.all()
    assert tied.ties.all()


def test_what_is_not_is_none() -> None:
    apart = gradient_at(1.0, 3.0, 2.0)
    assert not apart.estimated.any()
    assert not apart.ties.any()
