import jax
import jax.numpy as jnp

MIN_SCALE = 1e-4


def positive(raw):
    grown = jnp.exp(-jnp.abs(raw))
    return MIN_SCALE + jnp.log1p(grown) + jnp.maximum(raw, 0.0)


def sample_weights(key, params):
    scale = positive(params["rho"])
    noise = jax.random.normal(key, scale.shape)
    return params["mu"] + scale * noise
