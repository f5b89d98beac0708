"""Points beside what the code compares: at both sides, and near."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradcheck_cli.adequacy.turning_points import RECIPE, turning_points
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import Points
from tests.traced import traced

REACH = 1e9


def beside(function: Any, *columns: Any) -> Points:
    """The points that are added to these."""
    m = traced(function, *(np.asarray(c, float) for c in columns))
    count = len(columns[0])
    points = Points([p[:count] for p in m.points], ["given"] * count)
    program = m.subject.traces().primal
    assert program is not None
    fmt = format_of("float32")
    return turning_points([program], m.subject.leaves, m.subject.outputs, points, fmt, REACH)


def test_a_clamp_far_from_all_points_gets_one_at_each_side() -> None:
    points = beside(lambda x: jnp.maximum(jnp.sum(x * x), 0.01), [[1.0, 2.0], [1e-6, 2e-6]])
    assert set(points.recipes) == {RECIPE}
    sums = (points.leaves[0] ** 2).sum(axis=1)
    assert ((sums > 0.004) & (sums < 0.01)).any()
    assert ((sums > 0.01) & (sums < 0.03)).any()


def test_a_bound_of_one_argument_is_met_by_that_one_alone() -> None:
    points = beside(lambda x, y: jnp.where(x * y > 700.0, x, y), [1.0], [3.0])
    x, y = points.leaves
    assert ((x * y > 300) & (x * y < 1500)).all()
    assert ((x * y > 700) & (x * y < 1500)).any()


def test_infinity_is_no_bound() -> None:
    assert len(beside(lambda x: jnp.minimum(x, jnp.inf), [1.0])) == 0


def test_both_sides_of_zero_are_met_where_what_is_compared_is_computed() -> None:
    """Inside of a box: no coordinate lies beyond its half."""
    points = beside(
        lambda x, y: jnp.minimum(jnp.max(jnp.abs(x) - y), 0.0), [[2.0, 3.0]], [[1.0, 1.5]]
    )
    x, y = points.leaves
    assert (np.abs(x) < y).all(axis=1).any()


def test_nothing_is_added_where_both_sides_are_there() -> None:
    assert len(beside(lambda x: jnp.minimum(x, 6.0), [5.0, 7.0])) == 0


def clamped(x: Any, bound: Any) -> Any:
    return lax.clamp(-bound, x, bound)


def test_a_clamp_may_take_one_number_for_all_elements() -> None:
    points = beside(lambda x, y: clamped(x, lax.stop_gradient(y)), [[0.1, 0.2]], [1000.0])
    x, y = points.leaves
    assert (np.abs(x) > y[:, None]).any()
