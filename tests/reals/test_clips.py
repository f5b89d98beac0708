"""The bounds of clips, and where they cross."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.crossed import crossed
from gradcheck_cli.reals.clips import clips
from gradcheck_cli.reals.program import build
from tests.traced import traced

POINTS = [[1.0, -1.0, 2.0, -3.0], [0.5, 0.5, -4.0, -1.0]]


def between_shares(x, fund):
    return jnp.minimum(jnp.maximum(x, 0.03 * fund), 0.07 * fund)


def again(x, fund):
    first = between_shares(x, fund)
    return between_shares(first * fund, fund - first)


def from_zero(x, n):
    return jnp.clip(x, jnp.zeros_like(n), n)


def from_above(x, fund):
    return jnp.maximum(jnp.minimum(fund * 2, x), fund)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (between_shares, 1),
        (again, 2),
        (from_zero, 1),
        (from_above, 1),
        (lambda x, n: jnp.maximum(x, 0.0) + jnp.minimum(x, n), 0),
        (lambda x, n: jnp.clip(x, -1.0, 1.0) * n, 0),
        (lambda x, n: jnp.maximum(jnp.minimum(x, n), x * n), 0),
    ],
)
def test_clips_of_which_a_bound_is_computed(function: Callable[..., Any], count: int) -> None:
    found = clips(build(jax.make_jaxpr(function)(jnp.ones(3), jnp.ones(3))), 1)
    assert (0 if found is None else len(found.pairs)) == count


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (between_shares, [False, False, True, True]),
        (from_zero, [False, False, True, True]),
        (from_above, [False, False, True, True]),
        (lambda x, n: x * n, [False] * 4),
        (lambda x, n: jnp.minimum(jnp.maximum(x, n * n), -1 - n * n), [False] * 4),
    ],
)
def test_rows_at_which_the_bounds_cross(function: Callable[..., Any], rows: list[bool]) -> None:
    m = traced(function, *POINTS, cotangents=(BASE,))
    assert crossed(m, np.arange(m.count)).tolist() == rows
