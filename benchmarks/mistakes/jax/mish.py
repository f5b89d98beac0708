import jax
import jax.numpy as jnp


@jax.custom_jvp
def mish(x):
    """Mish activation, x * tanh(softplus(x)), elementwise."""
    return x * jnp.tanh(jax.nn.softplus(x))


@mish.defjvp
def mish_jvp(primals, tangents):
    x, = primals
    dx, = tangents
    tsp = jnp.tanh(jax.nn.softplus(x))
    out = x * tsp
    d_out = tsp + x * (1 - tsp**2)
    return out, d_out * dx
