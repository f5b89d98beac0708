"""Which constants of a program stand for infinity, and beside what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.reals.farther_infinities import infinities
from gradcheck_cli.reals.program import Program, build

X = np.array([-2.0, 0.5, 3.0], np.float32)
MASK = np.array([True, False, True])


def program(function: Callable[..., Any]) -> Program:
    return build(jax.make_jaxpr(function)(X))


def masked(x):
    return jax.nn.softmax(jnp.where(MASK, -1e9, x))


def filled(x):
    return jnp.where(MASK, jnp.full(3, -1e30, x.dtype), x).max()


def test_what_is_chosen_beside_a_computed_number_is_farther_out() -> None:
    for function, size in ((masked, 1e9), (filled, 1e30)):
        found = infinities(program(function))
        assert found is not None
        assert np.allclose(found.sizes, size)
        assert [aval.shape for aval in found.beside.out_avals] == [(3,)]
        before = {float(np.abs(c).max()) for c in program(function).all_constants()}
        after = {float(np.abs(c).max()) for c in found.farther.all_constants()}
        assert max(after) == max(before) * 2.0**200


def test_of_masks_within_masks_what_is_computed_counts() -> None:
    found = infinities(program(lambda x: jnp.where(MASK, -1e9, jnp.where(~MASK, -1e9, 3 * x))))
    assert found is not None
    (made,) = (s for s in found.beside.steps if s.name == "mul")
    assert found.beside.outputs == made.outs


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.where(x > 4e6, x**2, jnp.sin(x)),  # a threshold
        lambda x: jnp.minimum(x, 1e6) ** 2,  # a bound
        lambda x: jnp.where(x > 0, 1e6, 1e7) * x,  # two numbers of the formula
        lambda x: jnp.where(MASK, 1e9, x) + 1e9 * x,  # calculated with
        lambda x: jnp.where(MASK, -100.0, x),
        lambda x: x * 3e8,
    ],
)
def test_a_number_of_the_formula_stays(function: Callable[..., Any]) -> None:
    assert infinities(program(function)) is None
