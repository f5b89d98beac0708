import jax.numpy as jnp


def form_factor(q, radius):
    r = q * radius
    ratio = jnp.sin(r) / r
    return jnp.where(r > 0, ratio, 1.0)


def intensity(q, radius, weights):
    amp = form_factor(q, radius)
    return jnp.sum(weights * amp * amp)
