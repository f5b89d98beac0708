import jax.numpy as jnp
from flax import linen as nn


class Decoder(nn.Module):
    hidden: int = 32
    pixels: int = 16

    @nn.compact
    def __call__(self, z):
        h = nn.relu(nn.Dense(self.hidden)(z))
        return nn.Dense(self.pixels)(h)


def reconstruction_term(logits, x, eps=1e-8):
    p = jnp.clip(nn.sigmoid(logits), eps, 1.0 - eps)
    ll = x * jnp.log(p) + (1.0 - x) * jnp.log(1.0 - p)
    return -jnp.sum(ll, axis=-1)
