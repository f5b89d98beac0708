import jax.numpy as jnp


def bessel_j0(k, r):
    x = k * r
    x_in = jnp.where(x == 0.0, 1.0, x)
    ratio = jnp.sin(x_in) / x_in
    return jnp.where(x == 0.0, 1.0, ratio)


def structure_factor(k, distances):
    return 1.0 + 2.0 * jnp.mean(bessel_j0(k, distances))
