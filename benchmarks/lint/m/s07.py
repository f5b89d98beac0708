import jax
import jax.numpy as jnp


def init_scale(key, dim):
    return {"raw": jax.random.normal(key, (dim,))}


@jax.jit
def positive_scale(params, floor=1e-4):
    raw = params["raw"]
    scale = jnp.log(1.0 + jnp.exp(raw))
    return scale + floor
