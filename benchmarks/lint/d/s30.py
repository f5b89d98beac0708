import jax.numpy as jnp
from jax import value_and_grad


def j0(x):
    """Spherical Bessel function of order zero."""
    x2 = x * x
    series = 1 - x2 / 6 * (1 - x2 / 20 * (1 - x2 / 42))
    return jnp.where(jnp.abs(x) < 0.3, series, jnp.sin(x) / x)


def pattern_loss(x, measured):
    return jnp.sum((j0(x) ** 2 - measured) ** 2)


fit_step = value_and_grad(pattern_loss)
