"""Loops that a trace has unrolled are found again, and run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.frameworks.shared.rolled import rolled
from gradcheck_cli.frameworks.shared.run_on import Iteration, run_on
from gradcheck_cli.frameworks.shared.tracing import with_pullback


def newton(a: Any, trips: int = 12) -> Any:
    x = jnp.maximum(a, 1.0)
    for _ in range(trips):
        x = 0.5 * (x + a / x)
    return x


def halved(a: Any) -> Any:
    low, high = jnp.zeros_like(a), jnp.full_like(a, 10.0)
    for _ in range(20):
        middle = 0.5 * (low + high)
        below = middle * middle < a
        low, high = jnp.where(below, middle, low), jnp.where(below, high, middle)
    return 0.5 * (low + high)


def horner(x: Any) -> Any:
    y = jnp.zeros_like(x)
    for c in range(12):
        y = y * x + c
    return y


def layers(x: Any) -> Any:
    weights = jnp.arange(1.0, 13.0)
    for w in weights:
        x = jnp.tanh(w * x)
    return x


def summed(x: Any) -> Any:
    total = jnp.zeros_like(x)
    parts = [jnp.sin(x * 2.0) for _ in range(12)]
    for part in parts:
        total = total + part
    return total


def delayed(x: Any) -> Any:
    """Each trip reads the two before it: no state of one trip."""
    a, b = x, 2 * x
    kept = []
    for _ in range(12):
        a, b = b, 0.5 * (a + b)
        kept.append(b)
    return kept[3] + kept[-1]


def _jaxpr(function: Callable[..., Any]) -> Any:
    with jax.enable_x64(True):
        return jax.make_jaxpr(lambda x: (function(x),))(1.0)


@pytest.mark.parametrize(("function", "trips"), [(newton, 12), (halved, 20)])
def test_an_unrolled_loop_is_found_with_its_trips(function: Any, trips: int) -> None:
    loop = rolled(_jaxpr(function).jaxpr)
    assert loop is not None
    assert loop.trips in (trips - 1, trips)  # the first may read what none after it does


@pytest.mark.parametrize("function", [horner, layers, delayed, jnp.sin])
def test_what_is_another_thing_at_each_trip_is_no_loop(function: Any) -> None:
    assert rolled(_jaxpr(function).jaxpr) is None


@pytest.mark.parametrize(("function", "root"), [(newton, 3**0.5), (halved, 3**0.5)])
def test_it_runs_on_to_its_limit(function: Any, root: float) -> None:
    with jax.enable_x64(True):
        (reached,) = run_on(_jaxpr(function), [np.float64(3.0)], 0)
    assert float(reached) == pytest.approx(root, rel=1e-15)


def test_few_trips_are_no_loop() -> None:
    assert rolled(_jaxpr(lambda a: newton(a, 4)).jaxpr) is None


def _iteration(function: Callable[..., Any]) -> Iteration:
    with jax.enable_x64(True):
        forward = _jaxpr(function)
        rule = jax.make_jaxpr(with_pullback(lambda x: (function(x),), 1))(1.0, 1.0)
    return Iteration(forward, rule)


def tolerant(a: Any) -> Any:
    return jax.lax.while_loop(
        lambda x: jnp.abs(x * x - a) > 0.1, lambda x: 0.5 * (x + a / x), jnp.maximum(a, 1.0)
    )


def counted(a: Any) -> Any:
    return jax.lax.fori_loop(0, 5, lambda i, x: 0.5 * (x + a / x), jnp.maximum(a, 1.0))


def alternating(a: Any) -> Any:
    return jax.lax.fori_loop(0, 5, lambda i, x: a - x, jnp.zeros_like(a))


@pytest.mark.parametrize("function", [tolerant, counted])
def test_the_limit_has_a_derivative_in_either_mode(function: Any) -> None:
    points = [np.array([2.0, 3.0])]
    with jax.enable_x64(True):
        forward = _jaxpr(function)
        rule = jax.make_jaxpr(lambda a, ct: (function(a), ct / (2 * function(a))))(1.0, 1.0)
    limits = Iteration(forward, rule).limits(points, [np.ones(2)])
    assert limits is not None
    for near, far in (limits.truth, limits.rule):
        for reached in (near, far):
            np.testing.assert_allclose(reached.values[0], np.sqrt(points[0]), rtol=1e-15)
            np.testing.assert_allclose(reached.gradients[0], 0.5 / np.sqrt(points[0]), rtol=1e-14)


def test_a_cycle_of_two_is_another_number_after_more_trips() -> None:
    limits = _iteration(alternating).limits([np.array([2.0])], [np.ones(1)])
    assert limits is not None
    near, far = limits.truth
    assert near.values[0] != far.values[0]


def rows(x: Any) -> Any:
    table = jnp.arange(5.0)
    return jax.lax.fori_loop(0, 5, lambda i, y: y * x + table[i], jnp.zeros_like(x))


def over_rows(x: Any) -> Any:
    return jax.lax.scan(lambda c, row: (c * x + row, None), jnp.zeros_like(x), jnp.arange(5.0))[0]


@pytest.mark.parametrize("function", [rows, over_rows, jnp.tanh, jax.scipy.special.i0])
def test_what_takes_rows_or_is_a_librarys_seeks_no_limit(function: Any) -> None:
    assert _iteration(function).limits([np.array([0.5])], [np.ones(1)]) is None
