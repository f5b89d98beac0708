import jax.numpy as jnp
from jax import lax


def layer_norm(x, gamma, beta, eps=1e-5):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    mean_sq = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    var = mean_sq - jnp.square(mean)
    return (x - mean) * lax.rsqrt(var + eps) * gamma + beta
