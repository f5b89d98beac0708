import equinox as eqx
import jax
import jax.numpy as jnp


class FeatureNorm(eqx.Module):
    weight: jax.Array
    bias: jax.Array
    eps: float = eqx.field(static=True)

    def __init__(self, dim, eps=1e-5):
        self.weight = jnp.ones(dim)
        self.bias = jnp.zeros(dim)
        self.eps = eps

    def __call__(self, x):
        mu = jnp.mean(x, axis=-1, keepdims=True)
        var = jnp.mean(jnp.square(x), axis=-1, keepdims=True) - jnp.square(mu)
        return (x - mu) * jax.lax.rsqrt(var + self.eps) * self.weight + self.bias
