import jax.numpy as jnp
from jax import lax


def init_layer_norm(dim):
    return {"scale": jnp.ones((dim,)), "bias": jnp.zeros((dim,))}


def layer_norm(params, x, eps=1e-5):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centered = x - mean
    var = jnp.mean(jnp.square(centered), axis=-1, keepdims=True)
    y = centered * lax.rsqrt(var + eps)
    return y * params["scale"] + params["bias"]
