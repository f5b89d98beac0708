"""Loops over the reals: one point alone says what it says among others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import build


def exponential(x: Any) -> Any:
    """Its series, until a term is nothing beside the sum: at first that is 0/0."""

    def go(state: Any) -> Any:
        total, k, term = state
        return (k < 60) & (jnp.abs(term) / jnp.abs(total) > 1e-7)

    def step(state: Any) -> Any:
        total, k, term = state
        return total + term, k + 1, term * x / (k + 1)

    return jax.lax.while_loop(go, step, (0.0 * x, 0, jnp.ones_like(x)))[0]


@pytest.mark.parametrize("points", [[1.0], [2.0], [1.0, 2.0], [0.5, 1.0, 3.0]])
def test_a_loop_ends_where_it_would_end_alone(points: list[float]) -> None:
    program = build(jax.make_jaxpr(exponential)(jax.ShapeDtypeStruct((), jnp.float32)))
    enclosed = enclose(program, [np.array(points)], goal=40)
    found = as_floats(enclosed.outs[0])
    np.testing.assert_allclose(found, np.exp(points), rtol=1e-6)


def test_a_vector_of_loops_of_which_some_points_go_on() -> None:
    program = build(jax.make_jaxpr(jax.vmap(exponential))(jax.ShapeDtypeStruct((3,), jnp.float32)))
    points = np.array([[0.1, 1.0, 3.0], [2.0, 0.2, 0.01]])
    enclosed = enclose(program, [points], goal=40)
    np.testing.assert_allclose(as_floats(enclosed.outs[0]), np.exp(points), rtol=1e-6)
