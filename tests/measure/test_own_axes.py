"""What is reduced of an argument by itself, and what a function asks of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.measure.own_axes import own_axes
from gradcheck_cli.measure.unnatural import asks_beyond
from gradcheck_cli.reals.program import Program, build


def program_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Program:
    return build(jax.make_jaxpr(function)(*(jnp.ones(shape) for shape in shapes)))


@pytest.mark.parametrize(
    ("function", "axes"),
    [
        (lambda x, y: jnp.sum(x * x, axis=-1, keepdims=True) * y, {1}),
        (lambda x, y: x / jnp.sqrt(1 + jnp.sum(x * x, axis=-1, keepdims=True)) * y, {1}),
        (lambda x, y: (x - jnp.mean(x, axis=-1, keepdims=True)) * y, {1}),
        (lambda x, y: jnp.max(jnp.tanh(2 * x), axis=0) + y, {0}),
        (lambda x, y: x * y + jnp.sum(x * x, axis=-1, keepdims=True), set()),
        (lambda x, y: jnp.broadcast_to(x, (4, 3)) + jnp.sum(x * x), set()),
        (lambda x, y: jnp.sum(jnp.sin(x) * y, axis=-1), set()),
        (lambda x, y: jnp.sin(x) * y, set()),
        (lambda x, y: jnp.sum(y * y, axis=-1) + x[:, 0], set()),
    ],
)
def test_axes_along_which_an_argument_is_reduced_by_itself(
    function: Callable[..., Any], axes: set[int]
) -> None:
    assert own_axes(program_of(function, (4, 1), (4, 3)), 1, 0) == axes


@pytest.mark.parametrize(
    ("function", "asks"),
    [
        (jnp.abs, True),
        (lambda x: jnp.maximum(x, 0.0) * 2, True),
        (lambda x: jnp.where(x + 1 > 3.0, x, 2 * x), False),
        (lambda x: jnp.where(x > 12.0, x, 2 * x), True),
        (lambda x: jnp.maximum(x, 1e-6) * x, False),
        (lambda x: jnp.abs(x * x - 3), True),
        (lambda x: jnp.where(-3 * x > 0, x, 2 * x), True),
        (lambda x: jnp.maximum(x, -x), True),
        (lambda x: jnp.abs(jnp.sum(jnp.sinh(x)) - 3), True),
        (lambda x: jax.lax.fori_loop(0, 3, lambda k, y: jnp.maximum(y, 0.0), x), True),
        (jnp.sum, False),
    ],
)
def test_what_a_function_asks_of_an_argument(function: Callable[..., Any], asks: bool) -> None:
    assert asks_beyond(program_of(function, (3,)), 1, 0, (0.0, 10.0)) is asks
