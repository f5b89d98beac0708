import jax.numpy as jnp


def positive_root(b, s):
    """Positive root of t^2 + b t - (1 + s^2) = 0."""
    k = 1.0 + s * s
    disc = b * b + 4.0 * k
    root = jnp.sqrt(disc)
    big = 0.5 * (root + jnp.where(b > 0, b, -b))
    return jnp.where(b > 0, k / big, big)


def step_length(slope, s):
    b = 2.0 * slope
    return positive_root(b, s)
