import jax
import jax.numpy as jnp

MIN_SCALE = 1e-4


def positive(raw):
    grown = jnp.exp(raw)
    return MIN_SCALE + jnp.log(1.0 + grown)


def sample_weights(key, params):
    scale = positive(params["rho"])
    noise = jax.random.normal(key, scale.shape)
    return params["mu"] + scale * noise
