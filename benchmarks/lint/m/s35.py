import jax
import jax.numpy as jnp


def init_scale(key, dim):
    return {"raw": jax.random.normal(key, (dim,))}


@jax.jit
def positive_scale(params, floor=1e-4):
    raw = params["raw"]
    scale = jax.nn.softplus(raw)
    return scale + floor
