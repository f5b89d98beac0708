from jax import numpy as jnp

TAU = 0.1


def unit(z):
    return z / jnp.sqrt(jnp.sum(z ** 2, axis=-1, keepdims=True) + 1e-6)


def info_nce(za, zb):
    za, zb = unit(za), unit(zb)
    sim = za @ zb.T
    scores = jnp.exp(sim / TAU)
    pos = jnp.diag(scores)
    return jnp.mean(-jnp.log(pos / scores.sum(axis=1)))
