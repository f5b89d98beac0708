import equinox as eqx
import jax
import jax.numpy as jnp


class ChannelNorm(eqx.Module):
    scale: jax.Array
    shift: jax.Array
    eps: float = eqx.field(static=True)

    def __init__(self, dim, eps=1e-5):
        self.scale = jnp.ones(dim)
        self.shift = jnp.zeros(dim)
        self.eps = eps

    def __call__(self, x):
        mu = jnp.mean(x, axis=-1, keepdims=True)
        var = jnp.mean(jnp.square(x - mu), axis=-1, keepdims=True)
        return (x - mu) * jax.lax.rsqrt(var + self.eps) * self.scale + self.shift
