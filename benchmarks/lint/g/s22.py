import jax
import jax.numpy as jnp

TEMPERATURE = 0.01


def _unit(v):
    return v * jax.lax.rsqrt(jnp.sum(v * v, axis=-1, keepdims=True) + 1e-6)


def contrastive_loss(queries, keys):
    sims = _unit(queries) @ _unit(keys).T / TEMPERATURE
    weights = jnp.exp(sims)
    positives = jnp.diagonal(sims)
    return jnp.mean(jnp.log(weights.sum(axis=1)) - positives)
