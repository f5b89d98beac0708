"""A small gap is followed to where it is large; an approximation's stays small."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.grown_gap import RECIPE, grown
from tests.traced import ruled, traced

TINY = np.array([[1e-3, 2e-3, -1e-3], [2e-3, 1e-3, 3e-3]])
REACH = 1e9


def shortened(x: Any) -> Any:
    return x / jnp.maximum(jnp.sqrt(jnp.sum(x * x)), 0.1)


def as_if_long(res: Any, g: Any) -> Any:
    (x,) = res
    size = jnp.maximum(jnp.sqrt(jnp.sum(x * x)), 0.1)
    return ((g - x / size * jnp.sum(g * x / size)) / size,)


def test_the_bound_of_a_clamp_is_where_the_gap_is_large() -> None:
    points = grown(traced(ruled(shortened, as_if_long), TINY), REACH)
    assert points is not None
    assert set(points.recipes) == {RECIPE}
    (found,) = points.leaves
    lengths = np.sqrt((found**2).sum(axis=1))
    assert ((lengths > 0.02) & (lengths < 0.1)).all()


def test_another_argument_may_hide_the_gap() -> None:
    """Beside a scale of 1e-12 nothing is seen of a term that does not depend on it."""

    def scaled(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    def rule(res: Any, g: Any) -> Any:
        x, y = res
        return g * jnp.cos(x) * y * (1 + jnp.abs(y) / (1 + jnp.abs(y))), g * jnp.sin(x)

    columns = np.array([0.5, 0.25]), np.array([1e-4, 1e-5])
    points = grown(traced(ruled(scaled, rule), *columns), REACH)
    assert points is not None
    assert (np.abs(points.leaves[1]) > 1e-3).all()


def test_what_is_right_has_no_gap_to_follow() -> None:
    rule = ruled(jnp.sin, lambda res, g: (g * jnp.cos(res[0]),))
    assert grown(traced(rule, np.array([0.5, 1.0])), REACH) is None
