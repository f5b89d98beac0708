"""Reads beyond the end of an array, which JAX clamps without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.frameworks.jax.bounds import reads_beyond


def row_by_row(x: Any, weights: Any) -> Any:
    """Each weight for the row of its number."""
    return sum(weights[i] * x[i] for i in jnp.arange(weights.shape[0]))


def in_a_loop(x: Any, weights: Any) -> Any:
    def trip(total: Any, i: Any) -> Any:
        return total + weights[i] * x[i], None

    return jax.lax.scan(trip, 0.0, jnp.arange(weights.shape[0]))[0]


def by_floats(x: Any, weights: Any) -> Any:
    """At 1 beyond the end, at 0 not."""
    return x[jnp.floor(5 * weights).astype(int)]


def written(x: Any, weights: Any) -> Any:
    """An update beyond the end is dropped, as its text may mean."""
    return x.at[jnp.arange(weights.shape[0])].add(weights)


def asked(function: Callable[..., Any], rows: int, weights: int) -> str:
    avals = [jax.ShapeDtypeStruct((n,), jnp.float32) for n in (rows, weights)]
    return reads_beyond(function, avals)


@pytest.mark.parametrize("function", [row_by_row, in_a_loop])
def test_sizes_that_are_taken_by_accident(function: Callable[..., Any]) -> None:
    assert asked(function, 3, 3) == asked(function, 3, 2) == ""
    assert asked(function, 3, 5) == "it reads beyond the 3 rows of an array, given [3], [5]"


@pytest.mark.parametrize("function", [by_floats, written])
def test_what_rests_on_numbers_or_only_writes_is_left_alone(function: Callable[..., Any]) -> None:
    assert asked(function, 3, 5) == ""


def clipped(x: Any, weights: Any) -> Any:
    """The last row again and again, as it says itself."""
    return jnp.take(x, jnp.arange(weights.shape[0]), mode="clip") * weights


def searched(x: Any, weights: Any) -> Any:
    """Beyond the end where all numbers are one, else not."""
    return x[jnp.searchsorted(x, weights[:1], side="right")]


def until(x: Any, weights: Any) -> Any:
    """It may not end."""
    return jax.lax.while_loop(lambda i: i < 9, lambda i: i + x[7].astype(int) * 0 + 1, 0) + weights


@pytest.mark.parametrize("function", [clipped, searched, until])
def test_what_is_meant_or_cannot_be_asked_is_left_alone(function: Callable[..., Any]) -> None:
    assert asked(function, 3, 5) == ""
