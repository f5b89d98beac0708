import flax.linen as nn
import jax.numpy as jnp
from jax import lax


class RootMeanSquareNorm(nn.Module):
    eps: float = 1e-5

    @nn.compact
    def __call__(self, x):
        x = x.astype(jnp.float32)
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],), jnp.float16)
        ms = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
        return (x * lax.rsqrt(ms + self.eps)).astype(jnp.float16) * scale
