"""What is left out by default and is given, in the shape that a text states, or not at all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.testing.check_gradient import check_gradient


def dense(rule):
    """A layer whose bias may be left out; `rule` makes its gradient."""

    @jax.custom_vjp
    def layer(x, weight, bias=None):
        """x (batch, in), weight (in, out), bias (out,)."""
        y = x @ weight
        return y if bias is None else y + bias

    def forward(x, weight, bias=None):
        return layer(x, weight, bias), (x, weight, bias)

    def backward(saved, g):
        x, weight, bias = saved
        return g @ weight.T, x.T @ g, None if bias is None else rule(g)

    layer.defvjp(forward, backward)
    return layer


def test_a_gradient_of_the_stated_shape_is_right() -> None:
    check_gradient(dense(lambda g: g.sum(0)))


@pytest.mark.parametrize("rule", [jnp.sum, lambda g: g], ids=["one-number", "not-summed"])
def test_a_gradient_of_another_shape_is_wrong_though_single_numbers_would_do(rule) -> None:
    with pytest.raises(AssertionError, match=r"bias:\s+float\[\d\], the function runs"):
        check_gradient(dense(rule))


def test_what_an_index_takes_at_any_length_is_given_at_the_stated_one() -> None:
    """JAX clamps what is read: a table of any length fits the function, and that of the classes is meant."""

    @jax.custom_vjp
    def loss(logp, labels, weight=None):
        """logp (n, c), labels (n,) integers in [0, c), weight (c,)."""
        picked = jnp.take_along_axis(logp, labels[:, None], 1)[:, 0]
        return -jnp.sum((1.0 if weight is None else weight[labels]) * picked)

    def forward(logp, labels, weight=None):
        return loss(logp, labels, weight), (logp, labels, weight)

    def backward(saved, g):
        logp, labels, weight = saved
        rows = jnp.arange(logp.shape[0])
        own = 1.0 if weight is None else weight[labels]
        of_logp = jnp.zeros_like(logp).at[rows, labels].set(-g * own)
        of_weight = jnp.zeros(logp.shape[1]).at[labels].set(-g * logp[rows, labels])
        return of_logp, None, None if weight is None else of_weight

    loss.defvjp(forward, backward)
    with pytest.raises(AssertionError, match="d/dweight: the formula is wrong"):
        check_gradient(loss)
