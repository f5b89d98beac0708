import jax.numpy as jnp


def form_factor(q, radius):
    r = q * radius
    small = r < 0.05
    inside = jnp.where(small, 1.0, r)
    ratio = jnp.sin(inside) / inside
    return jnp.where(small, 1.0 - r * r / 6.0, ratio)


def intensity(q, radius, weights):
    amp = form_factor(q, radius)
    return jnp.sum(weights * amp * amp)
