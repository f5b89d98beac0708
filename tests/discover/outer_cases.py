"""Functions with custom gradients inside, that call them or hand them out."""

import jax
import jax.numpy as jnp


def scaled(x, factor):
    """The factor is closed over."""
    rows = jnp.atleast_2d(x) * x.shape[0] / x.shape[0]

    @jax.custom_gradient
    def op(y):
        return y * factor, lambda g: (g * factor,)

    return op(rows)[0]


def factory():
    @jax.custom_gradient
    def op(y):
        return y, lambda g: g

    return op
